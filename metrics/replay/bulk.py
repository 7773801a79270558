"""How is a long history read once, on all cores, with nothing sorted that is sorted already?

Each task folds one split and writes its part of `events` and `partitions` itself; only what spans two splits goes
to `edges` and is put together by Spark. A split starts with the topics as they were: planning noted where each was
last written before.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.edges import joined
from metrics.replay.intervals import GONE, Intervals
from metrics.replay.kafka_events import Meaning, known_rows
from metrics.replay.schemas import (
    DAMAGE,
    WRITTEN,
    edges_table,
    intervals_table,
    others_batch,
)
from metrics.replay.sources import Source, open_for_reading
from metrics.replay.state import END_OF_TIME, History, read_log
from zk_layout.storage.damage import Damage, Unreadable
from zk_layout.storage.files import StoredFile
from zk_layout.storage.jute import int_at
from zk_layout.storage.operations import Row, append_rows
from zk_layout.storage.snapshot import SnapshotReader
from zk_layout.storage.txnlog import RECORD_HEADER_SIZE

if TYPE_CHECKING:
    from pyspark import SparkContext

ROWS_A_GROUP = 250_000
SCHEMAS = WRITTEN
JOINED = 99_999  # the number of the file with the joined edges, behind those of the tasks

# The data itself, or the log and the record that hold it.
TopicAt = bytes | tuple[str, int]


class Task(Struct, frozen=True):
    """One split of a log, or the snapshot before the first log; and the topics at its start.

    Shape:
        `before` is the first zxid of the logs for a snapshot, 0 for a log.
    """

    number: int
    file: StoredFile
    start: int = 0
    stop: int | None = None
    shared: tuple[tuple[int, int], ...] = ()
    topics: dict[str, TopicAt] = {}
    before: int = 0


def plan(history: History, chroot: str = "") -> list[Task]:
    """The tasks, in the order of time."""
    tasks: list[Task] = []
    known: dict[str, TopicAt] = {}
    beginning = beginning_of(history)
    if beginning is not None:
        file, before = beginning
        known = topics_of_snapshot(file, before, chroot)
        tasks.append(Task(0, file, before=before))
    for log in history.logs:
        index = history.indexes[log.path]
        writes = iter(index.topics)
        write = next(writes, None)
        for number, split in enumerate(index.splits):
            while write is not None and write.offset < split.offset:
                known[write.topic] = (log.path, write.offset) if write.data is None else write.data
                write = next(writes, None)
            following = index.splits[number + 1] if number + 1 < len(index.splits) else None
            start, stop = (0 if number == 0 else split.offset), (following.offset if following else None)
            shared = history.shared.get(log.path, ())
            tasks.append(Task(len(tasks), log, start, stop, shared, dict(known)))
        while write is not None:
            known[write.topic] = (log.path, write.offset) if write.data is None else write.data
            write = next(writes, None)
    return tasks


def beginning_of(history: History) -> tuple[StoredFile, int] | None:
    """The snapshot that shows what was there before the first log, and that log's first zxid; None if complete."""
    logs = history.logs
    first = history.indexes[logs[0].path].splits[0].zxid if logs else END_OF_TIME
    if first == 1 or not history.snapshots:
        return None
    fitting = [snapshot for snapshot in history.snapshots if snapshot.zxid < first]
    return (fitting[0] if fitting else history.snapshots[-1]), first


def topics_of_snapshot(file: StoredFile, before: int, chroot: str = "") -> dict[str, TopicAt]:
    """The data of each topic's znode."""
    root = f"{chroot}/brokers/topics/"
    reader = SnapshotReader(file.path)
    topics: dict[str, TopicAt] = {}
    for chunk in Source(file).chunks():
        for path, data, _, _, mzxid, *_ in reader.feed(chunk):
            if data and mzxid < before and path.startswith(root) and "/" not in path[len(root) :]:
                topics[path[len(root) :]] = data
    return topics


def run(context: SparkContext, tasks: list[Task], out: str, chroot: str = "", damage: tuple[Damage, ...] = ()) -> None:
    """Carry out the tasks. Each writes one Parquet file a table below `out`; `damage` is written besides."""
    for table in SCHEMAS:
        make_directory(f"{out}/{table}")
    survey = Writers(out, len(tasks))
    survey.write_damage([*damage])
    survey.close()
    context.parallelize(tasks, max(len(tasks), 1)).foreach(lambda task: carry_out(task, out, chroot))


def join_edges(out: str, most: int) -> bool:
    """Close what spans two splits, if it is no more than `most` rows; whether it was done."""
    edges = written(out, "edges")
    if edges.count_rows() > most:
        return False
    rows = joined(edges.to_table())
    writer = Writers(out, JOINED)
    writer.write("partitions", rows)
    writer.close()
    return True


def written(out: str, table: str) -> Any:
    """A table below `out` that was written from the logs, to be read without Spark."""
    import pyarrow.dataset as ds  # type: ignore[import-untyped,unused-ignore]  # has no types

    filesystem, inside = None, f"{out}/{table}"
    if "://" in inside:
        from pyarrow.fs import FileSystem  # type: ignore[import-untyped,unused-ignore]  # has no types

        filesystem, inside = FileSystem.from_uri(inside)
    return ds.dataset(inside, schema=SCHEMAS[table], format="parquet", filesystem=filesystem)


def write_table(out: str, table: str, rows: pa.Table) -> None:
    """Write a small table as one file."""
    make_directory(f"{out}/{table}")
    writers = Writers(out, 0)
    writers.write(table, rows)
    writers.close()


def carry_out(task: Task, out: str, chroot: str = "") -> None:
    """Read, fold and write one split."""
    damage: list[Damage] = []
    intervals = Intervals()
    meaning = Meaning(chroot, intervals)
    writers = Writers(out, task.number)
    # Rows are plain tuples without cycles; looking for cycles among them would double the time.
    gc.disable()
    try:
        for topic, data in _topics(task):
            meaning.know_topic(topic, data)
        for rows in _rows(task, damage):
            meaning.add(rows)
            writers.take(meaning, intervals)
        writers.take(meaning, intervals, is_last=True)
        writers.write_damage(damage)
    finally:
        writers.close()
        gc.enable()


def _rows(task: Task, damage: list[Damage]) -> Iterator[list[Row]]:
    if task.before:
        reader = SnapshotReader(task.file.path)
        source = Source(task.file)
        for chunk in source.chunks():
            yield known_rows(reader.feed(chunk), task.before)
        reader.finish()
        damage += [*source.damage, *reader.damage]
        return
    for rows in read_log(task.file, damage, task.start, task.stop):
        if task.shared:
            yield [row for row in rows if not any(first <= row[0] <= last for first, last in task.shared)]
        else:
            yield rows


def _topics(task: Task) -> Iterator[tuple[str, bytes]]:
    by_file: dict[str, list[tuple[int, str]]] = {}
    for topic, where in task.topics.items():
        if isinstance(where, bytes):
            yield topic, where
        else:
            by_file.setdefault(where[0], []).append((where[1], topic))
    for path, places in by_file.items():
        with open_for_reading(path) as file:
            for offset, topic in sorted(places):
                data = _topic_data(file, offset, f"/brokers/topics/{topic}")
                if data is not None:
                    yield topic, data


def _topic_data(file: Any, offset: int, path_end: str) -> bytes | None:
    file.seek(offset)
    header = file.read(RECORD_HEADER_SIZE)
    rows: list[Row] = []
    try:
        append_rows(file.read(int_at(header, 8)[0]), rows)
    except Unreadable:
        return None
    written = [row[8] for row in rows if row[8] and row[7].endswith(path_end) and row[12] is None]
    return written[-1] if written else None


class Writers:
    """One Parquet file a table, opened when there is something to write."""

    def __init__(self, out: str, number: int) -> None:
        self._out = out
        self._number = number
        self._open: dict[str, Any] = {}

    def take(self, meaning: Meaning, intervals: Intervals, *, is_last: bool = False) -> None:
        """Write what has been gathered, in large groups."""
        if meaning.others and (is_last or len(meaning.others) >= ROWS_A_GROUP):
            self.write("events", pa.Table.from_batches([others_batch(meaning.others)]))
            meaning.others.clear()
        if intervals.rows and (is_last or intervals.closed_count >= ROWS_A_GROUP):
            rows, ended = intervals.take(is_last=is_last)
            table = intervals_table(rows, ended, intervals.keys)
            has_state = pc.or_(table["isr"].is_valid(), pc.equal(table["what"], GONE))
            is_final = pc.and_(table["ended_at"].is_valid(), has_state)
            self.write("partitions", table.filter(is_final))
            # What is open goes on in the next group, and only at the end to the neighbours.
            is_edge = pc.invert(is_final) if is_last else pc.and_(pc.invert(is_final), table["ended_at"].is_valid())
            starts = intervals.starts if is_last else ()
            self.write("edges", edges_table(table.filter(is_edge), starts, intervals.keys))

    def write_damage(self, damage: list[Damage]) -> None:
        """Write what was wrong with the split."""
        if damage:
            rows = [{"file": d.file, "offset": d.offset, "what": d.what} for d in damage]
            self.write("damage", pa.Table.from_pylist(rows, schema=DAMAGE))

    def close(self) -> None:
        """Finish the files."""
        for writer in self._open.values():
            writer.close()

    def write(self, table: str, rows: pa.Table) -> None:
        """Add rows to a table's file."""
        writer = self._open.get(table)
        if writer is None:
            target, filesystem = f"{self._out}/{table}/part-{self._number:05d}.parquet", None
            if "://" in target:
                from pyarrow.fs import FileSystem  # type: ignore[import-untyped,unused-ignore]  # has no types

                filesystem, target = FileSystem.from_uri(target)
            repeating = [field.name for field in rows.schema if pa.types.is_string(field.type)]
            writer = pq.ParquetWriter(
                target, rows.schema, compression="zstd", compression_level=1, use_dictionary=repeating,
                filesystem=filesystem,
            )  # fmt: skip
            self._open[table] = writer
        writer.write_table(rows)


def make_directory(path: str) -> None:
    """Have a directory to write to."""
    if "://" not in path:
        Path(path).mkdir(parents=True, exist_ok=True)
        return
    from pyarrow.fs import FileSystem  # type: ignore[import-untyped,unused-ignore]  # has no types

    filesystem, inside = FileSystem.from_uri(path)
    filesystem.create_dir(inside, recursive=True)
