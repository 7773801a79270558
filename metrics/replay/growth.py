"""Which znodes grow towards ZooKeeper's limit, how fast, and when are they there?

A znode, and the list of a parent's children, must fit into one request or answer: `jute.maxbuffer`, about 1 MB. A
topic's znode grows with its partitions and swells while they move; `/brokers/topics` grows with every topic.

Source: ZooKeeper's BinaryInputArchive.maxBuffer (1,048,575 bytes); GetChildrenResponse is a vector of strings, each
with its length in four bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics.replay.kafka_events import GONE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFAULT_LIMIT_BYTES = 0xFFFFF
LARGEST = 100
BUCKETS = 200
_DAY_MS = 86_400_000
# A rate seen in a shorter time says nothing about days, and nobody plans for longer.
_LEAST_MS, _MOST_DAYS = 60_000, 3650
_PARENTS = {"topic": "/brokers/topics", "config": "/config/topics"}
CHILDREN = " (list of children)"


def sizes(events: DataFrame) -> DataFrame:
    """Every write's size, and the size of the lists of topics after each topic that came or went.

    Columns: `path`, `zxid`, `part`, `at`, `size_bytes`, `op`.
    """
    from metrics.replay.timelines import with_paths

    written = with_paths(events).where("size_bytes is not null and path is not null and op <> 'acl'")
    columns = ("path", "zxid", "part", "time as at", "size_bytes", "op")
    return written.selectExpr(*columns).unionByName(_lists(events))


def _lists(events: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    kinds = events.where(f.col("kind").isin(*_PARENTS) & f.col("topic").isNotNull())
    is_gone = f.col("op").isin(*GONE)
    entry = f.octet_length("topic") + 4
    step = f.when(is_gone, -entry).when(f.col("op").isin("create", "known"), entry)
    parent = f.regexp_replace("path", "/[^/]+$", CHILDREN)
    upto = Window.partitionBy("path").orderBy("zxid", "part").rowsBetween(Window.unboundedPreceding, 0)
    steps = kinds.select(parent.alias("path"), "zxid", "part", f.col("time").alias("at"), step.alias("step"), "op")
    total = (f.sum("step").over(upto) + 4).cast("int")
    return steps.where("step is not null").select("path", "zxid", "part", "at", total.alias("size_bytes"), "op")


def _since(rows: DataFrame, since_ms: int) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.where(f.unix_millis("at") >= since_ms) if since_ms else rows


def _largest(rows: DataFrame, count: int) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.groupBy("path").agg(f.max("size_bytes").alias("top")).orderBy(f.desc("top"), "path").limit(count)


def growth(
    events: DataFrame, limit_bytes: int = DEFAULT_LIMIT_BYTES, since_ms: int = 0, largest: int = LARGEST
) -> DataFrame:
    """The sizes of the largest znodes over time: one row for each znode and each piece of time in which it was written.

    Of the writes in a piece the largest counts, for that is the one that would not have fitted.
    """
    from pyspark.sql import functions as f

    # States are many and small: where enough other znodes are larger, theirs need no grouping.
    others = _largest(_since(sizes(events.where("kind <> 'state'")), since_ms), largest).agg(f.count("*"), f.min("top"))
    known, least = others.head() or (0, 0)
    floor = least if known == largest else -1
    rows = _since(sizes(events.where((f.col("kind") != "state") | (f.col("size_bytes") > floor))), since_ms)
    top = _largest(rows, largest)
    chosen = rows.join(f.broadcast(top.select("path")), "path", "left_semi")
    ends = chosen.agg(f.unix_millis(f.min("at")), f.unix_millis(f.max("at"))).head()
    first, last = (ends[0] or 0, ends[1] or 0) if ends else (0, 0)
    width = max((last - first) // BUCKETS, 1)
    piece = f.floor((f.unix_millis("at") - f.lit(first)) / f.lit(width))
    return (
        chosen.groupBy("path", piece.alias("piece"))
        .agg(
            f.max("at").alias("at"),
            f.max("size_bytes").alias("size_bytes"),
            f.max_by("size_bytes", f.struct("zxid", "part")).alias("last_bytes"),
            f.count_if(f.col("op") != "known").alias("writes"),
        )
        .withColumn("share", f.round(f.col("size_bytes") / limit_bytes, 6))
        .select("path", "at", "size_bytes", "last_bytes", "share", "writes")
    )


def forecast(sized: DataFrame, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> DataFrame:
    """From the table `znode_sizes`: how large each znode is, how fast it grows, and when it meets the limit.

    The rate is that of a straight line through the sizes in which each piece of time ended, so that what swells and
    shrinks with every move does not count as growth. Null where nothing grows, or the log is too short to say.
    """
    from pyspark.sql import functions as f

    at = f.unix_millis("at").cast("double")
    seen = sized.groupBy("path").agg(
        f.min("at").alias("first_at"),
        f.max("at").alias("last_at"),
        f.min_by("last_bytes", "at").alias("first_bytes"),
        f.max_by("last_bytes", "at").alias("last_bytes"),
        f.max("size_bytes").alias("largest_bytes"),
        f.sum("writes").alias("writes"),
        f.regr_slope(f.col("last_bytes").cast("double"), at).alias("slope"),
    )
    lasted = f.unix_millis("last_at") - f.unix_millis("first_at")
    rate = f.when(lasted >= _LEAST_MS, f.round(f.col("slope") * _DAY_MS, 1))
    # A divisor of 0 would end the job.
    growing = f.when(f.col("bytes_a_day") > 0, f.col("bytes_a_day"))
    days = (limit_bytes - f.col("last_bytes")) / growing
    ahead = f.when((days >= 0) & (days < _MOST_DAYS), days)
    full_at = f.timestamp_millis((f.unix_millis("last_at") + ahead * _DAY_MS).cast("bigint"))
    return (
        seen.withColumn("bytes_a_day", rate)
        .withColumn("limit_bytes", f.lit(limit_bytes))
        .withColumn("share", f.round(f.col("largest_bytes") / limit_bytes, 6))
        .withColumn("full_at", full_at)
        .select(
            "path", "first_at", "last_at", "first_bytes", "last_bytes", "largest_bytes", "limit_bytes", "share",
            "writes", "bytes_a_day", "full_at",
        )
        .orderBy(f.desc("share"), "path")
    )  # fmt: skip
