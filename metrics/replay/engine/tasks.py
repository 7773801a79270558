"""What can be done in tasks, wherever they run: in this process, or by Spark?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar
from zlib import crc32

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types

Of = TypeVar("Of")
# What makes one table of several.
Part = Callable[[pa.Table], pa.Table]
File = tuple[str, str]  # the table, and the path
# The rows of a file, by the number of their bucket.
Cut = Callable[[File], Iterable[tuple[int, pa.Table]]]
# What is made of all rows of a bucket, by its number.
Finish = Callable[[int, pa.Table], Any]


class Shared(Protocol):
    """What all tasks may look at."""

    @property
    def value(self) -> Any:
        """It itself."""
        ...


class Engine(Protocol):
    """Where the work is done: in this process, or by Spark."""

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        ...

    def work(self, task: Callable[[Any], Any], of: Sequence[Any]) -> list[Any]:
        """Do something for each of several; what comes of them, in their order."""
        ...

    def share(self, value: Any) -> Shared:
        """Have something where tasks run, once for all of them."""
        ...

    def reduce(self, task: Callable[[File], Of], files: Sequence[File], both: Callable[[Of, Of], Of]) -> Of:
        """What the task makes of each file, as one; there is a file at least."""
        ...

    def in_buckets(self, cut: Cut, files: Sequence[File], finish: Finish, buckets: int) -> list[Any]:
        """Go through the files once, and finish each bucket where all its rows have come together."""
        ...

    def check_reach(self, paths: Sequence[str]) -> None:
        """Make sure that tasks see these files.

        Raises:
            NotShared: they run elsewhere, and do not.
        """
        ...


class NotShared(ValueError):
    """A place that only this machine knows, where others are to read or write."""


def by_partition(rows: pa.Table, buckets: int) -> Iterable[tuple[int, pa.Table]]:
    """Rows with a topic and a partition, cut so that each partition has all of its rows in one bucket."""
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
