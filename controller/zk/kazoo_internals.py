"""Which of kazoo's private names do we rely on, and why?

kazoo's public calls make an object and a thread hand-over of each answer, take no requests but kazoo's own, and tell
watch events from another thread than answers, so that an event can come after answers to later requests. We need
multi-reads, hundreds of thousands of answers, and the order of the session. So requests go in one step below the
public calls, and events are taken where they are read.

These names may change in any release of kazoo: the versions allowed in `pyproject.toml` are those tested, and
`tests/unit/zk/test_kazoo_internals.py` says which name a new version lacks, or what it does otherwise.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.protocol.serialization import Watch

from controller.zk.protocol import Request


class Told(Protocol):
    """Stands where kazoo has its asynchronous result; called in the connection's thread, in the order of answers.

    While it is told, `KazooClient.last_zxid` is that of this answer's header.
    """

    def set(self, value: object = None) -> None:
        """What the request made of the answer; None where a znode asked about does not exist."""

    def set_exception(self, error: Exception) -> None:
        """The server's error, or kazoo's own."""


def send(client: KazooClient, request: Request, told: Told) -> None:
    """Queue a request of any kind behind all others, whatever the connection's state.

    `KazooClient._call` is what all of kazoo's public calls end in; they accept kazoo's own requests only.
    """
    client._call(request, told)


def take_watch_events(client: KazooClient, take: Callable[[int, str], None]) -> None:
    """Have the connection's thread give each watch event (type, path with the chroot) where it reads it.

    `ConnectionHandler._read_watch_event` would pass it to another thread, behind answers that came later. Kazoo's own
    watches no longer work on this client.
    """

    def read(buffer: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        take(watch.type, watch.path)

    client._connection._read_watch_event = read


def renew_only_while(client: KazooClient, may_renew: Callable[[], bool]) -> None:
    """Have the connection's thread renew the session only while `may_renew` says so; it is asked in that thread.

    `ConnectionHandler._send_ping` renews it, and so does `_connect` when a connection was lost. Requests that are
    queued renew it too.
    """
    connection = client._connection
    ping, connect = connection._send_ping, connection._connect

    def send_ping(connect_timeout: float) -> None:
        if may_renew():
            ping(connect_timeout)

    def connect_if_renewing(host: str, address: str, port: int) -> tuple[float, float]:
        if not may_renew():
            raise ConnectionDropped("nobody may renew the session now")
        timeouts: tuple[float, float] = connect(host, address, port)
        return timeouts

    connection._send_ping = send_ping
    connection._connect = connect_if_renewing


def cut(client: KazooClient) -> None:
    """Break the connection, if there is one, so that its thread waits for no answer any more."""
    broken = client._connection._socket
    if broken is not None:
        with contextlib.suppress(OSError):
            broken.shutdown(socket.SHUT_RDWR)


def has_stopped(client: KazooClient) -> bool:
    """Whether the connection's thread has come to its end; only then may the client be closed."""
    return bool(client._connection.connection_stopped.is_set())
