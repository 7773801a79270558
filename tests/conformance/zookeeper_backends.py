"""Which calls work alike on the simulated and on a real ZooKeeper? Only this module knows their differences."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent
from kazoo.security import ACL, Id

from tests.simulation.zookeeper import (
    CheckVersion,
    MakeNode,
    Multi,
    Operation,
    Permission,
    RemoveNode,
    SetData,
    ZkError,
    ZooKeeper,
)
from tests.simulation.zookeeper_follower import Follower
from tests.simulation.zookeeper_server import ServerConnection
from tests.simulation.zookeeper_watches import Happened, WatchEvent
from zk_layout.facts import Stat
from zk_layout.ids import SessionId, ZnodeVersion, Zxid

_ERRORS: dict[type[Exception], ZkError] = {
    exceptions.NoNodeError: ZkError.NO_NODE,
    exceptions.NoAuthError: ZkError.NO_AUTH,
    exceptions.NodeExistsError: ZkError.NODE_EXISTS,
    exceptions.BadVersionError: ZkError.BAD_VERSION,
    exceptions.NotEmptyError: ZkError.NOT_EMPTY,
    exceptions.NoChildrenForEphemeralsError: ZkError.EPHEMERAL_PARENT,
    exceptions.RolledBackError: ZkError.ROLLED_BACK,
    exceptions.RuntimeInconsistency: ZkError.INCONSISTENT,
}
_HAPPENED = {
    "CREATED": Happened.CREATED,
    "DELETED": Happened.DELETED,
    "CHANGED": Happened.CHANGED,
    "CHILD": Happened.CHILDREN,
}
PATIENCE_S = 5.0
LAG_S = 0.005


class Session(Protocol):
    """One client."""

    def multi(self, *operations: Operation) -> Multi:
        """Write all or nothing."""

    def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat] | None:
        """Data and stat, or None."""

    def children(self, path: str, *, watch: bool = False) -> tuple[str, ...] | None:
        """The children's names, or None."""

    def events(self) -> list[WatchEvent]:
        """What its watches saw, in order."""

    def end(self) -> None:
        """End the session; its ephemeral znodes are gone when this returns."""


class Backend(Protocol):
    """One ensemble."""

    def session(self) -> Session:
        """A new client."""


class SimulatedSession:
    """A client of the simulated ZooKeeper."""

    def __init__(self, backend: Simulated) -> None:
        self._zookeeper = backend.zookeeper
        self._seen = backend.seen
        self._session = self._zookeeper.open_session()

    def multi(self, *operations: Operation) -> Multi:
        """Write all or nothing."""
        return self._zookeeper.multi(self._session, operations)

    def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat] | None:
        """Data and stat, or None; an absent znode is watched as Kafka and we do, with an exists-watch."""
        found = self._zookeeper.get(self._session, path, watch)
        if found is None and watch:
            self._zookeeper.exists(self._session, path, watch)
        return found

    def children(self, path: str, *, watch: bool = False) -> tuple[str, ...] | None:
        """The children's names, or None."""
        return self._zookeeper.children(self._session, path, watch)

    def events(self) -> list[WatchEvent]:
        """What its watches saw, in order."""
        return [event for session, event in self._seen if session == self._session]

    def end(self) -> None:
        """End the session."""
        self._zookeeper.close_session(self._session)


class Simulated:
    """The simulated ZooKeeper."""

    def __init__(self) -> None:
        self.seen: list[tuple[SessionId, WatchEvent]] = []
        self.zookeeper = ZooKeeper(lambda session, event: self.seen.append((session, event)), lambda *_: None)

    def session(self) -> SimulatedSession:
        """A new client."""
        return SimulatedSession(self)


class RealSession:
    """A client of a real server, through kazoo."""

    def __init__(self, connect: str) -> None:
        self._client = KazooClient(connect, timeout=4.0)
        self._client.start()
        self._seen: list[WatchEvent] = []

    def multi(self, *operations: Operation) -> Multi:
        """Write all or nothing."""
        transaction = self._client.transaction()
        for operation in operations:
            _add(transaction, operation)
        results = transaction.commit()
        if any(isinstance(r, Exception) for r in results):
            return Multi(Zxid(0), (), tuple(_ERRORS[type(r)] for r in results))
        return Multi(Zxid(self._client.last_zxid), tuple(self._result(r) for r in results), ())

    def _result(self, result: Any) -> str | Stat | None:
        if result is True:
            return None
        return result if isinstance(result, str) else _stat(result)

    def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat] | None:
        """Data and stat, or None; an absent znode is watched as Kafka and we do, with an exists-watch."""
        watcher = self._saw if watch else None
        try:
            data, stat = self._client.get(path, watch=watcher)
        except exceptions.NoNodeError:
            if watch:
                self._client.exists(path, watch=watcher)
            return None
        return data, _stat(stat)

    def children(self, path: str, *, watch: bool = False) -> tuple[str, ...] | None:
        """The children's names, or None."""
        try:
            return tuple(sorted(self._client.get_children(path, watch=self._saw if watch else None)))
        except exceptions.NoNodeError:
            return None

    def set(self, path: str, data: bytes) -> None:
        """Set the data in a request of its own."""
        self._client.set(path, data)

    def get_when_connected(self, path: str) -> bytes:
        """The data, though the connection has just been lost."""
        data: bytes = self._client.retry(self._client.get, path)[0]
        return data

    def limit(self, path: str, left: Permission) -> None:
        """Leave everyone only these permissions, and the one to change them."""
        self._client.set_acls(path, [ACL(int(left | Permission.ADMIN), Id("world", "anyone"))])

    def _saw(self, event: WatchedEvent) -> None:
        self._seen.append(WatchEvent(_HAPPENED[event.type], event.path))

    def events(self) -> list[WatchEvent]:
        """What its watches saw, in order; a read after the writes has brought all of it."""
        self._client.sync("/")
        self._client.exists("/")
        seen, deadline = -1, time.monotonic() + PATIENCE_S
        while seen != len(self._seen) and time.monotonic() < deadline:
            seen = len(self._seen)
            time.sleep(0.05)
        return list(self._seen)

    def end(self) -> None:
        """End the session; the server has removed its ephemeral znodes when it has answered."""
        self._client.stop()
        self._client.close()


class Real:
    """A real server."""

    def __init__(self, connect: str) -> None:
        self.connect = connect
        self._sessions: list[RealSession] = []
        self._limited: list[str] = []

    def full(self, path: str) -> str:
        """The path with the chroot."""
        return self.connect[self.connect.index("/") :] + path

    def limit(self, path: str, left: Permission) -> None:
        """Leave everyone only these permissions."""
        self.session().limit(path, left)
        self._limited.append(path)

    def session(self) -> RealSession:
        """A new client."""
        session = RealSession(self.connect)
        self._sessions.append(session)
        return session

    def close(self) -> None:
        """Give everyone all permissions back, and end all sessions."""
        for path in self._limited:
            self._sessions[0].limit(path, Permission.ALL)
        for session in self._sessions:
            session.end()


def _add(transaction: Any, operation: Operation) -> None:
    match operation:
        case MakeNode(path, data, is_ephemeral, is_sequential):
            transaction.create(path, data, ephemeral=is_ephemeral, sequence=is_sequential)
        case SetData(path, data, version):
            transaction.set_data(path, data, version)
        case RemoveNode(path, version):
            transaction.delete(path, version)
        case CheckVersion(path, version):
            transaction.check(path, version)


def _stat(stat: Any) -> Stat:
    return Stat(
        Zxid(stat.czxid), Zxid(stat.mzxid), ZnodeVersion(stat.version), SessionId(int(bool(stat.ephemeralOwner)))
    )


def errors(done: Multi) -> Sequence[ZkError]:
    """The errors, operation by operation."""
    return done.errors


class Served:
    """The simulated ZooKeeper behind a socket, for real clients."""

    def __init__(self) -> None:
        self.zookeeper = ZooKeeper(lambda *_: None, lambda *_: None)
        self._server_side = self.zookeeper
        self._lock = threading.Lock()
        self._sessions: list[RealSession] = []
        outer = self

        class Line(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer.serve(self.request)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Line)
        self._server.daemon_threads = True
        self.connect = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def full(self, path: str) -> str:
        """The path; there is no chroot."""
        return path

    def limit(self, path: str, left: Permission) -> None:
        """Leave everyone only these permissions."""
        self.zookeeper.acls[path] = left

    def serve(self, line: socket.socket) -> None:
        """One connection, until an end hangs up."""

        def send(frame: bytes) -> None:
            line.sendall(struct.pack(">i", len(frame)) + frame)

        def hang_up() -> None:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

        connection = ServerConnection(self._server_side, send, hang_up)
        with suppress(OSError), line.makefile("rb") as stream:
            while len(head := stream.read(4)) == len(b"size"):
                frame = stream.read(struct.unpack(">i", head)[0])
                with self._lock:
                    connection.take(frame)
        with self._lock:
            connection.close()

    def session(self) -> RealSession:
        """A new client."""
        session = RealSession(self.connect)
        self._sessions.append(session)
        return session

    def close(self) -> None:
        """End all sessions, and listen no more."""
        for session in self._sessions:
            session.end()
        self._server.shutdown()
        self._server.server_close()


class Lagging(Served):
    """The same behind a server that lags a little."""

    def __init__(self) -> None:
        super().__init__()
        self._server_side = self._follower = Follower(self.zookeeper)
        self._is_over = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while not self._is_over.wait(LAG_S):
            with self._lock:
                self._follower.catch_up()

    def close(self) -> None:
        """End all sessions, and stop listening and following."""
        super().close()
        self._is_over.set()


def stat_of(found: tuple[bytes, Stat] | None) -> Stat:
    """The stat of a znode that is there."""
    assert found is not None
    return found[1]
