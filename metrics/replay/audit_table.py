"""Is every write of the log explained? The table `audit`: one row for each write of anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.dataset as ds  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.audit import findings
from metrics.replay.bulk import Files, write_table, written
from metrics.replay.claims import judged_claims
from metrics.replay.kafka_events import GONE
from metrics.replay.moves import Happened
from metrics.replay.output import filesystem_of
from metrics.replay.partition_fold import OF_EVENTS, OF_STATES, in_order
from metrics.replay.reduction import Engine, whole
from metrics.replay.schemas import EVENTS
from metrics.replay.sightings import COLUMNS, KINDS, sightings_of
from metrics.replay.terms import Terms
from metrics.replay.timelines import all_events
from metrics.replay.verdicts import EXPLAINED, LISTED, Finding
from metrics.replay.znodes import Period

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS: tuple[tuple[str, Any, str], ...] = (
    ("zxid", pa.int64(), "bigint"),
    ("time", pa.timestamp("us", tz="UTC"), "timestamp"),
    ("what", pa.string(), "string"),
    ("topic", pa.string(), "string"),
    ("partition", pa.int32(), "int"),
    ("verdict", pa.string(), "string"),
    ("rule", pa.string(), "string"),
    ("why", pa.string(), "string"),
    ("ours", pa.string(), "string"),
)
SCHEMA = pa.schema([pa.field(name, kind) for name, kind, _ in _COLUMNS])
DDL = ", ".join(f"{name} {spark}" for name, _, spark in _COLUMNS)

# Writes that are not about one partition: the kind of znode, and what explains such a write.
_OTHERS = {
    "topic": ("topic", "the topic was written without changing an assignment"),
    "parent": ("creation", "parent of a partition's state"),
    "znode_move": ("reassignment", "a move's own znode"),
    "request_status": ("reassignment", "how an accepted request stands"),
    "legacy": ("reassignment", "moves submitted through ZooKeeper"),
    "preferred": ("preferred", "preferred elections submitted through ZooKeeper"),
    "deletion": ("deletion", "the request to delete a topic"),
    "isr_change": ("isr", "a leader's note that it changed an ISR"),
    "log_dir": ("log directory", "a broker's note that a log directory failed"),
    "config": ("config", "a configuration"),
    "cluster": ("cluster", "a value that belongs to the whole cluster"),
    "security": ("security", "an access rule or a delegation token"),
    "owed_deletions": ("reassignment", "replicas whose deletion a broker has not confirmed yet"),
    "root": ("creation", "a path that Kafka keeps its znodes below"),
    "session": ("session", "a session of ZooKeeper"),
}


class History(Struct, frozen=True):
    """What happened to each partition until a time, from the tables `events` and `partitions`."""

    until_ms: int | None = None

    def rows(self, out: str) -> pa.Table:
        """All of it, in order."""
        within = Period(None, self.until_ms)
        events = written(out, "events").to_table(
            columns=[*OF_EVENTS], filter=pc.field("kind").isin(_OF_PARTITIONS) & within.of("time")
        )
        states = (pc.field("what") == "state") & within.of("started_at")
        timeline = written(out, "partitions").to_table(columns=[*OF_STATES], filter=states)
        rows = in_order([events, timeline.rename_columns([OF_STATES[name] for name in timeline.column_names])])
        return rows.filter(pc.and_(rows["topic"].is_valid(), rows["partition"].is_valid()))

    def on_spark(self, spark: SparkSession, out: str) -> DataFrame:
        """All of it, in no order."""
        from pyspark.sql import functions as f

        events = all_events(spark, {name: f"{out}/{name}" for name in ("events", "partitions")})
        events = events.where(f.col("kind").isin(*_OF_PARTITIONS))
        if self.until_ms is None:
            return events
        return events.where(f.col("time") <= f.timestamp_millis(f.lit(self.until_ms)))


_OF_PARTITIONS = ["state", "assignment", "legacy_move"]


def write_audit(engine: Engine, out: str, period: Period) -> None:
    """Write the table `audit`: one row for each write, from the tables `events` and `partitions` below `out`."""
    within = Period(None, period.until_ms).of("time")
    seen = written(out, "events").to_table(columns=[*COLUMNS], filter=pc.field("kind").isin(KINDS) & within)
    changes = sightings_of(seen.to_pylist())
    terms, since_ms = Terms(changes), period.since_ms or 0

    def judge(topic: str, partition: int, history: Iterable[Happened]) -> Iterator[dict[str, Any]]:
        found = findings(topic, partition, history, terms)
        return (_row(finding, topic, partition) for finding in found if finding.time_ms >= since_ms)

    claims = [_row(found, None, None) for found in judged_claims(changes) if found.time_ms >= since_ms]
    write_table(out, "audit", pa.Table.from_pylist(claims, schema=SCHEMA))
    engine.each(partial(_judge_others, out, period), [*enumerate(written(out, "events").files, 1)])
    engine.audit(out, History(period.until_ms), judge)


def _row(found: Finding, topic: str | None, partition: int | None) -> dict[str, Any]:
    return {
        "zxid": found.zxid,
        "time": datetime.fromtimestamp(found.time_ms / 1000, UTC),
        "what": found.what,
        "topic": topic,
        "partition": partition,
        "verdict": found.verdict,
        "rule": found.rule,
        "why": found.why,
        "ours": found.ours or None,
    }


_JUDGED_ELSEWHERE = ["state", "assignment", "legacy_move", "broker", "controller", "controller_epoch"]
_OF_OTHERS = ("zxid", "time", "session", "op", "kind", "topic", "partition", "path")


def _judge_others(out: str, period: Period, file: tuple[int, str]) -> None:
    """Judge what is written to none of the partitions, in one file of `events`; a transaction lies in one file."""
    number, path = file
    rows = ds.dataset(path, schema=EVENTS, format="parquet", filesystem=filesystem_of(out)[0])
    is_other = ~pc.field("kind").isin(_JUDGED_ELSEWHERE) & (pc.field("op") != "known")
    others = rows.to_table(columns=[*_OF_OTHERS], filter=is_other & period.of("time"))
    changed = rows.to_table(columns=["zxid", "topic"], filter=pc.field("kind") == "assignment")
    is_topic = pc.and_(
        pc.equal(others["kind"], "topic"), pc.invert(pc.is_in(others["op"], value_set=pa.array([*GONE])))
    )
    # A topic's write is judged by the assignments that it changed.
    untouched = others.filter(is_topic).join(changed, ["zxid", "topic"], join_type="left anti")
    files = Files(out, number)
    try:
        for found in (others.filter(pc.invert(is_topic)), untouched):
            if found.num_rows:
                files.write("audit", _judged(found))
    finally:
        files.close()


def _judged(rows: pa.Table) -> pa.Table:
    place = pc.index_in(rows["kind"], value_set=pa.array([*_OTHERS]))
    rule, why = (pa.array([text[n] for text in _OTHERS.values()]).take(whole(place)) for n in (0, 1))
    sessions = pa.array([f"session {session & _ALL_BITS:X}" for session in rows["session"].to_pylist()], pa.string())
    words = (rows["op"], pc.coalesce(rows["path"], sessions), pc.binary_join_element_wise("–", why, " "))
    made = {
        "what": rows["kind"],
        "verdict": pc.if_else(place.is_valid(), EXPLAINED, LISTED),
        "rule": pc.fill_null(rule, "not Kafka's controller"),
        "why": pc.binary_join_element_wise(*words, " ", null_handling="skip"),
        "ours": pa.nulls(rows.num_rows, pa.string()),
    }
    return pa.table([made[f.name] if f.name in made else rows[f.name] for f in SCHEMA], schema=SCHEMA)


_ALL_BITS = 2**64 - 1
