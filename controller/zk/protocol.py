"""Which bytes make up our requests to ZooKeeper and their answers?

Requests have the shape kazoo's client expects: `type`, `serialize()`, `deserialize(buffer, offset)`. They hold full
paths (with the chroot). Kazoo's own would do for most; these decode straight into `Stat`, know the multi-read and the
setting of many watches at once, and leave watches to the bridge (they have no attribute `watcher`).

Source: zookeeper.jute; MultiTransactionRecord, MultiResponse and SetWatches of ZooKeeper's client.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar, Final, Protocol

from msgspec import Struct

from zk_layout.facts import Stat
from zk_layout.ids import SessionId, ZnodeVersion, Zxid

OK: Final = 0
RUNTIME_INCONSISTENCY: Final = -2
CONNECTION_LOSS: Final = -4
UNIMPLEMENTED: Final = -6
NO_NODE: Final = -101
BAD_VERSION: Final = -103
NODE_EXISTS: Final = -110
NOT_EMPTY: Final = -111
SESSION_EXPIRED: Final = -112
INVALID_ACL: Final = -114
NO_WATCH: Final = -121
LOGIN_WANTED: Final = -124

_ERROR_NAMES: Final = {
    NO_NODE: "no such znode",
    -102: "no permission",
    BAD_VERSION: "another version",
    -108: "an ephemeral znode has no children",
    NODE_EXISTS: "exists already",
    NOT_EMPTY: "has children",
    INVALID_ACL: "ZooKeeper does not know this process by SASL or certificate, so that it cannot own what it creates "
    "(zookeeper.set.acl)",
    LOGIN_WANTED: "ZooKeeper wants a login by SASL (zookeeper.sasl.jaas.config)",
    RUNTIME_INCONSISTENCY: "not tried",
}

_int = struct.Struct(">i")
_long = struct.Struct(">q")
_REQUEST_HEADER: Final = struct.Struct(">ii")
_header = struct.Struct(">i?i")
_read_header = struct.Struct(">i?ii")  # multi header and the length of what follows it
_stat = struct.Struct(">qq16xi8xq16x")  # czxid, mzxid, two times, version, two versions, owner, the rest
_STAT_SIZE: Final = 68
_END: Final = _header.pack(-1, True, -1)
# One entry: all permissions for everyone.
OPEN_TO_ALL: Final = _int.pack(1) + _int.pack(31) + _int.pack(5) + b"world" + _int.pack(6) + b"anyone"


def error_name(code: int) -> str:
    """The text for an error code.

    >>> error_name(BAD_VERSION)
    'another version'
    """
    return _ERROR_NAMES.get(code, f"error {code}")


class Node(Struct, frozen=True, gc=False):
    """A znode as read."""

    data: bytes
    stat: Stat


class Request(Protocol):
    """What kazoo needs of a request."""

    @property
    def type(self) -> int:
        """ZooKeeper's number for the operation."""
        ...

    def serialize(self) -> bytes:
        """The body of the request."""
        ...

    def deserialize(self, buffer: bytes, offset: int) -> object:
        """The answer, after its header."""
        ...


def text(value: str) -> bytes:
    """A string in ZooKeeper's encoding."""
    raw = value.encode()
    return _int.pack(len(raw)) + raw


def stat_at(buffer: bytes, offset: int) -> Stat:
    """The part of a stat that matters here."""
    czxid, mzxid, version, owner = _stat.unpack_from(buffer, offset)
    return Stat(Zxid(czxid), Zxid(mzxid), ZnodeVersion(version), SessionId(owner))


class _Watching(Struct, frozen=True):
    path: str
    watch: bool = False

    def serialize(self) -> bytes:
        """Path and watch."""
        return text(self.path) + (b"\1" if self.watch else b"\0")


class _Unanswered(Struct, frozen=True):
    def deserialize(self, buffer: bytes, offset: int) -> None:
        """Nothing."""


class _Versioned(_Unanswered, frozen=True):
    path: str
    version: int

    def serialize(self) -> bytes:
        """Path and version expected."""
        return text(self.path) + _int.pack(self.version)


class Exists(_Watching, frozen=True):
    """Is it there? With `watch`, tell when it is created, changed or deleted. None if it is not."""

    type: ClassVar[int] = 3

    def deserialize(self, buffer: bytes, offset: int) -> Stat:
        """Its stat."""
        return stat_at(buffer, offset)


class GetData(_Watching, frozen=True):
    """Data and stat of a znode; the watch is set only if the znode exists."""

    type: ClassVar[int] = 4

    def deserialize(self, buffer: bytes, offset: int) -> Node:
        """The znode; null data is the same as empty data."""
        end = offset + 4 + max(_int.unpack_from(buffer, offset)[0], 0)
        return Node(bytes(buffer[offset + 4 : end]), stat_at(buffer, end))


class GetChildren(_Watching, frozen=True):
    """The names below a znode; the watch is set only if the znode exists."""

    type: ClassVar[int] = 8

    def deserialize(self, buffer: bytes, offset: int) -> list[str]:
        """The names, unordered."""
        names = []
        (count,) = _int.unpack_from(buffer, offset)
        offset += 4
        for _ in range(count):
            (size,) = _int.unpack_from(buffer, offset)
            offset += 4
            names.append(buffer[offset : offset + size].decode())
            offset += size
        return names


class MultiRead(Struct, frozen=True):
    """Data and stat of many znodes in one request, without watches; ZooKeeper 3.6 and later.

    Shape:
        Answered with one entry a path, in order: the znode, or its error code.
    """

    type: ClassVar[int] = 22
    paths: Sequence[str]

    def serialize(self) -> bytes:
        """A sequence of reads."""
        parts: list[bytes] = []
        for path in self.paths:
            raw = path.encode()
            parts += (_read_header.pack(GetData.type, False, -1, len(raw)), raw, b"\0")
        parts.append(_END)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> list[Node | int]:
        """Each znode or error."""
        found: list[Node | int] = []
        header_at, stat_from, add = _read_header.unpack_from, _stat.unpack_from, found.append
        for _ in self.paths:
            kind, _done, _err, size = header_at(buffer, offset)
            offset += 13
            if kind == -1:
                add(size)
                continue
            end = offset + size if size > 0 else offset
            czxid, mzxid, version, owner = stat_from(buffer, end)
            add(Node(buffer[offset:end], Stat(czxid, mzxid, version, owner)))
            offset = end + _STAT_SIZE
        return found


class SetWatches(_Unanswered, frozen=True):
    """Set many watches at once; for what has changed since `since`, an event comes at once instead.

    Made for reconnection; also useful for setting thousands of watches before one multi-read.
    """

    type: ClassVar[int] = 101
    since: Zxid
    data: Sequence[str] = ()
    existence: Sequence[str] = ()
    children: Sequence[str] = ()

    def serialize(self) -> bytes:
        """The zxid and three lists of paths."""
        lists = (self.data, self.existence, self.children)
        return _long.pack(self.since) + b"".join(_int.pack(len(paths)) + b"".join(map(text, paths)) for paths in lists)


class AddRecursiveWatch(_Unanswered, frozen=True):
    """Tell of each znode at or below a path that is created, changed or deleted; ZooKeeper 3.6 and later.

    It stays until it is removed, or its connection is lost, and never tells of children.

    Source: AddWatchRequest and AddWatchMode of ZooKeeper.
    """

    type: ClassVar[int] = 106
    path: str

    def serialize(self) -> bytes:
        """Path and mode."""
        return text(self.path) + _int.pack(1)


class RemoveWatches(_Unanswered, frozen=True):
    """Remove this session's watches at exactly this path, of every kind.

    Source: RemoveWatchesRequest and Watcher.WatcherType of ZooKeeper.
    """

    type: ClassVar[int] = 18
    path: str

    def serialize(self) -> bytes:
        """Path and kind."""
        return text(self.path) + _int.pack(3)


def set_watches(
    most_bytes: int, since: Zxid, data: Iterable[str] = (), existence: Iterable[str] = (), children: Iterable[str] = ()
) -> Iterator[SetWatches]:
    """Many watches in moderately sized requests, which no server's limit refuses."""
    for field, paths in (("data", data), ("existence", existence), ("children", children)):
        names = iter(sorted(paths))
        while piece := _take(names, most_bytes):
            yield SetWatches(since, **{field: piece})


def _take(names: Iterator[str], most_bytes: int) -> list[str]:
    taken: list[str] = []
    size = 0
    for name in islice(names, 10_000):
        taken.append(name)
        size += len(name) + 4
        if size >= most_bytes:
            break
    return taken


class Sync(_Unanswered, frozen=True):
    """Answered once this server shows everything written before, through any server; later requests then see it too.

    Source: FollowerRequestProcessor and CommitProcessor of ZooKeeper.
    """

    type: ClassVar[int] = 9
    path: str

    def serialize(self) -> bytes:
        """The path."""
        return text(self.path)


class Create(_Unanswered, frozen=True):
    """Create a znode, as a request or as part of a transaction.

    Without data it holds null, like znodes created by brokers: they distinguish null from no bytes, which is not JSON.
    """

    type: ClassVar[int] = 1
    path: str
    data: bytes | None = None
    ephemeral: bool = False
    acl: bytes = OPEN_TO_ALL
    sequential: bool = False

    def serialize(self) -> bytes:
        """Path, data, ACL, kind."""
        kind = _int.pack(self.ephemeral + 2 * self.sequential)
        size = -1 if self.data is None else len(self.data)
        return b"".join((text(self.path), _int.pack(size), self.data or b"", self.acl, kind))


class SetData(Struct, frozen=True):
    """Replace a znode's data, as a request or as part of a transaction."""

    type: ClassVar[int] = 5
    path: str
    data: bytes
    version: int

    def serialize(self) -> bytes:
        """Path, data, version expected."""
        return b"".join(
            (text(self.path), _int.pack(len(self.data)), self.data, _int.pack(self.version)),
        )

    def deserialize(self, buffer: bytes, offset: int) -> Stat:
        """The new stat."""
        return stat_at(buffer, offset)


class Delete(_Versioned, frozen=True):
    """Delete a znode, as part of a transaction."""

    type: ClassVar[int] = 2


class Check(_Versioned, frozen=True):
    """Fail unless the znode has this version, as part of a transaction."""

    type: ClassVar[int] = 13


Operation = Create | SetData | Delete | Check

_HEADERS: Final = {op: _header.pack(op, False, -1) for op in (1, 2, 5, 13)}


class Transaction(Struct, frozen=True):
    """Operations that all take effect, or none.

    Shape:
        Answered with one error code an operation, all `OK` when it was carried out. In a refused transaction
        one code is the reason; those before it are `OK`, those after it `RUNTIME_INCONSISTENCY`.
    """

    type: ClassVar[int] = 14
    body: bytes

    @property
    def size_bytes(self) -> int:
        """The size the server compares with its jute.maxbuffer: with the header, without the length in front of it."""
        return _REQUEST_HEADER.size + len(self.body)

    def serialize(self) -> bytes:
        """As built."""
        return self.body

    def deserialize(self, buffer: bytes, offset: int) -> list[int]:
        """The error codes."""
        codes: list[int] = []
        while True:
            kind, done, _err = _header.unpack_from(buffer, offset)
            if done:
                return codes
            offset += _header.size
            code = OK
            if kind == Create.type:
                offset += 4 + _int.unpack_from(buffer, offset)[0]
            elif kind == SetData.type:
                offset += _STAT_SIZE
            elif kind == -1:
                (code,) = _int.unpack_from(buffer, offset)
                offset += 4
            codes.append(code)


def transaction(operations: Iterable[Operation]) -> Transaction:
    """The operations as one request."""
    parts: list[bytes] = []
    for operation in operations:
        parts += (_HEADERS[operation.type], operation.serialize())
    parts.append(_END)
    return Transaction(b"".join(parts))


def refusal(codes: Sequence[int]) -> tuple[int, int] | None:
    """The index and code of the operation that was refused; None when the transaction was carried out.

    >>> refusal([0, 0]), refusal([0, -103, -2])
    (None, (1, -103))
    """
    return next(((i, c) for i, c in enumerate(codes) if c not in (OK, RUNTIME_INCONSISTENCY)), None)
