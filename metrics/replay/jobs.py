"""Which tables are computed, in which order, and where do they go? The whole replay of a data directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct, structs
from pyspark import SparkContext

from metrics.replay import bulk, bulk_moves, growth, lives, min_isr, session, timelines
from metrics.replay.as_of import as_time
from metrics.replay.audit_table import audit
from metrics.replay.output import Output
from metrics.replay.schemas import spark_schema
from metrics.replay.sources import size_of, stored_files
from metrics.replay.splits import Split, plan
from metrics.replay.state import DEFAULT_SPLIT_BYTES, survey
from zk_layout.storage.damage import Damage
from zk_layout.storage.files import LOG, StoredFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Progress = Callable[[str, int, int], None]

# The tables in the order in which they are made.
ALL = (
    "events", "partitions", "reassignments", "brokers", "controllers", "sessions", "min_isr", "topic_health",
    "broker_health", "broker_load", "znodes", "znode_sizes", "znode_growth", "audit", "damage",
)  # fmt: skip
FROM_LOGS = ("events", "partitions", "damage")
WITHOUT_SQL = ("reassignments", "brokers", "controllers", "sessions", "min_isr")
TIMELINE = ALL[:6]
MOST_EDGES = 5_000_000
# Up to here, starting Spark quickly saves more than its slower machine code costs.
BRIEF_BYTES = 64 << 20
LARGEST_SPLIT_BYTES = 128 << 20


class Job(Struct, frozen=True):
    """What to read and what to make of it.

    Shape:
        `since` and `until` (milliseconds) choose what is shown; everything before is read all the same, because
        a state follows from what came before. `tables` are names from ALL.
    """

    paths: tuple[str, ...]
    out: str
    chroot: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    tables: tuple[str, ...] = ALL
    min_isr: int = 1
    max_znode_bytes: int = growth.DEFAULT_LIMIT_BYTES
    split_bytes: int | None = None


class Result(Struct, frozen=True):
    """Where each table is, and how long it took."""

    tables: dict[str, str]
    seconds: dict[str, float]


class Looked(Struct, frozen=True):
    """What is to be read, found before Spark is needed."""

    splits: tuple[Split, ...]
    damage: tuple[Damage, ...]
    seconds: float

    def check(self, job: Job) -> None:
        """See whether anything happened in the time that is to be shown.

        Raises:
            ValueError: nothing did.
        """
        times = [split.times_ms for split in self.splits if split.pieces]
        if not times:
            return
        first, last = min(first for first, _ in times), max(last for _, last in times)
        if job.until_ms is not None and job.until_ms < first:
            raise ValueError(f"--until is before the history begins, at {as_time(first)}")
        if job.since_ms is not None and job.since_ms > last:
            raise ValueError(f"--since is after the history ends, at {as_time(last)}")


def look(job: Job, cores: int) -> Looked:
    """Go through the logs: where they can be cut, what is damaged or missing, where each topic was written.

    Raises:
        NothingToRead: there are no files of ZooKeeper.
        NotOneCluster: they are of different clusters.
    """
    begun = time.monotonic()
    files = stored_files(job.paths)
    split_bytes = job.split_bytes or split_bytes_for(files, cores)
    history = survey(files, split_bytes)
    planned = plan(history, split_bytes, job.chroot)
    return Looked(planned.splits, (*history.damage, *planned.damage), time.monotonic() - begun)


def is_brief(job: Job) -> bool:
    """Whether starting Spark takes longer than what it has to do by SQL.

    Raises:
        NothingToRead: there are no files of ZooKeeper.
    """
    # Compressed files hold about ten times their size.
    sizes = (size_of(file.path) * (10 if file.compression else 1) for file in stored_files(job.paths))
    return sum(sizes) <= BRIEF_BYTES


def run(
    spark: SparkContext | SparkSession, job: Job, progress: Progress = lambda *_: None, looked: Looked | None = None
) -> Result:
    """Compute the tables and write each as a Parquet directory below `out`, where they replace all former ones at once.

    `looked` is what `look` found, where that was done while Spark started. A context is enough for the tables of
    TIMELINE; for others it gets a session, which takes seconds.

    Raises:
        NotOurs: there is something below `out` that no replay has made.
    """
    names = result_names(job)
    with Output(job.out).aside(names) as place:
        seconds = _compute(spark, structs.replace(job, out=place), progress, looked)
    return Result({name: f"{job.out.rstrip('/')}/{name}" for name in names}, seconds)


def result_names(job: Job) -> tuple[str, ...]:
    """The tables that are written."""
    return (*FROM_LOGS, *_wanted(job))


def _wanted(job: Job) -> tuple[str, ...]:
    return tuple(name for name in ALL if name in job.tables and name not in FROM_LOGS)


def _compute(
    spark: SparkContext | SparkSession, job: Job, progress: Progress, looked: Looked | None
) -> dict[str, float]:
    """Write all tables below `out`, which is empty; how long each took."""
    context = spark if isinstance(spark, SparkContext) else spark.sparkContext
    seconds: dict[str, float] = {}
    wanted = _wanted(job)
    total = len(wanted) + 3
    if looked is None:
        progress("looking through the logs", 0, total)
        looked = look(job, context.defaultParallelism)
    seconds["plan"] = looked.seconds
    written = _read_logs(context, job, looked, seconds, lambda name, done: progress(name, done, total))
    for number, name in enumerate(wanted, 3):
        progress(name, number, total)
        begun = time.monotonic()
        target = f"{job.out}/{name}"
        if name in WITHOUT_SQL:
            without_sql(session.each(context), job, name, context.defaultParallelism)
        else:
            _table(session.of(context), job, name, written).write.mode("overwrite").parquet(target)
        written[name] = target
        seconds[name] = time.monotonic() - begun
    progress("done", total, total)
    return seconds


def _read_logs(
    context: SparkContext, job: Job, looked: Looked, seconds: dict[str, float], progress: Callable[[str, int], None]
) -> dict[str, str]:
    """Write what is read from the logs themselves, and join what spans two splits."""
    out = job.out
    progress("reading", 1)
    begun = time.monotonic()
    bulk.run(session.each(context), looked.splits, out, job.chroot, looked.damage)
    seconds["read"] = time.monotonic() - begun
    progress("joining", 2)
    begun = time.monotonic()
    _join(context, out)
    seconds["join"] = time.monotonic() - begun
    return {name: f"{out}/{name}" for name in FROM_LOGS}


def _join(context: SparkContext, out: str) -> None:
    """Few edges are joined here, many by Spark."""
    if not bulk.join_edges(out, MOST_EDGES):
        edges = session.of(context).read.schema(spark_schema("edges")).parquet(f"{out}/edges")
        timelines.joined_edges(edges).write.mode("append").parquet(f"{out}/partitions")


def split_bytes_for(files: tuple[StoredFile, ...], cores: int) -> int:
    """Splits small enough to keep all cores busy to the end, large enough to leave few edges."""
    total = sum(size_of(file.path) for file in files if file.kind == LOG and not file.compression)
    return min(max(total // (4 * cores), DEFAULT_SPLIT_BYTES), LARGEST_SPLIT_BYTES)


def all_events(spark: SparkSession, tables: dict[str, str]) -> DataFrame:
    """Everything that happened: the table `events`, and the states that are in `partitions`."""
    states = timelines.states(read_table(spark, tables, "partitions"))
    return read_table(spark, tables, "events").unionByName(states)


def read_table(spark: SparkSession, tables: dict[str, str], name: str) -> DataFrame:
    """A written table; an empty one too."""
    reader = spark.read.schema(spark_schema(name)) if name in FROM_LOGS else spark.read
    return reader.parquet(tables[name])


def _table(spark: SparkSession, job: Job, name: str, written: dict[str, str]) -> DataFrame:
    if name == "znode_growth" and "znode_sizes" in written:
        return growth.forecast(read_table(spark, written, "znode_sizes"), job.max_znode_bytes)
    if name in _OF_EVENTS or name.startswith("znode_"):
        events = all_events(spark, written)
        if job.until_ms is not None:
            events = events.where(_before(job.until_ms))
        if name.startswith("znode_"):
            sized = growth.growth(events, job.max_znode_bytes, job.since_ms or 0)
            return sized if name == "znode_sizes" else growth.forecast(sized, job.max_znode_bytes)
        return _OF_EVENTS[name](events, job.since_ms)
    timeline = _clipped(read_table(spark, written, "partitions"), job.since_ms, job.until_ms)
    if name == "broker_load":
        return timelines.broker_load(timeline)
    until = job.until_ms or _last_ms(job.out)
    settings = _settings(job)
    return (
        timelines.health(timeline, until, settings)
        if name == "topic_health"
        else timelines.broker_health(timeline, until, settings)
    )


def _settings(job: Job) -> list[min_isr.Setting]:
    """What topics asked for, from the table `events`."""
    kind = pc.field("kind") == "config"
    rows = bulk.written(job.out, "events").to_table(columns=[*min_isr.COLUMNS], filter=kind)
    return min_isr.settings(rows.to_pylist(), job.min_isr)


def without_sql(each: bulk.Each, job: Job, name: str, buckets: int = 1) -> None:
    """Write a table of WITHOUT_SQL, which needs no sorting of everything."""
    out = job.out
    if name == "reassignments":
        until_ms = job.until_ms or _last_ms(out)
        bulk_moves.run(each, out, bulk_moves.Window(until_ms, job.since_ms or 0), buckets)
        return
    if name == "min_isr":
        bulk.write_table(out, name, min_isr.as_table(_settings(job)))
        return
    events = lives.in_order(bulk.written(out, "events").to_table(filter=pc.field("kind").isin(lives.KINDS)))
    if job.until_ms is not None:
        events = [e for e in events if e["time"].timestamp() * 1000 <= job.until_ms]
    rows = _LIVES[name](events)
    if job.since_ms is not None and "ended_at" in rows.column_names:
        begin = pa.scalar(job.since_ms, pa.timestamp("ms", tz="UTC"))
        rows = rows.filter(pc.or_kleene(pc.is_null(rows["ended_at"]), pc.greater_equal(rows["ended_at"], begin)))
    bulk.write_table(out, name, rows)


_LIVES: dict[str, Callable[[Sequence[dict[str, Any]]], Any]] = {
    "brokers": lives.brokers,
    "controllers": lives.controllers,
    "sessions": lives.sessions,
}


_OF_EVENTS: dict[str, Callable[[DataFrame, int | None], DataFrame]] = {
    "znodes": lambda events, since: timelines.znodes(_since(events, since)),
    "audit": lambda events, since: _since(audit(events), since),
}


def _before(time_ms: int) -> Any:
    from pyspark.sql import functions as f

    return f.col("time") <= f.timestamp_millis(f.lit(time_ms))


def _since(rows: DataFrame, since_ms: int | None) -> DataFrame:
    from pyspark.sql import functions as f

    return rows if since_ms is None else rows.where(f.col("time") >= f.timestamp_millis(f.lit(since_ms)))


def _overlapping(rows: DataFrame, since_ms: int | None) -> DataFrame:
    from pyspark.sql import functions as f

    if since_ms is None:
        return rows
    return rows.where(f.col("ended_at").isNull() | (f.col("ended_at") >= f.timestamp_millis(f.lit(since_ms))))


def _clipped(timeline: DataFrame, since_ms: int | None, until_ms: int | None) -> DataFrame:
    """The part of each interval that lies within the time looked at."""
    from pyspark.sql import functions as f

    if until_ms is not None:
        end = f.timestamp_millis(f.lit(until_ms))
        inside = timeline.where(f.col("started_at") <= end)
        timeline = inside.withColumn("ended_at", f.when(f.col("ended_at") <= end, f.col("ended_at")))
    if since_ms is not None:
        begin = f.timestamp_millis(f.lit(since_ms))
        timeline = _overlapping(timeline, since_ms).withColumn("started_at", f.greatest("started_at", begin))
    lasted = f.unix_millis("ended_at") - f.unix_millis("started_at")
    return timeline.withColumn("duration_ms", lasted)


def _last_ms(out: str) -> int:
    """The time of the last thing that happened."""
    last = 0
    for table, column in (("events", "time"), ("partitions", "started_at")):
        times = bulk.written(out, table).to_table(columns=[column])[column]
        newest = pc.max(times).as_py()
        last = max(last, 0 if newest is None else int(newest.timestamp() * 1000))
    return last


def rows_of(
    spark: SparkSession, tables: dict[str, str], name: str, query: Callable[[DataFrame], DataFrame]
) -> list[dict[str, Any]]:
    """The rows of a small query over a written table."""
    return list(query(read_table(spark, tables, name)).toArrow().to_pylist())


def named(tables: Iterable[str]) -> tuple[str, ...]:
    """The names, checked.

    Raises:
        ValueError: there is no such table.
    """
    chosen = tuple(tables)
    unknown = [name for name in chosen if name not in ALL]
    if unknown:
        raise ValueError(f"there is no table {', '.join(unknown)}; there are {', '.join(ALL)}")
    return chosen
