"""Which znodes are written most: how often, how much, how large they grew, and how much of it had changed?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.engine.period import Period
from metrics.replay.engine.reduction import Reduction, Source, Summing, exploded, grouped
from metrics.replay.events.intervals import STATE
from metrics.replay.events.schemas import TIME

MOST = 1000
_KNOWN = "known"

# The writes in the table `events` and of the states in `partitions`, under the same names.
WRITES = pa.schema(
    [
        pa.field("path", pa.string()), pa.field("topic", pa.string()), pa.field("partition", pa.int32()),
        pa.field("kind", pa.string()), pa.field("op", pa.string()), pa.field("zxid", pa.int64()),
        pa.field("part", pa.int32()), pa.field("at", TIME), pa.field("size_bytes", pa.int32()),
    ]
)  # fmt: skip
_OF_EVENTS = ("path", "topic", "partition", "kind", "op", "zxid", "part", "time", "size_bytes")
_OF_STATES = ("topic", "partition", "op", "zxid", "part", "started_at", "size_bytes")


def writes(period: Period, make: Any, *, with_known: bool = True) -> dict[str, Source]:
    """Every write of a znode that has a size, from both tables; states come without a path (see `with_paths`)."""

    def of_events(rows: pa.Table) -> pa.Table:
        return make(rows.rename_columns([{"time": "at"}.get(n, n) for n in rows.column_names]).cast(WRITES))

    def of_states(rows: pa.Table) -> pa.Table:
        made = {"at": rows["started_at"], "kind": pa.repeat(STATE, rows.num_rows)}
        made["path"] = pa.nulls(rows.num_rows, pa.string())
        return make(pa.table([made[f.name] if f.name in made else rows[f.name] for f in WRITES], schema=WRITES))

    has_size = pc.field("size_bytes").is_valid()
    if not with_known:
        has_size &= pc.field("op") != _KNOWN
    in_events = has_size & (pc.field("path").is_valid() | (pc.field("kind") == STATE))
    return {
        "events": Source(_OF_EVENTS, of_events, in_events & period.of("time")),
        "partitions": Source(_OF_STATES, of_states, has_size & (pc.field("what") == STATE) & period.of("started_at")),
    }


def with_paths(rows: pa.Table) -> pa.Table:
    """The rows with the path of each state."""
    number = pc.cast(rows["partition"], pa.string())
    state = pc.binary_join_element_wise("/brokers/topics", rows["topic"], "partitions", number, "state", "/")
    paths = pc.coalesce(rows["path"], pc.if_else(pc.equal(rows["kind"], STATE), state, pa.scalar(None, pa.string())))
    return rows.set_column(rows.schema.get_field_index("path"), "path", paths)


def znodes(period: Period, limit: int = MOST) -> Summing[pa.Table]:
    """The znodes with the most bytes written.

    A topic's znode is written whole for one partition that changes: `changes` are the partitions whose replicas
    differed from the previous write, `changed_bytes` the size of their entries, `amplification` how many bytes were
    written for each of those.
    """

    def part(rows: pa.Table) -> pa.Table:
        by_znode = _summed(_as_sums(rows), ("path", "topic", "partition", "kind"))
        return combine(with_paths(by_znode).drop_columns(["partition"]))

    def combine(rows: pa.Table) -> pa.Table:
        return _summed(rows, ("path", "topic", "kind"))

    found, changed = yield [Reduction(writes(period, part, with_known=False), combine), _changes(period)]
    order = [("bytes", "descending"), ("path", "ascending")]
    most = _summed(found, ("path",), {"topic": "last", "kind": "last"}).sort_by(order).slice(0, limit).to_pylist()
    changes = {row["topic"]: row for row in changed.to_pylist()}
    return pa.Table.from_pylist([_row(znode, changes) for znode in most], schema=SCHEMA)


_SUMS = {
    "writes": "sum",
    "bytes": "sum",
    "largest_bytes": "max",
    "last_at": "max",
    "zxid": "last",
    "last_bytes": "last",
}
SCHEMA = pa.schema(
    [
        pa.field("path", pa.string()), pa.field("writes", pa.int64()), pa.field("bytes", pa.int64()),
        pa.field("largest_bytes", pa.int32()), pa.field("last_bytes", pa.int32()), pa.field("last_at", TIME),
        pa.field("changes", pa.int64()), pa.field("changed_bytes", pa.int64()), pa.field("amplification", pa.float64()),
    ]
)  # fmt: skip


def _as_sums(rows: pa.Table) -> pa.Table:
    one = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
    size = rows["size_bytes"]
    made = {"writes": one, "bytes": size.cast(pa.int64()), "largest_bytes": size, "last_at": rows["at"],
            "last_bytes": size}  # fmt: skip
    for name, values in made.items():
        rows = rows.append_column(name, values)
    return rows


def _summed(rows: pa.Table, keys: tuple[str, ...], more: dict[str, str] | None = None) -> pa.Table:
    return grouped(rows, keys, _SUMS | (more or {}), order=("zxid", "last_bytes"))


def _row(znode: dict[str, Any], changes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A row of the table; only a topic's own znode is written for changes of its partitions."""
    changed = changes.get(znode["topic"]) if znode["kind"] == "topic" else None
    if changed is None:
        return znode
    return {**znode, **changed, "amplification": round(znode["bytes"] / changed["changed_bytes"], 1)}


_LISTS = ("replicas", "adding", "removing")


def _changes(period: Period) -> Reduction:
    """How many partitions changed in each topic, and the size of their entries `"12":[1,2,3],` in its JSON."""

    def part(rows: pa.Table) -> pa.Table:
        fixed = pc.add(pc.utf8_length(pc.cast(rows["partition"], pa.string())), 6)
        made = [_entries(rows["topic"], 1, fixed)]
        for name in _LISTS:
            count = pc.fill_null(pc.list_value_length(rows[name]), 0)
            made.append(_entries(rows["topic"], 0, pc.max_element_wise(pc.subtract(count, 1), 0)))
            place, broker = exploded(rows[name])
            made.append(_entries(rows["topic"].take(place), 0, pc.utf8_length(pc.cast(broker, pa.string()))))
        return combine(pa.concat_tables(made))

    def combine(rows: pa.Table) -> pa.Table:
        return grouped(rows, ("topic",), {"changes": "sum", "changed_bytes": "sum"})

    is_change = (pc.field("kind") == "assignment") & (pc.field("op") != _KNOWN) & ~pc.field("is_first")
    source = Source(("topic", "partition", *_LISTS), part, is_change & period.of("time"))
    return Reduction({"events": source}, combine)


def _entries(topic: Any, changes: int, size: Any) -> pa.Table:
    count = pa.repeat(pa.scalar(changes, pa.int64()), len(topic))
    return pa.table([topic, count, pc.cast(size, pa.int64())], names=["topic", "changes", "changed_bytes"])
