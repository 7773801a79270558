"""Who led, who was in sync, who was there, and for how long? Timelines and totals from the table `events`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metrics.replay.min_isr import Setting, in_pieces

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_STATE = ("leader", "leader_epoch", "controller_epoch", "isr", "version")
_PLACED = ("replicas", "adding", "removing", "replication_factor")
# What brokers ask for where nobody set anything.
DEFAULTS = (Setting(None, 1, "option"),)


def joined_edges(edges: DataFrame) -> DataFrame:
    """As `edges.joined`, for more rows than one process should hold."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    keys = ("topic", "partition")
    order = Window.partitionBy(*keys).orderBy("zxid", "part", "is_row")
    is_anew = (f.col("what") == "gone") | ((f.col("what") == "assignment") & (f.col("op") == "create"))
    rows = edges.withColumn("ended_at", f.coalesce("ended_at", f.lead("started_at").over(order)))
    rows = rows.withColumn("life", f.count_if(is_anew).over(order))
    within = Window.partitionBy(*keys, "life").orderBy("zxid", "part", "is_row")
    may_take = {
        "isr": (f.col("what") == "assignment") & (f.col("op") != "create"),
        "replicas": f.col("what") == "state",
    }
    for has, fields in (("isr", _STATE), ("replicas", _PLACED)):
        known = f.last(f.when(f.col(has).isNotNull(), f.struct(*fields)), ignorenulls=True).over(within)
        rows = rows.withColumn("known", f.when(f.col(has).isNull() & may_take[has], known))
        rows = rows.withColumns({name: f.coalesce(name, f"known.{name}") for name in fields})
    rows = rows.where("is_row")
    lasted = f.unix_millis("ended_at") - f.unix_millis("started_at")
    return rows.withColumn("duration_ms", lasted).drop("known", "life", "is_row")


def states(timeline: DataFrame) -> DataFrame:
    """The writes of states within `partitions`, as rows of `events`."""
    from pyspark.sql import functions as f

    nothing, ints = f.lit(None), f.lit(None).cast("array<int>")
    return timeline.where("what = 'state'").select(
        "zxid", f.col("started_at").alias("time"), "session", "part", "op", f.col("what").alias("kind"), "topic",
        "partition", nothing.cast("int").alias("broker"), "leader", "leader_epoch", "controller_epoch", "isr",
        ints.alias("replicas"), ints.alias("adding"), ints.alias("removing"), "version", "fence", "size_bytes",
        nothing.cast("string").alias("path"), nothing.cast("boolean").alias("is_first"),
        nothing.cast("int").alias("min_isr"),
    )  # fmt: skip


def health(timeline: DataFrame, until_ms: int, settings: Sequence[Setting] = DEFAULTS) -> DataFrame:
    """How long each topic had partitions under-replicated, at or under the minimum ISR, or leaderless.

    Times are summed over partitions; those that still last count until `until_ms`. `min_isr` is what is asked for
    last.
    """
    from pyspark.sql import functions as f

    pieces = in_pieces(timeline.where("isr is not null"), until_ms, settings)
    return pieces.groupBy("topic").agg(
        f.countDistinct("partition").alias("partitions"),
        _sum(f.col("lasted_ms"), is_under_replicated()).alias("under_replicated_ms"),
        *_shortages(),
        f.max_by("min_isr", f.struct("zxid", ~f.col("is_begin"), "lasted_ms")).alias("min_isr"),
        f.count_if("is_begin").alias("changes"),
    )


def is_under_replicated() -> Column:
    """`Assignment.is_under_replicated`, of a row of `partitions`."""
    from pyspark.sql import functions as f

    return f.size("isr") < f.col("replication_factor")


def _shortages() -> tuple[Column, ...]:
    from pyspark.sql import functions as f

    lasted, in_sync = f.col("lasted_ms"), f.size("isr")
    return (
        _sum(lasted, in_sync == f.col("min_isr")).alias("at_min_isr_ms"),
        _sum(lasted, in_sync < f.col("min_isr")).alias("under_min_isr_ms"),
        _sum(lasted, f.col("leader") < 0).alias("leaderless_ms"),
    )


def broker_health(timeline: DataFrame, until_ms: int, settings: Sequence[Setting] = DEFAULTS) -> DataFrame:
    """How long replicas on each broker were out of the ISR, how long it led, and what its partitions lacked.

    Times are summed over replicas: a partition counts for each broker that has a replica of it.
    """
    from pyspark.sql import functions as f

    pieces = in_pieces(timeline.where("isr is not null and replicas is not null"), until_ms, settings)
    none = f.array().cast("array<int>")
    replicas = pieces.withColumn("broker", f.explode("replicas"))
    behind = ~f.array_contains("isr", f.col("broker"))
    is_added = f.array_contains(f.coalesce("adding", none), f.col("broker"))
    return replicas.groupBy("broker").agg(
        _sum(f.col("lasted_ms"), behind & ~is_added).alias("out_of_sync_ms"),
        _sum(f.col("lasted_ms"), behind & is_added).alias("catching_up_ms"),
        _sum(f.col("lasted_ms"), f.col("leader") == f.col("broker")).alias("leading_ms"),
        f.sum("lasted_ms").alias("hosting_ms"),
        _sum(f.col("lasted_ms"), is_under_replicated()).alias("under_replicated_ms"),
        *_shortages(),
    )


def broker_load(timeline: DataFrame) -> DataFrame:
    """Leaders and replicas on each broker after each second in which they changed."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    begins = timeline.where("what <> 'gone'").select(
        "leader", "replicas", f.col("started_at").alias("at"), f.lit(1).alias("d")
    )
    ends = timeline.where("what <> 'gone' and ended_at is not null").select(
        "leader", "replicas", f.col("ended_at").alias("at"), f.lit(-1).alias("d")
    )
    both = begins.unionAll(ends).withColumn("at", f.date_trunc("second", "at"))
    led = both.where("leader >= 0").select(
        "at", f.col("leader").alias("broker"), f.col("d").alias("l"), f.lit(0).alias("r")
    )
    held = both.select("at", f.explode("replicas").alias("broker"), f.lit(0).alias("l"), f.col("d").alias("r"))
    steps = led.unionAll(held).groupBy("broker", "at").agg(f.sum("l").alias("l"), f.sum("r").alias("r"))
    upto = Window.partitionBy("broker").orderBy("at")
    return steps.where("l <> 0 or r <> 0").select(
        "broker", "at", f.sum("l").over(upto).alias("leaders"), f.sum("r").over(upto).alias("replicas")
    )


def with_paths(events: DataFrame) -> DataFrame:
    """The table `events` with the path of each state spelled out."""
    from pyspark.sql import functions as f

    state_path = f.format_string("/brokers/topics/%s/partitions/%d/state", "topic", "partition")
    return events.withColumn("path", f.coalesce("path", f.when(f.col("kind") == "state", state_path)))


def znodes(events: DataFrame, limit: int = 1000) -> DataFrame:
    """The znodes written most: how often, how much, how large they grew, and how much of it was news.

    A topic's znode is written whole for one partition that changes: `changes` are the partitions whose replicas
    differed from the write before, `changed_bytes` what they take up in it, `amplification` how many bytes were
    written for each of those.
    """
    from pyspark.sql import functions as f

    rows = with_paths(events).where("size_bytes is not null and op <> 'known'")
    written = rows.groupBy("path").agg(
        f.first("topic", ignorenulls=True).alias("topic"),
        f.first("kind").alias("kind"),
        f.count("*").alias("writes"),
        f.sum("size_bytes").alias("bytes"),
        f.max("size_bytes").alias("largest_bytes"),
        f.max_by("size_bytes", "zxid").alias("last_bytes"),
        f.max("time").alias("last_at"),
    )
    most = written.orderBy(f.desc("bytes"), "path").limit(limit)
    # The entries `"12":[1,2,3],` of one partition in its topic's JSON.
    lists = [f.length(f.concat_ws(",", c)) for c in ("replicas", "adding", "removing")]
    entry = f.length(f.col("partition").cast("string")) + 6 + sum(lists[1:], lists[0])
    changed = (
        events.where("kind = 'assignment' and op <> 'known' and not is_first")
        .groupBy("topic")
        .agg(f.count("*").alias("changes"), f.sum(entry).alias("changed_bytes"))
    )
    joined = most.join(changed.withColumn("kind", f.lit("topic")), ["topic", "kind"], "left")
    return joined.select(
        "path", "writes", "bytes", "largest_bytes", "last_bytes", "last_at", "changes", "changed_bytes",
        f.round(f.col("bytes") / f.col("changed_bytes"), 1).alias("amplification"),
    ).orderBy(f.desc("bytes"), "path")  # fmt: skip


def _sum(value: Column, when: Column) -> Column:
    from pyspark.sql import functions as f

    return f.sum(f.when(when, value).otherwise(f.lit(0)))


def health_steps(timeline: DataFrame) -> DataFrame:
    """By how much the numbers of under-replicated, leaderless and moving partitions changed, second by second."""
    from pyspark.sql import functions as f

    none = f.array().cast("array<int>")
    removing = f.coalesce("removing", none)
    flags = timeline.where("isr is not null and replicas is not null").select(
        "started_at",
        "ended_at",
        is_under_replicated().cast("int").alias("u"),
        (f.col("leader") < 0).cast("int").alias("l"),
        ((f.size(removing) > 0) | (f.size(f.coalesce("adding", none)) > 0)).cast("int").alias("m"),
    )
    marked = flags.where("u + l + m > 0")
    begins = marked.select(f.col("started_at").alias("at"), "u", "l", "m")
    ends = marked.where("ended_at is not null").selectExpr("ended_at as at", "-u as u", "-l as l", "-m as m")
    seconds = begins.unionAll(ends).withColumn("at", f.unix_millis(f.date_trunc("second", "at")))
    return (
        seconds.groupBy("at")
        .agg(f.sum("u").alias("under_replicated"), f.sum("l").alias("leaderless"), f.sum("m").alias("moving"))
        .where("under_replicated <> 0 or leaderless <> 0 or moving <> 0")
    )
