"""How is a long history read once, on all cores, with nothing sorted that is sorted already?

Each task folds one split and writes its part of `events`, `partitions` and `ledger` itself; only rows that span two
splits go to `edges` and are joined at the end.

Each attempt at a task writes under its own names. The driver learns of one attempt of each task, however many were
made, and gives its files their final names; readers never see the others.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.dataset as ds  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.fs as fs  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.engine.tasks import Engine, File, Shared, by_partition
from metrics.replay.events.edges import joined
from metrics.replay.events.intervals import GONE, Intervals
from metrics.replay.events.kafka_events import Meaning
from metrics.replay.events.schemas import (
    WRITTEN,
    damage_batch,
    edges_table,
    intervals_table,
    ledger_batch,
    others_batch,
)
from metrics.replay.events.splits import LastWrites, Split, known_before, meaning_of
from metrics.replay.events.state_writes import StateWrites
from metrics.replay.files.output import filesystem_of
from metrics.replay.files.state import read_records
from zk_layout.storage.damage import Damage

ROWS_A_GROUP = 250_000
SCHEMAS = WRITTEN
JOINED = 1_000_000  # the number of the file with the joined edges, after those of the tasks
SURVEY = 999_999  # and of that with damage found before any of them
MOST_EDGES = 1_000_000

# The files of one attempt at a task, as `table/file`, under names that no reader sees.
Attempt = tuple[str, ...]


def run(
    engine: Engine, splits: Sequence[Split], last_writes: LastWrites, out: str, chroot: str = "",
    damage: Sequence[Damage] = (),
) -> None:  # fmt: skip
    """Process all splits. Each writes one Parquet file a table below `out`; `damage` is written, too."""
    for table in SCHEMAS:
        make_directory(f"{out}/{table}")
    survey = Files(out, SURVEY)
    survey.write_damage([*damage])
    settle(out, [survey.close()])
    settle(out, engine.work(partial(_carry_out_to, out, chroot, engine.share(last_writes)), splits))


def _carry_out_to(out: str, chroot: str, last_writes: Shared, split: Split) -> Attempt:
    return carry_out(split, Files(out, split.number), chroot, last_writes.value)


def join_edges(engine: Engine, out: str, most: int = MOST_EDGES) -> None:
    """Join rows that span two splits; here if they are at most `most`, else in tasks."""
    edges = written(out, "edges")
    count = edges.count_rows()
    if count <= most:
        settle(out, [_join(out, 0, edges.to_table())])
        return
    files = [("edges", path) for path in edges.files]
    buckets = count // most + 1
    settle(out, engine.in_buckets(partial(_cut_edges, out, buckets), files, partial(_join, out), buckets))


def _cut_edges(out: str, buckets: int, file: File) -> Iterable[tuple[int, pa.Table]]:
    return by_partition(read_file(out, file).to_table(), buckets)


def _join(out: str, bucket: int, edges: pa.Table) -> Attempt:
    files = Files(out, JOINED + bucket)
    files.write("partitions", joined(edges))
    return files.close()


def settle(out: str, attempts: Iterable[Attempt]) -> None:
    """Rename the files of the attempts that count to the names that readers know."""
    filesystem, root = filesystem_of(out)
    for aside in (name for attempt in attempts for name in attempt):
        table, _, name = aside.partition("/")
        filesystem.move(f"{root}/{aside}", f"{root}/{table}/{name[1:].rpartition('-')[0]}")


def clear(out: str, tables: Iterable[str]) -> None:
    """Remove files of attempts that do not count."""
    filesystem, root = filesystem_of(out)
    for table in tables:
        for info in filesystem.get_file_info(fs.FileSelector(f"{root}/{table}", allow_not_found=True)):
            if info.base_name.startswith("."):
                filesystem.delete_file(info.path)


def written(out: str, table: str) -> Any:
    """A table below `out`, read without Spark."""
    filesystem, inside = filesystem_of(f"{out}/{table}")
    return ds.dataset(inside, schema=SCHEMAS.get(table), format="parquet", filesystem=filesystem)


def read_file(out: str, file: File) -> Any:
    """One file of a table, read without Spark."""
    table, path = file
    return ds.dataset(path, schema=written(out, table).schema, format="parquet", filesystem=filesystem_of(out)[0])


def write_table(out: str, table: str, rows: pa.Table) -> None:
    """Write a small table as one file."""
    make_directory(f"{out}/{table}")
    files = Files(out, 0)
    files.write(table, rows)
    settle(out, [files.close()])


def carry_out(split: Split, tables: Tables, chroot: str, last_writes: LastWrites) -> Attempt:
    """Read, fold and write one split."""
    damage: list[Damage] = []
    intervals = Intervals()
    # Rows are plain tuples without cycles; looking for cycles among them would double the time.
    gc.disable()
    try:
        meaning = meaning_of(split, chroot, intervals, last_writes)
        states = StateWrites(meaning, intervals)
        for file, taken in read_records(split.pieces, damage):
            states.add(taken, file, damage)
            tables.take(meaning, intervals)
        for rows in known_before(split):
            meaning.add(rows)
            tables.take(meaning, intervals)
        tables.take(meaning, intervals, is_last=True)
        tables.write_damage(damage)
        return tables.close()
    finally:
        gc.enable()


class Tables(ABC):
    """A sink for the rows of tables."""

    @abstractmethod
    def write(self, table: str, rows: pa.Table) -> None:
        """Add rows to a table."""

    @abstractmethod
    def close(self) -> Attempt:
        """Finish, and return the files written."""

    def take(self, meaning: Meaning, intervals: Intervals, *, is_last: bool = False) -> None:
        """Write the gathered rows, in large groups."""
        if meaning.others and (is_last or len(meaning.others) >= ROWS_A_GROUP):
            self.write("events", pa.Table.from_batches([others_batch(meaning.others)]))
            meaning.others.clear()
        if meaning.ledger and (is_last or len(meaning.ledger) >= ROWS_A_GROUP):
            self.write("ledger", pa.Table.from_batches([ledger_batch(meaning.ledger)]))
            meaning.ledger.clear()
        if intervals.starts and (is_last or intervals.closed_count >= ROWS_A_GROUP):
            table = intervals_table(intervals.take(is_last=is_last))
            is_known = pc.and_(table["isr"].is_valid(), table["replicas"].is_valid())
            is_final = pc.and_(table["ended_at"].is_valid(), pc.or_(is_known, pc.equal(table["what"], GONE)))
            self.write("partitions", table.filter(is_final))
            starts = intervals.starts if is_last else ()
            self.write("edges", edges_table(table.filter(pc.invert(is_final)), starts, intervals.keys))

    def write_damage(self, damage: list[Damage]) -> None:
        """Write the damage in the split."""
        if damage:
            self.write("damage", pa.Table.from_batches([damage_batch(damage)]))


class Files(Tables):
    """One Parquet file a table, opened when there is something to write, hidden from readers until it is settled."""

    def __init__(self, out: str, number: int) -> None:
        """The files are below `out`, each with this number."""
        self._out = out
        self._name = f".part-{number:05d}.parquet-{uuid4().hex[:12]}"
        self._open: dict[str, Any] = {}

    def close(self) -> Attempt:
        """Finish the files; return their paths."""
        for writer in self._open.values():
            writer.close()
        return tuple(f"{table}/{self._name}" for table in self._open)

    def write(self, table: str, rows: pa.Table) -> None:
        """Add rows to a table's file."""
        writer = self._open.get(table)
        if writer is None:
            filesystem, target = filesystem_of(f"{self._out}/{table}/{self._name}")
            repeating = [field.name for field in rows.schema if pa.types.is_string(field.type)]
            writer = pq.ParquetWriter(
                target, rows.schema, compression="zstd", compression_level=1, use_dictionary=repeating,
                filesystem=filesystem,
            )  # fmt: skip
            self._open[table] = writer
        writer.write_table(rows)


def make_directory(path: str) -> None:
    """Make a directory unless it exists."""
    filesystem, inside = filesystem_of(path)
    filesystem.create_dir(inside, recursive=True)
