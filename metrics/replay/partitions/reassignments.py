"""What was moved, by whom, when, for how long, and with which outcome? The table `reassignments`, one row a move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types

from controller.core.stage import Stage
from metrics.replay.partitions.moves import Happened, Move, moves_of
from metrics.replay.partitions.partition_fold import fold_partitions
from metrics.replay.partitions.sightings import sightings
from metrics.replay.partitions.stalls import why_stalled
from metrics.replay.partitions.terms import Terms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIME = pa.timestamp("us", tz="UTC")
_INTS = pa.list_(pa.int32())
_MILESTONE = pa.struct(
    [pa.field("at", _TIME), pa.field("zxid", pa.int64()), pa.field("leader", pa.int32()), pa.field("isr", _INTS)]
)

# name, Arrow type, Spark type, meaning
COLUMNS: tuple[tuple[str, Any, str, str], ...] = (
    ("topic", pa.string(), "string", "the topic"),
    ("partition", pa.int32(), "int", "the partition"),
    (
        "origin", pa.string(), "string",
        "api, legacy (/admin/reassign_partitions), znode (in /admin/reassignments), by hand, unknown (before the log)",
    ),
    ("outcome", pa.string(), "string", "finished, cancelled, superseded, deleted with the topic, unfinished"),
    ("started_at", _TIME, "timestamp", "when the topic znode named the move"),
    ("ended_at", _TIME, "timestamp", "when it no longer did"),
    ("duration_ms", pa.int64(), "bigint", "between the two"),
    ("from_replicas", _INTS, "array<int>", "the replicas before"),
    ("to_replicas", _INTS, "array<int>", "the target"),
    ("adding", _INTS, "array<int>", "replicas to be added"),
    ("removing", _INTS, "array<int>", "replicas to be removed"),
    ("started_zxid", pa.int64(), "bigint", "the transaction that started it"),
    ("ended_zxid", pa.int64(), "bigint", "the transaction that ended it"),
    ("session", pa.int64(), "bigint", "the ZooKeeper session that started it"),
    ("in_sync_at", _TIME, "timestamp", "when the whole target was first in sync"),
    ("catching_up_ms", pa.int64(), "bigint", "time until the target was in sync"),
    ("handing_over_ms", pa.int64(), "bigint", "time until leader and ISR were the target's"),
    ("letting_go_ms", pa.int64(), "bigint", "time until the leaving replicas were gone from the topic znode"),
    ("longest_pause_ms", pa.int64(), "bigint", "the longest time in which nothing was written about it"),
    ("is_stalled", pa.bool_(), "boolean", "whether that pause, or the one at the end of the log, exceeded 5 minutes"),
    ("stalled_because", pa.string(), "string", "what it waited for in that pause: replicas, brokers, a controller"),
    ("state_writes", pa.int32(), "int", "writes of the partition's state it cost"),
    ("topic_writes", pa.int32(), "int", "rewrites of the topic znode that concern it"),
    ("controller_epochs", _INTS, "array<int>", "the controllers that took part, by epoch"),
    (
        "isr_milestones", pa.list_(_MILESTONE),
        "array<struct<at: timestamp, zxid: bigint, leader: int, isr: array<int>>>", "each change of leader and ISR",
    ),
)  # fmt: skip
SCHEMA = pa.schema([pa.field(name, kind) for name, kind, _, _ in COLUMNS])
DDL = ", ".join(f"{name} {spark}" for name, _, spark, _ in COLUMNS)


def reassignments(events: DataFrame, states: DataFrame | None = None, now_ms: int | None = None) -> DataFrame:
    """One row a move, from the table `events`; give `states` separately if `events` lacks them.

    `now_ms` is the time of the log's last transaction, by default the last event's.
    """
    from pyspark.sql import functions as f

    moved = events.where(
        "kind = 'assignment' and (size(adding) > 0 or size(removing) > 0 or op = 'set' and not is_first)"
    )
    partitions = moved.select("topic", "partition").distinct().cache()
    wanted = events.where(f.col("kind").isin("state", "assignment", "legacy_move", "znode_move"))
    if states is not None and not partitions.isEmpty():
        wanted = wanted.unionByName(states)
    if now_ms is None:
        last = events.agg(f.unix_millis(f.max("time"))).head()
        now_ms = int(last[0] or 0) if last else 0
    end_ms, terms = now_ms, Terms(sightings(events))

    def fold(topic: str, partition: int, history: Iterable[Happened]) -> Iterator[dict[str, Any]]:
        return (row_of(topic, partition, move, end_ms, terms) for move in moves_of(history))

    return fold_partitions(wanted.join(f.broadcast(partitions), ["topic", "partition"], "left_semi"), fold, SCHEMA, DDL)


def row_of(topic: str, partition: int, move: Move, now_ms: int, terms: Terms) -> dict[str, Any]:
    """One move as a row of the table; `now_ms` is the time of the log's last transaction."""
    ended_ms = move.ended_ms
    stages = move.stage_ms
    return {
        "topic": topic,
        "partition": partition,
        "origin": move.origin,
        "outcome": move.outcome,
        "started_at": _time(move.started_ms),
        "ended_at": _time(ended_ms),
        "duration_ms": None if ended_ms is None else ended_ms - move.started_ms,
        "from_replicas": move.from_replicas,
        "to_replicas": move.assignment.target,
        "adding": move.assignment.adding,
        "removing": move.assignment.removing,
        "started_zxid": move.started_zxid,
        "ended_zxid": move.ended_zxid,
        "session": move.session,
        "in_sync_at": _time(move.in_sync_ms),
        "catching_up_ms": stages.get(Stage.CATCHING_UP.value, 0),
        "handing_over_ms": stages.get(Stage.HANDING_OVER.value, 0),
        "letting_go_ms": stages.get(Stage.LETTING_GO.value, 0),
        "longest_pause_ms": move.longest_pause_ms,
        "is_stalled": move.is_stalled(now_ms),
        "stalled_because": why_stalled(move, now_ms, terms),
        "state_writes": move.state_writes,
        "topic_writes": move.topic_writes,
        "controller_epochs": move.controller_epochs,
        "isr_milestones": [
            {"at": _time(m.time_ms), "zxid": m.zxid, "leader": m.leader, "isr": m.isr} for m in move.milestones
        ],
    }


def _time(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC)
