"""Does kazoo's loop see what has arrived over TLS, and nothing else?"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import ConnectionDropped

from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls import client_context, server_context
from controller.settings.security import KeyStore, Secret, StoreType, TlsSettings, TrustStore
from controller.zk.client import context_of
from controller.zk.tls_connection import TlsHandler, TlsSocket
from tests.cluster.certificates import TRUST_PASSWORD, Authority

PASSWORD = "store-s3cret"


class Pair:
    """Both ends of a connection; the server's is driven by hand."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        keys = KeyStore(StoreType.PKCS12, str(authority.pkcs12("zookeeper", PASSWORD)), Secret(PASSWORD))
        trust = TrustStore(StoreType.JKS, str(authority.trusted_jks), Secret(TRUST_PASSWORD))
        self.failures: list[OSError | None] = []
        near, self._wire = socket.socketpair()
        self._into, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._server = server_context(TlsSettings(keys)).wrap_bio(self._into, self._out, server_side=True)
        context = client_context(TlsSettings(None, trust))
        secured = context.wrap_socket(near, server_hostname="localhost", do_handshake_on_connect=False)
        secured.setblocking(False)
        self._wire.setblocking(False)
        self.shake_hands(secured)
        self.client = TlsSocket(secured, self.failures.append)
        self.handler = TlsHandler(lambda: context, lambda _: None)

    def shake_hands(self, secured: ssl.SSLSocket) -> None:
        left = [secured.do_handshake, self._server.do_handshake]
        while left:
            for do in tuple(left):
                with contextlib.suppress(ssl.SSLWantReadError):
                    do()
                    left.remove(do)
                self.flush()
                with contextlib.suppress(BlockingIOError):
                    self._into.write(self._wire.recv(65_536))

    def flush(self) -> None:
        self._wire.sendall(self._out.read())

    def say(self, data: bytes) -> None:
        self._server.write(data)
        self.flush()

    def close(self) -> None:
        self._wire.close()

    def readable(self, timeout_s: float = 0.0) -> list[object]:
        return self.handler.select([self.client], [], [], timeout_s)[0]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    pair.client.close()
    pair.close()


def test_what_is_no_data_does_not_look_like_any(pair: Pair) -> None:
    # The server's session tickets have arrived; they are not data.
    assert pair.readable(0.01) == []
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.recv(4)


def test_what_was_decrypted_with_something_else_is_seen(pair: Pair) -> None:
    pair.say(b"one two")

    assert pair.readable() == [pair.client]
    assert pair.client.recv(4) == b"one "
    assert pair.client.pending() == 3
    assert pair.readable() == [pair.client]
    assert pair.client.recv(4) == b"two"
    assert pair.readable() == []


def test_who_reads_does_not_keep_others_from_being_seen(pair: Pair) -> None:
    pair.say(b"one")
    mine, other = socket.socketpair()
    with mine, other:
        other.sendall(b"x")

        assert pair.handler.select([pair.client, mine], [], [], 5.0)[0] == [pair.client, mine]
        assert pair.handler.select([pair.client, mine], [], [], 5.0)[0] == [pair.client, mine]


def test_an_end_before_the_first_word_is_a_failure_and_a_later_one_is_not(pair: Pair) -> None:
    pair.close()
    assert pair.readable() == [pair.client]
    with contextlib.suppress(OSError):
        assert pair.client.recv(4) == b""
    assert len(pair.failures) == 1


def test_an_end_after_some_data_is_reported_only_to_the_reader(pair: Pair) -> None:
    pair.say(b"one")
    assert pair.readable()
    pair.close()
    assert pair.client.recv(3) == b"one"
    assert pair.readable() == [pair.client]
    assert pair.failures == []


def test_a_store_that_cannot_be_used_drops_the_connection_and_says_why() -> None:
    said: list[str] = []
    tls = TlsSettings(None, TrustStore(StoreType.PEM, "/nowhere/trusted.pem"))

    with pytest.raises(ConnectionDropped):
        TlsHandler(lambda: context_of(tls), said.append).create_connection(("127.0.0.1", 1), "zk1")

    assert said == ["zookeeper.ssl.truststore.location=/nowhere/trusted.pem: No such file or directory"]


@pytest.mark.parametrize("kind", [StoreType.PEM, StoreType.PKCS12])
def test_a_wrong_password_names_the_key_that_is_set(tmp_path: Path, kind: StoreType) -> None:
    authority = Authority(tmp_path)
    make = authority.pem if kind is StoreType.PEM else authority.pkcs12
    wrong = Secret("wr0ng")
    keys = KeyStore(kind, str(make("broker", PASSWORD)), wrong, wrong if kind is StoreType.PEM else None)

    with pytest.raises(UnusableStore) as caught:
        context_of(TlsSettings(keys))

    assert str(caught.value).startswith("zookeeper.ssl.keystore.password does not open")
    assert ".zookeeper" not in str(caught.value)
    assert "wr0ng" not in str(caught.value)
