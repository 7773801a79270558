"""Which transactions does a log hold, where can it be cut, and where are the writes with which later ones are compared?

However the log is damaged, the index finds the same records as the readers of rows: both use `Records`.
"""

from __future__ import annotations

import re
from struct import Struct

from msgspec import Struct as Value

from zk_layout.storage import operations
from zk_layout.storage.damage import Damage, Unreadable
from zk_layout.storage.txnlog import RECORD_HEADER_SIZE, Bodies, Records

# These znodes are written whole for any change: only a comparison with the previous write shows what changed.
_WHOLE = re.compile(
    r"(?:/.*)?(?:/brokers/topics/[^/]+|/admin/reassign_partitions|/admin/reassign_partitions_status/[^/]+"
    r"|/kafka_zk_controller/waiting_moves/[^/]+)"
)
# What the records of their writes contain; the second is also the begin of the paths of statuses.
_TOPIC_DATA, _LEGACY, _WAITING = b'"partitions"', b"/admin/reassign_partitions", b"/waiting_moves/"
# The possible deletions within a multi: type, two lengths and a path.
_deletion_in = re.compile(rb"\0\0\0\x02\0\0\0.\0\0\0./", re.DOTALL).search
_WRITES = operations.CREATIONS | {operations.SET_DATA, operations.RECONFIG}
_header_at = Struct(">qqi").unpack_from
_ZXID_AT = 12
_FRAME = RECORD_HEADER_SIZE + 1


class Section(Value, frozen=True):
    """A run of intact records that follow each other without a hole, in the file and in their zxids.

    Shape:
        `offset` is where the first one starts, `end` where the last one ends; `from_ms` and `to_ms` are the earliest
        and latest of their times, which need not rise. `count` is how many records there are.
    """

    offset: int
    end: int
    first: int
    last: int
    from_ms: int
    to_ms: int
    count: int = 0


class WholeWrite(Value, frozen=True):
    """A write of an always-whole znode: the start of its record, and the data if it may be needed.

    Shape:
        `is_there` is false if the znode was deleted. `data` is None if it can be looked up in the file.
    """

    zxid: int
    path: str
    offset: int
    is_there: bool = True
    data: bytes | None = None


class Index(Value, frozen=True):
    """What a log holds.

    Shape:
        `sections` is empty when the log holds no transaction; `end` is where its last record ends.
    """

    sections: tuple[Section, ...] = ()
    writes: tuple[WholeWrite, ...] = ()
    damage: tuple[Damage, ...] = ()
    end: int = 0

    @property
    def first_zxid(self) -> int:
        """The lowest zxid."""
        return min(section.first for section in self.sections)

    @property
    def last_zxid(self) -> int:
        """The highest zxid."""
        return max(section.last for section in self.sections)


class Indexer:
    """Indexes a file fed in order, from `offset` on: 0, the end of an earlier index, or with `is_lost` anywhere."""

    def __init__(
        self, file: str, step_bytes: int, *, keep_data: bool = False, offset: int = 0, stop: int | None = None,
        is_lost: bool = False,
    ) -> None:  # fmt: skip
        """No section is longer than `step_bytes` by more than one record; records start before `stop`.

        With `keep_data` it keeps the data of whole writes, for files in which nothing can be looked up later.
        """
        self._records = Records(file, offset, stop, is_lost=is_lost)
        self._step = step_bytes
        self._keep_data = keep_data
        self._sections: list[Section] = []
        self._writes: list[WholeWrite] = []
        self._fed = offset
        self._tail = b""
        self._noted_until = 0  # records that start after it write no whole znode
        self._start, self._end, self._due = 0, -1, 0
        self._first, self._next = 0, -1
        self._from_ms, self._to_ms = 0, 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._fed += len(chunk)
        across = self._tail + chunk[: len(_LEGACY)]
        if any(name in part for part in (chunk, across) for name in (_TOPIC_DATA, _LEGACY, _WAITING)):
            self._noted_until = self._fed
        self._tail = (across if len(chunk) < len(_LEGACY) else chunk)[-len(_LEGACY) :]
        self._take(self._records.feed(chunk))

    @property
    def records(self) -> Records:
        """The reader of records, with its position."""
        return self._records

    def result(self) -> Index:
        """The index, once the file has ended or everything before `stop` was read."""
        if not self._records.is_done:
            self._take(self._records.finish())
        self._close()
        end = max(self._end, 0)
        return Index(tuple(self._sections), tuple(self._writes), tuple(self._records.damage), end)

    def _take(self, taken: Bodies) -> None:
        for body, offset in zip(taken.bodies, taken.offsets, strict=True):
            zxid, time_ms, kind = _header_at(body, _ZXID_AT)
            if zxid == self._next and offset == self._end and offset < self._due:
                if time_ms > self._to_ms:
                    self._to_ms = time_ms
                elif time_ms < self._from_ms:
                    self._from_ms = time_ms
            else:
                self._close()
                self._start, self._due, self._first = offset, offset + self._step, zxid
                self._from_ms = self._to_ms = time_ms
            self._next, self._end = zxid + 1, offset + _FRAME + len(body)
            if (
                (offset < self._noted_until and (_TOPIC_DATA in body or _LEGACY in body or _WAITING in body))
                or kind == operations.DELETE
                or (kind == operations.MULTI and _deletion_in(body, operations.HEADER_SIZE))
            ):
                self._note(body, offset)

    def _close(self) -> None:
        if self._end >= 0:
            last = self._next - 1
            made = Section(
                self._start, self._end, self._first, last, self._from_ms, self._to_ms, last - self._first + 1
            )
            self._sections.append(made)

    def _note(self, body: bytes, offset: int) -> None:
        rows: list[operations.Row] = []
        try:
            operations.append_rows(body, rows)
        except Unreadable:  # the reader of the rows reports it
            return
        for row in rows:
            zxid, op, path, data = row[0], row[6], row[7], row[8]
            if row[12] is not None or not _WHOLE.fullmatch(path):
                continue
            if op in _WRITES:
                self._writes.append(WholeWrite(zxid, path, offset, True, (data or b"") if self._keep_data else None))
            elif op == operations.DELETE:
                self._writes.append(WholeWrite(zxid, path, offset, False))
