"""How does a ZooKeeper server answer the bytes of one client's connection?

A lagging server passes writes on at once, and answers them when it has applied them. Later requests of the same
client wait, too.

Source: zookeeper.jute; NIOServerCnxn, ZooKeeperServer, PrepRequestProcessor, FollowerRequestProcessor, CommitProcessor
and FinalRequestProcessor of ZooKeeper.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from controller.zk import protocol
from controller.zk.rights import GetAcl
from tests.simulation.zookeeper import (
    CheckVersion,
    MakeNode,
    Multi,
    Operation,
    Permission,
    Refused,
    RemoveNode,
    SessionExpired,
    SetData,
    ZkError,
    ZooKeeper,
)
from tests.simulation.zookeeper_watches import Happened, WatchEvent
from zk_layout.facts import Stat
from zk_layout.ids import SessionId, Zxid

PASSWORD: Final = bytes(16)
_SYNC, _PING, _CLOSE = 9, 11, -11
_WATCH_XID: Final = -1
_CODES: Final = {
    ZkError.NO_NODE: protocol.NO_NODE,
    ZkError.NO_AUTH: -102,
    ZkError.INVALID_ACL: protocol.INVALID_ACL,
    ZkError.NODE_EXISTS: protocol.NODE_EXISTS,
    ZkError.BAD_VERSION: protocol.BAD_VERSION,
    ZkError.NOT_EMPTY: protocol.NOT_EMPTY,
    ZkError.EPHEMERAL_PARENT: -108,
    ZkError.NO_WATCH: protocol.NO_WATCH,
    ZkError.ROLLED_BACK: protocol.OK,
    ZkError.INCONSISTENT: protocol.RUNTIME_INCONSISTENCY,
}
_KINDS: Final = {Happened.CREATED: 1, Happened.DELETED: 2, Happened.CHANGED: 3, Happened.CHILDREN: 4}

_TYPES: Final = {
    MakeNode: protocol.Create.type,
    SetData: protocol.SetData.type,
    RemoveNode: protocol.Delete.type,
    CheckVersion: protocol.Check.type,
}

_int = struct.Struct(">i")
_greeting = struct.Struct(">iqiq")  # protocol version, last zxid seen, timeout, session
_greeted = struct.Struct(">iiqi")  # protocol version, timeout, session, length of the password
_request = struct.Struct(">ii")
_reply = struct.Struct(">iqi")
_part = struct.Struct(">i?i")
_stat = struct.Struct(">qqqqiiiqiiq")
_watch = struct.Struct(">ii")
_END: Final = _part.pack(-1, True, -1)
_WATCHES: Final = (protocol.SetWatches.type, protocol.AddRecursiveWatch.type, protocol.RemoveWatches.type)
_READS: Final = (
    protocol.GetData.type,
    protocol.Exists.type,
    protocol.GetChildren.type,
    protocol.MultiRead.type,
    *_WATCHES,
    GetAcl.type,
    _PING,
)

Transacted = Callable[[SessionId, Sequence[Operation], Multi], None]


class Unimplemented(Exception):
    """The server does not know the request."""


class Cursor:
    """Reads one frame from the front."""

    def __init__(self, frame: bytes, at: int = 0) -> None:
        self._frame = frame
        self._at = at

    def number(self) -> int:
        """An int."""
        (number,) = _int.unpack_from(self._frame, self._at)
        self._at += 4
        return int(number)

    def long(self) -> int:
        """A long."""
        self._at += 8
        return int.from_bytes(self._frame[self._at - 8 : self._at], "big", signed=True)

    def flag(self) -> bool:
        """A boolean."""
        self._at += 1
        return self._frame[self._at - 1] != 0

    def data(self) -> bytes:
        """Bytes; null is the same as none."""
        size = max(self.number(), 0)
        self._at += size
        return self._frame[self._at - size : self._at]

    def text(self) -> str:
        """A string."""
        return self.data().decode()

    def texts(self) -> list[str]:
        """Strings."""
        return [self.text() for _ in range(self.number())]

    def operation(self, kind: int) -> Operation:
        """The body of a write."""
        path = self.text()
        match kind:
            case protocol.Create.type:
                data = self.data()
                acl = [(self.number(), self.text(), self.text()) for _ in range(self.number())]
                flags = self.number()
                is_owned = any(scheme == "auth" for _, scheme, _ in acl)
                return MakeNode(path, data, bool(flags & 1), bool(flags & 2), is_owned)
            case protocol.SetData.type:
                return SetData(path, self.data(), self.number())
            case protocol.Delete.type:
                return RemoveNode(path, self.number())
            case _:
                return CheckVersion(path, self.number())

    def operations(self) -> list[Operation]:
        """The body of a transaction, or of a multi-read, whose parts are paths."""
        found: list[Operation] = []
        while True:
            kind, is_end, _ = _part.unpack_from(self._frame, self._at)
            self._at += _part.size
            if is_end:
                return found
            found.append(self.operation(kind))

    def paths(self) -> list[str]:
        """The body of a multi-read."""
        found: list[str] = []
        while True:
            _, is_end, _ = _part.unpack_from(self._frame, self._at)
            self._at += _part.size
            if is_end:
                return found
            found.append(self.text())
            self.flag()


class ServerConnection:
    """One client's connection; `send` and `hang_up` lead back to it.

    `transacted` hears of every transaction, `oversized` of a frame that is too large, `greeted` of the session.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        send: Callable[[bytes], None],
        hang_up: Callable[[], None],
        transacted: Transacted = lambda *_: None,
        oversized: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self._zookeeper = zookeeper
        self._leader = zookeeper.leader
        self._send = send
        self._hang_up = hang_up
        self._transacted = transacted
        self._oversized = oversized
        self._session: SessionId | None = None
        self._due: deque[tuple[Zxid, Callable[[], None]]] = deque()
        self._is_closed = False
        self.greeted: Callable[[SessionId], None] = lambda _: None

    @property
    def is_closed(self) -> bool:
        """Whether it is over."""
        return self._is_closed

    @property
    def waits_for(self) -> Zxid | None:
        """The zxid that the server must have applied before it continues with this client."""
        return self._due[0][0] if self._due else None

    def take(self, frame: bytes) -> None:
        """Take one frame without its length."""
        if self._is_closed:
            return
        if len(frame) > self._leader.frame_limit:
            self._oversized(frame)
            self.leave()
        elif self._session is None:
            self._greet(frame)
        else:
            self._answer(frame)

    def close(self) -> None:
        """The connection is gone; the session may continue over another one."""
        self._is_closed = True
        if self._session is not None and self._zookeeper.attached.get(self._session) is self:
            del self._zookeeper.attached[self._session]
            self._zookeeper.watches.forget(self._session)

    def leave(self) -> None:
        """The server closes it."""
        self.close()
        self._hang_up()

    def fired(self, event: WatchEvent) -> None:
        """A watch of this session fired."""
        head = _reply.pack(_WATCH_XID, -1, 0)
        self._send(head + _watch.pack(_KINDS[event.happened], 3) + protocol.text(event.path))

    def expired(self) -> None:
        """The session has ended."""
        self._is_closed = True
        self._hang_up()

    def _greet(self, frame: bytes) -> None:
        _, seen, timeout, wanted = _greeting.unpack_from(frame)
        session = SessionId(wanted)
        if seen > self._zookeeper.zxid:  # it has seen more than this server
            self.leave()
        elif not session:
            session = self._leader.open_session()
            self._answer_later(partial(self._attach, session, timeout))
        elif session not in self._leader.sessions:
            self._send(_greeted.pack(0, 0, 0, len(PASSWORD)) + PASSWORD + b"\0")
            self.leave()
        else:
            self._attach(session, timeout)

    def _attach(self, session: SessionId, timeout: int) -> None:
        if self._is_closed:
            return
        for attached in (self._leader.attached, *(learner.attached for learner in self._leader.learners)):
            former = attached.get(session)
            if isinstance(former, ServerConnection):
                former.close()
        self._session = session
        self._zookeeper.attached[session] = self
        self._send(_greeted.pack(0, timeout, session, len(PASSWORD)) + PASSWORD + b"\0")
        self.greeted(session)

    def _answer(self, frame: bytes) -> None:
        xid, kind = _request.unpack_from(frame)
        if kind in _READS:
            self._due.append((Zxid(0), partial(self._read, xid, kind, frame)))
            self._go_on()
        else:
            self._answer_later(partial(self._reply, xid, kind, *self._outcome(kind, frame)))

    def _answer_later(self, answer: Callable[[], None]) -> None:
        """Answer a write that the leader has ordered, once this server has applied it."""
        self._due.append((self._leader.zxid, answer))
        self._zookeeper.when_applied(self._leader.zxid, self._go_on)

    def _go_on(self) -> None:
        while self._due and self._due[0][0] <= self._zookeeper.zxid:
            self._due.popleft()[1]()

    def _read(self, xid: int, kind: int, frame: bytes) -> None:
        if not self._is_closed:
            self._reply(xid, kind, *self._outcome(kind, frame))

    def _outcome(self, kind: int, frame: bytes) -> tuple[bytes, int]:
        try:
            if kind in self._unknown():
                raise Unimplemented
            return self._perform(kind, Cursor(frame, _request.size)), protocol.OK
        except Refused as refused:
            return b"", _CODES[refused.error]
        except SessionExpired:
            return b"", protocol.SESSION_EXPIRED
        except Unimplemented:
            return b"", protocol.UNIMPLEMENTED

    def _unknown(self) -> tuple[int, ...]:
        multi_read = () if self._leader.knows_multi_read else (protocol.MultiRead.type,)
        recursive = () if self._zookeeper.knows_recursive_watches else (protocol.AddRecursiveWatch.type,)
        return *multi_read, *recursive

    def _reply(self, xid: int, kind: int, body: bytes, code: int) -> None:
        if code == protocol.UNIMPLEMENTED:
            self._send(_reply.pack(xid, 0, code))
            if self._zookeeper.hangs_up_on_unknown:
                self.leave()
            return
        if not self._is_closed or kind == _CLOSE:
            self._send(_reply.pack(xid, self._zookeeper.zxid, code) + body)
        if kind == _CLOSE:
            self._hang_up()

    def _perform(self, kind: int, cursor: Cursor) -> bytes:
        zookeeper, session = self._zookeeper, self._session
        assert session is not None
        match kind:
            case protocol.GetData.type:
                return self._got(path := cursor.text(), zookeeper.get(session, path, cursor.flag()))
            case protocol.Exists.type:
                stat = zookeeper.exists(session, path := cursor.text(), cursor.flag())
                if stat is None:
                    raise Refused(ZkError.NO_NODE, path)
                return self._stat(path, zookeeper)
            case protocol.GetChildren.type:
                names = zookeeper.children(session, path := cursor.text(), cursor.flag())
                if names is None:
                    raise Refused(ZkError.NO_NODE, path)
                return _int.pack(len(names)) + b"".join(map(protocol.text, names))
            case GetAcl.type:
                return self._acl(cursor.text())
            case protocol.MultiRead.type:
                return b"".join([self._part_read(path) for path in cursor.paths()]) + _END
            case _ if kind in _WATCHES:
                return self._watch(session, kind, cursor)
            case _ if kind == _PING:
                return b""
            case _:
                return self._write(session, kind, cursor)

    def _watch(self, session: SessionId, kind: int, cursor: Cursor) -> bytes:
        zookeeper = self._zookeeper
        match kind:
            case protocol.AddRecursiveWatch.type:
                zookeeper.watch_below(session, cursor.text())
                return _int.pack(protocol.OK)
            case protocol.RemoveWatches.type:
                zookeeper.remove_watches(session, cursor.text())
            case _:
                zookeeper.set_watches(session, Zxid(cursor.long()), cursor.texts(), cursor.texts(), cursor.texts())
        return b""

    def _write(self, session: SessionId, kind: int, cursor: Cursor) -> bytes:
        match kind:
            case protocol.Transaction.type:
                operations = cursor.operations()
                self._leader.on_arrival(session, operations)
                done = self._leader.multi(session, operations)
                self._transacted(session, operations, done)
                parts = self._refused(done) if done.errors else self._done(operations, done)
                return b"".join(parts) + _END
            case protocol.Create.type | protocol.SetData.type | protocol.Delete.type:
                operation = cursor.operation(kind)
                result = self._leader.write(session, operation)
                return self._result(operation, result)
            case _ if kind == _SYNC:
                return protocol.text(cursor.text())
            case _ if kind == _CLOSE:
                self.close()
                self._leader.close_session(session)
                return b""
            case _:
                raise Unimplemented

    def _acl(self, path: str) -> bytes:
        """All rights for the creator, and the rest for anyone."""
        if path not in self._zookeeper.nodes:
            raise Refused(ZkError.NO_NODE, path)
        anyone = self._leader.acls.get(path, Permission.ALL)
        if not anyone & (Permission.READ | Permission.ADMIN):
            raise Refused(ZkError.NO_AUTH, path)
        entries = ((Permission.ALL, "sasl", "kafka"), (anyone, "world", "anyone"))
        listed = (_int.pack(rights) + protocol.text(scheme) + protocol.text(name) for rights, scheme, name in entries)
        return _int.pack(len(entries)) + b"".join(listed) + self._stat(path, self._zookeeper)

    def _part_read(self, path: str) -> bytes:
        assert self._session is not None
        try:
            found = self._got(path, self._zookeeper.get(self._session, path))
        except Refused as refused:
            return _part.pack(-1, False, code := _CODES[refused.error]) + _int.pack(code)
        return _part.pack(protocol.GetData.type, False, protocol.OK) + found

    @staticmethod
    def _refused(done: Multi) -> list[bytes]:
        codes = [_CODES[error] for error in done.errors]
        return [_part.pack(-1, False, code) + _int.pack(code) for code in codes]

    def _done(self, operations: Sequence[Operation], done: Multi) -> list[bytes]:
        return [
            _part.pack(_TYPES[type(operation)], False, protocol.OK) + self._result(operation, result)
            for operation, result in zip(operations, done.results, strict=True)
        ]

    def _result(self, operation: Operation, result: str | Stat | None) -> bytes:
        if isinstance(result, str):
            return protocol.text(result)
        return self._stat(operation.path, self._leader) if isinstance(operation, SetData) else b""

    def _got(self, path: str, found: tuple[bytes, Stat] | None) -> bytes:
        if found is None:
            raise Refused(ZkError.NO_NODE, path)
        return _int.pack(len(found[0])) + found[0] + self._stat(path, self._zookeeper)

    @staticmethod
    def _stat(path: str, shown_by: ZooKeeper) -> bytes:
        node = shown_by.nodes.get(path)
        if node is None:  # set and deleted in one transaction, so never read
            return bytes(_stat.size)
        left = len(node.children)
        changes = 2 * node.sequence - left
        return _stat.pack(
            node.czxid, node.mzxid, 0, 0, node.version, changes, 0, node.owner, len(node.data), left, node.pzxid
        )
