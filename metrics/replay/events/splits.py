"""Into which splits is a history cut, what was the state before each, and which rows does it have?

A split can look up the former state of every topic and of `/admin/reassign_partitions`. So it does not matter where a
history is cut, nor how many servers' logs it comes from.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from msgspec import Struct, structs

from metrics.replay.events.intervals import Intervals
from metrics.replay.events.kafka_events import Meaning, known_rows
from metrics.replay.files.indexing import DEFAULT_SPLIT_BYTES
from metrics.replay.files.sources import Source, open_for_reading
from metrics.replay.files.state import END_OF_TIME, History, check_fit, count_of, fit_of, read_pieces
from zk_layout.storage.damage import Damage, Unreadable, not_read
from zk_layout.storage.files import StoredFile, is_compressed
from zk_layout.storage.jute import int_at
from zk_layout.storage.log_index import WholeWrite
from zk_layout.storage.operations import Row, append_rows
from zk_layout.storage.order import Piece, gap_between
from zk_layout.storage.snapshot import STAT_SIZE, SnapshotReader, SnapshotRow, row_size
from zk_layout.storage.txnlog import RECORD_HEADER_SIZE
from zk_layout.znodes import reassignment_status, waiting_moves

# As objects a snapshot's znodes take several times their size in the file.
_CHUNK_BYTES = 1 << 20
# So much of a snapshot's data is held, and of the rest its place; more if each access is a request to a store.
MOST_HELD_BYTES, MOST_HELD_FROM_ELSEWHERE_BYTES = 4 << 20, 64 << 20


class Place(Struct, frozen=True):
    """The part of a file that holds some data."""

    file: str
    start: int
    end: int


# The data itself, or the log and the record that hold it, or its place in a snapshot.
Whole = bytes | tuple[str, int] | Place


class Split(Struct, frozen=True):
    """A run of transactions, or the snapshot before the first log; and the state before it.

    Shape:
        `before` is the first zxid of the logs for a snapshot, 0 otherwise; `span` is the part of it to read, None
        for all. `known` has the former data of those always-whole znodes that it writes, by path.
    """

    number: int
    pieces: tuple[Piece, ...] = ()
    known: dict[str, Whole] = {}
    snapshot: StoredFile | None = None
    before: int = 0
    span: tuple[int, int] | None = None

    @property
    def zxids(self) -> tuple[int, int]:
        """The first and the last transaction."""
        return (self.pieces[0].first, self.pieces[-1].last) if self.pieces else (0, self.before - 1)

    @property
    def times_ms(self) -> tuple[int, int]:
        """The earliest and the latest time in it."""
        return min(p.from_ms for p in self.pieces), max(p.to_ms for p in self.pieces)


class Standing(Struct, frozen=True):
    """The always-whole znodes after a transaction."""

    zxid: int = 0
    known: dict[str, Whole] = {}


class LastWrites:
    """The last write of each always-whole znode before each split; one object serves all splits."""

    def __init__(self, known: Mapping[str, Whole]) -> None:
        """The state before the first split."""
        self._written: dict[str, tuple[list[int], list[Whole | None]]] = {}
        self.note(0, known)

    def note(self, number: int, written: Mapping[str, Whole | None]) -> None:
        """Note the last writes from this split on; None for a deleted znode."""
        for path, where in written.items():
            numbers, places = self._written.setdefault(path, ([], []))
            numbers.append(number)
            places.append(where)

    def before(self, number: int, path: str) -> Whole | None:
        """The state before a split; None for nothing."""
        numbers, places = self._written.get(path, ((), ()))
        position = bisect_right(numbers, number) - 1
        return places[position] if position >= 0 else None

    def at_end(self) -> dict[str, Whole]:
        """The state after the last split."""
        last = ((path, places[-1]) for path, (_, places) in self._written.items())
        return {path: where for path, where in last if where is not None}


class Plan(Struct, frozen=True):
    """Splits in the order of their transactions, damage at the beginning, and the state at the end."""

    splits: tuple[Split, ...]
    damage: tuple[Damage, ...]
    end: Standing
    last_writes: LastWrites
    beginning: StoredFile | None = None


class Done(Struct, frozen=True):
    """What was read before: the transactions up to `last`, by splits whose numbers are below `splits`."""

    last: int = -1
    splits: int = 0


def plan(  # the last three each bound what is planned
    history: History, split_bytes: int, chroot: str = "", since: Standing | None = None, until: int = END_OF_TIME,
    done: Done | None = None,
) -> Plan:  # fmt: skip
    """Cut a history, or its part after `since` up to `until`.

    The splits are as long as sections allow, and no shorter than `split_bytes`. None reaches across what is `done`.
    """
    damage: list[Damage] = []
    splits: list[Split] = []
    beginning = Beginning()
    if since is None:
        beginning = beginning_of(history, damage, chroot, split_bytes)
        if beginning.snapshot is not None:
            for span in beginning.spans or (None,):
                splits.append(Split(len(splits), snapshot=beginning.snapshot, before=history.first_zxid, span=span))
    last_writes, writes = LastWrites(beginning.known if since is None else since.known), _Writes(history, chroot)
    after, done = -1 if since is None else since.zxid, done or Done()
    number = len(splits)
    for first, pieces in (
        (number, _within(history.pieces, after, min(done.last, until))),
        (done.splits, _within(history.pieces, max(done.last, after), until)),
    ):
        number = max(number, first)
        for cut in _cut([*pieces], split_bytes):
            written = writes.of(cut)
            stood = {path: where for path in written if (where := last_writes.before(number, path)) is not None}
            splits.append(Split(number, cut, stood))
            number += 1
            last_writes.note(number, written)
    end = Standing(min(until, history.last_zxid), last_writes.at_end())
    return Plan(tuple(splits), tuple(damage), end, last_writes, beginning.snapshot)


def _within(pieces: Iterable[Piece], after: int, until: int) -> Iterator[Piece]:
    for piece in pieces:
        first, last = max(piece.first, after + 1), min(piece.last, until)
        if first <= last:
            yield structs.replace(piece, first=first, last=last)


class Beginning(Struct, frozen=True):
    """The snapshot that a history begins with, if any, and the always-whole znodes in it.

    Shape:
        `spans` are the parts that can be read independently; none if it is compressed, or not whole.
    """

    snapshot: StoredFile | None = None
    known: dict[str, Whole] = {}
    spans: tuple[tuple[int, int], ...] = ()


def beginning_of(
    history: History, damage: list[Damage], chroot: str = "", split_bytes: int = DEFAULT_SPLIT_BYTES
) -> Beginning:
    """The snapshot that shows the state before the first log; none if the log is complete, or there is no snapshot."""
    first = history.first_zxid
    if first == 1:
        return Beginning()
    known_by = partial(_known_by, history=history, damage=damage, chroot=chroot, split_bytes=split_bytes)
    found = _first_usable((s for s in history.snapshots if s.zxid < first), known_by)
    if not history.pieces:
        return found or Beginning(next(iter(history.snapshots), None))
    begin = history.pieces[0].file
    if found is not None and found.snapshot is not None:
        gap = gap_between(found.snapshot.zxid, first)
        if gap is not None:
            what = f"{count_of(gap)} missing before it, between {found.snapshot.path} and {first:#x}"
            damage.append(Damage(begin, 0, what))
        return found
    what = f"the history begins here, at {first:#x}, and no whole snapshot is from before: what was there is not known"
    later = _first_usable((s for s in reversed(history.snapshots) if s.zxid >= first), known_by)
    if later is not None and later.snapshot is not None:
        what += f", but for what {later.snapshot.path} shows unchanged"
    damage.append(Damage(begin, 0, what))
    return later or Beginning()


def rows_of(split: Split, damage: list[Damage]) -> Iterator[list[Row]]:
    """The rows of a split, batch by batch."""
    yield from read_pieces(split.pieces, damage)
    yield from known_before(split)


def known_before(split: Split) -> Iterator[list[Row]]:
    """The rows of its snapshot, if it is one. Its damage was reported when it was chosen."""
    if split.snapshot is None:
        return
    source = Source(split.snapshot)
    start, stop = split.span or (0, None)
    reader = SnapshotReader(split.snapshot.path, start)
    for chunk in source.chunks(start, stop):
        yield known_rows(reader.feed(chunk if stop is None else chunk[: stop - start]), split.before)
        start += len(chunk)
        if stop is not None and start >= stop:
            break


def meaning_of(
    split: Split, chroot: str = "", intervals: Intervals | None = None, last_writes: LastWrites | None = None
) -> Meaning:
    """The decoder of a split's rows; it looks up former state in the split itself, else in `last_writes`."""

    def look_up(path: str) -> bytes | None:
        where = split.known.get(path)
        if where is None and last_writes is not None:
            where = last_writes.before(split.number, path)
        return None if where is None else _read(where, path)

    # A snapshot itself shows the former state.
    return Meaning(chroot, intervals, look_up if split.snapshot is None else None)


def held(standing: Standing) -> Standing:
    """The same, but with data read from snapshots, which a live server soon deletes."""
    known = {path: _read(where, path) if isinstance(where, Place) else where for path, where in standing.known.items()}
    return structs.replace(standing, known=known)


def _read(where: Whole, path: str) -> bytes | None:
    if isinstance(where, bytes):
        return where
    if isinstance(where, tuple):
        return _written_at(*where, path)
    with open_for_reading(where.file) as file:
        file.seek(where.start)
        return file.read(where.end - where.start)


class _Writes:
    """The whole-znode writes in each log."""

    def __init__(self, history: History, chroot: str) -> None:
        self._by_file = {path: _Cursor(index.writes) for path, index in history.indexes.items()}
        self._below = f"{chroot}/"

    def of(self, pieces: Iterable[Piece]) -> dict[str, Whole | None]:
        """The last write of each znode in these pieces; None if it was deleted."""
        found: dict[str, Whole | None] = {}
        for piece in pieces:
            for write in self._by_file[piece.file].within(piece):
                if write.path.startswith(self._below):
                    where = (piece.file, write.offset) if write.data is None else write.data
                    found[write.path] = where if write.is_there else None
        return found


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
        # A compressed file would be read again from its start.
        goes_on = bool(held) and held[-1].file == piece.file and is_compressed(piece.file)
        if size >= split_bytes and not goes_on:
            yield tuple(held)
            held, size = [], 0
        held.append(piece)
        size += piece.end - piece.offset
    if held:
        yield tuple(held)


def _first_usable(
    snapshots: Iterable[StoredFile], known_by: Callable[[StoredFile], Beginning | None]
) -> Beginning | None:
    return next((found for snapshot in snapshots if (found := known_by(snapshot)) is not None), None)


def _known_by(
    snapshot: StoredFile, history: History, damage: list[Damage], chroot: str, split_bytes: int
) -> Beginning | None:
    """The always-whole znodes that the snapshot shows from before the logs; None if it is not whole itself.

    Raises:
        NotOneCluster: it is, but not of the logs' cluster.
    """
    topics = f"{chroot}/brokers/topics/"
    shown = _Shown(snapshot, chroot, history.first_zxid)
    source = Source(snapshot, min(_CHUNK_BYTES, split_bytes))
    reader, fit = SnapshotReader(snapshot.path), fit_of(snapshot, history)
    cuts = [0]
    try:
        for chunk in source.chunks():
            start = reader.offset if reader.is_within_znodes else None
            rows = reader.feed(chunk)
            fit.take(rows)
            shown.take(rows, start)
            is_due = reader.is_within_znodes and reader.offset - cuts[-1] >= split_bytes
            if is_due and (cut := _cut_within(rows, reader.offset, topics)):
                cuts.append(cut)
    except OSError as wrong:
        damage.append(not_read(snapshot.path, wrong))
        return None
    reader.finish()
    if not reader.is_whole or source.damage:
        damage += [*source.damage, *reader.damage]
        return None
    check_fit(snapshot, history, fit, damage)
    spans = () if snapshot.compression else tuple(pairwise([*cuts, reader.offset]))
    return Beginning(snapshot, shown.known, spans)


class _Shown:
    """The always-whole znodes that a snapshot shows from before the logs."""

    def __init__(self, snapshot: StoredFile, chroot: str, before: int) -> None:
        self.known: dict[str, Whole] = {}
        self._snapshot, self._before = snapshot, before
        self._legacy, topics = f"{chroot}/admin/reassign_partitions", f"{chroot}/brokers/topics/"
        self._below = (topics, f"{chroot}{reassignment_status.ROOT}/", f"{chroot}{waiting_moves.ROOT}/")
        is_elsewhere = "://" in snapshot.path
        self._left = MOST_HELD_FROM_ELSEWHERE_BYTES if is_elsewhere else MOST_HELD_BYTES

    def take(self, rows: Sequence[SnapshotRow], start: int | None) -> None:
        """Take znodes that follow each other, the first from `start` on; None if that is unknown."""
        if start is None or self._left > 0 or self._snapshot.compression:
            for row in rows:
                if self._is_wanted(row):
                    self.known[row[0]] = row[1] or b""
                    self._left -= len(row[1] or b"")
            return
        for row in rows:
            start += row_size(row)
            if self._is_wanted(row):
                end = start - STAT_SIZE
                self.known[row[0]] = Place(self._snapshot.path, end - len(row[1] or b""), end)

    def _is_wanted(self, row: SnapshotRow) -> bool:
        path = row[0]
        if row[1] is None or row[4] >= self._before:
            return False
        return path == self._legacy or any(path.startswith(b) and "/" not in path[len(b) :] for b in self._below)


def _cut_within(rows: Sequence[SnapshotRow], end: int, topics: str) -> int:
    """The start of the last topic among these znodes, which end at `end`, because a topic is never cut; 0 for none."""
    for row in reversed(rows):
        end -= row_size(row)
        if row[0].startswith(topics) and "/" not in row[0][len(topics) :]:
            return end
    return 0


def _written_at(log: str, offset: int, path: str) -> bytes | None:
    """The data that the record at `offset` wrote to a znode."""
    rows: list[Row] = []
    with open_for_reading(log) as file:
        file.seek(offset)
        header = file.read(RECORD_HEADER_SIZE)
        try:
            append_rows(file.read(int_at(header, 8)[0]), rows)
        except Unreadable:
            return None
    written = [row[8] for row in rows if row[7] == path and row[8] is not None and row[12] is None]
    return written[-1] if written else None
