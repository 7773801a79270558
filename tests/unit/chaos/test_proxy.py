"""A proxy cuts, slows and half opens connections between real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.chaos.proxy import DELAY_S, Link, Mode, Proxies


@contextmanager
def echo() -> Iterator[int]:
    """A server that sends everything back; its port."""

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := connection.recv(4096):
                connection.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    made = Proxies()
    yield made
    made.stop()


@pytest.fixture
def link(proxies: Proxies) -> Iterator[Link]:
    with echo() as port:
        yield proxies.link("to the echo", port)


@contextmanager
def connected(link: Link, timeout_s: float = 5.0) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", link.port), timeout=timeout_s) as connection:
        yield connection


def said(connection: socket.socket, text: bytes = b"hello") -> bytes:
    """The answer; empty if the connection is closed or reset."""
    try:
        connection.sendall(text)
        return connection.recv(4096)
    except (ConnectionResetError, BrokenPipeError):
        return b""


def test_an_open_link_hands_everything_on(link: Link) -> None:
    with connected(link) as connection:
        assert said(connection) == b"hello"
        assert said(connection, b"again") == b"again"


def test_an_end_that_closes_closes_the_other(link: Link, proxies: Proxies) -> None:
    with connected(link) as connection:
        assert said(connection) == b"hello"
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(10) == b""


def test_a_cut_link_resets_what_is_open_and_lets_nobody_in(link: Link, proxies: Proxies) -> None:
    with connected(link) as connection:
        assert said(connection) == b"hello"
        proxies.become(link, Mode.CUT)
        assert said(connection) == b""
    with connected(link) as connection:
        assert said(connection) == b""
    proxies.become(link, Mode.OPEN)
    with connected(link) as connection:
        assert said(connection) == b"hello"


def test_a_slow_link_hands_on_late(link: Link, proxies: Proxies) -> None:
    proxies.become(link, Mode.SLOW)
    with connected(link) as connection:
        began = time.monotonic()
        assert said(connection) == b"hello"
        assert time.monotonic() - began >= 2 * DELAY_S


def test_a_half_open_link_takes_everything_and_never_answers(link: Link, proxies: Proxies) -> None:
    with connected(link, timeout_s=0.5) as existing:
        assert said(existing) == b"hello"
        proxies.become(link, Mode.HALF_OPEN)
        with pytest.raises(TimeoutError):
            said(existing)
        with connected(link, timeout_s=0.5) as fresh, pytest.raises(TimeoutError):
            said(fresh)


def test_what_was_half_open_stays_dead_when_the_link_is_open_again(link: Link, proxies: Proxies) -> None:
    with connected(link, timeout_s=0.5) as silent, connected(link, timeout_s=0.5) as asked:
        assert said(silent) == said(asked) == b"hello"
        proxies.become(link, Mode.HALF_OPEN)
        with pytest.raises(TimeoutError):
            said(asked)
        proxies.become(link, Mode.OPEN)
        with suppress(TimeoutError):
            assert said(asked) == b""
        assert said(silent) == b""
    with connected(link) as connection:
        assert said(connection) == b"hello"
