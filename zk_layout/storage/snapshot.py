"""Which znodes, sessions and access control lists does a snapshot hold, and is it whole?

A snapshot is taken while writes go on, so it is no state of any one moment: it becomes one when the log
behind its zxid has been applied.

Source: FileSnap, SnapStream, DataTree.serialize and ReferenceCountedACLCache of ZooKeeper.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct, error
from zlib import adler32

from zk_layout.storage.damage import Damage, Unreadable
from zk_layout.storage.jute import acl_end, encode_text, int_at, long_at, text_at

MAGIC = b"ZKSN"
HEADER_SIZE = 16
_SEAL = encode_text("/")
_SEAL_SIZE = 8 + len(_SEAL)
_session_at = Struct(">qi").unpack_from

# From a znode's data's end to its own: acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid
_stat_at = Struct(">qqqqqiiiqq").unpack_from
STAT_SIZE = 68

# path, data, acl key, czxid, mzxid, ctime_ms, mtime_ms, version, cversion, aversion, owner, pzxid
SnapshotRow = tuple[str, bytes | None, int, int, int, int, int, int, int, int, int, int]


def row_size(row: SnapshotRow) -> int:
    """How many bytes of the file a znode takes up."""
    path, data = row[0], row[1]
    return 8 + (0 if path == "/" else len(path.encode())) + len(data or b"") + STAT_SIZE


class _State(Enum):
    HEADER = "header"
    SESSIONS = "sessions"
    ACLS = "access control lists"
    ZNODES = "znodes"
    SEAL = "checksum"
    DIGEST = "digest"
    DIGEST_SEAL = "checksum behind the digest"
    LAST_ZXID = "last zxid"
    LAST_SEAL = "last checksum"
    END = "end"


class SnapshotReader:
    """Reads the decompressed bytes in order; each call returns the znodes completed by it.

    Shape:
        Parents come before their children; the root's path is "/". `digest` (zxid, version, value) is None
        where the server wrote none, `last_zxid` likewise. A snapshot `is_whole` when its checksum was right.
    """

    def __init__(self, file: str, offset: int = 0) -> None:
        """Start at the first byte, or at a znode; the latter shows no sessions and checks no checksum."""
        self.file = file
        self.damage: list[Damage] = []
        self.sessions: dict[int, int] = {}
        self.acls: dict[int, bytes] = {}
        self.digest: tuple[int, int, int] | None = None
        self.last_zxid: int | None = None
        self.is_whole = False
        self.offset = offset
        self._state = _State.ZNODES if offset else _State.HEADER
        self._left = -1  # of the list being read; -1 before its count
        self._rest = b""
        self._checksum = 1
        self._is_broken = False

    @property
    def is_within_znodes(self) -> bool:
        """Whether more znodes are to come; `offset` is then where the next one starts."""
        return self._state is _State.ZNODES

    def feed(self, chunk: bytes) -> list[SnapshotRow]:
        """The znodes that are complete now."""
        rows: list[SnapshotRow] = []
        if self._is_broken:
            return rows
        buffer = self._rest + chunk if self._rest else chunk
        at, state = 0, None
        try:
            while self._state is not state and self._state is not _State.END:
                state = self._state
                at = self._step(buffer, at, rows)
        except Unreadable as wrong:
            self._report(self.offset + at, str(wrong))
            self._is_broken = True
            return rows
        self._checksum = adler32(buffer[:at], self._checksum)
        self.offset += at
        self._rest = buffer[at:]
        return rows

    def finish(self) -> None:
        """Report damage if the file ends too early."""
        if self._is_broken or self._state is _State.END:
            return
        if self._state in (_State.DIGEST, _State.LAST_ZXID) and not self._rest:
            return
        self._report(self.offset, f"cut short in its {self._state.value}")

    def _step(self, buffer: bytes, at: int, rows: list[SnapshotRow]) -> int:
        match self._state:
            case _State.HEADER:
                return self._header(buffer, at)
            case _State.SESSIONS | _State.ACLS:
                return self._list(buffer, at)
            case _State.ZNODES:
                return self._znodes(buffer, at, rows)
            case _State.SEAL | _State.DIGEST_SEAL | _State.LAST_SEAL:
                return self._seal(buffer, at)
            case _State.DIGEST:
                return self._digest(buffer, at)
            case _State.LAST_ZXID:
                return self._last_zxid(buffer, at)
            case _State.END:
                return at

    def _header(self, buffer: bytes, at: int) -> int:
        if len(buffer) < HEADER_SIZE:
            return at
        if not buffer.startswith(MAGIC):
            raise Unreadable("not a snapshot: it does not start with ZKSN")
        self._state = _State.SESSIONS
        return at + HEADER_SIZE

    def _list(self, buffer: bytes, at: int) -> int:
        if self._left < 0:
            if at + 4 > len(buffer):
                return at
            self._left = max(int(int_at(buffer, at)[0]), 0)
            at += 4
        while self._left > 0:
            end = self._session(buffer, at) if self._state is _State.SESSIONS else self._acl(buffer, at)
            if end is None:
                return at
            at = end
            self._left -= 1
        self._left = -1
        self._state = _State.ACLS if self._state is _State.SESSIONS else _State.ZNODES
        return at

    def _session(self, buffer: bytes, at: int) -> int | None:
        if at + 12 > len(buffer):
            return None
        session, timeout_ms = _session_at(buffer, at)
        self.sessions[session] = timeout_ms
        return at + 12

    def _acl(self, buffer: bytes, at: int) -> int | None:
        if at + 12 > len(buffer):
            return None
        try:
            end = acl_end(buffer, at + 8)
        except Unreadable:
            return None
        self.acls[long_at(buffer, at)[0]] = buffer[at + 8 : end]
        return end

    def _znodes(self, buffer: bytes, at: int, rows: list[SnapshotRow]) -> int:
        size, append = len(buffer), rows.append
        try:
            while True:
                length = int_at(buffer, at)[0]
                start = at + 4
                end: int = start + length
                if length < 0:
                    raise Unreadable(f"a path's length is {length}")
                if length == 1 and buffer[start:end] == b"/":
                    self._state = _State.SEAL
                    return end
                data_length = int_at(buffer, end)[0]
                data_at = end + 4
                data_end = data_at + data_length if data_length > 0 else data_at
                if data_end + STAT_SIZE > size:
                    return at
                path = buffer[start:end].decode() or "/"
                data = buffer[data_at:data_end] if data_length >= 0 else None
                append((path, data, *_stat_at(buffer, data_end)))
                at = data_end + STAT_SIZE
        except error:
            return at
        except UnicodeDecodeError as wrong:
            raise Unreadable(f"a path is not UTF-8: {wrong}") from wrong

    def _seal(self, buffer: bytes, at: int) -> int:
        if at + _SEAL_SIZE > len(buffer):
            return at
        expected = long_at(buffer, at)[0]
        actual = adler32(buffer[:at], self._checksum)
        if buffer[at + 8 : at + _SEAL_SIZE] != _SEAL:
            raise Unreadable("the seal behind the checksum is wrong")
        if expected != actual:
            self._report(self.offset + at, f"wrong checksum of everything before: {actual}, not {expected}")
        elif self._state is _State.SEAL:
            self.is_whole = True
        following = {_State.SEAL: _State.DIGEST, _State.DIGEST_SEAL: _State.LAST_ZXID}
        self._state = following.get(self._state, _State.END)
        return at + _SEAL_SIZE

    def _digest(self, buffer: bytes, at: int) -> int:
        if at + 12 > len(buffer):
            return at
        zxid, version = _session_at(buffer, at)
        if version >= 2:
            if at + 20 > len(buffer):
                return at
            value, end = long_at(buffer, at + 12)[0], at + 20
        else:
            try:
                text, end = text_at(buffer, at + 12)
            except Unreadable:
                return at
            value = int(text or "0", 16)
        self.digest = (zxid, version, value)
        self._state = _State.DIGEST_SEAL
        return end

    def _last_zxid(self, buffer: bytes, at: int) -> int:
        if at + 8 > len(buffer):
            return at
        self.last_zxid = long_at(buffer, at)[0]
        self._state = _State.LAST_SEAL
        return at + 8

    def _report(self, offset: int, what: str) -> None:
        self.damage.append(Damage(self.file, offset, what))
