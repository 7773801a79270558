"""Handshakes through memory, without sockets."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from controller.security.stores import UnusableStore
from controller.security.tls import client_context, server_context
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
