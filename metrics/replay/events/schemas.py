"""Which columns has each table, and how do rows become Arrow batches of them?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import structs

from metrics.replay.events.intervals import NONE, Folded, Start
from metrics.replay.events.kafka_events import OTHER_COLUMNS, STATE_COLUMNS, OtherEvent, StateEvent
from metrics.replay.events.ledger_writes import LedgerEvent
from metrics.replay.events.set_data import Ints
from zk_layout.storage.damage import Damage
from zk_layout.storage.operations import NAMES, Row
from zk_layout.storage.snapshot import SnapshotRow
from zk_layout.storage.tree import Node

TIME = pa.timestamp("us", tz="UTC")
_MS = pa.timestamp("ms", tz="UTC")
_INTS = pa.list_(pa.int32())
_REPEATING = frozenset({_INTS, pa.string()})

TRANSACTIONS = pa.schema(
    [
        pa.field("zxid", pa.int64()),
        pa.field("time", TIME),
        pa.field("session", pa.int64()),
        pa.field("cxid", pa.int32()),
        pa.field("client_op", pa.string()),
        pa.field("part", pa.int32()),
        pa.field("kind", pa.string()),
        pa.field("path", pa.string()),
        pa.field("data", pa.binary()),
        pa.field("version", pa.int32()),
        pa.field("owner", pa.int64()),
        pa.field("error", pa.int32()),
        pa.field("file", pa.string()),
    ]
)

ZNODES = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("data", pa.binary()),
        pa.field("czxid", pa.int64()),
        pa.field("mzxid", pa.int64()),
        pa.field("pzxid", pa.int64()),
        pa.field("ctime", TIME),
        pa.field("mtime", TIME),
        pa.field("version", pa.int32()),
        pa.field("cversion", pa.int32()),
        pa.field("aversion", pa.int32()),
        pa.field("owner", pa.int64()),
    ]
)

EVENTS = pa.schema(
    [
        pa.field("zxid", pa.int64()),
        pa.field("time", TIME),
        pa.field("session", pa.int64()),
        pa.field("part", pa.int32()),
        pa.field("op", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("broker", pa.int32()),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("controller_epoch", pa.int32()),
        pa.field("isr", _INTS),
        pa.field("replicas", _INTS),
        pa.field("adding", _INTS),
        pa.field("removing", _INTS),
        pa.field("version", pa.int32()),
        pa.field("fence", pa.int32()),
        pa.field("size_bytes", pa.int32()),
        pa.field("path", pa.string()),
        pa.field("is_first", pa.bool_()),
        pa.field("min_isr", pa.int32()),
        pa.field("host", pa.string()),
    ]
)

_INTERVAL_FIELDS: tuple[tuple[str, Any], ...] = (
    ("topic", pa.string()), ("partition", pa.int32()), ("zxid", pa.int64()), ("part", pa.int32()),
    ("started_at", TIME), ("ended_at", TIME), ("duration_ms", pa.int64()), ("what", pa.string()), ("op", pa.string()),
    ("session", pa.int64()), ("leader", pa.int32()), ("leader_epoch", pa.int32()), ("controller_epoch", pa.int32()),
    ("isr", _INTS), ("version", pa.int32()), ("replicas", _INTS), ("adding", _INTS), ("removing", _INTS),
    ("replication_factor", pa.int32()), ("fence", pa.int32()), ("size_bytes", pa.int32()),
)  # fmt: skip
PARTITIONS = pa.schema([pa.field(name, kind) for name, kind in _INTERVAL_FIELDS])
EDGES = PARTITIONS.append(pa.field("is_row", pa.bool_()))

DAMAGE = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("what", pa.string()),
    ]
)

LEDGER = pa.schema(
    [
        pa.field("zxid", pa.int64()), pa.field("part", pa.int32()), pa.field("time", TIME),
        pa.field("session", pa.int64()), pa.field("op", pa.string()), pa.field("kind", pa.string()),
        pa.field("request", pa.int32()), pa.field("topic", pa.string()), pa.field("partition", pa.int32()),
        pa.field("replicas", _INTS), pa.field("former", _INTS), pa.field("outcome", pa.string()),
        pa.field("is_cancel", pa.bool_()), pa.field("czxid", pa.int64()), pa.field("topic_id", pa.string()),
        pa.field("origin", pa.string()), pa.field("requested_at", TIME), pa.field("finished_at", TIME),
        pa.field("principal", pa.string()), pa.field("client_id", pa.string()), pa.field("address", pa.string()),
        pa.field("reason", pa.string()), pa.field("moves", pa.int64()),
    ]
)  # fmt: skip

TABLES = {"transactions": TRANSACTIONS, "znodes": ZNODES, "events": EVENTS, "damage": DAMAGE}
WRITTEN = {"events": EVENTS, "partitions": PARTITIONS, "edges": EDGES, "ledger": LEDGER, "damage": DAMAGE}

_SPARK_TYPES = {
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    TIME: "timestamp",
    _INTS: "array<int>",
}


def ddl(table: str) -> str:
    """The table's schema as Spark reads it.

    >>> ddl("damage")
    'file string, offset bigint, what string'
    """
    return _ddl(TABLES[table])


def spark_schema(written: str) -> str:
    """The schema of a table that is written from the logs themselves."""
    return _ddl(WRITTEN[written])


def _ddl(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {_SPARK_TYPES[field.type]}" for field in schema)


def transactions_batch(rows: Sequence[Row], file: str) -> pa.RecordBatch:
    """Rows of a log as a batch of `transactions`."""
    zxid, time_ms, session, cxid, kind, part, op, path, data, version, owner, _, error = zip(*rows, strict=True)
    arrays = [
        pa.array(zxid, pa.int64()),
        _times(time_ms),
        pa.array(session, pa.int64()),
        pa.array(cxid, pa.int32()),
        pa.array([NAMES[k] for k in kind], pa.string()),
        pa.array(part, pa.int32()),
        pa.array([NAMES[o] for o in op], pa.string()),
        pa.array(path, pa.string()),
        pa.array(data, pa.binary()),
        pa.array(version, pa.int32()),
        pa.array(owner, pa.int64()),
        pa.array(error, pa.int32()),
        pa.repeat(file, len(rows)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=TRANSACTIONS)


def snapshot_batch(rows: Sequence[SnapshotRow]) -> pa.RecordBatch:
    """Rows of a snapshot as a batch of `znodes`."""
    path, data, _, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = zip(*rows, strict=True)
    return _znodes((path, data, czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner))


def nodes_batch(nodes: Sequence[tuple[str, Node]]) -> pa.RecordBatch:
    """Znodes of a replayed state as a batch of `znodes`."""
    rows = [
        (
            p,
            n.data,
            n.czxid,
            n.mzxid,
            n.pzxid,
            n.ctime_ms,
            n.mtime_ms,
            n.version,
            n.cversion,
            n.aversion,
            n.owner,
        )
        for p, n in nodes
    ]
    return _znodes(tuple(zip(*rows, strict=True)))


def states_batch(events: Sequence[StateEvent]) -> pa.RecordBatch:
    """States of partitions as a batch of `events`."""
    columns = dict(zip(STATE_COLUMNS, zip(*events, strict=True), strict=True))
    return _events(columns, len(events), kind="state")


def intervals_table(folded: Folded) -> pa.Table:
    """Rows of the table `partitions`."""
    rows = folded.rows
    started, ended = pa.array(rows.time_ms), _numbers(folded.ended_ms, pa.int64())
    repeating = {
        ("topic", "partition"): (folded.keys, rows.key),
        ("what", "op"): (folded.kinds, rows.kind),
        ("leader", "leader_epoch", "controller_epoch", "isr"): (folded.states, rows.state),
        ("replicas", "adding", "removing", "replication_factor"): (folded.placed, rows.placed),
    }
    made = {
        "zxid": pa.array(rows.zxid),
        "part": pa.array(rows.part).cast(pa.int32()),
        "started_at": started.cast(_MS).cast(TIME),
        "ended_at": ended.cast(_MS).cast(TIME),
        "duration_ms": pc.subtract(ended, started),
        "session": pa.array(rows.session),
    }
    for names, (values, numbers) in repeating.items():
        for name, column in zip(names, zip(*values, strict=True), strict=True):
            made[name] = pa.array(column, PARTITIONS.field(name).type).take(pa.array(numbers))
    columns = {"version": rows.version, "fence": rows.fence, "size_bytes": rows.size}
    made |= {name: _numbers(column, pa.int32()) for name, column in columns.items()}
    return pa.table([made[name] for name in PARTITIONS.names], schema=PARTITIONS)


def edges_table(rows: pa.Table, starts: Sequence[Start], keys: Sequence[tuple[str, int]]) -> pa.Table:
    """Rows that a split cannot finish alone, and where it first saw each partition or its deletion."""
    open_rows = rows.append_column("is_row", pa.repeat(True, rows.num_rows))
    if not starts:
        return open_rows
    key, zxid, part, time_ms, what = zip(*starts, strict=True)
    made = {
        "topic": pa.array([keys[k][0] for k in key], pa.string()),
        "partition": pa.array([keys[k][1] for k in key], pa.int32()),
        "zxid": pa.array(zxid, pa.int64()),
        "part": pa.array(part, pa.int32()),
        "started_at": _times(time_ms),
        "what": pa.array(what, pa.string()),
        "is_row": pa.repeat(False, len(starts)),
    }
    arrays = [made.get(f.name, pa.nulls(len(starts), f.type)) for f in EDGES]
    return pa.concat_tables([open_rows, pa.Table.from_arrays(arrays, schema=EDGES)])


def _numbers(values: Ints, kind: pa.DataType) -> pa.Array:
    return pa.array(values, mask=values == NONE).cast(kind)


def others_batch(events: Sequence[OtherEvent]) -> pa.RecordBatch:
    """Everything else as a batch of `events`."""
    columns = dict(zip(OTHER_COLUMNS, zip(*events, strict=True), strict=True))
    return _events(columns, len(events))


def ledger_batch(events: Sequence[LedgerEvent]) -> pa.RecordBatch:
    """What our controller's ledger of moves said, as a batch of `ledger`."""
    columns = zip(*events, strict=True)
    arrays = [_array(values, field.type) for field, values in zip(LEDGER, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LEDGER)


def damage_batch(damage: Sequence[Damage]) -> pa.RecordBatch:
    """Damage as a batch of `damage`."""
    return pa.RecordBatch.from_pylist([structs.asdict(found) for found in damage], schema=DAMAGE)


def _events(columns: Mapping[str, Sequence[Any]], count: int, kind: str | None = None) -> pa.RecordBatch:
    arrays = []
    for field in EVENTS:
        values = columns.get(field.name)
        if values is not None:
            arrays.append(_array(values, field.type))
        elif field.name == "kind" and kind is not None:
            arrays.append(pa.repeat(kind, count))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)


def _znodes(columns: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    arrays = [
        _times(values) if field.type == TIME else pa.array(values, field.type)
        for field, values in zip(ZNODES, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ZNODES)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if kind == TIME:
        return _times(values)
    if kind in _REPEATING:
        # Names and replica lists repeat; each distinct one is converted once.
        numbers: dict[Any, int] = {}
        places = [numbers.setdefault(value, len(numbers)) for value in values]
        return pa.array(list(numbers), kind).take(pa.array(places, pa.int32()))
    return pa.array(values, kind)


def _times(values: Sequence[int]) -> pa.Array:
    return pa.array(values, pa.timestamp("ms", tz="UTC")).cast(TIME)
