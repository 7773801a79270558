"""What did ZooKeeper hold at a zxid or a time? The newest fitting snapshot, and the log after it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from metrics.replay.files.indexing import DEFAULT_RANGE_BYTES, DEFAULT_SPLIT_BYTES, Work, here, indexed
from metrics.replay.files.known import NotKnown, check_known
from metrics.replay.files.snapshot_fit import Fit, is_logged
from metrics.replay.files.sources import Source
from zk_layout.storage.damage import Damage, not_read
from zk_layout.storage.files import LOG, SNAPSHOT, StoredFile, named
from zk_layout.storage.log_index import Index
from zk_layout.storage.operations import Row, agreed, zxid_of
from zk_layout.storage.order import Gap, Order, Piece, gap_between, in_order
from zk_layout.storage.snapshot import SnapshotReader
from zk_layout.storage.tree import Tree
from zk_layout.storage.txnlog import HEADER_SIZE, Bodies, Records, rows_of

END_OF_TIME = 2**63 - 1
_PROBED_BYTES = 1 << 20


class NotOneCluster(ValueError):
    """The files are of different clusters."""


class History(Struct, frozen=True):
    """The files of one cluster's servers, the index of each log, the order of reading, and damage.

    Shape:
        `indexes` has an entry for each log with transactions.
    """

    files: tuple[StoredFile, ...]
    indexes: dict[str, Index]
    order: Order
    damage: tuple[Damage, ...]

    @property
    def logs(self) -> tuple[StoredFile, ...]:
        """The logs that hold transactions, in zxid order."""
        held = (f for f in self.files if f.path in self.indexes)
        return tuple(sorted(held, key=lambda f: (self.indexes[f.path].first_zxid, f)))

    @property
    def snapshots(self) -> tuple[StoredFile, ...]:
        """The snapshots, newest first."""
        return tuple(sorted((f for f in self.files if f.kind == SNAPSHOT), reverse=True))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces of logs to read, in order."""
        return self.order.pieces

    @property
    def first_zxid(self) -> int:
        """The first transaction in any log; without logs, a zxid beyond all."""
        return self.pieces[0].first if self.pieces else END_OF_TIME

    @property
    def last_zxid(self) -> int:
        """The last transaction in any log."""
        return self.pieces[-1].last if self.pieces else 0


def survey(
    files: tuple[StoredFile, ...],
    split_bytes: int = DEFAULT_SPLIT_BYTES,
    work: Work = here,
    range_bytes: int = DEFAULT_RANGE_BYTES,
) -> History:
    """Index all logs: what each holds, where it can be cut, and what is damaged or missing.

    Raises:
        NotOneCluster: two logs have different transactions of one zxid.
    """
    found = indexed([file for file in files if file.kind == LOG], split_bytes, work, range_bytes)
    damage = [damaged for index in found.values() for damaged in index.damage]
    return history_of(files, {path: index for path, index in found.items() if index.sections}, damage)


def history_of(files: tuple[StoredFile, ...], indexes: dict[str, Index], damage: list[Damage]) -> History:
    """The history of indexed logs.

    Raises:
        NotOneCluster: two logs have different transactions of one zxid.
    """
    order = in_order({path: index.sections for path, index in indexes.items()})
    _check_that_all_agree(indexes, order)
    lost = [missing(gap, piece) for gap, piece in order.gaps]
    for dead in order.uncommitted:
        what = f"transactions {dead.first:#x} to {dead.last:#x} never took effect: the next epoch began without them"
        lost.append(Damage(dead.file, 0, what))
    return History(files, indexes, order, (*damage, *lost))


def missing(gap: Gap, piece: Piece) -> Damage:
    """Transactions that are in no log, as damage of the log that continues after them."""
    what = f"{count_of(gap)} missing before it, between {gap.after:#x} and {gap.before:#x}"
    return Damage(piece.file, 0 if piece.offset <= HEADER_SIZE else piece.offset, what)


def count_of(gap: Gap) -> str:
    """A number of transactions, in words."""
    if gap.missing is None:
        return "an unknown number of transactions"
    return f"{gap.missing} transaction{'' if gap.missing == 1 else 's'}"


def read_pieces(pieces: Sequence[Piece], damage: list[Damage]) -> Iterator[list[Row]]:
    """The rows of pieces, batch by batch."""
    for file, taken in read_records(pieces, damage):
        yield rows_of(taken, file, damage)


def read_records(pieces: Sequence[Piece], damage: list[Damage]) -> Iterator[tuple[str, Bodies]]:
    """The records of pieces with their file, batch by batch. The index has reported their damage already."""
    for path, group in groupby(pieces, key=lambda piece: piece.file):
        file = _file(path)
        if file.compression:
            # It can only be read from its first byte, so all of it is read at once.
            yield from _read(file, [*group], damage)
        else:
            for piece in group:
                yield from _read(file, [piece], damage)


def _read(file: StoredFile, pieces: Sequence[Piece], damage: list[Damage]) -> Iterator[tuple[str, Bodies]]:
    start = 0 if file.compression else pieces[0].offset
    wanted = _Wanted(pieces)
    records = Records(file.path, start, pieces[-1].end)
    count = 0
    try:
        for taken in _taken(Source(file), records, start, pieces[-1].end):
            kept = wanted.of(taken)
            count += len(kept.bodies)
            yield file.path, kept
    except OSError as wrong:
        damage.append(not_read(file.path, wrong, start))
    expected = sum(piece.last - piece.first + 1 for piece in pieces)
    if count != expected:
        what = f"changed while it was read: {count} transactions, not {expected}"
        damage.append(Damage(file.path, pieces[0].offset, what))


def _taken(source: Source, records: Records, start: int, end: int) -> Iterator[Bodies]:
    for chunk in source.chunks(start, end):
        yield records.feed(chunk)
        if records.is_done:
            return
    yield records.finish()


class _Wanted:
    """The records to take from a file."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._offsets = [piece.offset for piece in pieces]
        (first, *more) = pieces
        self._is_everything = (
            not more and not _file(first.file).compression and first.records == first.last - first.first + 1
        )

    def of(self, taken: Bodies) -> Bodies:
        """The records to take, out of these."""
        if self._is_everything:
            return taken
        kept = [at for at in zip(*taken, strict=True) if self._is_one(*at)]
        return Bodies([body for body, _ in kept], [offset for _, offset in kept])

    def _is_one(self, body: bytes, offset: int) -> bool:
        position = bisect_right(self._offsets, offset) - 1
        if position < 0:
            return False
        piece = self._pieces[position]
        return offset < piece.end and piece.first <= zxid_of(body) <= piece.last


def _file(path: str) -> StoredFile:
    file = named(path)
    if file is None:
        raise ValueError(f"{path} is not named like a file of ZooKeeper")
    return file


def history_rows(history: History, damage: list[Damage], after: int = 0) -> Iterator[Row]:
    """The rows of all transactions after `after`, in order, each once."""
    for rows in read_pieces([piece for piece in history.pieces if piece.last > after], damage):
        for row in rows:
            if row[0] > after:
                yield row


def zxid_at(history: History, time_ms: int) -> int:
    """The last transaction up to a time; 0 if there is none."""
    for piece in reversed(history.pieces):
        if piece.from_ms <= time_ms:
            zxids = [row[0] for rows in read_pieces([piece], []) for row in rows if row[1] <= time_ms]
            if zxids:
                return zxids[-1]
    return 0


def _check_that_all_agree(indexes: dict[str, Index], order: Order) -> None:
    """Compare the first and the last transaction of each log with the same ones of other logs."""
    for path, index in indexes.items():
        for zxid in {index.first_zxid, index.last_zxid}:
            taken = next((piece for piece in order.pieces if piece.first <= zxid <= piece.last), None)
            if taken is None or taken.file == path:
                continue
            own = next(s for s in index.sections if s.first <= zxid <= s.last)
            here, there = _body(path, own.offset, own.end, zxid), _body(taken.file, taken.offset, taken.end, zxid)
            if agreed(here) != agreed(there):
                both = f"{path} and {taken.file} are not of one cluster: transaction {zxid:#x} differs"
                raise NotOneCluster(f"{both}; give the files of one cluster")


def _body(path: str, offset: int, end: int, zxid: int) -> bytes:
    """The body of one transaction; empty if it is no longer there."""
    file = _file(path)
    start = 0 if file.compression else offset
    for taken in _taken(Source(file, _PROBED_BYTES), Records(path, start, end), start, end):
        for body, at in zip(*taken, strict=True):
            if at >= offset and zxid_of(body) == zxid:
                return body
    return b""


def fit_of(file: StoredFile, history: History) -> Fit:
    """The comparison of a snapshot with the logs."""
    return Fit(file.zxid, history.pieces, history_rows(history, [], after=file.zxid))


def check_fit(file: StoredFile, history: History, fit: Fit, damage: list[Damage]) -> None:
    """Judge a whole snapshot after its comparison.

    Raises:
        NotOneCluster: it contradicts the logs.
    """
    wrong = fit.contradiction
    for sample in fit.samples if wrong is None else ():
        zxid, path, _ = sample
        piece = next(piece for piece in history.pieces if piece.first <= zxid <= piece.last)
        rows = rows_of(Bodies([_body(piece.file, piece.offset, piece.end, zxid)], [0]), piece.file, [])
        if rows and not is_logged(sample, rows):
            wrong = f"transaction {zxid:#x} did not write {path}"
    if wrong is not None:
        raise NotOneCluster(f"{file.path} and the logs are not of one cluster: {wrong}; give the files of one cluster")
    if fit.doubt is not None:
        why = "transactions between them are missing, or they are of different clusters"
        damage.append(Damage(file.path, 0, f"does not fit the log behind it: {fit.doubt}: {why}"))


def tree_of_snapshot(file: StoredFile, damage: list[Damage], fit: Fit | None = None) -> tuple[Tree, bool, int]:
    """The znodes of a snapshot, whether it is whole, and the last zxid whose effects it may show."""
    source = Source(file)
    reader = SnapshotReader(file.path)
    tree = Tree.of_snapshot((), {}, {}, file.zxid)
    fuzzy_until = file.zxid
    for chunk in source.chunks():
        rows = reader.feed(chunk)
        if fit is not None:
            fit.take(rows)
        for row in rows:
            tree.add(row, reader.acls)
            fuzzy_until = max(fuzzy_until, row[3], row[4], row[11])
    reader.finish()
    tree.sessions = reader.sessions
    damage += [*source.damage, *reader.damage]
    if reader.digest is not None:
        fuzzy_until = max(fuzzy_until, reader.digest[0])
    return tree, reader.is_whole and not source.damage, fuzzy_until


def state_at(history: History, damage: list[Damage], as_of: int = END_OF_TIME) -> Tree:
    """All znodes and sessions after the transaction `as_of`, or at the end.

    Like ZooKeeper it starts from the newest whole snapshot, but never from one that shows effects of later
    transactions. Not every effect shows: a znode that was deleted between the moments at which its parent and it were
    to be written is missing without a trace.

    Raises:
        NotOneCluster: a snapshot contradicts the logs.
        NotKnown: no file shows that state.
    """
    return state_since(history, damage, as_of)[0]


def state_since(history: History, damage: list[Damage], as_of: int = END_OF_TIME) -> tuple[Tree, int]:
    """The same, and the transaction from which on it is known, if nothing shows the time before; else 0."""
    tree, since = _start(history, damage, as_of)
    if as_of != END_OF_TIME:
        check_known(history.pieces, (file.zxid for file in history.snapshots), tree.last_zxid, as_of)
    for row in history_rows(history, damage, after=tree.last_zxid):
        if row[0] > as_of:
            break
        tree.apply(row)
    return tree, since


def _start(history: History, damage: list[Damage], as_of: int) -> tuple[Tree, int]:
    first = history.first_zxid
    for file in history.snapshots:
        if file.zxid > as_of or _is_of_birth(file, first):
            continue
        try:
            fit = fit_of(file, history)
            tree, is_whole, fuzzy_until = tree_of_snapshot(file, damage, fit)
        except OSError as wrong:
            damage.append(not_read(file.path, wrong))
            continue
        if is_whole and fuzzy_until <= as_of:
            check_fit(file, history, fit, damage)
            _report_hole(file, history, damage, as_of)
            return tree, 0
    if first == END_OF_TIME:
        why = "; ".join(map(str, damage)) or "there is no whole snapshot"
        raise NotKnown(f"nothing is known: no log holds a transaction, and no snapshot shows that state ({why})")
    if 1 < first < END_OF_TIME:
        damage.append(
            Damage(history.pieces[0].file, 0, f"no snapshot before it fits, and it begins only at {first:#x}")
        )
        return Tree(), first
    return Tree(), 0


def _is_of_birth(file: StoredFile, first: int) -> bool:
    """Whether a snapshot is the empty one of a server that got its znodes from others, before its first log."""
    return file.zxid == 0 and first != END_OF_TIME and gap_between(0, first) is not None


def _report_hole(file: StoredFile, history: History, damage: list[Damage], as_of: int) -> None:
    """Report transactions that are missing between a snapshot and what was written after it."""
    following = next((piece for piece in history.pieces if piece.last > file.zxid), None)
    if following is not None and following.first <= as_of:
        gap = gap_between(file.zxid, max(following.first, file.zxid + 1))
        if gap is not None:
            what = f"{count_of(gap)} missing before it, between {file.path} and {following.first:#x}"
            damage.append(Damage(following.file, 0, what))
