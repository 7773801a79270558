"""Where does the work run: in this process, which is fast for little, in processes on all cores, or on Spark?

All engines run the same functions over the same rows.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.engine.tasks import Cut, Engine, File, Finish, NotShared, Of, Shared
from metrics.replay.files.sources import size_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from metrics.replay.engine.processes import Processes


class Local:
    """This process, one task after the other; or several processes of this machine."""

    def __init__(self, cores: int = 1) -> None:
        """With more than one process, `close` it at the end."""
        self.cores = cores
        self._processes = _processes(cores) if cores > 1 else None

    def close(self) -> None:
        """End the processes."""
        if self._processes is not None:
            self._processes.close()

    def work(self, task: Callable[[Any], Any], of: Sequence[Any]) -> list[Any]:
        """Run the function on each item; return the results in the items' order."""
        return [*self._each(task, of)]

    def share(self, value: Any) -> Shared:
        """Make a value available here, and once in each process."""
        return _Here(value) if self._processes is None else self._processes.share(value)

    def reduce(self, task: Callable[[File], Of], files: Sequence[File], both: Callable[[Of, Of], Of]) -> Of:
        """Run the task on each file (at least one) and merge the results."""
        found: Of = reduce(both, self._each(task, files))
        return found

    def in_buckets(
        self, cut: Cut, files: Sequence[File], finish: Finish, buckets: int,  # noqa: ARG002  # as many as there are
    ) -> list[Any]:  # fmt: skip
        """Distribute the rows of the files over buckets, on disk, and finish each bucket with all its rows."""
        with TemporaryDirectory(prefix="replay-buckets-") as aside:
            places: dict[int, list[str]] = {}
            for kept in self._each(partial(_kept, cut, aside), [*enumerate(files)]):
                for bucket, place in kept:
                    places.setdefault(bucket, []).append(place)
            return [*self._each(partial(_brought, finish), sorted(places.items()))]

    def check_reach(self, paths: Sequence[str]) -> None:
        """Local tasks see every local file."""

    def _each(self, task: Callable[[Any], Any], of: Sequence[Any]) -> Iterator[Any]:
        if self._processes is None or len(of) == 1:
            return map(task, of)
        return self._processes.each(task, of)


class OnSpark:
    """Spark's tasks."""

    def __init__(self, spark: SparkContext | SparkSession) -> None:
        """A context without SQL is enough."""
        self.context: SparkContext = spark.sparkContext if hasattr(spark, "sparkContext") else spark
        self.cores: int = self.context.defaultParallelism

    def work(self, task: Callable[[Any], Any], of: Sequence[Any]) -> list[Any]:
        """Run the function on each item; return the results in the items' order."""
        return self.context.parallelize(of, max(len(of), 1)).map(task).collect() if of else []

    def share(self, value: Any) -> Shared:
        """Make a value available to tasks, once for each of their processes."""
        return self.context.broadcast(value)

    def reduce(self, task: Callable[[File], Of], files: Sequence[File], both: Callable[[Of, Of], Of]) -> Of:
        """Run the task on each file (at least one) and merge the results."""
        tasks = self.context.parallelize(files, min(len(files), _TASKS_A_CORE * self.cores)).map(task)
        found: Of = tasks.treeReduce(both)
        return found

    def in_buckets(self, cut: Cut, files: Sequence[File], finish: Finish, buckets: int) -> list[Any]:
        """Distribute the rows of the files over buckets, and finish each bucket with all its rows."""
        if not files:
            return []
        pieces = self.context.parallelize(files, min(len(files), _TASKS_A_CORE * self.cores))
        sent = pieces.flatMap(partial(_sent, cut)).partitionBy(buckets, _itself)
        return sent.mapPartitions(partial(_finished, finish)).collect()

    def check_reach(self, paths: Sequence[str]) -> None:
        """Ask each worker for the files.

        Raises:
            NotShared: a worker does not see one of them.
        """
        if str(self.context.master).startswith("local"):
            return
        sizes = [(path, size_of(path)) for path in paths]
        asked = range(_ASKED_A_CORE * self.cores)
        unseen = self.context.parallelize(asked, len(asked)).flatMap(partial(_unseen, sizes)).collect()
        if unseen:
            host, path = unseen[0]
            raise NotShared(
                f"Spark's worker on {host} does not see {path} as it is here: give a place that all workers share, "
                "such as a mounted directory, s3a://… or hdfs://…"
            )


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class UntilThere:
    """Runs tasks here, one after the other, until an engine is ready for the rest."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._is_there = Event()

    def give(self, engine: Engine | None) -> None:
        """Hand over to this engine; None if there will never be one."""
        self._engine = engine
        self._is_there.set()

    def __call__(self, task: Callable[[Any], Any], of: Sequence[Any]) -> list[Any]:
        """Run the function on each item.

        Raises:
            RuntimeError: there will be no engine.
        """
        done: list[Any] = []
        while len(done) < len(of) and not self._is_there.is_set():
            done.append(task(of[len(done)]))
        rest = of[len(done) :]
        if rest and self._engine is None:
            raise RuntimeError("there is no engine to go on with")
        return done + (self._engine.work(task, rest) if rest and self._engine is not None else [])


class _Here(Struct, frozen=True):
    value: Any


def _processes(cores: int) -> Processes:
    from metrics.replay.engine.processes import Processes  # loads more than one process needs

    return Processes(cores)


_TASKS_A_CORE = 4  # few enough to cost little, enough to keep all cores busy to the end
_ASKED_A_CORE = 3  # so that most likely each worker is asked


def _itself(bucket: int) -> int:
    return bucket


def _sent(cut: Cut, file: File) -> Iterator[tuple[int, bytes]]:
    """The pieces of a file, as they are sent."""
    for bucket, rows in cut(file):
        if rows.num_rows:
            sink = pa.BufferOutputStream()
            _write(rows, sink)
            yield bucket, sink.getvalue().to_pybytes()


def _kept(cut: Cut, aside: str, numbered: tuple[int, File]) -> list[tuple[int, str]]:
    """The temporary file in which pieces wait."""
    number, file = numbered
    kept = []
    for bucket, rows in cut(file):
        if rows.num_rows:
            place = f"{aside}/{bucket}-{number}"
            with pa.OSFile(place, "wb") as sink:
                _write(rows, sink)
            kept.append((bucket, place))
    return kept


def _brought(finish: Finish, bucket: tuple[int, Sequence[str]]) -> Any:
    number, places = bucket
    pieces = []
    for place in places:
        with pa.OSFile(place) as file:
            pieces.append(pa.ipc.open_stream(file).read_all())
        os.unlink(place)
    return finish(number, pa.concat_tables(pieces))


def _write(rows: pa.Table, sink: Any) -> None:
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(rows)


def _finished(finish: Finish, pieces: Iterable[tuple[int, bytes]]) -> Iterator[Any]:
    held: dict[int, list[pa.Table]] = {}
    for bucket, piece in pieces:
        held.setdefault(bucket, []).append(pa.ipc.open_stream(piece).read_all())
    for bucket in sorted(held):
        yield finish(bucket, pa.concat_tables(held.pop(bucket)))


def _unseen(sizes: Sequence[tuple[str, int]], _: int) -> list[tuple[str, str]]:
    """The first file that is missing or different here, and this host; a live log may have grown."""
    for path, size in sizes:
        try:
            if size_of(path) >= size:
                continue
        except OSError:
            pass
        return [(f"{socket.gethostname()} (process {os.getpid()})", path)]
    return []
