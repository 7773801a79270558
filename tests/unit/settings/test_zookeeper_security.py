"""How are Kafka's properties for ZooKeeper read, and how are unusable ones reported?"""

from __future__ import annotations

import pytest

from controller.settings.security import KeyStore, Secret, StoreType, TlsSettings, TrustStore, ZooKeeperSecurity
from controller.settings.table import SETTINGS
from tests.unit.settings.given import problem, settings

JAAS = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="s3cret";'
TLS = {"zookeeper.ssl.client.enable": "true"}


def test_nothing_is_secured_unless_it_is_said() -> None:
    assert settings().zookeeper.security == ZooKeeperSecurity()
    assert settings({"zookeeper.ssl.keystore.location": "/k"}).zookeeper.security.tls is None


def test_tls_is_as_kafka_has_it() -> None:
    assert settings(TLS).zookeeper.security.tls == TlsSettings(enabled_protocols=("TLSv1.2",))

    written = {
        **TLS,
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": "/etc/kafka/zk.JKS",
        "zookeeper.ssl.keystore.password": "k",
        "zookeeper.ssl.truststore.location": "/etc/kafka/trusted.p12",
        "zookeeper.ssl.truststore.password": "t",
        "zookeeper.ssl.protocol": "TLSv1.3",
        "zookeeper.ssl.cipher.suites": "TLS_A, TLS_B",
        "zookeeper.ssl.endpoint.identification.algorithm": "",
    }
    assert settings(written).zookeeper.security.tls == TlsSettings(
        KeyStore(StoreType.JKS, "/etc/kafka/zk.JKS", Secret("k")),
        TrustStore(StoreType.PKCS12, "/etc/kafka/trusted.p12", Secret("t")),
        enabled_protocols=("TLSv1.3",),
        cipher_suites=("TLS_A", "TLS_B"),
        endpoint_identification_algorithm="",
    )


@pytest.mark.parametrize(
    ("written", "versions"),
    [
        ({"zookeeper.ssl.protocol": "TLS"}, ("TLSv1.2", "TLSv1.3")),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1.3, TLSv1.2"}, ("TLSv1.3", "TLSv1.2")),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1.3", "zookeeper.ssl.protocol": "TLSv1.2"}, ("TLSv1.3",)),
    ],
)
def test_versions_of_tls(written: dict[str, str], versions: tuple[str, ...]) -> None:
    tls = settings({**TLS, **written}).zookeeper.security.tls
    assert tls is not None
    assert tls.enabled_protocols == versions


def test_one_password_opens_a_key_store_in_pem_and_the_key_in_it() -> None:
    store = {"zookeeper.ssl.keystore.location": "/zk", "zookeeper.ssl.keystore.type": "pem"}
    tls = settings({**TLS, **store, "zookeeper.ssl.keystore.password": "k"}).zookeeper.security.tls

    assert tls is not None
    assert tls.key_store == KeyStore(StoreType.PEM, "/zk", Secret("k"), Secret("k"))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"zookeeper.ssl.keystore.location": "/zk"}, "the file's name does not show the format"),
        ({"zookeeper.ssl.keystore.type": "BCFKS"}, "expected one of JKS, PKCS12, PEM"),
        ({"zookeeper.ssl.protocol": "TLSv1.1"}, "expected one of TLSv1.2, TLSv1.3, TLS"),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1"}, "expected some of TLSv1.2, TLSv1.3"),
        ({"zookeeper.ssl.endpoint.identification.algorithm": "http"}, "expected https, or nothing"),
        ({"zookeeper.digest.credentials": "ann"}, "= [hidden]: expected user:password"),
        ({"zookeeper.ssl.keystor.location": "/k"}, "did you mean zookeeper.ssl.keystore.location?"),
        ({"zookeeper.ssl.context.supplier.class": "a.B"}, "there is no such setting"),
    ],
)
def test_unusable_settings_are_reported(written: dict[str, str], said: str) -> None:
    assert said in problem({**TLS, **written})


@pytest.mark.parametrize(
    "identity", [{}, {"zookeeper.digest.credentials": "a:b"}, TLS, {"zookeeper.ssl.keystore.location": "/k.jks"}]
)
def test_protecting_what_is_created_needs_an_identity_of_the_brokers(identity: dict[str, str]) -> None:
    said = problem({"zookeeper.set.acl": "true", **identity})

    assert said.startswith("--set: zookeeper.set.acl = true: without an identity that brokers have, too")


@pytest.mark.parametrize(
    "identity", [{"zookeeper.sasl.jaas.config": JAAS}, {**TLS, "zookeeper.ssl.keystore.location": "/k.jks"}]
)
def test_a_login_or_a_certificate_is_one(identity: dict[str, str]) -> None:
    assert settings({"zookeeper.set.acl": "true", **identity}).zookeeper.security.sets_acl


def test_no_secret_is_shown() -> None:
    written = {
        **TLS,
        "zookeeper.ssl.keystore.password": "s3cret",
        "zookeeper.ssl.truststore.password": "s3cret",
        "zookeeper.sasl.jaas.config": JAAS,
        "zookeeper.digest.credentials": "ann:s3cret",
    }
    found = settings(written)

    assert "s3cret" not in repr(found)
    assert {found.values.shown()[key] for key in written if key not in TLS} == {"[hidden]"}
    assert {s.key for s in SETTINGS if "not shown" in s.kind.name} == set(written) - set(TLS)
