"""Where is the work done: in this process, which is quick for little, or by Spark, for any amount?

Both run the same functions over the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.audit_table import DDL, SCHEMA, History
from metrics.replay.bulk import Each, Files
from metrics.replay.partition_fold import Fold, batched, fold_partitions, folded, rows_of
from metrics.replay.reduction import File, Part

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class Local:
    """This process, one thing after the other."""

    cores = 1
    most_edges = 2**62

    def join_edges(self, out: str) -> None:
        """All edges are held."""

    @property
    def each(self) -> Each:
        """What does something for each of several."""
        return _each

    def reduce(self, task: Callable[[File], pa.Table], files: Sequence[File], combine: Part) -> pa.Table | None:
        """What the task makes of each file, as one; None if there are no files."""
        return reduce(partial(_both, combine), map(task, files)) if files else None

    def audit(self, out: str, history: History, judge: Fold) -> None:
        """Judge each partition's history and add what was found to the table `audit` below `out`."""
        files = Files(out, _JUDGED)
        try:
            for batch in batched(folded(rows_of(history.rows(out).to_batches()), judge), SCHEMA):
                files.write("audit", pa.Table.from_batches([batch]))
        finally:
            files.close()


class OnSpark:
    """Spark's tasks."""

    def __init__(self, spark: SparkContext | SparkSession) -> None:
        """A context is enough for all but the audit, which gets a session from it; that takes seconds."""
        self.context: SparkContext = spark.sparkContext if hasattr(spark, "sparkContext") else spark
        self.cores: int = self.context.defaultParallelism

    most_edges = 5_000_000

    def join_edges(self, out: str) -> None:
        """Join more edges than that, from the table `edges` below `out`."""
        from metrics.replay import session
        from metrics.replay.schemas import spark_schema
        from metrics.replay.timelines import joined_edges

        edges = session.of(self.context).read.schema(spark_schema("edges")).parquet(f"{out}/edges")
        joined_edges(edges).write.mode("append").parquet(f"{out}/partitions")

    @property
    def each(self) -> Each:
        """What does something for each of several."""

        def do(task: Callable[[Any], None], of: Sequence[Any]) -> None:
            self.context.parallelize(of, max(len(of), 1)).foreach(task)

        return do

    def reduce(self, task: Callable[[File], pa.Table], files: Sequence[File], combine: Part) -> pa.Table | None:
        """What the task makes of each file, as one; None if there are no files."""
        if not files:
            return None
        tasks = self.context.parallelize(files, min(len(files), _TASKS_A_CORE * self.cores)).map(task)
        found: pa.Table = tasks.treeReduce(partial(_both, combine))
        return found

    def audit(self, out: str, history: History, judge: Fold) -> None:
        """Judge each partition's history and add what was found to the table `audit` below `out`."""
        from metrics.replay import session

        rows = history.on_spark(session.of(self.context), out)
        fold_partitions(rows, judge, SCHEMA, DDL).write.mode("append").parquet(f"{out}/audit")


_TASKS_A_CORE = 4  # few enough to cost little themselves, enough to keep all cores busy to the end
_JUDGED = 99_999  # the number of the file with what was judged, behind those of the other writes


def _each(task: Callable[[Any], None], of: Iterable[Any]) -> None:
    for one in of:
        task(one)


def _both(combine: Part, a: pa.Table, b: pa.Table) -> pa.Table:
    return combine(pa.concat_tables([a, b]))
