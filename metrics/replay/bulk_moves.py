"""How are the moves of a long history found without sorting all of it? Only what concerns moved partitions is read.

Tasks take the partitions by number, so that the topics' partitions spread evenly over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.bulk import Each, Files, Tables, make_directory, written
from metrics.replay.moves import Happened, Move, moves_of
from metrics.replay.partition_fold import OF_EVENTS, OF_STATES, batched, folded, in_order, rows_of
from metrics.replay.reassignments import SCHEMA, row_of
from metrics.replay.sightings import COLUMNS, KINDS, sightings_of
from metrics.replay.terms import Terms

# The rows of a table, to be filtered.
Read = Callable[[str], Any]

_KEYS = ["topic", "partition"]


class Window(Struct, frozen=True):
    """Which moves are wanted: those that go on at `since_ms` or later, as they were at `until_ms`.

    Shape:
        `until_ms` is the time of the last transaction where nothing earlier is asked for.
    """

    until_ms: int
    since_ms: int = 0

    def wants(self, move: Move) -> bool:
        """Whether the move reaches into the window."""
        return move.ended_ms is None or move.ended_ms >= self.since_ms


def run(each: Each, out: str, window: Window, buckets: int = 1) -> None:
    """Write the table `reassignments` from the tables `events` and `partitions` below `out`."""
    make_directory(f"{out}/reassignments")
    each(lambda n: carry_out(partial(written, out), Files(out, n), window, (n, buckets)), range(buckets))


def carry_out(read: Read, tables: Tables, window: Window, bucket: tuple[int, int] = (0, 1)) -> None:
    """The moves of the partitions of one bucket: its number, and how many there are."""

    def fold(topic: str, partition: int, history: Iterable[Happened]) -> Iterator[dict[str, Any]]:
        seen = (event for event in history if event.time_ms <= window.until_ms)
        return (row_of(topic, partition, m, window.until_ms, terms) for m in moves_of(seen) if window.wants(m))

    rows = read("events").to_table(columns=[*COLUMNS], filter=pc.field("kind").isin(KINDS))
    terms = Terms(sightings_of(rows.to_pylist()))
    try:
        tables.write("reassignments", SCHEMA.empty_table())
        for batch in batched(folded(rows_of(_histories(read, *bucket).to_batches()), fold), SCHEMA):
            tables.write("reassignments", pa.Table.from_batches([batch]))
    finally:
        tables.close()


def _histories(read: Read, bucket: int, buckets: int) -> pa.Table:
    """All that happened to the moved partitions of a bucket, in order."""
    is_ours = _remainder(pc.field("partition"), buckets) == bucket
    kinds = pc.field("kind").isin(["assignment", "legacy_move", "znode_move"]) & pc.field("topic").is_valid()
    events = read("events").to_table(columns=[*OF_EVENTS], filter=kinds & is_ours)
    moved = events.filter(_names_a_move(events)).select(_KEYS).group_by(_KEYS).aggregate([])
    if not moved.num_rows:
        return in_order([events.slice(0, 0)])
    topics = pc.field("topic").isin(pc.unique(moved["topic"]))
    states = read("partitions").to_table(columns=[*OF_STATES], filter=(pc.field("what") == "state") & is_ours & topics)
    states = states.rename_columns([OF_STATES[name] for name in states.column_names])
    gone = pc.field("kind") == "state"
    deleted = read("events").to_table(columns=[*OF_EVENTS], filter=gone & is_ours & topics)
    together = in_order([events, states, deleted])
    places = pa.array(range(together.num_rows), pa.int64())
    keyed = pa.table([together["topic"], together["partition"], places], names=[*_KEYS, "place"])
    kept = keyed.join(moved, _KEYS, join_type="left semi")
    return together.take(kept.sort_by("place")["place"])


def _remainder(field: Any, by: int) -> Any:
    return pc.subtract(field, pc.multiply(pc.divide(field, by), by))


def _names_a_move(events: pa.Table) -> pa.Array:
    names = pc.or_(*(pc.greater(pc.list_value_length(events[column]), 0) for column in ("adding", "removing")))
    later = pc.and_(pc.equal(events["op"], "set"), pc.invert(pc.fill_null(events["is_first"], False)))
    return pc.and_(pc.equal(events["kind"], "assignment"), pc.or_(names, later))
