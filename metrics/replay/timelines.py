"""How do rows of `partitions` that many splits left become one timeline, and how does Spark see states as events?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics.replay.schemas import WRITTEN, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STATE = ("leader", "leader_epoch", "controller_epoch", "isr", "version")
_PLACED = ("replicas", "adding", "removing", "replication_factor")


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


def all_events(spark: SparkSession, tables: dict[str, str]) -> DataFrame:
    """Everything that happened: the table `events`, and the states that are in `partitions`."""
    return read_table(spark, tables, "events").unionByName(states(read_table(spark, tables, "partitions")))


def read_table(spark: SparkSession, tables: dict[str, str], name: str) -> DataFrame:
    """A written table; an empty one too."""
    reader = spark.read.schema(spark_schema(name)) if name in WRITTEN else spark.read
    return reader.parquet(tables[name])
