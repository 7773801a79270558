"""Into which splits is a history cut, what was there when each begins, and which rows does it have?

A split knows how every topic, and `/admin/reassign_partitions`, stood before it. So it does not matter where a history
is cut, nor by how many servers' logs it is told.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, structs

from metrics.replay.intervals import Intervals
from metrics.replay.kafka_events import Meaning, known_rows
from metrics.replay.sources import Source, open_for_reading
from metrics.replay.state import END_OF_TIME, History, check_fit, count_of, fit_of, read_pieces
from zk_layout.storage.damage import Damage, Unreadable, not_read
from zk_layout.storage.files import StoredFile, is_compressed
from zk_layout.storage.jute import int_at
from zk_layout.storage.log_index import WholeWrite
from zk_layout.storage.operations import Row, append_rows
from zk_layout.storage.order import Piece, gap_between
from zk_layout.storage.snapshot import SnapshotReader
from zk_layout.storage.txnlog import RECORD_HEADER_SIZE

# The data itself, or the log and the record that hold it.
Whole = bytes | tuple[str, int]


class Split(Struct, frozen=True):
    """A run of transactions, or the snapshot before the first log; and what stood before it.

    Shape:
        `before` is the first zxid of the logs for a snapshot, 0 otherwise. `known` has the znodes that are always
        written whole, by path.
    """

    number: int
    pieces: tuple[Piece, ...] = ()
    known: dict[str, Whole] = {}
    snapshot: StoredFile | None = None
    before: int = 0

    @property
    def zxids(self) -> tuple[int, int]:
        """The first and the last transaction."""
        return (self.pieces[0].first, self.pieces[-1].last) if self.pieces else (0, self.before - 1)

    @property
    def times_ms(self) -> tuple[int, int]:
        """The earliest and the latest time in it."""
        return min(p.from_ms for p in self.pieces), max(p.to_ms for p in self.pieces)


class Standing(Struct, frozen=True):
    """What stood after a transaction: the znodes that are always written whole."""

    zxid: int = 0
    known: dict[str, Whole] = {}


class Plan(Struct, frozen=True):
    """Splits in the order of their transactions, what is missing at the beginning, and what stands at the end."""

    splits: tuple[Split, ...]
    damage: tuple[Damage, ...]
    end: Standing


def plan(
    history: History, split_bytes: int, chroot: str = "", since: Standing | None = None, until: int = END_OF_TIME
) -> Plan:
    """Cut a history, or what is in it behind `since` and not behind `until`.

    The splits are as long as sections allow, and no shorter than `split_bytes`.
    """
    damage: list[Damage] = []
    splits: list[Split] = []
    if since is None:
        snapshot, known = beginning_of(history, damage, chroot)
        if snapshot is not None:
            splits.append(Split(0, snapshot=snapshot, before=history.first_zxid))
    else:
        known = dict(since.known)
    writes = _Writes(history, chroot)
    after = -1 if since is None else since.zxid
    for pieces in _cut([*_within(history.pieces, after, until)], split_bytes):
        splits.append(Split(len(splits), pieces, dict(known)))
        for piece in pieces:
            writes.apply(piece, known)
    return Plan(tuple(splits), tuple(damage), Standing(min(until, history.last_zxid), known))


def _within(pieces: Iterable[Piece], after: int, until: int) -> Iterator[Piece]:
    for piece in pieces:
        first, last = max(piece.first, after + 1), min(piece.last, until)
        if first <= last:
            yield structs.replace(piece, first=first, last=last)


# A snapshot, and what stands in it of the znodes that are always written whole.
Beginning = tuple[StoredFile | None, dict[str, Whole]]


def beginning_of(history: History, damage: list[Damage], chroot: str = "") -> Beginning:
    """The snapshot that shows what was there before the first log; None if the log is complete, or there is none."""
    first = history.first_zxid
    if first == 1:
        return None, {}
    found = _first_usable((s for s in history.snapshots if s.zxid < first), history, damage, chroot)
    if not history.pieces:
        return found or (next(iter(history.snapshots), None), {})
    begin = history.pieces[0].file
    if found is not None:
        snapshot, _ = found
        gap = gap_between(snapshot.zxid, first)
        if gap is not None:
            what = f"{count_of(gap)} missing before it, between {snapshot.path} and {first:#x}"
            damage.append(Damage(begin, 0, what))
        return found
    what = f"the history begins here, at {first:#x}, and no whole snapshot is from before: what was there is not known"
    later = _first_usable((s for s in reversed(history.snapshots) if s.zxid >= first), history, damage, chroot)
    if later is not None:
        what += f", but for what {later[0].path} shows unchanged"
    damage.append(Damage(begin, 0, what))
    return later or (None, {})


def rows_of(split: Split, damage: list[Damage]) -> Iterator[list[Row]]:
    """The rows of a split, batch by batch. What is wrong with a snapshot was said when it was chosen."""
    yield from read_pieces(split.pieces, damage)
    if split.snapshot is None:
        return
    reader, source = SnapshotReader(split.snapshot.path), Source(split.snapshot)
    for chunk in source.chunks():
        yield known_rows(reader.feed(chunk), split.before)


def meaning_of(split: Split, chroot: str = "", intervals: Intervals | None = None) -> Meaning:
    """What decodes the rows of a split; it knows what stood before."""
    meaning = Meaning(chroot, intervals)
    by_file: dict[str, list[tuple[int, str]]] = {}
    for path, where in split.known.items():
        if isinstance(where, bytes):
            meaning.know(path, where)
        else:
            by_file.setdefault(where[0], []).append((where[1], path))
    for log, places in by_file.items():
        with open_for_reading(log) as file:
            for offset, path in sorted(places):
                data = _written_at(file, offset, path)
                if data is not None:
                    meaning.know(path, data)
    return meaning


class _Writes:
    """The writes of whole znodes in each log, followed in order."""

    def __init__(self, history: History, chroot: str) -> None:
        self._by_file = {path: _Cursor(index.writes) for path, index in history.indexes.items()}
        self._below = f"{chroot}/"

    def apply(self, piece: Piece, known: dict[str, Whole]) -> None:
        """Bring `known` to the end of a piece."""
        for write in self._by_file[piece.file].within(piece):
            if not write.path.startswith(self._below):
                continue
            if write.is_there:
                known[write.path] = (piece.file, write.offset) if write.data is None else write.data
            else:
                known.pop(write.path, None)


class _Cursor:
    def __init__(self, writes: Sequence[WholeWrite]) -> None:
        self._writes = writes
        self._offsets = [write.offset for write in writes]

    def within(self, piece: Piece) -> Iterator[WholeWrite]:
        for position in range(bisect_left(self._offsets, piece.offset), bisect_left(self._offsets, piece.end)):
            write = self._writes[position]
            if piece.first <= write.zxid <= piece.last:
                yield write


def _cut(pieces: Sequence[Piece], split_bytes: int) -> Iterator[tuple[Piece, ...]]:
    held: list[Piece] = []
    size = 0
    for piece in pieces:
        # What is compressed would be read again from its start.
        goes_on = bool(held) and held[-1].file == piece.file and is_compressed(piece.file)
        if size >= split_bytes and not goes_on:
            yield tuple(held)
            held, size = [], 0
        held.append(piece)
        size += piece.end - piece.offset
    if held:
        yield tuple(held)


def _first_usable(
    snapshots: Iterable[StoredFile], history: History, damage: list[Damage], chroot: str
) -> tuple[StoredFile, dict[str, Whole]] | None:
    for snapshot in snapshots:
        known = _known_by(snapshot, history, damage, chroot)
        if known is not None:
            return snapshot, known
    return None


def _known_by(snapshot: StoredFile, history: History, damage: list[Damage], chroot: str) -> dict[str, Whole] | None:
    """What it shows from before the logs of the znodes that are always written whole; None if it is not whole itself.

    Raises:
        NotOneCluster: it is, but not of the logs' cluster.
    """
    topics, legacy = f"{chroot}/brokers/topics/", f"{chroot}/admin/reassign_partitions"
    before = history.first_zxid
    known: dict[str, Whole] = {}
    source, reader, fit = Source(snapshot), SnapshotReader(snapshot.path), fit_of(snapshot, history)
    try:
        for chunk in source.chunks():
            rows = reader.feed(chunk)
            fit.take(rows)
            for path, data, _, _, mzxid, *_ in rows:
                is_topic = path.startswith(topics) and "/" not in path[len(topics) :]
                if data is not None and mzxid < before and (is_topic or path == legacy):
                    known[path] = data
    except OSError as wrong:
        damage.append(not_read(snapshot.path, wrong))
        return None
    reader.finish()
    if not reader.is_whole or source.damage:
        damage += [*source.damage, *reader.damage]
        return None
    check_fit(snapshot, history, fit, damage)
    return known


def _written_at(file: Any, offset: int, path: str) -> bytes | None:
    """What the record at `offset` made of a znode."""
    file.seek(offset)
    header = file.read(RECORD_HEADER_SIZE)
    rows: list[Row] = []
    try:
        append_rows(file.read(int_at(header, 8)[0]), rows)
    except Unreadable:
        return None
    written = [row[8] for row in rows if row[7] == path and row[8] is not None and row[12] is None]
    return written[-1] if written else None
