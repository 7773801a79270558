"""Where one split of a log ends and the next begins, how long did each partition stay as it was?

Source: `intervals`, which leaves to this what a split cannot know by itself.
"""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.schemas import PARTITIONS, TIME

_ORDER = [(name, "ascending") for name in ("topic", "partition", "zxid", "part", "is_row")]
_STATE = ("leader", "leader_epoch", "controller_epoch", "isr", "version")


def joined(edges: pa.Table) -> pa.Table:
    """Rows of `partitions`: each ends where a later split first saw its partition.

    A change of replicas before the first state in its split gets the state that an earlier split left.
    """
    if not edges.num_rows:
        return PARTITIONS.empty_table()
    rows = edges.sort_by(_ORDER).combine_chunks()
    count = rows.num_rows
    places = pa.array(range(count), pa.int64())
    following = pc.if_else(pc.less(pc.add(places, 1), count), pc.add(places, 1), None)
    next_start = pc.if_else(_same(rows, following), rows["started_at"].take(following), pa.scalar(None, TIME))
    ended = pc.coalesce(rows["ended_at"], next_start)
    rows = _with_known_state(rows, places)
    rows = rows.set_column(rows.schema.get_field_index("ended_at"), "ended_at", ended)
    lasted = pc.divide(pc.subtract(ended.cast(pa.int64()), rows["started_at"].cast(pa.int64())), 1000)
    rows = rows.set_column(rows.schema.get_field_index("duration_ms"), "duration_ms", lasted)
    return rows.filter(rows["is_row"]).select(PARTITIONS.names).cast(PARTITIONS)


def _with_known_state(rows: pa.Table, places: pa.Array) -> pa.Table:
    has_state = rows["isr"].is_valid()
    last = pc.fill_null_forward(pc.if_else(has_state, places, None))
    is_change = pc.and_(pc.equal(rows["what"], "assignment"), pc.not_equal(rows["op"], "create"))
    lacks = pc.and_(pc.invert(has_state), is_change)
    is_known = pc.fill_null(pc.and_(lacks, _same(rows, last)), False)
    if not pc.any(is_known).as_py():
        return rows
    source = pc.if_else(is_known, last, places)
    for name in _STATE:
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].take(source))
    return rows


def _same(rows: pa.Table, others: pa.Array) -> pa.Array:
    """Whether two rows are of the same partition; null where there is no other."""
    topics = pc.equal(rows["topic"].take(others), rows["topic"])
    return pc.and_(topics, pc.equal(rows["partition"].take(others), rows["partition"]))
