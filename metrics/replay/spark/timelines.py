"""How does Spark see the tables that were written, and states as events?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics.replay.events.schemas import WRITTEN, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def states(timeline: DataFrame) -> DataFrame:
    """The writes of states within `partitions`, as rows of `events`."""
    from pyspark.sql import functions as f

    nothing, ints = f.lit(None), f.lit(None).cast("array<int>")
    return timeline.where("what = 'state'").select(
        "zxid", f.col("started_at").alias("time"), "session", "part", "op", f.col("what").alias("kind"), "topic",
        "partition", nothing.cast("int").alias("broker"), "leader", "leader_epoch", "controller_epoch", "isr",
        ints.alias("replicas"), ints.alias("adding"), ints.alias("removing"), "version", "fence", "size_bytes",
        nothing.cast("string").alias("path"), nothing.cast("boolean").alias("is_first"),
        nothing.cast("int").alias("min_isr"), nothing.cast("string").alias("host"),
    )  # fmt: skip


def all_events(spark: SparkSession, tables: dict[str, str]) -> DataFrame:
    """All events: the table `events`, and the states in `partitions`."""
    return read_table(spark, tables, "events").unionByName(states(read_table(spark, tables, "partitions")))


def read_table(spark: SparkSession, tables: dict[str, str], name: str) -> DataFrame:
    """A written table, even an empty one."""
    reader = spark.read.schema(spark_schema(name)) if name in WRITTEN else spark.read
    return reader.parquet(tables[name])
