"""How do brokers, our controller and Kafka's tools use a secured listener of a real cluster?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import pbkdf2_hmac
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl
from msgspec import structs

from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.java import SMALL_SERVER
from controller.lab.ports import free_port
from controller.lab.tools import KafkaTools, ToolResult
from controller.security.jaas import KERBEROS_LOGIN, OAUTHBEARER_LOGIN
from controller.settings.security import ZooKeeperSecurity
from controller.zk.client import client_of
from tests.cluster.certificates import TRUST_PASSWORD, Authority
from tests.cluster.replica import Replica
from tests.equipment.kdc import REALM
from tests.secured_zookeeper import SecuredZooKeeper
from tests.secured_zookeeper import jaas as jaas_of_zookeeper
from zk_layout.znodes.configs import UserConfigAddress
from zk_layout.znodes.scram import MECHANISMS, credential

CHROOT = "/kafka"
SCRAM = "SCRAM-SHA-512"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD_KEY = "listener.name.inside.scram-sha-512.sasl.jaas.config"
VERSIONS = [pytest.param(version, marks=pytest.mark.thorough) for version in ("2.4.1", "2.8.2")] + ["3.9.1"]
"""The last one runs always, all of them with `make secured`."""
STORE_PASSWORD = "store-s3cret"
PASSWORDS = {name: f"{name}-s3cret" for name in ("kafka", "controller", "alice", "bob", "carol")}
MAPPING = r"RULE:^CN=([a-z0-9]+),.*$/$1/,DEFAULT"
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
    """Settings of a node for a listener with SASL_SSL."""
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
    """Settings of a node for a listener with SSL and certificates on both sides."""
    return {
        **AUTHORIZER,
        **stores(authority, user),
        "listener.security.protocol.map": "INSIDE:SSL",
        "listener.name.inside.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": MAPPING,
    }


def by_token(user: str) -> dict[str, Any]:
    """Settings of a node for a listener with unsigned tokens."""
    return {
        **AUTHORIZER,
        "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.inside.oauthbearer.sasl.jaas.config": unsigned(user),
    }


def unsigned(user: str) -> str:
    return f'{OAUTHBEARER_LOGIN} required unsecuredLoginStringClaim_sub="{user}";'


def by_ticket(keytab: Path) -> dict[str, Any]:
    """Settings of a node for a listener with Kerberos; all nodes of this host share the principal `broker`."""
    return {
        **AUTHORIZER,
        "super.users": "User:broker",
        "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1](kafka)s/kafka/broker/,RULE:[1:$1](alice|bob)",
        "listener.name.inside.gssapi.sasl.jaas.config": kerberos_login("kafka/localhost", keytab),
    }


def kerberos_login(principal: str, keytab: Path) -> str:
    options = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}@{REALM}"'
    return f"{KERBEROS_LOGIN} required {options};"


@contextmanager
def running(
    version: str, settings: Mapping[str, Any], *java_options: str, zookeeper: SecuredZooKeeper | None = None
) -> Iterator[LocalCluster]:
    """Two brokers, whose users exist before they start. The tools have the Java options, too.

    A secured ZooKeeper knows brokers and tools as `kafka`, and has a chroot; the tools connect in plain text.
    """
    options = (*SMALL_SERVER, *java_options)
    wanted = ClusterSettings(version=version, broker_ids=(1, 2), overrides=settings, java_options=options)
    if zookeeper is not None:
        options = (*options, *zookeeper.brokers_java(version))
        wanted = structs.replace(wanted, chroot=CHROOT, zookeeper=zookeeper.settings, java_options=options)
        java_options = (*java_options, zookeeper.brokers_login())
    try:
        cluster = LocalCluster(wanted)
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    cluster.tools = KafkaTools(version, java_options)
    for broker in cluster.brokers.values():
        broker.properties.update(_at(broker.port))
    try:
        cluster.zookeeper.start()
        _let_all_in(cluster, is_protected=zookeeper is not None)
        cluster.start_brokers(cluster.brokers)
        yield cluster
    finally:
        cluster.kill()


def _at(port: int, beside: str = "") -> dict[str, Any]:
    """A host name, because Java requests a ticket for an address' name."""
    return {
        "listeners": f"INSIDE://127.0.0.1:{port}{beside}",
        "advertised.listeners": f"INSIDE://localhost:{port}{beside}",
    }


def _let_all_in(cluster: LocalCluster, *, is_protected: bool) -> None:
    """Write the users with the ACLs of Kafka's tool, before brokers start."""
    security = ZooKeeperSecurity(jaas=jaas_of_zookeeper("kafka")) if is_protected else ZooKeeperSecurity()
    zookeeper = client_of(cluster.zookeeper.connect, security)
    zookeeper.start()
    try:
        chroot = cluster.settings.chroot
        hidden = [make_acl("sasl", "kafka", all=True)] if is_protected else None
        readable = None if hidden is None else [*hidden, make_acl("world", "anyone", read=True)]
        if chroot:
            zookeeper.ensure_path(chroot, acl=readable)
        zookeeper.ensure_path(f"{chroot}/config", acl=readable)
        zookeeper.ensure_path(f"{chroot}/config/users", acl=hidden)
        for name in ("kafka", "controller", "alice", "bob"):
            let_in(zookeeper, name, chroot, hidden)
    finally:
        zookeeper.stop()
        zookeeper.close()


def let_in(zookeeper: KazooClient, name: str, chroot: str = "", acl: list[Any] | None = None) -> None:
    """Write a user like Kafka's own tool."""
    mechanism = MECHANISMS[2]
    salted = pbkdf2_hmac(mechanism.digest, PASSWORDS[name].encode(), b"salt", 4096)
    config = {"version": 1, "config": {SCRAM: credential(mechanism, b"salt", salted, 4096)}}
    zookeeper.create(chroot + UserConfigAddress(name).path, json.dumps(config).encode(), acl=acl)


@contextmanager
def replica(
    cluster: LocalCluster, directory: Path, settings: Mapping[str, Any], number: int = 901, beside: str = ""
) -> Iterator[Replica]:
    """A replica of ours beside them; `beside` are further listeners."""
    port = free_port()
    protocol = ".".join(cluster.version.split(".")[:2])
    at = {**_at(port, beside), "inter.broker.protocol.version": protocol}
    journal = {"journal.dir": directory / f"journal-{number}", "new_cluster": False, "log.level": "debug"}
    with Replica(cluster.zookeeper_connect, directory, number, **{**settings, **at, **journal}) as ours:
        ours.port = port
        yield ours


class Client:
    """A user of Kafka's tools, with a properties file for the login."""

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


def with_token(user: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": unsigned(user),
    }


def with_ticket(keytab: Path) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": kerberos_login(keytab.stem, keytab),
    }


def with_certificate(authority: Authority, user: str) -> dict[str, Any]:
    return {"security.protocol": "SSL", **stores(authority, user)}


def assert_no_secret_is_shown(ours: Replica, directory: Path, *more: str) -> None:
    """Check that neither log nor journal nor HTTP pages have a secret."""
    secrets = [*PASSWORDS.values(), STORE_PASSWORD]
    texts = [ours.process.log_file.read_text(errors="replace"), *more]
    texts += [
        file.read_bytes().decode("latin-1")
        for file in (directory / f"journal-{ours.broker_id}").rglob("*")
        if file.is_file()
    ]
    assert [secret for secret in secrets for text in texts if secret in text] == []
