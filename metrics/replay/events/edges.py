"""How long did each partition stay unchanged across the border of two splits?

Source: `intervals`, which leaves to this module what a split cannot know by itself.
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
    """Rows of `partitions`, each of which ends where a later split first saw its partition.

    A row that lacks the state, or the replicas, gets those of an earlier split, unless the partition was deleted or
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
    is_reset = pc.fill_null(pc.or_kleene(is_creation, pc.equal(rows["what"], GONE)), False)
    reset = pc.fill_null(pc.fill_null_forward(pc.if_else(is_reset, places, None)), -1)
    rows = _filled(rows, places, reset, _STATE, rows["isr"].is_valid(), pc.and_(is_assignment, pc.invert(is_reset)))
    rows = _filled(rows, places, reset, _PLACED, rows["replicas"].is_valid(), pc.equal(rows["what"], STATE))
    rows = rows.set_column(rows.schema.get_field_index("ended_at"), "ended_at", ended)
    lasted = pc.divide(pc.subtract(ended.cast(pa.int64()), rows["started_at"].cast(pa.int64())), 1000)
    rows = rows.set_column(rows.schema.get_field_index("duration_ms"), "duration_ms", lasted)
    return rows.filter(rows["is_row"]).select(PARTITIONS.names).cast(PARTITIONS)


def _filled(rows: pa.Table, places: Any, reset: Any, names: Sequence[str], has: Any, may: Any) -> pa.Table:
    """Forward-fill `names` into rows where `may`, from the last earlier row where `has`, not across a `reset`."""
    last = pc.fill_null_forward(pc.if_else(has, places, None))
    lacks = pc.and_(pc.invert(has), pc.fill_null(may, False))
    is_known = pc.fill_null(pc.and_(pc.and_(lacks, _same(rows, last)), pc.greater_equal(last, reset)), False)
    if not pc.any(is_known).as_py():
        return rows
    source = pc.if_else(is_known, last, places)
    for name in names:
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].take(source))
    return rows


def _same(rows: pa.Table, others: pa.Array) -> pa.Array:
    """Whether two rows are of the same partition; null without a second row."""
    topics = pc.equal(rows["topic"].take(others), rows["topic"])
    return pc.and_(topics, pc.equal(rows["partition"].take(others), rows["partition"]))
