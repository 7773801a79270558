"""Stores as Java's own keytool and openssl write them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from controller.security.tls.stores import UnusableStore, read_key_store, read_trust_store
from controller.settings.security import KeyStore, Secret, StoreType, TrustStore

pytestmark = pytest.mark.skipif(
    shutil.which("keytool") is None or shutil.which("openssl") is None, reason="needs keytool and openssl"
)
GOOD, KEY, WRONG = Secret("store-pass"), Secret("other-pass"), Secret("wrong-pass")


def keytool(*words: str) -> None:
    subprocess.run(["keytool", "-storepass", "store-pass", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("stores")
    for kind, key in (("JKS", "other-pass"), ("PKCS12", "store-pass")):
        store = ("-keystore", str(found / kind), "-storetype", kind, "-alias", "me")
        keytool("-genkeypair", "-keyalg", "EC", "-dname", "CN=me", "-keypass", key, *store)
        keytool("-exportcert", "-rfc", "-file", str(found / f"{kind}.pem"), *store)
        trust = ("-keystore", str(found / f"trust-{kind}"), "-storetype", kind)
        for alias in "ab":
            keytool("-importcert", "-noprompt", "-alias", alias, "-file", str(found / f"{kind}.pem"), *trust)
    for name, protection in (("plain", ["-nodes"]), ("encrypted", ["-passout", "pass:other-pass"])):
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-subj", "/CN=me", *protection]
        files = ["-keyout", str(found / f"{name}.key"), "-out", str(found / f"{name}.crt")]
        subprocess.run([*made, *files], check=True, capture_output=True)
        text = (found / f"{name}.key").read_text() + (found / f"{name}.crt").read_text()
        (found / f"{name}.pem").write_text(text)
    return found


@pytest.mark.parametrize("declared", [StoreType.JKS, StoreType.PKCS12])
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_what_is_in_the_file_counts(folder: Path, kind: str, declared: StoreType) -> None:
    own = KEY if kind == "JKS" else None
    identity = read_key_store(KeyStore(declared, str(folder / kind), GOOD, own))
    assert read_trust_store(TrustStore(declared, str(folder / f"trust-{kind}"), GOOD))[0] == identity.chain[0]


@pytest.mark.parametrize("name", ["plain", "encrypted"])
def test_pem(folder: Path, name: str) -> None:
    password = KEY if name == "encrypted" else None
    of_file = read_key_store(KeyStore(StoreType.PEM, str(folder / f"{name}.pem"), key_password=password))
    chain, key = (folder / f"{name}.crt").read_text(), Secret((folder / f"{name}.key").read_text())
    assert read_key_store(KeyStore(StoreType.PEM, None, None, password, chain, key)) == of_file


@pytest.mark.parametrize(
    ("name", "password", "key_password", "setting"),
    [
        ("JKS", WRONG, None, "ssl.keystore.password"),
        ("JKS", GOOD, None, "ssl.key.password"),
        ("PKCS12", WRONG, None, "ssl.keystore.password"),
        ("trust-JKS", GOOD, None, "no private key"),
        ("trust-PKCS12", GOOD, None, "no private key"),
        ("missing", GOOD, None, "ssl.keystore.location"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, name: str, password: Secret, key_password: Secret, setting: str) -> None:
    with pytest.raises(UnusableStore) as found:
        read_key_store(KeyStore(StoreType.JKS, str(folder / name), password, key_password))
    assert setting in str(found.value)
    assert "-pass" not in str(found.value)


def test_a_key_of_another_certificate(folder: Path) -> None:
    chain, key = (folder / "encrypted.crt").read_text(), Secret((folder / "plain.key").read_text())
    with pytest.raises(UnusableStore, match=r"ssl\.keystore\.key: the private key does not belong"):
        read_key_store(KeyStore(StoreType.PEM, None, None, None, chain, key))
