"""Handshakes through memory, without sockets."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls import client_context, server_context
from controller.settings.security import ClientAuth, KeyStore, Secret, StoreType, TlsSettings, TrustStore


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[KeyStore, TrustStore]:
    folder: Path = tmp_path_factory.mktemp("tls")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=me"]
    files = ["-addext", "subjectAltName=DNS:me", "-keyout", str(folder / "key"), "-out", str(folder / "crt")]
    subprocess.run([*made, *files], check=True, capture_output=True)
    chain, key = (folder / "crt").read_text(), Secret((folder / "key").read_text())
    return KeyStore(StoreType.PEM, None, None, None, chain, key), TrustStore(StoreType.PEM, certificates=chain)


def shake(server: TlsSettings, client: TlsSettings, name: str = "me") -> ssl.SSLObject:
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server_context(server).wrap_bio(up, down, server_side=True)
    theirs = client_context(client).wrap_bio(down, up, server_hostname=name)
    for _ in range(6):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ours


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("auth", list(ClientAuth))
def test_client_auth(known: tuple[KeyStore, TrustStore], auth: ClientAuth, version: str) -> None:
    key, trust = known
    server = TlsSettings(key, trust, auth, (version,))
    with_key = shake(server, TlsSettings(key, trust))
    assert with_key.version() == version
    assert bool(with_key.getpeercert(True)) == (auth is not ClientAuth.NONE)
    if auth is ClientAuth.REQUIRED:
        with pytest.raises(ssl.SSLError):
            shake(server, TlsSettings(None, trust))
    else:
        assert shake(server, TlsSettings(None, trust)).version() == version


def test_names_are_compared_if_asked(known: tuple[KeyStore, TrustStore]) -> None:
    key, trust = known
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(TlsSettings(key), TlsSettings(None, trust), "other")
    assert shake(TlsSettings(key), TlsSettings(None, trust, endpoint_identification_algorithm=""), "other").version()


def test_old_protocols_are_refused(known: tuple[KeyStore, TrustStore]) -> None:
    with pytest.raises(UnusableStore, match=r"ssl\.enabled\.protocols"):
        server_context(TlsSettings(known[0], enabled_protocols=("TLSv1.1",)))


OF_1_3 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


@pytest.mark.parametrize(
    ("suites", "version", "cipher"),
    [
        (("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",), "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384"),
        (("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",), "TLSv1.2", "ECDHE-RSA-CHACHA20-POLY1305"),
        (OF_1_3, "TLSv1.3", None),
        ((*OF_1_3, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), "TLSv1.3", None),
    ],
)
def test_suites_are_chosen_by_java_s_names(
    known: tuple[KeyStore, TrustStore], suites: tuple[str, ...], version: str, cipher: str | None
) -> None:
    key, trust = known
    side = shake(TlsSettings(key, cipher_suites=suites), TlsSettings(None, trust))

    assert side.version() == version
    chosen = side.cipher()
    assert chosen is not None
    assert cipher is None or chosen[0] == cipher


@pytest.mark.parametrize(
    ("suites", "versions", "why"),
    [
        (("TLS_AES_256_GCM_SHA384",), ("TLSv1.3",), "for TLSv1.3, name all of its suites or none here"),
        (OF_1_3, ("TLSv1.2",), "has none for the versions in ssl.enabled.protocols"),
        (
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_NULL_SHA", "eNULL"),
            ("TLSv1.2",),
            "lacks or forbids TLS_RSA_WITH_NULL_SHA, eNULL",
        ),
        (("ALL:eNULL",), ("TLSv1.2",), "ALL:eNULL"),
    ],
)
def test_suites_that_cannot_be_had_are_named(
    known: tuple[KeyStore, TrustStore], suites: tuple[str, ...], versions: tuple[str, ...], why: str
) -> None:
    with pytest.raises(UnusableStore, match=why):
        server_context(TlsSettings(known[0], enabled_protocols=versions, cipher_suites=suites))
