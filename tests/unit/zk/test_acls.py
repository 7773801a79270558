"""Does what we create have the ACL that Kafka would give it?"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from controller.core.settings import OPEN_ACL_BYTES
from controller.settings.security import KeyStore, Secret, StoreType, TlsSettings, ZooKeeperSecurity
from controller.zk.acls import acl_of
from controller.zk.login import Identity, identity_of, login_of
from controller.zk.protocol import OPEN_TO_ALL
from controller.zk.rights import GetAcl, Right
from tests.cluster.certificates import Authority
from zk_layout.znodes.replicas import ROOT

EVERYTHING = Right(31)
DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"


def read(acl: bytes) -> list[tuple[int, str, str]]:
    """Its entries."""
    found, at = [], 4

    def text() -> str:
        nonlocal at
        (size,) = struct.unpack_from(">i", acl, at)
        at += 4 + size
        return acl[at - size : at].decode()

    for _ in range(struct.unpack_from(">i", acl)[0]):
        (rights,) = struct.unpack_from(">i", acl, at)
        at += 4
        found.append((rights, text(), text()))
    assert at == len(acl)
    return found


CREATOR, READERS, ANYONE = (31, "auth", ""), (1, "world", "anyone"), (31, "world", "anyone")


@pytest.mark.parametrize(
    ("path", "entries"),
    [
        ("/", [CREATOR, READERS]),
        ("/controller", [CREATOR, READERS]),
        ("/brokers/topics/orders", [CREATOR, READERS]),
        ("/config/topics/orders", [CREATOR, READERS]),
        (ROOT, [CREATOR, READERS]),
        ("/delegation_token", [CREATOR, READERS]),
        ("/delegation_token/tokens/a", [CREATOR]),
        ("/config/users", [CREATOR]),
        ("/config/users/ann/clients/b", [CREATOR]),
        ("/config/brokers/1", [CREATOR]),
        ("/consumers", [ANYONE]),
        ("/consumers/ann", [CREATOR, READERS]),
    ],
)
def test_each_znode_has_kafkas_acl(path: str, entries: list[tuple[int, str, str]]) -> None:
    assert read(acl_of(path, is_protected=True)) == entries
    assert acl_of(path, is_protected=False) == OPEN_TO_ALL


def test_no_acl_is_longer_than_what_is_counted() -> None:
    assert len(OPEN_TO_ALL) == OPEN_ACL_BYTES
    longest = len(acl_of("/", is_protected=True))
    assert all(len(acl_of(path, is_protected=True)) <= longest for path in ("/config/users", "/consumers"))


def jaas(text: str) -> ZooKeeperSecurity:
    return ZooKeeperSecurity(jaas=Secret(text))


def granted(identity: Identity, *entries: tuple[int, str, str]) -> tuple[Right, Right, tuple[str, ...]]:
    """What an ACL grants an identity."""
    packed = struct.pack(">i", len(entries))
    for rights, scheme, name in entries:
        packed += struct.pack(">ii", rights, len(scheme)) + scheme.encode()
        packed += struct.pack(">i", len(name)) + name.encode()
    found = GetAcl("/", identity).deserialize(packed, 0)
    return found.surely, found.perhaps, found.others


def test_an_acl_grants_what_it_grants_to_our_ids() -> None:
    kafka = identity_of(jaas(f'{DIGEST} required username="kafka" password="p";'))

    assert granted(kafka, (31, "sasl", "kafka"), READERS) == (EVERYTHING, Right.NONE, ())
    assert granted(kafka, (31, "sasl", "kafka2"), READERS) == (Right.READ, Right.NONE, ("sasl:kafka2",))
    assert granted(kafka, (31, "digest", "kafka:abc")) == (Right.NONE, Right.NONE, ("digest:kafka",))
    assert granted(Identity(), (31, "sasl", "kafka"), (3, "ip", "10.0.0.1")) == (
        Right.NONE,
        Right.READ | Right.WRITE,
        ("sasl:kafka", "ip:10.0.0.1"),
    )


def test_a_kerberos_principal_may_have_been_shortened() -> None:
    security = jaas(f'{KERBEROS} required principal="kafka/b1.example@EXAMPLE" keyTab="/k";')
    found = identity_of(security)

    for name in ("kafka/b1.example@EXAMPLE", "kafka@EXAMPLE", "kafka"):
        assert granted(found, (31, "sasl", name))[0] == EVERYTHING
    assert granted(found, (31, "sasl", "kf"))[:2] == (Right.NONE, EVERYTHING)


def test_a_digest_is_known_also_where_the_server_hides_it() -> None:
    # As zkCli makes it: the base64 of the SHA-1 of what is said.
    found = identity_of(ZooKeeperSecurity(digest=Secret("ann:ann-s3cret")))

    assert granted(found, (31, "digest", "ann:x"))[0] == EVERYTHING
    assert granted(found, (31, "digest", "ann:0000"))[0] == Right.NONE
    assert granted(found, (31, "digest", "bob:x"))[0] == Right.NONE


def test_a_certificate_is_known_by_its_subject(tmp_path: Path) -> None:
    location = str(Authority(tmp_path).pkcs12("broker", "store-s3cret"))
    key_store = KeyStore(StoreType.PKCS12, location, Secret("store-s3cret"))

    found = identity_of(ZooKeeperSecurity(TlsSettings(key_store)))

    assert granted(found, (31, "x509", "CN=broker,O=lab")) == (EVERYTHING, Right.NONE, ())
    assert granted(found, (31, "x509", "CN=kafka"))[1] == EVERYTHING


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("org.apache.kafka.common.security.plain.PlainLoginModule required;", f"expected {DIGEST} or {KERBEROS}"),
        (f'{DIGEST} required username="kafka";', "option password is missing"),
        (f'{DIGEST} required password="s3cret";', "option username is missing"),
        (f'{DIGEST} required username="kafka" password="s3cret"', "not terminated by semi-colon"),
    ],
)
def test_an_unusable_login_module_is_reported_without_its_secrets(module: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"zookeeper\.sasl\.jaas\.config") as caught:
        login_of(jaas(module), "zk1")

    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)
