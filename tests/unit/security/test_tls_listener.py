"""A listener's certificate is renewed without a restart, and a bad one changes nothing."""

from __future__ import annotations

import os
import shutil
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from controller.security.failures import AuthenticationFailed
from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls_listener import LOOKS_EVERY_S, RENEWED, UNUSABLE, ListenerTls, Renewed
from controller.settings.security import ClientAuth, KeyStore, StoreType, TlsSettings, TrustStore
from tests.fuzz.stores import pairs, pem
from tests.unit.connections.certificates import clients, make_identity


class Around:
    """A clock, and what was reported."""

    def __init__(self, directory: Path) -> None:
        self.now = 0.0
        self.said: list[tuple[str, str]] = []
        self.file = make_identity(directory / "server.pem", "server")

    def listener(self, rules: str = "DEFAULT", auth: ClientAuth = ClientAuth.NONE) -> ListenerTls:
        settings = TlsSettings(
            KeyStore(StoreType.PEM, str(self.file)),
            TrustStore(StoreType.PEM, str(self.file)),
            auth,
            principal_mapping_rules=rules,
        )
        return ListenerTls(settings, lambda: self.now, lambda what, why: self.said.append((what, why)))


@pytest.fixture
def around(tmp_path: Path) -> Around:
    return Around(tmp_path)


def shown(listener: ListenerTls, trusted: Path) -> str:
    """The name in the certificate that a new client gets."""
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = listener.context().wrap_bio(ours, theirs, server_side=True)
    client = clients(trusted).wrap_bio(theirs, ours, server_hostname="127.0.0.1")
    for end in (client, server, client, server):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    der = client.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).subject.rfc4514_string()


def test_a_new_certificate_counts_for_new_connections_within_seconds(around: Around, tmp_path: Path) -> None:
    listener = around.listener()
    assert shown(listener, around.file) == "CN=server"
    make_identity(tmp_path / "next.pem", "next")
    os.replace(tmp_path / "next.pem", around.file)

    assert listener.context() is listener.context()
    around.now += LOOKS_EVERY_S
    assert shown(listener, around.file) == "CN=next"
    assert around.said == [("certificates renewed", str(around.file))]
    around.now += LOOKS_EVERY_S
    assert listener.context() is listener.context()
    assert len(around.said) == 1


def test_one_that_cannot_be_used_is_said_once_and_changes_nothing(around: Around, tmp_path: Path) -> None:
    listener = around.listener()
    before = tmp_path / "before.pem"
    shutil.copy(around.file, before)
    around.file.write_text("-----BEGIN half of it")

    for _ in range(3):
        around.now += LOOKS_EVERY_S
        assert shown(listener, before) == "CN=server"
    around.file.unlink()
    around.now += LOOKS_EVERY_S
    assert shown(listener, before) == "CN=server"

    (first, why), (second, _) = around.said
    assert first == second == "certificates have changed but cannot be used; the previous ones stay in force"
    assert "ssl.truststore.location" in why


def test_a_certificate_stands_for_a_user_by_the_rules(around: Around) -> None:
    der = x509.load_pem_x509_certificates(around.file.read_bytes())[0].public_bytes(Encoding.DER)

    assert around.listener().principal(der) == "User:CN=server"
    assert around.listener("RULE:^CN=(.*)$/$1/U").principal(der) == "User:SERVER"
    with pytest.raises(AuthenticationFailed, match=r"no rule of ssl\.principal\.mapping\.rules applies to CN=server"):
        around.listener("RULE:^OU=(.*)$/$1/").principal(der)


def test_what_cannot_be_used_at_the_start_is_an_error(around: Around) -> None:
    around.file.unlink()

    with pytest.raises(UnusableStore, match="ssl"):
        around.listener()


def test_a_failed_handshake_is_explained_in_words(around: Around) -> None:
    listener = around.listener(auth=ClientAuth.REQUIRED)
    error = ssl.SSLError(1, "[SSL: X] x")
    error.reason = "PEER_DID_NOT_RETURN_A_CERTIFICATE"

    assert listener.reason(error) == "the client sent no certificate, and ssl.client.auth is required"
    error.reason = "SOMETHING_ELSE"
    assert listener.reason(error) == "SOMETHING_ELSE"


WEAK = {
    "short": "ssl.keystore.location={file}: OpenSSL refuses its key as too short",
    "sha1": "ssl.keystore.location={file}: OpenSSL refuses a certificate signed with SHA-1",
}


@pytest.mark.parametrize("kind", WEAK)
def test_a_renewed_certificate_that_openssl_refuses_is_said_and_changes_nothing(
    around: Around, tmp_path: Path, kind: str
) -> None:
    listener = around.listener()
    before = tmp_path / "before.pem"
    shutil.copy(around.file, before)
    around.file.write_bytes(pem(pairs()[kind]))

    around.now += LOOKS_EVERY_S
    assert shown(listener, before) == "CN=server"
    ((what, why),) = around.said
    assert what == UNUSABLE
    assert why.startswith(WEAK[kind].format(file=around.file))

    make_identity(around.file, "next")
    around.now += LOOKS_EVERY_S
    assert shown(listener, around.file) == "CN=next"


def test_what_could_not_be_renewed_is_tried_again_although_no_file_changes(tmp_path: Path) -> None:
    """A permission granted later changes no file, and neither does memory that is available again."""
    said: list[str] = []
    ends: list[BaseException | None] = [None, MemoryError(), MemoryError(), RecursionError(), None, None]
    file = tmp_path / "file"
    file.write_text("before")
    now = [0.0]

    def make() -> str:
        end = ends.pop(0)
        if end is not None:
            raise end
        return file.read_text()

    renewed = Renewed(make, [str(file)], lambda: now[0], lambda what, _: said.append(what))
    file.write_text("after that")
    values = []
    for _ in range(6):
        now[0] += LOOKS_EVERY_S
        values.append(renewed.get())

    assert values == ["before"] * 3 + ["after that"] * 3
    assert said == [UNUSABLE, UNUSABLE, RENEWED]
