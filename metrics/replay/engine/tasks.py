"""What can tasks do, in this process or on Spark?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar
from zlib import crc32

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types

Of = TypeVar("Of")
# Merges several tables into one.
Part = Callable[[pa.Table], pa.Table]
File = tuple[str, str]  # the table, and the path
# The rows of a file, by the number of their bucket.
Cut = Callable[[File], Iterable[tuple[int, pa.Table]]]
# Finishes all rows of a bucket, given its number.
Finish = Callable[[int, pa.Table], Any]


class Shared(Protocol):
    """A value that all tasks may read."""

    @property
    def value(self) -> Any:
        """The value."""
        ...


class Engine(Protocol):
    """Runs tasks: in this process, in several, or on Spark."""

    @property
    def cores(self) -> int:
        """The number of tasks that run at once."""
        ...

    def work(self, task: Callable[[Any], Any], of: Sequence[Any]) -> list[Any]:
        """Run the function on each item; return the results in the items' order."""
        ...

    def share(self, value: Any) -> Shared:
        """Make a value available to tasks, sent once for all of them."""
        ...

    def reduce(self, task: Callable[[File], Of], files: Sequence[File], both: Callable[[Of, Of], Of]) -> Of:
        """Run the task on each file (at least one) and merge the results."""
        ...

    def in_buckets(self, cut: Cut, files: Sequence[File], finish: Finish, buckets: int) -> list[Any]:
        """Distribute the rows of the files over buckets, and finish each bucket with all its rows."""
        ...

    def check_reach(self, paths: Sequence[str]) -> None:
        """Make sure that tasks see these files.

        Raises:
            NotShared: they run elsewhere, and do not see them.
        """
        ...


class NotShared(ValueError):
    """A place that only this machine sees, though others must read or write there."""


def by_partition(rows: pa.Table, buckets: int) -> Iterable[tuple[int, pa.Table]]:
    """Cut rows into buckets, so that all rows of a partition are in the same one."""
    if buckets == 1 or not rows.num_rows:
        return [(0, rows)]
    topics = pc.dictionary_encode(rows["topic"]).combine_chunks()
    if isinstance(topics, pa.ChunkedArray):
        topics = topics.chunk(0)
    hashes = pa.array([crc32(topic.encode()) for topic in topics.dictionary.to_pylist()], pa.int64())
    number = pc.add(hashes.take(topics.indices), rows["partition"].cast(pa.int64()))
    number = pc.subtract(number, pc.multiply(pc.divide(number, buckets), buckets))
    order = pc.sort_indices(number)
    counts = {c["values"]: c["counts"] for c in pc.value_counts(number).to_pylist()}
    found, at, taken = [], 0, rows.take(order)
    for bucket in sorted(counts):
        found.append((bucket, taken.slice(at, counts[bucket])))
        at += counts[bucket]
    return found
