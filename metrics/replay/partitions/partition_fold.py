"""How do Spark's sorted batches reach the folds of single partitions, and how do the resulting rows return?

The partitions of one task are folded one after the other, so that memory holds the events of one partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.partitions.moves import Happened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = Happened._fields
_BATCH_ROWS = 20_000

_ORDER = [(name, "ascending") for name in ("topic", "partition", "zxid", "part")]
# The columns of `Happened` in the tables `events` and, under other names, `partitions`.
OF_EVENTS = (
    "topic", "partition", "zxid", "part", "time", "session", "op", "kind", "leader", "leader_epoch",
    "controller_epoch", "isr", "replicas", "adding", "removing", "version", "fence", "is_first",
)  # fmt: skip
OF_STATES = {
    "topic": "topic", "partition": "partition", "zxid": "zxid", "part": "part", "started_at": "time",
    "session": "session", "op": "op", "what": "kind", "leader": "leader", "leader_epoch": "leader_epoch",
    "controller_epoch": "controller_epoch", "isr": "isr", "version": "version", "fence": "fence",
}  # fmt: skip

# topic, partition, its events in order -> rows of the result
Fold = Callable[[str, int, Iterable[Happened]], Iterable[dict[str, Any]]]


def fold_partitions(events: DataFrame, fold: Fold, schema: pa.Schema, ddl: str) -> DataFrame:
    """Apply a fold to the events of each partition."""
    from pyspark.sql import functions as f

    columns = [f.unix_millis("time").alias("time_ms") if c == "time_ms" else f.col(c) for c in _COLUMNS]
    keyed = events.where("topic is not null and partition is not null")
    ordered = (
        keyed.select("topic", "partition", "part", *columns)
        .repartition("topic", "partition")
        .sortWithinPartitions("topic", "partition", "zxid", "part")
    )

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batched(folded(rows_of(batches), fold), schema)

    return ordered.mapInArrow(run, ddl)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, int, Happened]]:
    """The rows of sorted batches."""
    for batch in batches:
        columns: list[Sequence[Any]] = [batch.column(name).to_pylist() for name in ("topic", "partition", *_COLUMNS)]
        for position in [i for i, name in enumerate(_COLUMNS) if name in ("isr", "replicas", "adding", "removing")]:
            lists = columns[position + 2]
            columns[position + 2] = [None if v is None else tuple(v) for v in lists]
        topics, partitions, *rest = columns
        yield from zip(topics, partitions, map(Happened._make, zip(*rest, strict=True)), strict=True)


def folded(rows: Iterable[tuple[str, int, Happened]], fold: Fold) -> Iterator[dict[str, Any]]:
    """The fold's rows for each partition."""
    following: list[tuple[str, int, Happened]] = []
    source = iter(rows)
    first = next(source, None)

    def of_one(topic: str, partition: int, event: Happened) -> Iterator[Happened]:
        yield event
        for row in source:
            if row[0] != topic or row[1] != partition:
                following.append(row)
                return
            yield row[2]

    while first is not None:
        topic, partition, event = first
        events = of_one(topic, partition, event)
        yield from fold(topic, partition, events)
        for _ in events:  # a fold may stop early; the next partition starts behind this one
            pass
        first = following.pop() if following else None


def batched(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows in batches of the given schema."""
    held: list[dict[str, Any]] = []
    for row in rows:
        held.append(row)
        if len(held) >= _BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(held, schema=schema)
            held = []
    if held:
        yield pa.RecordBatch.from_pylist(held, schema=schema)


def in_order(tables: Iterable[pa.Table]) -> pa.Table:
    """Rows of OF_EVENTS, or of the values of OF_STATES, with the columns of `Happened`, by partition and time."""
    return pa.concat_tables([_as_happened(rows) for rows in tables]).sort_by(_ORDER)


def _as_happened(rows: pa.Table) -> pa.Table:
    """The columns of `Happened`, with what a table lacks as nulls."""
    made = []
    for field in HAPPENED:
        name, kind = field.name, field.type
        if name in rows.column_names:
            made.append(rows[name])
        elif name == "time_ms":
            made.append(pc.divide(rows["time"].cast(pa.int64()), 1000))
        else:
            made.append(pa.nulls(rows.num_rows, kind))
    return pa.table(made, schema=HAPPENED)


_INTS = pa.list_(pa.int32())
# Events of partitions, still as columns.
HAPPENED = pa.schema([
    pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("part", pa.int32()),
    pa.field("zxid", pa.int64()), pa.field("time_ms", pa.int64()), pa.field("session", pa.int64()),
    pa.field("op", pa.string()), pa.field("kind", pa.string()), pa.field("leader", pa.int32()),
    pa.field("leader_epoch", pa.int32()), pa.field("controller_epoch", pa.int32()), pa.field("isr", _INTS),
    pa.field("replicas", _INTS), pa.field("adding", _INTS), pa.field("removing", _INTS),
    pa.field("version", pa.int32()), pa.field("fence", pa.int32()), pa.field("is_first", pa.bool_()),
])  # fmt: skip
