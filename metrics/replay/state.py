"""What did ZooKeeper hold at a zxid or a time? The newest fitting snapshot, and the log behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from metrics.replay.sources import Source, leaping
from zk_layout.storage.damage import Damage
from zk_layout.storage.files import LOG, SNAPSHOT, Span, StoredFile, gaps, overlaps
from zk_layout.storage.log_index import Index, Indexer
from zk_layout.storage.operations import Row
from zk_layout.storage.snapshot import SnapshotReader
from zk_layout.storage.tree import Tree
from zk_layout.storage.txnlog import TxnLogReader

DEFAULT_SPLIT_BYTES = 32 << 20
END_OF_TIME = 2**63 - 1

Progress = Callable[[str, int], None]


class History(Struct, frozen=True):
    """The files of one server, what each log holds, and what is wrong or missing.

    Shape:
        `indexes` has an entry for each log with transactions. `shared` gives, by log, the zxids taken from a
        later one.
    """

    files: tuple[StoredFile, ...]
    indexes: dict[str, Index]
    shared: dict[str, tuple[tuple[int, int], ...]]
    damage: tuple[Damage, ...]

    @property
    def logs(self) -> tuple[StoredFile, ...]:
        """The logs that hold transactions, in zxid order."""
        held = (f for f in self.files if f.path in self.indexes)
        return tuple(sorted(held, key=lambda f: self.indexes[f.path].splits[0].zxid))

    @property
    def snapshots(self) -> tuple[StoredFile, ...]:
        """The snapshots, newest first."""
        return tuple(sorted((f for f in self.files if f.kind == SNAPSHOT), reverse=True))

    @property
    def last_zxid(self) -> int:
        """The last transaction in any log."""
        return max((index.last_zxid for index in self.indexes.values()), default=0)


def survey(files: tuple[StoredFile, ...], split_bytes: int = DEFAULT_SPLIT_BYTES) -> History:
    """Hop through all logs once: where they can be cut, and what is missing between them."""
    indexes = {}
    damage: list[Damage] = []
    for file in files:
        if file.kind == LOG:
            index = index_of(file, split_bytes)
            if index.splits:
                indexes[file.path] = index
            else:
                damage += _why_empty(file)
    spans = [Span(path, index.splits[0].zxid, index.last_zxid) for path, index in indexes.items()]
    for gap in gaps(spans):
        count = "an unknown number of" if gap.missing is None else gap.missing
        what = f"{count} transactions missing before it, between {gap.after:#x} and {gap.before:#x}"
        damage.append(Damage(gap.next_file, 0, what))
    return History(files, indexes, overlaps(spans), tuple(damage))


def index_of(file: StoredFile, split_bytes: int = DEFAULT_SPLIT_BYTES) -> Index:
    """Where one log can be cut. A compressed one cannot, so that only its first split stays."""
    if file.compression:
        indexer = Indexer(END_OF_TIME, keep_topics=True)
        for chunk in Source(file).chunks():
            if not indexer.feed(chunk):
                break
        return indexer.result()
    indexer = Indexer(split_bytes, may_leap=True)
    for chunk in leaping(file, lambda: indexer.wanted):
        if not indexer.feed(chunk):
            break
    return indexer.result()


def read_log(file: StoredFile, damage: list[Damage], start: int = 0, stop: int | None = None) -> Iterator[list[Row]]:
    """The rows of a log, or of the records that start within a part of it, batch by batch."""
    source = Source(file)
    reader = TxnLogReader(file.path, start, stop)
    for chunk in source.chunks(start, stop):
        yield reader.feed(chunk)
        if reader.is_done:
            break
    yield reader.finish()
    damage += [*source.damage, *reader.damage]


def history_rows(history: History, damage: list[Damage], after: int = 0) -> Iterator[Row]:
    """The rows of all transactions behind `after`, in order, each once."""
    logs = history.logs
    for position, file in enumerate(logs):
        following = logs[position + 1] if position + 1 < len(logs) else None
        if following and history.indexes[following.path].splits[0].zxid <= after + 1:
            continue
        shared = history.shared.get(file.path, ())
        for rows in read_log(file, damage):
            for row in rows:
                if row[0] > after and not any(first <= row[0] <= last for first, last in shared):
                    yield row


def zxid_at(history: History, time_ms: int) -> int:
    """The last transaction not later than a time; 0 when there is none."""
    found = 0
    for file in history.logs:
        for row in _rows_around(file, history.indexes[file.path], time_ms):
            if row[1] <= time_ms:
                found = max(found, row[0])
    return found


def _rows_around(file: StoredFile, index: Index, time_ms: int) -> Iterator[Row]:
    before = [split for split in index.splits if split.time_ms <= time_ms]
    if not before:
        return
    start = before[-1].offset if not file.compression else 0
    behind = next((split.offset for split in index.splits if split.offset > start), None)
    if file.compression:
        behind = None
    for rows in read_log(file, [], start, behind):
        yield from rows


def tree_of_snapshot(file: StoredFile, damage: list[Damage]) -> tuple[Tree, bool, int]:
    """The znodes a snapshot shows, whether it is whole, and up to which zxid it may show effects."""
    source = Source(file)
    reader = SnapshotReader(file.path)
    tree = Tree.of_snapshot((), {}, {}, file.zxid)
    fuzzy_until = file.zxid
    for chunk in source.chunks():
        for row in reader.feed(chunk):
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

    Like ZooKeeper it starts from the newest snapshot that is whole, but never from one that may already show
    what came after `as_of`.
    """
    tree = _start(history, damage, as_of)
    for row in history_rows(history, damage, after=tree.last_zxid):
        if row[0] > as_of:
            break
        tree.apply(row)
    return tree


def _start(history: History, damage: list[Damage], as_of: int) -> Tree:
    for file in history.snapshots:
        if file.zxid > as_of:
            continue
        tree, is_whole, fuzzy_until = tree_of_snapshot(file, damage)
        if is_whole and fuzzy_until <= as_of:
            return tree
    first = min((i.splits[0].zxid for i in history.indexes.values()), default=1)
    if first != 1:
        path = history.logs[0].path
        damage.append(Damage(path, 0, f"no snapshot before it fits, and the log begins only at {first:#x}"))
    return Tree()


def _why_empty(file: StoredFile) -> list[Damage]:
    damage: list[Damage] = []
    for _ in read_log(file, damage):
        pass
    return damage
