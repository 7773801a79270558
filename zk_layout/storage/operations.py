"""What does one transaction of the log do? Its body as rows, one for each part.

Source: zookeeper.jute, module txn; SerializeUtils.deserializeTxn and DataTree.processTxn of ZooKeeper.
"""

from __future__ import annotations

from struct import Struct, error

from zk_layout.storage.damage import Unreadable
from zk_layout.storage.jute import acl_end, int_at, long_at

CREATE, DELETE, SET_DATA, SET_ACL, CHECK, MULTI, CREATE2 = 1, 2, 5, 7, 13, 14, 15
RECONFIG, CREATE_CONTAINER, DELETE_CONTAINER, CREATE_TTL = 16, 19, 20, 21
CREATE_SESSION, CLOSE_SESSION, ERROR = -10, -11, -1

NAMES = {
    CREATE: "create",
    DELETE: "delete",
    SET_DATA: "setData",
    SET_ACL: "setACL",
    CHECK: "check",
    MULTI: "multi",
    CREATE2: "create2",
    RECONFIG: "reconfig",
    CREATE_CONTAINER: "createContainer",
    DELETE_CONTAINER: "deleteContainer",
    CREATE_TTL: "createTTL",
    CREATE_SESSION: "createSession",
    CLOSE_SESSION: "closeSession",
    ERROR: "error",
}

CREATIONS = frozenset((CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL))

ROLLED_BACK, RUNTIME_INCONSISTENCY = 0, -2
UNKNOWN_PARENT_CVERSION = -1

# ZooKeeper marks containers and nodes that expire in the field that names an ephemeral's session.
CONTAINER_OWNER = -(2**63)
_TTL_MASK = -(2**56)

HEADER_SIZE = 32
_ERROR_SIZE = 4
_header_at = Struct(">qiqqi").unpack_from
_part_at = Struct(">iii").unpack_from  # with the length of the path, with which every part begins

# zxid, time_ms, session, cxid, kind, part, op, path, data, version, owner, acl, error
Row = tuple[int, int, int, int, int, int, int, str, bytes | None, int, int, bytes, int | None]
COLUMNS = (
    "zxid", "time_ms", "session", "cxid", "kind", "part", "op",
    "path", "data", "version", "owner", "acl", "error",
)  # fmt: skip

# path, data, version, owner, acl, where it ends
_Part = tuple[str, bytes | None, int, int, bytes, int]


def is_session_owner(owner: int) -> bool:
    """Whether the owner is a session, whose end deletes the znode; not so for containers and expiring nodes."""
    return owner != 0 and owner != CONTAINER_OWNER and owner & _TTL_MASK != _TTL_MASK


def zxid_of(body: bytes) -> int:
    """A transaction's number."""
    zxid: int = long_at(body, 12)[0]
    return zxid


def agreed(body: bytes) -> bytes:
    """The part of a transaction that all servers of an ensemble log alike.

    The others depend on the server: the digest at the end (its version, its settings), the ephemerals that a
    closeSession lists (likewise), and the types of the parts of a failed multi: applying it makes all of them errors in
    memory, while another thread logs it. The bytes of the parts stay. An unreadable transaction counts as its header.

    Source: DataTree.processTxn, PrepRequestProcessor.pRequest and SerializeUtils.deserializeTxn of ZooKeeper.
    """
    kind = int_at(body, HEADER_SIZE - 4)[0]
    try:
        if kind == MULTI:
            return body[:HEADER_SIZE] + _agreed_of_multi(body)
        end = HEADER_SIZE if kind == CLOSE_SESSION else _part(body, HEADER_SIZE, kind, 0)[-1]
    except (error, UnicodeDecodeError, Unreadable):
        end = HEADER_SIZE
    return body[:end]


def _agreed_of_multi(body: bytes) -> bytes:
    parts: list[tuple[int, bytes]] = []
    at = HEADER_SIZE + 4
    for _ in range(int_at(body, HEADER_SIZE)[0]):
        op, length = int_at(body, at)[0], max(int_at(body, at + 4)[0], 0)
        at += 8 + length
        parts.append((op, body[at - length - 4 : at]))
    has_failed = any(op == ERROR for op, _ in parts)
    return b"".join((b"" if has_failed else op.to_bytes(4, signed=True)) + part for op, part in parts)


def append_rows(body: bytes, rows: list[Row]) -> None:
    """Give one row for each part of a transaction, in order.

    Shape:
        `kind` is the transaction's op code, `op` the part's; they differ only inside a multi. `version` is
        the new version for setData and setACL, one more than the expected one for check, the parent's new
        cversion for creations, the time-out for createSession. `error` is None for what took effect; in a
        multi of which one part failed, 0 marks the parts rolled back and -2 those never tried. A part rolled
        back is an error with a path if the server logged it after it had applied it (`agreed`). closeSession
        has one row without a path and one for each ephemeral that it lists.
    Raises:
        Unreadable: no transaction that ZooKeeper knows.
    """
    first = len(rows)
    try:
        session, cxid, zxid, time_ms, kind = _header_at(body, 0)
        if kind == SET_DATA:
            length = int_at(body, HEADER_SIZE)[0]
            path, data, version = _set_data(body, HEADER_SIZE + 4, length, len(body))
            rows.append((zxid, time_ms, session, cxid, kind, 0, kind, path, data, version, 0, b"", None))
        elif kind == MULTI:
            _append_multi(body, zxid, time_ms, session, cxid, rows)
        elif kind == CLOSE_SESSION:
            rows.append((zxid, time_ms, session, cxid, kind, 0, kind, "", None, 0, 0, b"", None))
            for part, path in enumerate(_closed_paths(body), 1):
                rows.append((zxid, time_ms, session, cxid, kind, part, kind, path, None, 0, 0, b"", None))
        else:
            path, data, version, owner, acl, end = _part(body, HEADER_SIZE, kind, session)
            if end > len(body):
                raise Unreadable("a transaction is cut short")
            failed = version if kind == ERROR else None
            rows.append((zxid, time_ms, session, cxid, kind, 0, kind, path, data, version, owner, acl, failed))
    except (error, UnicodeDecodeError, Unreadable) as wrong:
        del rows[first:]
        if isinstance(wrong, Unreadable):
            raise
        what = "a path is not UTF-8" if isinstance(wrong, UnicodeDecodeError) else "a transaction is cut short"
        raise Unreadable(what) from wrong


def _append_multi(body: bytes, zxid: int, time_ms: int, session: int, cxid: int, rows: list[Row]) -> None:
    at = HEADER_SIZE + 4
    size = len(body)
    first = len(rows)
    has_failed = False
    for number in range(int_at(body, HEADER_SIZE)[0]):
        op, length, path_length = _part_at(body, at)
        at += 8
        end = at + length if length > 0 else at
        if end > size:
            raise Unreadable(f"part {number} of a multi is cut short")
        if op == SET_DATA:
            path, data, version = _set_data(body, at + 4, path_length, end)
            rows.append((zxid, time_ms, session, cxid, MULTI, number, op, path, data, version, 0, b"", None))
        elif op == CHECK:  # the start of almost every transaction of a controller
            path_end = at + 4 + max(path_length, 0)
            if path_end + 4 > end:
                raise Unreadable(f"part {number} of a multi is cut short")
            path, version = body[at + 4 : path_end].decode(), int_at(body, path_end)[0]
            rows.append((zxid, time_ms, session, cxid, MULTI, number, op, path, None, version, 0, b"", None))
        else:
            if op == ERROR:
                (path, version, used), has_failed = _failed(body, at, length), True
                rows.append((zxid, time_ms, session, cxid, MULTI, number, op, path, None, version, 0, b"", version))
            else:
                path, data, version, owner, acl, used = _part(body, at, op, session)
                rows.append((zxid, time_ms, session, cxid, MULTI, number, op, path, data, version, owner, acl, None))
            if used > end:
                raise Unreadable(f"part {number} of a multi is cut short")
        at = end
    if has_failed:
        rows[first:] = _marked(rows[first:])


def _set_data(body: bytes, at: int, length: int, limit: int) -> tuple[str, bytes | None, int]:
    """A setData, as almost every transaction of a busy cluster; its path is `length` bytes from `at` on."""
    end = at + length if length > 0 else at
    size = int_at(body, end)[0]
    start = end + 4
    stop = start + size if size > 0 else start
    if stop + 4 > limit:
        raise Unreadable("a transaction is cut short")
    return body[at:end].decode(), body[start:stop] if size >= 0 else None, int_at(body, stop)[0]


def _failed(body: bytes, at: int, length: int) -> tuple[str, int, int]:
    """The path, the error code and the end of a part of type error.

    A part that failed holds only its code. Any other is the operation that it was, of which only the path is sure.
    """
    first: int = int_at(body, at)[0]
    if length == _ERROR_SIZE:
        return "", first, at + _ERROR_SIZE
    end = at + 4 + max(first, 0)
    return body[at + 4 : end].decode(), ROLLED_BACK, end


def _marked(rows: list[Row]) -> list[Row]:
    """Mark the rows of a multi: if one part failed, none took effect."""
    marked = []
    error_code = ROLLED_BACK
    for row in rows:
        if row[6] == ERROR:
            error_code = error_code if row[7] else RUNTIME_INCONSISTENCY
            marked.append(row)
        else:
            marked.append((*row[:12], error_code))
    return marked


def _part(body: bytes, at: int, op: int, session: int) -> _Part:
    """The fields of one operation. A length that is too large shows in the end, which the caller compares."""
    if op not in NAMES:
        raise Unreadable(f"there is no transaction of type {op}")
    if op in (CREATE_SESSION, ERROR):
        return "", None, int_at(body, at)[0], 0, b"", at + 4
    length = int_at(body, at)[0]
    at += 4
    end = at + length if length > 0 else at
    path = body[at:end].decode()
    if op in (DELETE, DELETE_CONTAINER):
        return path, None, 0, 0, b"", end
    if op == CHECK:
        return path, None, int_at(body, end)[0], 0, b"", end + 4
    if op == SET_ACL:
        after = acl_end(body, end)
        return path, None, int_at(body, after)[0], 0, body[end:after], after + 4
    length = int_at(body, end)[0]
    at = end + 4
    end = at + length if length > 0 else at
    data = body[at:end] if length >= 0 else None
    if op in (SET_DATA, RECONFIG):
        return path, data, int_at(body, end)[0], 0, b"", end + 4
    if op in (MULTI, CLOSE_SESSION):
        raise Unreadable(f"a {NAMES[op]} cannot be a part of a multi")
    after = acl_end(body, end)
    owner, cversion, used = _created(body, after, op, session)
    return path, data, cversion, owner, body[end:after], used


def _created(body: bytes, at: int, op: int, session: int) -> tuple[int, int, int]:
    """A new znode's owner, its parent's new cversion, and the record's end."""
    if op == CREATE_CONTAINER:
        return CONTAINER_OWNER, int_at(body, at)[0], at + 4
    if op == CREATE_TTL:
        return _TTL_MASK | long_at(body, at + 4)[0], int_at(body, at)[0], at + 12
    owner = session if body[at : at + 1] == b"\x01" else 0
    if at + 5 > len(body):
        # Logs of servers before 3.4 lack the parent's cversion.
        return owner, UNKNOWN_PARENT_CVERSION, at + 1
    return owner, int_at(body, at + 1)[0], at + 5


def _closed_paths(body: bytes) -> list[str]:
    """The ephemerals that a session's end deletes; servers before 3.6 do not list them."""
    end = _closed_paths_end(body)
    paths: list[str] = []
    if end is None:
        return paths
    at = HEADER_SIZE + 4
    while at < end:
        length = int_at(body, at)[0]
        paths.append(body[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return paths


def _closed_paths_end(body: bytes) -> int | None:
    """Where the list ends; None if there is none, though perhaps a digest (12 bytes)."""
    size = len(body)
    if size < HEADER_SIZE + 4:
        return None
    at = HEADER_SIZE + 4
    for _ in range(max(int_at(body, HEADER_SIZE)[0], 0)):
        if at + 4 > size:
            return None
        length = int_at(body, at)[0]
        at += 4 + length
        if length < 0 or at > size:
            return None
    return at
