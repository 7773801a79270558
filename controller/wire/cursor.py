"""What does the next piece of a message say?

Reads Kafka's primitive types from untrusted bytes. No length is believed before the bytes are there: kio's own reader
allocates memory for whatever an array claims, which ends the process at two billion. It also refuses unknown error
codes and tagged fields, which the protocol wants tolerated.

What brokers tolerate is tolerated here, since clients are tested only against brokers: a negative length is null, a
number takes its lowest 32 bits, invalid UTF-8 is replaced, and trailing bytes are allowed.

Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 for compact lengths and tagged fields; Kafka's
MessageDataGenerator, Readable and ByteUtils for what is tolerated.
"""

from __future__ import annotations

import struct
from binascii import b2a_base64
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from controller.core.messages.errors import ErrorCode
from zk_layout.ids import BrokerId, Replicas, TopicId, TopicName

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_NO_UUID = bytes(16)
_LARGEST = 2**31 - 1
_LONGEST_PLACE = 200
UNLIMITED = 2**62
LONGEST_TEXT = 2**15 - 1
_ERROR_CODES = {int(code): code for code in ErrorCode}


class Malformed(ValueError):
    """The bytes are not the expected message; says what is wrong and where."""


@lru_cache(maxsize=256)
def int32s_layout(count: int) -> struct.Struct:
    """The layout of `count` 32-bit numbers in a row."""
    return struct.Struct(f">{count}i")


def topic_id_from_bytes(raw: bytes) -> TopicId | None:
    """A topic id as ZooKeeper spells it; all zeroes mean none.

    >>> topic_id_from_bytes(bytes(range(16)))
    'AAECAwQFBgcICQoLDA0ODw'
    """
    if raw == _NO_UUID:
        return None
    return TopicId(b2a_base64(raw, newline=False)[:22].translate(_URL_SAFE).decode("ascii"))


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def error_code(number: int) -> ErrorCode:
    """The error with this number; UNKNOWN_SERVER_ERROR for a number without a name here.

    >>> error_code(56).name, error_code(9999).name
    ('KAFKA_STORAGE_ERROR', 'UNKNOWN_SERVER_ERROR')
    """
    return _ERROR_CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


class Cursor:
    """A position in a message; every read advances it.

    Shape:
        The `what` of each read names the field for error messages. `least` is the size in bytes of the
        smallest possible entry of an array.

    Raises:
        Malformed: from every method, when the bytes do not hold what they claim, or when all arrays together have more
            than `most_entries`, of which each may become an object many times its size. With such a limit texts have
            one too: Kafka's own, which a compact length could exceed.
    """

    __slots__ = ("at", "data", "end", "entries_left", "is_flexible", "longest_text", "path")

    def __init__(self, data: bytes, at: int = 0, *, is_flexible: bool = False, most_entries: int | None = None) -> None:
        self.entries_left = UNLIMITED if most_entries is None else most_entries
        self.longest_text = UNLIMITED if most_entries is None else LONGEST_TEXT
        self.data = data
        self.at = at
        self.end = len(data)
        self.is_flexible = is_flexible
        self.path: list[str] = []

    def malformed(self, what: str, problem: str) -> Malformed:
        """The error for a field at this place."""
        return Malformed(f"{'.'.join([*self.path, what])[-_LONGEST_PLACE:]} {problem}, at byte {self.at} of {self.end}")

    def fixed(self, layout: struct.Struct, what: str) -> tuple[Any, ...]:
        """Several fields of fixed size at once."""
        at = self.at
        if at + layout.size > self.end:
            raise self.malformed(what, f"needs {layout.size} bytes but only {self.end - at} are left")
        self.at = at + layout.size
        return layout.unpack_from(self.data, at)

    def int8(self, what: str) -> int:
        """A signed 8-bit number."""
        return int(self.fixed(_INT8, what)[0])

    def int16(self, what: str) -> int:
        """A signed 16-bit number."""
        return int(self.fixed(_INT16, what)[0])

    def int32(self, what: str) -> int:
        """A signed 32-bit number."""
        return int(self.fixed(_INT32, what)[0])

    def int64(self, what: str) -> int:
        """A signed 64-bit number."""
        return int(self.fixed(_INT64, what)[0])

    def boolean(self, what: str) -> bool:
        """Anything but zero is true, as brokers read it."""
        return self.int8(what) != 0

    def error(self, what: str = "error_code") -> ErrorCode:
        """An error code."""
        return error_code(self.int16(what))

    def bytes_of(self, size: int, what: str) -> bytes:
        """The next `size` bytes."""
        at = self.at
        if size > self.end - at:
            raise self.malformed(what, f"needs {size} bytes but only {self.end - at} are left")
        self.at = at + size
        return self.data[at : at + size]

    def unsigned_varint(self, what: str) -> int:
        """A number in one to five bytes. Its lowest 32 bits count; negative if the highest of these is set, as in
        Java."""
        at = self.at
        value = shift = 0
        while True:
            if at >= self.end:
                raise self.malformed(what, "is cut off in the middle of a number")
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise self.malformed(what, "is a number of more than five bytes")
        self.at = at
        return value if value <= _LARGEST else (value + 2**31) % 2**32 - 2**31

    def _compact_length(self, what: str) -> int:
        one_more = self.unsigned_varint(what)
        return one_more - 1 if one_more > -(2**31) else _LARGEST

    def nullable_string(self, what: str) -> str | None:
        """Text, or None."""
        size = self._compact_length(what) if self.is_flexible else self.int16(what)
        if size < 0:
            return None
        self._check_text(size, what)
        raw = self.bytes_of(size, what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("utf-8", "replace")
            self._check_text(len(text.encode()), what)  # replacement made it longer, and it has to fit into an answer
            return text

    def _check_text(self, size: int, what: str) -> None:
        if size > self.longest_text:
            raise self.malformed(what, f"has {size} bytes, more than any text in a request")

    def bytes_with_length(self, what: str) -> bytes:
        """Bytes that are not text."""
        size = self._compact_length(what) if self.is_flexible else self.int32(what)
        if size < 0:
            raise self.malformed(what, "must not be null")
        return self.bytes_of(size, what)

    def string(self, what: str) -> str:
        """Text."""
        text = self.nullable_string(what)
        if text is None:
            raise self.malformed(what, "must not be null")
        return text

    def topic_name(self, what: str = "name") -> TopicName:
        """A topic's name."""
        return TopicName(self.string(what))

    def nullable_topic_name(self, what: str = "name") -> TopicName | None:
        """A topic's name, or None."""
        name = self.nullable_string(what)
        return None if name is None else TopicName(name)

    def topic_id(self, what: str = "topic_id") -> TopicId | None:
        """A topic's id; None if all its bytes are zero."""
        return topic_id_from_bytes(self.bytes_of(16, what))

    def array_length(self, what: str, least: int) -> int:
        """The number of entries that follow; negative for null."""
        length = self._compact_length(what) if self.is_flexible else self.int32(what)
        if length > 0:
            self._check_entries(length, least, what)
        return length

    def _check_entries(self, count: int, least: int, what: str) -> None:
        if count * least > self.end - self.at:
            raise self.malformed(what, f"claims {count} entries but only {self.end - self.at} bytes are left")
        self.entries_left -= count
        if self.entries_left < 0:
            raise self.malformed(what, f"has {-self.entries_left} entries more than one message may have")

    def nullable_array(self, what: str, least: int) -> Iterator[int] | None:
        """The positions of the entries that follow, or None; read one entry for each."""
        length = self.array_length(what, least)
        return None if length < 0 else self._entries(what, length)

    def array(self, what: str, least: int) -> Iterator[int]:
        """The positions of the entries that follow; read one entry for each."""
        entries = self.nullable_array(what, least)
        if entries is None:
            raise self.malformed(what, "must not be null")
        return entries

    def structs(self, what: str, least: int) -> Iterator[int]:
        """As `array`, of entries with fields: read those for each, the tagged ones behind them are passed over."""
        return self._with_tags(self.array(what, least))

    def nullable_structs(self, what: str, least: int) -> Iterator[int] | None:
        """The same, or None."""
        entries = self.nullable_array(what, least)
        return None if entries is None else self._with_tags(entries)

    def _with_tags(self, entries: Iterator[int]) -> Iterator[int]:
        for position in entries:
            yield position
            self.tags()

    def _entries(self, what: str, length: int) -> Iterator[int]:
        path = self.path
        for position in range(length):
            path.append(f"{what}[{position}]")
            yield position
            path.pop()

    def nullable_int32s(self, what: str) -> tuple[int, ...] | None:
        """Numbers, or None."""
        length = self.array_length(what, 4)
        return None if length < 0 else self.fixed(int32s_layout(length), what)

    def int32s(self, what: str) -> tuple[int, ...]:
        """Numbers."""
        numbers = self.nullable_int32s(what)
        if numbers is None:
            raise self.malformed(what, "must not be null")
        return numbers

    def replicas(self, what: str) -> Replicas:
        """Broker ids."""
        return tuple(map(BrokerId, self.int32s(what)))

    def tags(self) -> dict[int, bytes]:
        """The tagged fields, all optional; empty before flexible versions."""
        if not self.is_flexible:
            return {}
        if self.at < self.end and not self.data[self.at]:
            self.at += 1  # nearly always there are none
            return {}
        fields: dict[int, bytes] = {}
        count = self.unsigned_varint("tagged fields")
        self._check_entries(max(0, count), 2, "tagged fields")
        for _ in range(count):
            tag = self.unsigned_varint("tag")
            size = self.unsigned_varint("size of a tagged field")
            if size < 0:
                raise self.malformed("size of a tagged field", "is negative")
            fields[tag] = self.bytes_of(size, "tagged field")
        return fields

    def finish(self) -> None:
        """Check that the message ends here."""
        if self.at != self.end:
            raise Malformed(f"{self.end - self.at} bytes too many, from byte {self.at} of {self.end} on")
