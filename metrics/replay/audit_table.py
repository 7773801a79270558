"""Is every write of the log explained? The table `audit`: one row for each write of anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.audit import findings
from metrics.replay.claims import judged_claims
from metrics.replay.kafka_events import GONE
from metrics.replay.moves import Happened
from metrics.replay.partition_fold import fold_partitions
from metrics.replay.sightings import sightings, terms_of
from metrics.replay.terms import Sighting
from metrics.replay.verdicts import EXPLAINED, LISTED, Finding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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


def audit(events: DataFrame) -> DataFrame:
    """One row for each write, from the table `events`."""
    changes = sightings(events)

    def fold(topic: str, partition: int, history: Iterable[Happened]) -> Iterator[dict[str, Any]]:
        return (_row(found, topic, partition) for found in findings(topic, partition, history, terms_of(changes)))

    wanted = events.where("kind in ('state', 'assignment', 'legacy_move')")
    partitions = fold_partitions(wanted, fold, SCHEMA, DDL)
    return partitions.unionByName(_other_writes(events)).unionByName(_claims(events, changes))


def _claims(events: DataFrame, changes: list[Sighting]) -> DataFrame:
    rows = [_row(found, None, None) for found in judged_claims(changes)]
    return events.sparkSession.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA), DDL)


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


def _other_writes(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    rule, why = f.create_map(), f.create_map()
    for kind, (name, text) in _OTHERS.items():
        rule = f.map_concat(rule, f.create_map(f.lit(kind), f.lit(name)))
        why = f.map_concat(why, f.create_map(f.lit(kind), f.lit(text)))
    judged_elsewhere = ("state", "assignment", "legacy_move", "broker", "controller", "controller_epoch")
    rows = events.where(~f.col("kind").isin(*judged_elsewhere) & (f.col("op") != "known"))
    changed = events.where("kind = 'assignment'").select("zxid", "topic").distinct()
    is_topic = (f.col("kind") == "topic") & ~f.col("op").isin(*GONE)
    # A topic's write is judged by the assignments that it changed.
    untouched = rows.where(is_topic).join(changed, ["zxid", "topic"], "left_anti").select(*rows.columns)
    others = rows.where(~is_topic).unionByName(untouched)
    known_rule = rule[f.col("kind")]
    where = f.coalesce("path", f.concat(f.lit("session "), f.hex("session")))
    return others.select(
        "zxid", "time", f.col("kind").alias("what"), "topic", "partition",
        f.when(known_rule.isNull(), f.lit(LISTED)).otherwise(f.lit(EXPLAINED)).alias("verdict"),
        f.coalesce(known_rule, f.lit("not Kafka's controller")).alias("rule"),
        f.concat_ws(" ", f.col("op"), where, f.concat(f.lit("– "), why[f.col("kind")])).alias("why"),
        f.lit(None).cast("string").alias("ours"),
    )  # fmt: skip
