"""Where one split of a log ends and the next begins, how long did each partition stay as it was?

Source: `intervals`, which leaves to this what a split cannot know by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.events.intervals import ASSIGNMENT, GONE, STATE
from metrics.replay.events.schemas import PARTITIONS, TIME

_ORDER = [(name, "ascending") for name in ("topic", "partition", "zxid", "part", "is_row")]
_STATE = ("leader", "leader_epoch", "controller_epoch", "isr", "version")
_PLACED = ("replicas", "adding", "removing", "replication_factor")


def joined(edges: pa.Table) -> pa.Table:
    """Rows of `partitions`: each ends where a later split first saw its partition.

    A row that lacks the state, or the replicas, gets what an earlier split left, unless the partition went or was
    created in between.
    """
    if not edges.num_rows:
        return PARTITIONS.empty_table()
    rows = edges.sort_by(_ORDER).combine_chunks()
    count = rows.num_rows
    places = pa.array(range(count), pa.int64())
    following = pc.if_else(pc.less(pc.add(places, 1), count), pc.add(places, 1), None)
    next_start = pc.if_else(_same(rows, following), rows["started_at"].take(following), pa.scalar(None, TIME))
    ended = pc.coalesce(rows["ended_at"], next_start)
    is_assignment = pc.equal(rows["what"], ASSIGNMENT)
    is_creation = pc.and_(is_assignment, pc.equal(rows["op"], "create"))
    is_anew = pc.fill_null(pc.or_kleene(is_creation, pc.equal(rows["what"], GONE)), False)
    anew = pc.fill_null(pc.fill_null_forward(pc.if_else(is_anew, places, None)), -1)
    rows = _filled(rows, places, anew, _STATE, rows["isr"].is_valid(), pc.and_(is_assignment, pc.invert(is_anew)))
    rows = _filled(rows, places, anew, _PLACED, rows["replicas"].is_valid(), pc.equal(rows["what"], STATE))
    rows = rows.set_column(rows.schema.get_field_index("ended_at"), "ended_at", ended)
    lasted = pc.divide(pc.subtract(ended.cast(pa.int64()), rows["started_at"].cast(pa.int64())), 1000)
    rows = rows.set_column(rows.schema.get_field_index("duration_ms"), "duration_ms", lasted)
    return rows.filter(rows["is_row"]).select(PARTITIONS.names).cast(PARTITIONS)


def _filled(rows: pa.Table, places: Any, anew: Any, names: Sequence[str], has: Any, may: Any) -> pa.Table:
    """Rows that `may` take them have the values of the last row before that `has` any, none from before `anew`."""
    last = pc.fill_null_forward(pc.if_else(has, places, None))
    lacks = pc.and_(pc.invert(has), pc.fill_null(may, False))
    is_known = pc.fill_null(pc.and_(pc.and_(lacks, _same(rows, last)), pc.greater_equal(last, anew)), False)
    if not pc.any(is_known).as_py():
        return rows
    source = pc.if_else(is_known, last, places)
    for name in names:
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].take(source))
    return rows


def _same(rows: pa.Table, others: pa.Array) -> pa.Array:
    """Whether two rows are of the same partition; null where there is no other."""
    topics = pc.equal(rows["topic"].take(others), rows["topic"])
    return pc.and_(topics, pc.equal(rows["partition"].take(others), rows["partition"]))
