"""What follows from the history of each partition: the outcomes of its moves, and whether each write was right?

All rows are cut into buckets by partition, once; the task that finishes a bucket has the whole history of each of its
partitions, sorts it and judges it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.audit import audit_table
from metrics.replay.engine.bulk import Attempt, Files, Tables, make_directory, read_file, settle, written
from metrics.replay.engine.period import Period
from metrics.replay.engine.reduction import Reduction, Source, grouped, reduced
from metrics.replay.engine.tasks import Engine, File, Shared, by_partition
from metrics.replay.partitions import reassignments
from metrics.replay.partitions.moves import Happened, Move, moves_of
from metrics.replay.partitions.partition_fold import OF_EVENTS, OF_STATES, batched, folded, in_order, rows_of
from metrics.replay.partitions.sightings import COLUMNS, KINDS, sightings_of
from metrics.replay.partitions.terms import Terms

MOVES, AUDIT = "reassignments", "audit"
ROWS_A_BUCKET = 1_000_000
_JUDGED = 1_000_000  # the number of the first file with judged writes, after those of the other writes
_KEYS = ["topic", "partition"]
_KINDS = ["state", "assignment", "legacy_move", "znode_move"]


class Window(Struct, frozen=True):
    """The period of wanted moves: those in progress at `since_ms` or later, as they were at `until_ms`.

    Shape:
        `until_ms` is the time of the last transaction unless the user gave an earlier one.
    """

    until_ms: int
    since_ms: int = 0

    def wants(self, move: Move) -> bool:
        """Whether the move reaches into the window."""
        return move.ended_ms is None or move.ended_ms >= self.since_ms


class Wanted(Struct, frozen=True):
    """Inputs of every task: the wanted tables, the window, the terms, and the partitions that moved.

    Shape:
        `moved` is None if all partitions are wanted.
    """

    tables: tuple[str, ...]
    window: Window
    terms: Terms
    moved: pa.Table | None = None


def write(engine: Engine, out: str, window: Window, tables: Sequence[str] = (MOVES, AUDIT), chroot: str = "") -> None:
    """Write `reassignments`, `audit`, or both, from the tables `events` and `partitions` below `out`."""
    moved = None if AUDIT in tables else moved_partitions(engine, out)
    wanted = Wanted(tuple(tables), window, terms_of(written(out, "events")), moved)
    for table in tables:
        make_directory(f"{out}/{table}")
    sources = {name: written(out, name) for name in ("events", "partitions")}
    rows = sum(source.count_rows() for source in sources.values())
    buckets = max(engine.cores, rows // ROWS_A_BUCKET + 1)
    files = [(name, path) for name, source in sources.items() for path in source.files]
    shared = engine.share(wanted)
    cut, finish = partial(_cut, out, buckets, shared), partial(_finish, out, shared)
    settle(out, engine.in_buckets(cut, files, finish, buckets))
    if AUDIT in tables:
        audit_table.write_others(engine, out, wanted.terms, Period(window.since_ms, window.until_ms), chroot)
    nothing = Files(out, 0)
    if MOVES in tables:
        nothing.write(MOVES, reassignments.SCHEMA.empty_table())
    settle(out, [nothing.close()])


def terms_of(events: Any) -> Terms:
    """The terms, from a dataset of the table `events`."""
    rows = events.to_table(columns=[*COLUMNS], filter=pc.field("kind").isin(KINDS))
    return Terms(sightings_of(rows.to_pylist()))


def history_of(table: str, rows: Any, where: Any = True) -> pa.Table:
    """The events of partitions, from a dataset of one of the two tables."""
    if table == "events":
        kinds = pc.field("kind").isin(_KINDS) & pc.field("topic").is_valid() & pc.field("partition").is_valid()
        return rows.to_table(columns=[*OF_EVENTS], filter=kinds & where)
    states = rows.to_table(columns=[*OF_STATES], filter=(pc.field("what") == "state") & where)
    return states.rename_columns([OF_STATES[name] for name in states.column_names])


def judge(rows: Iterable[pa.Table], wanted: Wanted, tables: Tables) -> None:
    """Write the moves and findings of some partitions' histories."""
    history = in_order(rows)
    history = history.filter(pc.less_equal(history["time_ms"], wanted.window.until_ms))
    if not history.num_rows:
        return
    if AUDIT in wanted.tables:
        for found in audit_table.judged(history, wanted.terms, wanted.window.since_ms):
            tables.write(AUDIT, found)
    if MOVES in wanted.tables:
        for batch in batched(_moves(history, wanted), reassignments.SCHEMA):
            tables.write(MOVES, pa.Table.from_batches([batch]))


def _moves(history: pa.Table, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """The wanted moves; a partition whose assignment was never set has none."""
    assignments = history.filter(pc.equal(history["kind"], "assignment"))
    may_move = assignments.filter(pc.or_(pc.equal(assignments["op"], "set"), _names_move(assignments))).select(_KEYS)
    fold = partial(_moves_of_one, wanted=wanted)
    return folded(rows_of(of_partitions(history, may_move).to_batches()), fold)


def _moves_of_one(topic: str, partition: int, history: Iterable[Happened], wanted: Wanted) -> Iterator[dict[str, Any]]:
    window, terms = wanted.window, wanted.terms
    found = (move for move in moves_of(history) if window.wants(move))
    return (reassignments.row_of(topic, partition, move, window.until_ms, terms) for move in found)


def _cut(out: str, buckets: int, shared: Shared, file: File) -> Iterable[tuple[int, pa.Table]]:
    rows = history_of(file[0], read_file(out, file))
    moved = shared.value.moved
    if moved is not None:
        rows = of_partitions(rows, moved)
    return by_partition(in_order([rows]), buckets)


def of_partitions(rows: pa.Table, partitions: pa.Table) -> pa.Table:
    """The rows of some partitions, in the same order."""
    places = rows.select(_KEYS).append_column("place", pa.array(range(rows.num_rows), pa.int64()))
    return rows.take(places.join(partitions, _KEYS, join_type="left semi").sort_by("place")["place"])


def _finish(out: str, shared: Shared, bucket: int, rows: pa.Table) -> Attempt:
    files = Files(out, _JUDGED + bucket)
    judge([rows], shared.value, files)
    return files.close()


def moved_partitions(engine: Engine, out: str) -> pa.Table:
    """The partitions that moved."""

    def part(events: pa.Table) -> pa.Table:
        return combine(_that_moved(events))

    def combine(rows: pa.Table) -> pa.Table:
        return grouped(rows, _KEYS, {})

    columns = (*_KEYS, "op", "adding", "removing", "is_first")
    source = Source(columns, part, pc.field("kind") == "assignment")
    return reduced(engine, out, Reduction({"events": source}, combine))


def _that_moved(assignments: pa.Table) -> pa.Table:
    """The partitions that moved, some of them more than once."""
    later = pc.and_(pc.equal(assignments["op"], "set"), pc.invert(pc.fill_null(assignments["is_first"], False)))
    return assignments.filter(pc.or_(_names_move(assignments), later)).select(_KEYS)


def _names_move(assignments: pa.Table) -> Any:
    lengths = (pc.fill_null(pc.list_value_length(assignments[name]), 0) for name in ("adding", "removing"))
    return pc.or_(*(pc.greater(length, 0) for length in lengths))
