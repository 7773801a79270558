"""Which bytes encode a length, a text, a list of numbers? The reverse of `cursor`.

Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 for compact lengths and tagged fields.
"""

from __future__ import annotations

import struct

from controller.wire.cursor import int32s_layout

_INT16 = struct.Struct(">h")


def unsigned_varint(value: int) -> bytes:
    """One to five bytes.

    >>> unsigned_varint(1), unsigned_varint(300)
    (b'\\x01', b'\\xac\\x02')
    """
    if value < 0x80:
        return value.to_bytes(1, "big")
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class Packing:
    """The encoding of lengths, texts and numbers in one version: compact or not (KIP-482)."""

    def __init__(self, *, is_flexible: bool) -> None:
        self.is_flexible = is_flexible
        self.no_tags = b"\0" if is_flexible else b""

    def array(self, length: int) -> bytes:
        """The length of an array."""
        return unsigned_varint(length + 1) if self.is_flexible else length.to_bytes(4, "big")

    def string(self, text: str) -> bytes:
        """Text with its length."""
        return self.utf8(text.encode())

    def utf8(self, raw: bytes) -> bytes:
        """Encoded text with its length."""
        return (unsigned_varint(len(raw) + 1) if self.is_flexible else _INT16.pack(len(raw))) + raw

    def nullable_string(self, text: str | None) -> bytes:
        """Text with its length, or null."""
        if text is None:
            return b"\0" if self.is_flexible else b"\xff\xff"
        return self.string(text)

    def int32s(self, numbers: tuple[int, ...]) -> bytes:
        """Numbers with their count."""
        return self.array(len(numbers)) + int32s_layout(len(numbers)).pack(*numbers)


COMPACT = Packing(is_flexible=True)
LEGACY = Packing(is_flexible=False)
