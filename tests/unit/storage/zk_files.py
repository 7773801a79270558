"""How are ZooKeeper's files written, for tests and measurements?"""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack
from zlib import adler32

from zk_layout.storage.jute import OPEN_ACL, encode_bytes, encode_text

LOG_HEADER = b"ZKLG" + pack(">iq", 2, 0)
SNAPSHOT_HEADER = b"ZKSN" + pack(">iq", 2, -1)


def header(zxid: int, kind: int, session: int = 77, cxid: int = 1, time_ms: int = 1_700_000_000_000) -> bytes:
    return pack(">qiqqi", session, cxid, zxid, time_ms, kind)


def record(body: bytes) -> bytes:
    return pack(">Qi", adler32(body), len(body)) + body + b"B"


def create(path: str, data: bytes | None = b"", *, ephemeral: bool = False, cversion: int = 1) -> bytes:
    return encode_text(path) + encode_bytes(data) + OPEN_ACL + pack(">?i", ephemeral, cversion)


def create_v0(path: str, data: bytes | None = b"") -> bytes:
    return encode_text(path) + encode_bytes(data) + OPEN_ACL + b"\0"


def create_container(path: str, cversion: int = 1) -> bytes:
    return encode_text(path) + encode_bytes(b"") + OPEN_ACL + pack(">i", cversion)


def create_ttl(path: str, ttl_ms: int, cversion: int = 1) -> bytes:
    return encode_text(path) + encode_bytes(b"") + OPEN_ACL + pack(">iq", cversion, ttl_ms)


def delete(path: str) -> bytes:
    return encode_text(path)


def set_data(path: str, data: bytes | None, version: int) -> bytes:
    return encode_text(path) + encode_bytes(data) + pack(">i", version)


def set_acl(path: str, version: int, acl: bytes = OPEN_ACL) -> bytes:
    return encode_text(path) + acl + pack(">i", version)


def check(path: str, version: int) -> bytes:
    return encode_text(path) + pack(">i", version)


def number(value: int) -> bytes:
    return pack(">i", value)


def closed(*paths: str) -> bytes:
    return number(len(paths)) + b"".join(map(encode_text, paths))


def multi(*parts: tuple[int, bytes]) -> bytes:
    return number(len(parts)) + b"".join(number(op) + encode_bytes(body) for op, body in parts)


def digest(value: int) -> bytes:
    return pack(">iq", 2, value)


def log(*bodies: bytes, padding: int = 0) -> bytes:
    return LOG_HEADER + b"".join(map(record, bodies)) + bytes(padding)


def snapshot(
    znodes: Sequence[tuple[str, bytes | None]],
    sessions: dict[int, int] | None = None,
    *,
    zxid: int = 9,
    owner: int = 0,
    digest_zxid: int | None = None,
    last_zxid: int | None = None,
) -> bytes:
    parts = [SNAPSHOT_HEADER, number(len(sessions or {}))]
    parts += [pack(">qi", session, timeout) for session, timeout in (sessions or {}).items()]
    parts += [number(1), pack(">q", 1), OPEN_ACL]
    for path, data in znodes:
        stat = pack(">qqqqqiiiqq", 1, zxid, zxid, 10, 20, 3, 4, 5, owner, zxid)
        parts += [encode_text("" if path == "/" else path), encode_bytes(data), stat]
    content = sealed(b"".join([*parts, encode_text("/")]))
    if digest_zxid is not None:
        content = sealed(content + pack(">qiq", digest_zxid, 2, 123))
        if last_zxid is not None:
            content = sealed(content + pack(">q", last_zxid))
    return content


def sealed(content: bytes) -> bytes:
    return content + pack(">q", adler32(content)) + encode_text("/")


def snappy_framed(content: bytes, block_size: int = 1000) -> bytes:
    """Blocks of literals only: valid, though nothing is saved."""
    framed = [b"\x82SNAPPY\0" + pack(">ii", 1, 1)]
    for at in range(0, len(content), block_size):
        piece = content[at : at + block_size]
        size = bytes([len(piece) & 0x7F | 0x80, len(piece) >> 7]) if len(piece) > 127 else bytes([len(piece)])
        block = size + bytes([61 << 2]) + (len(piece) - 1).to_bytes(2, "little") + piece
        framed.append(pack(">i", len(block)) + block)
    return b"".join(framed)
