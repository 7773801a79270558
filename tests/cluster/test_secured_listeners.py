"""Real brokers that talk over SASL_SSL, or over TLS with certificates on both sides, are led by us as by themselves.

Each step is also tried by a principal without the right, who gets Kafka's error and changes nothing.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaConfigurationError, KafkaError

from controller.brokers.dialing import SecuredDialer
from controller.connections.broker import Broken, BrokerConnection, Unreachable
from controller.lab.cluster import LocalCluster
from controller.lab.ports import free_port
from controller.lab.zookeeper import zookeeper_client
from controller.security.jaas import OAUTHBEARER_LOGIN, PLAIN_LOGIN
from controller.security.towards_brokers import TowardsBrokers
from controller.settings.security import BrokerSecurity, Secret, StoreType, TlsSettings, TrustStore
from controller.wire.broker_configs import encode_question
from tests.cluster.certificates import Authority
from tests.cluster.replica import Replica, wait_until
from tests.cluster.secured import (
    MODULE,
    PASSWORD_KEY,
    PASSWORDS,
    SCRAM,
    STORE_PASSWORD,
    VERSIONS,
    Client,
    assert_no_secret_is_told,
    by_certificate,
    by_password,
    jaas,
    let_in,
    replica,
    running,
    with_certificate,
    with_password,
    with_token,
)
from tests.cluster.secured_walk import Walk, allow
from tests.cluster.tls_load import Load
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint
from zk_layout.znodes.configs import UserConfigAddress

REAUTH_MS = 6_000  # brokers log in again all the time, too


def logs_in(authority: Authority, address: str, user: str, password: str, **other: Any) -> bool:
    """Whether a client that is none of Java's is let in, on SASL_SSL with SCRAM if it is not said otherwise."""
    how = {"security_protocol": "SASL_SSL", "sasl_mechanism": SCRAM, "ssl_cafile": str(authority.trusted_pem), **other}
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=address,
            **how,
            sasl_plain_username=user,
            sasl_plain_password=password,
            request_timeout_ms=4000,
            bootstrap_timeout_ms=4000,
        )
    except KafkaConfigurationError:
        raise
    except KafkaError:
        return False
    admin.close()
    return True


class Connected:
    """Somebody who stays connected for as long as the login counts, and then logs in again."""

    def __init__(self, authority: Authority, address: str, user: str) -> None:
        tls = TlsSettings(None, TrustStore(StoreType.PEM, str(authority.trusted_pem)))
        security = TowardsBrokers(
            BrokerSecurity("SASL_SSL", tls, SCRAM, Secret(jaas(user))), time.monotonic, lambda *_: None
        )
        host, _, port = address.rpartition(":")
        self._connection = BrokerConnection(SecuredDialer(security), Endpoint("INSIDE", host, int(port), "SASL_SSL"))
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.drop()
        self._runner.close()

    def is_let_in(self) -> bool:
        """Whether the versions are told; whoever is still connected is asked nothing."""
        try:
            self._runner.run(self._connection.versions(10))
        except Unreachable:
            return False
        return True

    def asks_for_a_broker(self) -> bool:
        """Whether there is an answer from a node that has to ask a broker for it."""
        question = encode_question(BrokerId(1), ["broker.id"], self._connection.next_correlation_id())
        try:
            self._runner.run(self._connection.ask(question, timeout_s=10))
        except Unreachable:
            raise
        except Broken:
            return False  # hung up on
        return True  # whatever the broker that was chosen said to it


def asks_for_a_broker(authority: Authority, address: str, user: str) -> bool:
    with Connected(authority, address, user) as connected:
        return connected.asks_for_a_broker()


def is_let_in(authority: Authority, address: str, user: str) -> bool:
    with Connected(authority, address, user) as connected:
        return connected.is_let_in()


def is_kept_out(authority: Authority, address: str, user: str) -> bool:
    return not is_let_in(authority, address, user)


def looked_at(cluster: LocalCluster, directory: Path, settings: Mapping[str, Any]) -> tuple[int, str]:
    """What `--check-cluster` says of a replica with these settings."""
    own = {"zookeeper.connect": cluster.zookeeper_connect, "broker.id": 903, "http.port": 0}
    at = {"listeners": f"INSIDE://127.0.0.1:{free_port()}"}
    file = directory / "looked-at.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in {**settings, **own, **at}.items()))
    command = [sys.executable, "-m", "controller", "run", "--config", str(file), "--check-cluster"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.timeout(400)
def test_brokers_on_sasl_ssl_with_scram_are_led(version: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "stores")
    settings = {**by_password(authority, "controller"), "connections.max.reauth.ms": REAUTH_MS}
    with (
        running(version, by_password(authority, "kafka")) as cluster,
        replica(cluster, tmp_path, settings) as ours,
    ):
        ours.await_phase("active", 60)
        with replica(cluster, tmp_path, settings, 902) as other:
            other.await_phase("standby", 60)
            follow_users(cluster, authority, (ours.address, other.address))
            allow(cluster)
            for one in (ours, other):
                asking = partial(asks_for_a_broker, authority, one.address)
                wait_until(partial(asking, "alice"), "alice was passed on to a broker")
                assert not asking("bob")
        assert not logs_in(authority, ours.address, "alice", "wrong")
        for changed, why in (
            ({PASSWORD_KEY: jaas("controller", "gu3ssed-s3cret")}, "the broker refuses the login"),
            ({"ssl.truststore.location": Authority(tmp_path / "strangers").trusted_jks}, "certificate verify failed"),
        ):
            code, text = looked_at(cluster, tmp_path, {**settings, **changed})
            assert (code, why in text) == (1, True), text
            assert not [secret for secret in (*PASSWORDS.values(), STORE_PASSWORD, "gu3ssed") if secret in text]
        pages = ours.get("/metrics")[1]
        assert ours.measure("clients_disconnected_total", reason="failed login") > 0, pages
        use_a_token(cluster, authority, ours, tmp_path)
        Walk(cluster, ours, tmp_path, partial(with_password, authority)).run()
        assert_no_secret_is_told(ours, tmp_path, pages)
        assert [line for line in ours.complaints() if line["level"] == "error"] == []


def use_a_token(cluster: LocalCluster, authority: Authority, ours: Replica, directory: Path) -> None:
    """Whoever has got a delegation token from a broker logs in with it here, as its owner."""
    alice = Client(cluster, directory, "alice-token", with_password(authority, "alice"))
    tool = f"{'org.apache.kafka.tools' if cluster.version == '3.9.1' else 'kafka.admin'}.DelegationTokenCommand"
    address = cluster.bootstrap_servers.split(",")[0]
    said = alice.run(tool, address, "--create", "--max-life-time-period", "-1")
    found = re.search(r"^(\S{22})\s+(\S{80,})\s+User:alice", said.output, re.MULTILINE)
    assert found is not None, said.output
    token, password = found.groups()
    as_token = f'{MODULE} required username="{token}" password="{password}" tokenauth="true";'
    client = Client(cluster, directory, "token", {**with_password(authority, "alice"), "sasl.jaas.config": as_token})

    said = client.run("kafka-topics", ours.address, "--list")
    assert said.exit_code == 0, said.output
    assert not logs_in(authority, ours.address, token, password)  # without the extension it is no user's name
    assert password not in ours.process.output_since_start().decode()


def follow_users(cluster: LocalCluster, authority: Authority, addresses: tuple[str, ...]) -> None:
    """Who is added may log in at once, who is removed no more; at whoever leads and at who stands by."""
    with zookeeper_client(cluster.zookeeper_connect) as zookeeper, ExitStack() as stack:
        assert not any(logs_in(authority, address, "carol", PASSWORDS["carol"]) for address in addresses)
        let_in(zookeeper, "carol")
        for address in addresses:
            wait_until(partial(is_let_in, authority, address, "carol"), "carol came in")
        connected = [stack.enter_context(Connected(authority, address, "carol")) for address in addresses]
        assert all(one.is_let_in() for one in connected)

        zookeeper.delete(UserConfigAddress("carol").path)
        for address in addresses:
            wait_until(partial(is_kept_out, authority, address, "carol"), "carol was let in no more")
        for one in connected:
            assert one.is_let_in()  # who is connected stays so until it has to log in again
        wait_until(lambda: not any(one.is_let_in() for one in connected), "carol had to log in again")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.timeout(400)
def test_brokers_with_certificates_on_both_sides_are_led(version: str, tmp_path: Path) -> None:
    authority, outside = Authority(tmp_path / "stores"), free_port()
    settings = {
        **by_certificate(authority, "controller"),
        "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:SASL_PLAINTEXT",
        "listener.name.outside.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.outside.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_LOGIN} required;",
        "listener.name.outside.plain.sasl.jaas.config": f'{PLAIN_LOGIN} required user_alice="{PASSWORDS["alice"]}";',
    }
    with (
        running(version, by_certificate(authority, "kafka")) as cluster,
        replica(cluster, tmp_path, settings, beside=f",OUTSIDE://127.0.0.1:{outside}") as ours,
    ):
        ours.await_phase("active", 60)
        by_plain = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        assert logs_in(authority, f"127.0.0.1:{outside}", "alice", PASSWORDS["alice"], **by_plain)
        assert not logs_in(authority, f"127.0.0.1:{outside}", "alice", PASSWORDS["bob"], **by_plain)
        said = Client(cluster, tmp_path, "alice-bearer", with_token("alice")).run(
            "kafka-topics", f"127.0.0.1:{outside}", "--list"
        )
        assert said.exit_code == 0, said.output
        renew_under_load(authority, ours)
        with replica(cluster, tmp_path, by_certificate(authority, "controller"), 902) as other:
            other.await_phase("standby", 60)
            ours.process.kill()
            other.await_phase("active", 60)
            cluster.brokers[2].restart()
            Walk(cluster, other, tmp_path, partial(with_certificate, authority)).run()
            for one in (ours, other):
                assert_no_secret_is_told(one, tmp_path)
                errors = [line["event"] for line in one.complaints() if line["level"] == "error"]
                assert [event for event in errors if "cannot be used" not in event] == []  # the store that was unusable


def renew_under_load(authority: Authority, ours: Replica) -> None:
    """Two new certificates, and a store between them that cannot be used: no client notices anything."""
    failed = ours.measure("clients_disconnected_total", reason="failed TLS handshake")
    with Load(ours.port, authority, "alice") as load:
        wait_until(lambda: load.answers > 20, "they were answered")
        authority.pkcs12("controller", STORE_PASSWORD)
        wait_until(lambda: len(load.certificates) == 2, "the new certificate was shown")
        path = authority.pkcs12("controller", "another password")
        wait_until(lambda: said_of_certificates(ours, "cannot be used"), "the unusable store was named")
        assert any(str(path) in str(line) for line in ours.complaints())
        authority.pkcs12("controller", STORE_PASSWORD)
        wait_until(lambda: len(load.certificates) == 3, "the last certificate was shown")
        before = load.answers
        wait_until(lambda: load.answers > before + 20, "they were still answered")
    assert load.failures == []
    assert ours.measure("clients_disconnected_total", reason="failed TLS handshake") == failed


def said_of_certificates(ours: Replica, what: str) -> bool:
    return any("certificates" in line["event"] and what in line["event"] for line in ours.complaints())
