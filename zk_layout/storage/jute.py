"""How does ZooKeeper write numbers, texts and lists? Big-endian, lengths first, -1 for null.

Source: BinaryInputArchive and BinaryOutputArchive of ZooKeeper's jute.
"""

from __future__ import annotations

from struct import Struct, error

from zk_layout.storage.damage import Unreadable

int_at = Struct(">i").unpack_from
long_at = Struct(">q").unpack_from
_pack_int = Struct(">i").pack

# One entry, everything allowed, for everyone: the ACL of most znodes.
OPEN_ACL = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone"
READ_ACL = OPEN_ACL.replace(b"\x1f", b"\x01")

Acl = tuple[tuple[int, str, str], ...]


def text_at(buffer: bytes, at: int) -> tuple[str, int]:
    """A text and where it ends; null reads as the empty text.

    Raises:
        Unreadable: it is longer than the buffer, or not UTF-8.
    """
    start, end = _span(buffer, at)
    try:
        return buffer[start:end].decode(), end
    except UnicodeDecodeError as wrong:
        raise Unreadable(f"a text is not UTF-8: {wrong}") from wrong


def acl_end(buffer: bytes, at: int) -> int:
    """Where an access control list ends.

    Raises:
        Unreadable: it is longer than the buffer.
    """
    if buffer.startswith(OPEN_ACL, at):
        return at + len(OPEN_ACL)
    try:
        count = int_at(buffer, at)[0]
        at += 4
        for _ in range(max(count, 0)):
            _, at = _span(buffer, at + 4)
            _, at = _span(buffer, at)
    except error as wrong:
        raise Unreadable("an access control list is cut short") from wrong
    return at


def acl_of(encoded: bytes) -> Acl:
    """The entries of an encoded list: permission bits, scheme, id.

    >>> acl_of(OPEN_ACL)
    ((31, 'world', 'anyone'),)
    """
    entries = []
    at = 4
    for _ in range(max(int_at(encoded, 0)[0], 0)):
        permissions = int_at(encoded, at)[0]
        scheme, at = text_at(encoded, at + 4)
        identity, at = text_at(encoded, at)
        entries.append((permissions, scheme, identity))
    return tuple(entries)


def encode_text(text: str) -> bytes:
    """A text with its length.

    >>> text_at(encode_text("/brokers"), 0)
    ('/brokers', 12)
    """
    return encode_bytes(text.encode())


def encode_bytes(data: bytes | None) -> bytes:
    """A byte array with its length, or null."""
    return _pack_int(-1) if data is None else _pack_int(len(data)) + data


def _span(buffer: bytes, at: int) -> tuple[int, int]:
    try:
        length = int_at(buffer, at)[0]
    except error as wrong:
        raise Unreadable("a length is cut short") from wrong
    end = at + 4 + max(length, 0)
    if end > len(buffer):
        raise Unreadable(f"a length of {length} goes beyond the record")
    return at + 4, end
