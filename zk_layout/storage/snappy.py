"""What do the snappy blocks of a snapshot hold? In the framing of snappy-java, which is not the standard one.

Source: the snappy format description; SnappyOutputStream and SnappyCodec of snappy-java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct

from zk_layout.storage.damage import Unreadable

MAGIC = b"\x82SNAPPY\0"
_HEADER_SIZE = 16
_length_at = Struct(">i").unpack_from

Decompress = Callable[[bytes], bytes]


def block_size(block: bytes) -> tuple[int, int]:
    """How many bytes a block holds, and where its elements start."""
    size = shift = at = 0
    while True:
        byte = block[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, at
        shift += 7


def decompress(block: bytes) -> bytes:
    """The contents of one block; slow, for machines without a library.

    >>> decompress(bytes([9, 0x08]) + b"abc" + bytes([0x01 | (2 << 2), 3]))
    b'abcabcabc'

    Raises:
        Unreadable: not a snappy block.
    """
    try:
        size, at = block_size(block)
        out = bytearray()
        while at < len(block):
            at = _element(block, at, out)
    except IndexError as wrong:
        raise Unreadable("a snappy block is cut short") from wrong
    if len(out) != size:
        raise Unreadable(f"a snappy block holds {len(out)} bytes instead of {size}")
    return bytes(out)


def _element(block: bytes, at: int, out: bytearray) -> int:
    tag = block[at]
    at += 1
    kind = tag & 3
    if kind == 0:
        length = tag >> 2
        if length >= 60:
            extra = length - 59
            length = int.from_bytes(block[at : at + extra], "little")
            at += extra
        out += block[at : at + length + 1]
        return at + length + 1
    if kind == 1:
        length, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | block[at]
        at += 1
    else:
        width = 2 if kind == 2 else 4
        length, offset = (tag >> 2) + 1, int.from_bytes(block[at : at + width], "little")
        at += width
    if offset == 0 or offset > len(out):
        raise Unreadable("a snappy block points before its start")
    while length > 0:
        start = len(out) - offset
        piece = out[start : start + min(length, offset)]
        out += piece
        length -= len(piece)
    return at


def unframed(chunks: Iterable[bytes], decompress_block: Decompress = decompress) -> Iterator[bytes]:
    """The contents, piece by piece.

    Raises:
        Unreadable: not in this framing, or cut short.
    """
    buffer = b""
    is_open = False
    for chunk in chunks:
        buffer += chunk
        at = 0
        if not is_open:
            if len(buffer) < _HEADER_SIZE:
                continue
            if not buffer.startswith(MAGIC):
                raise Unreadable("it does not start as a snappy stream")
            is_open, at = True, _HEADER_SIZE
        while at + 4 <= len(buffer):
            end = at + 4 + _length_at(buffer, at)[0]
            if end > len(buffer):
                break
            yield decompress_block(buffer[at + 4 : end])
            at = end
        buffer = buffer[at:]
    if buffer:
        raise Unreadable("the snappy stream is cut short")
