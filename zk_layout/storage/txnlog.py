"""Which transactions does a transaction log hold, and where is it damaged?

A log is a header, then records, then zeros that the server wrote in advance. Each record is an Adler-32
checksum, a length, that many bytes, and the letter B. The reader takes the file in pieces of any size, so it
serves a local file, a decompressor, an object store and a file still being written alike.

Source: FileTxnLog, FilePadding of ZooKeeper.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import NamedTuple
from zlib import adler32

from zk_layout.storage.damage import Damage, Unreadable
from zk_layout.storage.operations import Row, append_rows

MAGIC = b"ZKLG"
HEADER_SIZE = 16
RECORD_HEADER_SIZE = 12
SMALLEST_BODY = 32
LARGEST_BODY = 128 << 20  # far above any server's limit for one request
LARGEST_SEARCHED = 16 << 20
END_OF_RECORD = 66
_ENOUGH_ZEROS = 4096  # to count as padding

record_at = Struct(">Qi").unpack_from


class _State(Enum):
    READING = "the next bytes are a record"
    PADDED = "the next bytes are the zeros written in advance"
    LOST = "the next record must be searched for"


class Bodies(NamedTuple):
    """Intact records of a log, in order: the body of each, and where in the file the record starts."""

    bodies: list[bytes]
    offsets: list[int]


def rows_of(taken: Bodies, file: str, damage: list[Damage]) -> list[Row]:
    """The rows of records; a record that is no transaction of ZooKeeper's goes to `damage`."""
    rows: list[Row] = []
    for body, offset in zip(taken.bodies, taken.offsets, strict=True):
        try:
            append_rows(body, rows)
        except Unreadable as wrong:
            damage.append(Damage(file, offset, str(wrong)))
    return rows


class Records:
    """Reads the file's bytes in order; each call returns the intact records completed by it that start before `stop`.

    It starts at `offset`, 0 or the start of a record, and reports to `damage` what is neither record nor padding.
    Anywhere else, `is_lost`, it looks for the next record first.
    """

    def __init__(self, file: str, offset: int = 0, stop: int | None = None, *, is_lost: bool = False) -> None:
        self.file = file
        self.damage: list[Damage] = []
        self.count = 0
        self._taken = Bodies([], [])
        self._base = offset  # where in the file `_rest` starts
        self._padding_at = offset
        self._stop = stop
        self._rest = b""
        self._state = _State.LOST if is_lost else _State.READING
        self._is_ending = False

    @property
    def is_at_record(self) -> bool:
        """Whether a record must come next, neither padding nor bytes after damage."""
        return self._state is _State.READING

    @property
    def is_padded(self) -> bool:
        """Whether zeros came last."""
        return self._state is _State.PADDED

    @property
    def offset(self) -> int:
        """Where the first record not yet returned starts or will start; reading may resume there."""
        return self._padding_at if self._state is _State.PADDED else self._base

    @property
    def is_done(self) -> bool:
        """Whether the rest of the file is not needed."""
        return self._stop is not None and self._base >= self._stop

    def feed(self, chunk: bytes) -> Bodies:
        """Take bytes; return every record that is complete now."""
        self._feed(chunk)
        return self._all_taken()

    def finish(self) -> Bodies:
        """Judge the rest at the end of the file: zeros are padding, anything else is a torn last record."""
        self._finish()
        return self._all_taken()

    def _all_taken(self) -> Bodies:
        taken, self._taken = self._taken, Bodies([], [])
        self.count += len(taken.bodies)
        return taken

    def _feed(self, chunk: bytes) -> None:
        end = self._end_of_begun(chunk)
        if end:
            # Do not copy the whole chunk for one record.
            self._advance(self._rest + chunk[:end], 0)
            if not self._rest and self._state is _State.READING:
                self._base -= end
                self._advance(chunk, end)
                return
            chunk = chunk[end:]
        buffer = self._rest + chunk if self._rest else chunk
        at = 0
        if self._base == 0:
            if len(buffer) < HEADER_SIZE:
                self._rest = buffer
                return
            at = HEADER_SIZE
            if not buffer.startswith(MAGIC):
                self._report(0, "not a transaction log: it does not start with ZKLG")
                self._state, at = _State.LOST, 1
        self._advance(buffer, at)

    def _finish(self) -> None:
        if self._base == 0 and not self._rest.strip(b"\0"):
            self._report(0, "empty: the server stopped before its first transaction")
            return
        self._is_ending = True
        self._advance(self._rest, 0)
        while self._state is _State.READING and not self.is_done and self._rest.strip(b"\0"):
            self._report(self._base, "torn record: the file ends inside it")
            # A damaged length hides everything behind it.
            self._state = _State.LOST
            self._advance(self._rest, 1)

    def _end_of_begun(self, chunk: bytes) -> int:
        """Where in the chunk a partly read record ends; 0 if there is none, or its end is not there yet."""
        begun = len(self._rest)
        if not begun or self._base == 0 or self._state is not _State.READING:
            return 0
        header = self._rest[:RECORD_HEADER_SIZE] + chunk[: max(RECORD_HEADER_SIZE - begun, 0)]
        if len(header) < RECORD_HEADER_SIZE:
            return 0
        end: int = RECORD_HEADER_SIZE + record_at(header)[1] + 1 - begun
        return end if 0 < end <= len(chunk) else 0

    def _advance(self, buffer: bytes, at: int) -> None:
        before = None
        while before != (at, self._state):
            before = (at, self._state)
            if self._state is _State.READING:
                at = self._read(buffer, at)
            elif self._state is _State.PADDED:
                at = self._skip_padding(buffer, at)
            else:
                at = self._search(buffer, at)
        self._base += at
        self._rest = buffer[at:]

    def _read(self, buffer: bytes, at: int) -> int:
        base, size = self._base, len(buffer)
        take, note = self._taken.bodies.append, self._taken.offsets.append
        stop = size if self._stop is None else self._stop - base
        while at + RECORD_HEADER_SIZE <= size and at < stop:
            checksum, length = record_at(buffer, at)
            end = at + RECORD_HEADER_SIZE + length
            if length < SMALLEST_BODY or length > LARGEST_BODY or checksum >> 32:
                at = self._not_a_record(at, checksum, length)
                break
            if end >= size:
                break
            body = buffer[at + RECORD_HEADER_SIZE : end]
            if buffer[end] != END_OF_RECORD or adler32(body) != checksum:
                following = self._not_intact(buffer, at, end)
                if following == at:
                    break
                at = following
                if self._state is not _State.READING:
                    break
                continue
            take(body)
            note(base + at)
            at = end + 1
        return at

    def _not_a_record(self, at: int, checksum: int, length: int) -> int:
        if checksum == 0 and length == 0:
            self._padding_at = self._base + at
            self._state = _State.PADDED
            return at
        self._report(self._base + at, f"no record here: its length would be {length}")
        self._state = _State.LOST
        return at + 1

    def _not_intact(self, buffer: bytes, at: int, end: int) -> int:
        """Where reading resumes after a record whose checksum or end mark is wrong."""
        if buffer[end] == END_OF_RECORD:
            self._report(self._base + at, "wrong checksum")
            return end + 1
        if not buffer[end:].strip(b"\0"):
            if len(buffer) - end < _ENOUGH_ZEROS and not self._is_ending:
                return at
            self._report(self._base + at, "torn record: only a part was written before the padding")
            self._padding_at = self._base + at
            self._state = _State.PADDED
            return end
        self._report(self._base + at, "wrong length or end of record")
        self._state = _State.LOST
        return at + 1

    def _skip_padding(self, buffer: bytes, at: int) -> int:
        behind = len(buffer) - len(buffer[at:].lstrip(b"\0"))
        if behind < len(buffer):
            zeros = self._base + behind - self._padding_at
            self._report(self._padding_at, f"{zeros} zeros before more records")
            self._state = _State.LOST
            # The first bytes of a checksum are zeros as well.
            return max(at, behind - RECORD_HEADER_SIZE)
        return max(at, len(buffer) - RECORD_HEADER_SIZE)

    def _search(self, buffer: bytes, at: int) -> int:
        found = _next_record(buffer, at)
        if found is None:
            return max(at, len(buffer) - LARGEST_SEARCHED)
        self._state = _State.READING
        return found

    def _report(self, offset: int, what: str) -> None:
        self.damage.append(Damage(self.file, offset, what))


def _next_record(buffer: bytes, at: int) -> int | None:
    """The next place from `at` on where a whole record with a right checksum starts."""
    size = len(buffer)
    while True:
        # The upper half of the checksum is always zero, and so is the first byte of a sensible length.
        at = buffer.find(b"\0\0\0\0", at)
        if at < 0 or at + RECORD_HEADER_SIZE > size:
            return None
        checksum, length = record_at(buffer, at)
        end = at + RECORD_HEADER_SIZE + length
        if (
            length >= SMALLEST_BODY
            and end < size
            and buffer[end] == END_OF_RECORD
            and adler32(buffer[at + RECORD_HEADER_SIZE : end]) == checksum
        ):
            return at
        if checksum == 0 and length == 0:
            skipped = len(buffer) - len(buffer[at:].lstrip(b"\0"))
            at = max(at + 1, skipped - RECORD_HEADER_SIZE)
        else:
            at += 1
