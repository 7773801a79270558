"""Real brokers that talk over SASL_SSL, or over TLS with certificates on both sides, are led by us as by themselves.

Each step is also tried by a principal without the right, who gets Kafka's error and changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import pbkdf2_hmac
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaConfigurationError, KafkaError
from kazoo.client import KazooClient

from controller.brokers.dialing import SecuredDialer
from controller.connections.broker import Broken, BrokerConnection, Unreachable
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.ports import free_port
from controller.lab.tools import ToolResult
from controller.lab.zookeeper import zookeeper_client
from controller.security.jaas import OAUTHBEARER_LOGIN, PLAIN_LOGIN
from controller.security.towards_brokers import TowardsBrokers
from controller.settings.security import BrokerSecurity, Secret, StoreType, TlsSettings, TrustStore
from controller.wire.broker_configs import encode_question
from tests.cluster.certificates import TRUST_PASSWORD, Authority
from tests.cluster.replica import Replica, holder, wait_until
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint
from zk_layout.znodes.configs import UserConfigAddress
from zk_layout.znodes.scram import MECHANISMS, credential

SCRAM = "SCRAM-SHA-512"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD_KEY = "listener.name.inside.scram-sha-512.sasl.jaas.config"
STORE_PASSWORD = "store-s3cret"
PASSWORDS = {name: f"{name}-s3cret" for name in ("kafka", "controller", "alice", "bob", "carol")}
MAPPING = r"RULE:^CN=([a-z0-9]+),.*$/$1/,DEFAULT"
_ACLS = "kafka.admin.AclCommand"
AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:kafka;User:controller",
    "inter.broker.listener.name": "INSIDE",
}


def jaas(user: str, password: str | None = None) -> str:
    return f'{MODULE} required username="{user}" password="{password or PASSWORDS[user]}";'


def stores(authority: Authority, name: str) -> dict[str, Any]:
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": authority.pkcs12(name, STORE_PASSWORD),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
        **trust(authority),
    }


def trust(authority: Authority) -> dict[str, Any]:
    return {
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": authority.trusted_jks,
        "ssl.truststore.password": TRUST_PASSWORD,
    }


def by_password(authority: Authority, user: str) -> dict[str, Any]:
    """How a broker, or we, are on a listener with SASL_SSL."""
    return {
        **AUTHORIZER,
        **stores(authority, user),
        "listener.security.protocol.map": "INSIDE:SASL_SSL",
        "sasl.enabled.mechanisms": SCRAM,
        "sasl.mechanism.inter.broker.protocol": SCRAM,
        PASSWORD_KEY: jaas(user),
        "delegation.token.master.key": PASSWORDS["kafka"],
    }


def by_certificate(authority: Authority, user: str) -> dict[str, Any]:
    """How a broker, or we, are on a listener with SSL and certificates on both sides."""
    return {
        **AUTHORIZER,
        **stores(authority, user),
        "listener.security.protocol.map": "INSIDE:SSL",
        "listener.name.inside.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": MAPPING,
    }


@contextmanager
def running(version: str, settings: Mapping[str, Any]) -> Iterator[LocalCluster]:
    """Two brokers, with users who are there before they start."""
    try:
        cluster = LocalCluster(ClusterSettings(version=version, broker_ids=(1, 2), overrides=settings))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    for broker in cluster.brokers.values():
        at = f"INSIDE://127.0.0.1:{broker.port}"
        broker.properties.update({"listeners": at, "advertised.listeners": at})
    try:
        cluster.zookeeper.start()
        with zookeeper_client(cluster.zookeeper_connect) as zookeeper:
            for name in ("kafka", "controller", "alice", "bob"):
                let_in(zookeeper, name)
        cluster.start_brokers(cluster.brokers)
        yield cluster
    finally:
        cluster.kill()


def let_in(zookeeper: KazooClient, name: str) -> None:
    """Write a user as Kafka's own tool does."""
    mechanism = MECHANISMS[2]
    salted = pbkdf2_hmac(mechanism.digest, PASSWORDS[name].encode(), b"salt", 4096)
    config = {"version": 1, "config": {SCRAM: credential(mechanism, b"salt", salted, 4096)}}
    zookeeper.ensure_path("/config/users")
    zookeeper.create(UserConfigAddress(name).path, json.dumps(config).encode())


@contextmanager
def replica(
    cluster: LocalCluster, directory: Path, settings: Mapping[str, Any], number: int = 901, beside: str = ""
) -> Iterator[Replica]:
    """One of ours beside them; `beside` are further listeners."""
    port = free_port()
    protocol = "2.4" if cluster.version == "2.4.1" else "3.9"
    at = {"listeners": f"INSIDE://127.0.0.1:{port}{beside}", "inter.broker.protocol.version": protocol}
    journal = {"journal.dir": directory / f"journal-{number}", "new_cluster": False, "log.level": "debug"}
    with Replica(cluster.zookeeper_connect, directory, number, **{**settings, **at, **journal}) as ours:
        ours.port = port
        yield ours


class Client:
    """Somebody with Kafka's tools, and a file that says who it is."""

    def __init__(self, cluster: LocalCluster, directory: Path, name: str, properties: Mapping[str, Any]) -> None:
        self.cluster = cluster
        self.file = directory / f"{name}.client.properties"
        self.file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    def run(self, tool: str, address: str, *args: str) -> ToolResult:
        return self.cluster.tools.run(
            tool, "--bootstrap-server", address, "--command-config", str(self.file), *args, timeout_s=60
        )

    def create(self, address: str, topic: str) -> ToolResult:
        placed = ["--partitions", "2", "--replication-factor", "1"]
        return self.run("kafka-topics", address, "--create", "--topic", topic, *placed)


def with_password(authority: Authority, user: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": SCRAM,
        "sasl.jaas.config": jaas(user),
        **trust(authority),
    }


def with_certificate(authority: Authority, user: str) -> dict[str, Any]:
    return {"security.protocol": "SSL", **stores(authority, user)}


def with_token(cluster: LocalCluster, directory: Path, user: str) -> Client:
    """Somebody whose token nobody has signed, as Kafka's clients make it for development."""
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{OAUTHBEARER_LOGIN} required unsecuredLoginStringClaim_sub="{user}";',
    }
    return Client(cluster, directory, f"{user}-bearer", properties)


def allow(cluster: LocalCluster) -> None:
    """Alice may create topics and move partitions; Bob may see topics."""
    on_cluster = ["User:alice", "--cluster"]
    for operation in ("Create", "Alter", "Describe", "AlterConfigs", "DescribeConfigs"):
        on_cluster += ["--operation", operation]
    on_topics = ["User:alice", "--allow-principal", "User:bob", "--operation", "Describe", "--topic", "*"]
    for entry in (on_cluster, on_topics):
        said = cluster.tools.run(
            _ACLS, "--authorizer-properties", f"zookeeper.connect={cluster.zookeeper_connect}", "--add",
            "--allow-principal", *entry,
        )  # fmt: skip
        assert said.exit_code == 0, said.output


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


def is_turned_away(authority: Authority, address: str, user: str, password: str) -> bool:
    return not logs_in(authority, address, user, password)


def replicas(zookeeper: KazooClient, topic: str) -> Any:
    return json.loads(zookeeper.get(f"/brokers/topics/{topic}")[0])["partitions"]


def moved(cluster: LocalCluster, client: Client, address: str, directory: Path) -> tuple[int, str]:
    """Each partition of `orders` to the other broker, by Kafka's own tool or, where that speaks to ZooKeeper, ours."""
    with zookeeper_client(cluster.zookeeper_connect) as zookeeper:
        before = replicas(zookeeper, "orders")
    plan = [{"topic": "orders", "partition": int(p), "replicas": [3 - now[0]]} for p, now in before.items()]
    file = directory / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": plan}))
    if cluster.version != "2.4.1":
        said = client.run("kafka-reassign-partitions", address, "--reassignment-json-file", str(file), "--execute")
        return said.exit_code, said.output
    to = ["--bootstrap-server", address, "--command-config", str(client.file), "--reassignment-json-file", str(file)]
    command = [sys.executable, "-m", "controller", "reassign", *to, "--execute"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def walk(cluster: LocalCluster, ours: Replica, directory: Path, clients: Callable[[str], Mapping[str, Any]]) -> None:
    """A take-over, a topic, a move, and the way back; what the one may the other may not."""
    alice, bob = (Client(cluster, directory, name, clients(name)) for name in ("alice", "bob"))
    with zookeeper_client(cluster.zookeeper_connect) as zookeeper:
        wait_until(lambda: holder(zookeeper) == ours.broker_id, "we lead")
        allow(cluster)

        refused = bob.create(ours.address, "orders")
        assert "uthorization failed" in refused.output, refused.output
        assert not zookeeper.exists("/brokers/topics/orders")
        wait_until(lambda: alice.create(ours.address, "orders").exit_code == 0, "alice was let", 60)

        def has_leaders() -> bool:
            states = (f"/brokers/topics/orders/partitions/{p}/state" for p in range(2))
            return all(zookeeper.exists(s) and json.loads(zookeeper.get(s)[0])["leader"] > 0 for s in states)

        wait_until(has_leaders, "the partitions had leaders")
        before = replicas(zookeeper, "orders")
        code, text = moved(cluster, bob, ours.address, directory)
        assert code, text
        assert "luster authorization failed" in text, text
        assert replicas(zookeeper, "orders") == before
        code, text = moved(cluster, alice, ours.address, directory)
        assert code == 0, text
        expected = {p: [3 - now[0]] for p, now in before.items()}
        wait_until(lambda: replicas(zookeeper, "orders") == expected, "the partitions had moved", 60)
        ours.process.stop()
        wait_until(lambda: holder(zookeeper) in (1, 2), "a broker leads again", 60)
        assert alice.create(cluster.bootstrap_servers, "later").exit_code == 0


def asks_for_a_broker(authority: Authority, address: str, user: str) -> bool:
    """Whether somebody gets an answer from a node that has to ask a broker for it."""
    tls = TlsSettings(None, TrustStore(StoreType.PEM, str(authority.trusted_pem)))
    security = TowardsBrokers(
        BrokerSecurity("SASL_SSL", tls, SCRAM, Secret(jaas(user))), time.monotonic, lambda *_: None
    )
    host, _, port = address.rpartition(":")

    async def once() -> bool:
        connection = BrokerConnection(SecuredDialer(security), Endpoint("INSIDE", host, int(port), "SASL_SSL"))
        try:
            question = encode_question(BrokerId(1), ["broker.id"], connection.next_correlation_id())
            await connection.ask(question, timeout_s=10)
        except Unreachable:
            raise
        except Broken:
            return False  # hung up on
        finally:
            connection.drop()
        return True  # whatever the broker that was chosen said to it

    return asyncio.run(once())


def looked_at(cluster: LocalCluster, directory: Path, settings: Mapping[str, Any]) -> tuple[int, str]:
    """What `--check-cluster` says of a replica with these settings."""
    own = {"zookeeper.connect": cluster.zookeeper_connect, "broker.id": 903, "http.port": 0}
    at = {"listeners": f"INSIDE://127.0.0.1:{free_port()}"}
    file = directory / "looked-at.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in {**settings, **own, **at}.items()))
    command = [sys.executable, "-m", "controller", "run", "--config", str(file), "--check-cluster"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def assert_no_secret_is_told(ours: Replica, directory: Path, *more: str) -> None:
    """Neither in its log nor in its journal, nor on its pages."""
    secrets = [*PASSWORDS.values(), STORE_PASSWORD]
    texts = [ours.process.output_since_start().decode(), *more]
    texts += [
        file.read_bytes().decode("latin-1")
        for file in (directory / f"journal-{ours.broker_id}").rglob("*")
        if file.is_file()
    ]
    assert [secret for secret in secrets for text in texts if secret in text] == []


@pytest.mark.parametrize("version", ["2.4.1", "3.9.1"])
@pytest.mark.timeout(400)
def test_brokers_on_sasl_ssl_with_scram_are_led(version: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "stores")
    settings = by_password(authority, "controller")
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
        walk(cluster, ours, tmp_path, lambda user: with_password(authority, user))
        assert_no_secret_is_told(ours, tmp_path, pages)
        assert [line for line in ours.complaints() if line["level"] == "error"] == []


def use_a_token(cluster: LocalCluster, authority: Authority, ours: Replica, directory: Path) -> None:
    """Whoever has got a delegation token from a broker logs in with it here, as its owner."""
    alice = Client(cluster, directory, "alice-token", with_password(authority, "alice"))
    tool = "kafka.admin.DelegationTokenCommand"
    if cluster.version != "2.4.1":
        tool = "org.apache.kafka.tools.DelegationTokenCommand"
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
    carol = PASSWORDS["carol"]
    with zookeeper_client(cluster.zookeeper_connect) as zookeeper:
        assert not any(logs_in(authority, address, "carol", carol) for address in addresses)
        let_in(zookeeper, "carol")
        for address in addresses:
            wait_until(partial(logs_in, authority, address, "carol", carol), "carol came in")
        zookeeper.delete(UserConfigAddress("carol").path)
        for address in addresses:
            refused = partial(is_turned_away, authority, address, "carol", carol)
            wait_until(refused, "carol was let in no more")


@pytest.mark.timeout(300)
def test_brokers_with_certificates_on_both_sides_are_led(tmp_path: Path) -> None:
    authority, outside = Authority(tmp_path / "stores"), free_port()
    settings = {
        **by_certificate(authority, "controller"),
        "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:SASL_PLAINTEXT",
        "listener.name.outside.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.outside.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_LOGIN} required;",
        "listener.name.outside.plain.sasl.jaas.config": f'{PLAIN_LOGIN} required user_alice="{PASSWORDS["alice"]}";',
    }
    with (
        running("3.9.1", by_certificate(authority, "kafka")) as cluster,
        replica(cluster, tmp_path, settings, beside=f",OUTSIDE://127.0.0.1:{outside}") as ours,
    ):
        ours.await_phase("active", 60)
        by_plain = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        assert logs_in(authority, f"127.0.0.1:{outside}", "alice", PASSWORDS["alice"], **by_plain)
        assert not logs_in(authority, f"127.0.0.1:{outside}", "alice", PASSWORDS["bob"], **by_plain)
        said = with_token(cluster, tmp_path, "alice").run("kafka-topics", f"127.0.0.1:{outside}", "--list")
        assert said.exit_code == 0, said.output
        shown = shown_certificate(ours.port)
        authority.pkcs12("controller", STORE_PASSWORD)
        wait_until(lambda: shown_certificate(ours.port) != shown, "the new certificate was shown")
        with replica(cluster, tmp_path, by_certificate(authority, "controller"), 902) as other:
            other.await_phase("standby", 60)
            ours.process.kill()
            other.await_phase("active", 60)
            cluster.restart_broker(2)
            walk(cluster, other, tmp_path, lambda user: with_certificate(authority, user))
            for one in (ours, other):
                assert_no_secret_is_told(one, tmp_path)
                assert [line for line in one.complaints() if line["level"] == "error"] == []


def shown_certificate(port: int) -> bytes | None:
    """The listener's own, as somebody sees it who shows none and trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain, context.wrap_socket(plain) as secured:
        return secured.getpeercert(binary_form=True)
