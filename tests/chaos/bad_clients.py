"""Which hostile clients must a controller survive?"""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from controller.core.messages.requests import DescribeCluster, TopicReference
from controller.wire.frames import RequestHeader
from tests.equipment.client_side import api_key_of, encode_request
from zk_layout.ids import TopicName

_METADATA_VERSION = 7
_IDLE, _SCRAPERS, _SILENT, _WIDE = 1_100, 20, 20, 4
_NAMES = 40_000
_PAUSE_S = 0.2


@contextmanager
def idle_clients(address: str) -> Iterator[None]:
    """Open more silent connections than there are descriptors."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as open_ones:
        for _ in range(_IDLE):
            with suppress(OSError):
                open_ones.enter_context(socket.create_connection(_host_and_port(address), timeout=2))
        yield


@contextmanager
def slow_scrapers(http_port: int) -> Iterator[None]:
    """Many clients that request `/metrics` again and again and read it a few bytes at a time."""

    def scrape(end: threading.Event) -> None:
        with socket.create_connection(("127.0.0.1", http_port), timeout=2) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            while not end.is_set():
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                connection.recv(16)
                end.wait(_PAUSE_S)

    with _many(_SCRAPERS, scrape):
        yield


@contextmanager
def silent_clients(address: str) -> Iterator[None]:
    """Many clients that request everything again and again and never read an answer."""
    question = _metadata(DescribeCluster(None))

    def ask(end: threading.Event) -> None:
        with socket.create_connection(_host_and_port(address), timeout=2) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            while not end.wait(_PAUSE_S / 10):
                connection.sendall(question)

    with _many(_SILENT, ask):
        yield


@contextmanager
def wide_requests(address: str) -> Iterator[None]:
    """Some clients that name as many topics as a request may, and read the answers."""
    names = tuple(TopicReference(TopicName(f"there-is-no-such-topic-{number}")) for number in range(_NAMES))
    question = _metadata(DescribeCluster(names))

    def ask(end: threading.Event) -> None:
        with socket.create_connection(_host_and_port(address), timeout=5) as connection:
            while not end.wait(_PAUSE_S):
                connection.sendall(question)
                connection.recv(65_536)

    with _many(_WIDE, ask):
        yield


def _metadata(request: DescribeCluster) -> bytes:
    return encode_request(RequestHeader(api_key_of(request), _METADATA_VERSION, 1, "chaos"), request)


@contextmanager
def _many(count: int, work: Callable[[threading.Event], None]) -> Iterator[None]:
    end = threading.Event()

    def keep_on() -> None:
        while not end.is_set():
            with suppress(OSError):
                work(end)
            end.wait(_PAUSE_S)

    threads = [threading.Thread(target=keep_on, name="bad client", daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join(10)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
