"""How is a long history read once, on all cores, with nothing sorted that is sorted already?

Each task folds one split and writes its part of `events` and `partitions` itself; only what spans two splits goes
to `edges` and is put together at the end.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.dataset as ds  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.edges import joined
from metrics.replay.intervals import GONE, Intervals
from metrics.replay.kafka_events import Meaning
from metrics.replay.output import filesystem_of
from metrics.replay.schemas import (
    WRITTEN,
    damage_batch,
    edges_table,
    intervals_table,
    others_batch,
)
from metrics.replay.splits import Split, meaning_of, rows_of
from zk_layout.storage.damage import Damage

ROWS_A_GROUP = 250_000
SCHEMAS = WRITTEN
JOINED = 99_999  # the number of the file with the joined edges, behind those of the tasks


# Do something for each of several, here or anywhere.
Each = Callable[[Callable[[Any], None], Sequence[Any]], None]


def run(each: Each, splits: Sequence[Split], out: str, chroot: str = "", damage: Sequence[Damage] = ()) -> None:
    """Carry out all splits. Each writes one Parquet file a table below `out`; `damage` is written besides."""
    for table in SCHEMAS:
        make_directory(f"{out}/{table}")
    survey = Files(out, len(splits))
    survey.write_damage([*damage])
    survey.close()
    each(lambda split: carry_out(split, Files(out, split.number), chroot), splits)


def join_edges(out: str, most: int) -> bool:
    """Close what spans two splits, if it is no more than `most` rows; whether it was done."""
    edges = written(out, "edges")
    if edges.count_rows() > most:
        return False
    files = Files(out, JOINED)
    files.write("partitions", joined(edges.to_table()))
    files.close()
    return True


def written(out: str, table: str) -> Any:
    """A table below `out`, to be read without Spark."""
    filesystem, inside = filesystem_of(f"{out}/{table}")
    return ds.dataset(inside, schema=SCHEMAS.get(table), format="parquet", filesystem=filesystem)


def write_table(out: str, table: str, rows: pa.Table) -> None:
    """Write a small table as one file."""
    make_directory(f"{out}/{table}")
    files = Files(out, 0)
    files.write(table, rows)
    files.close()


def carry_out(split: Split, tables: Tables, chroot: str = "") -> None:
    """Read, fold and write one split."""
    damage: list[Damage] = []
    intervals = Intervals()
    # Rows are plain tuples without cycles; looking for cycles among them would double the time.
    gc.disable()
    try:
        meaning = meaning_of(split, chroot, intervals)
        for rows in rows_of(split, damage):
            meaning.add(rows)
            tables.take(meaning, intervals)
        tables.take(meaning, intervals, is_last=True)
        tables.write_damage(damage)
    finally:
        tables.close()
        gc.enable()


class Tables(ABC):
    """Where the rows of tables go."""

    @abstractmethod
    def write(self, table: str, rows: pa.Table) -> None:
        """Add rows to a table."""

    @abstractmethod
    def close(self) -> None:
        """There are no more."""

    def take(self, meaning: Meaning, intervals: Intervals, *, is_last: bool = False) -> None:
        """Write what has been gathered, in large groups."""
        if meaning.others and (is_last or len(meaning.others) >= ROWS_A_GROUP):
            self.write("events", pa.Table.from_batches([others_batch(meaning.others)]))
            meaning.others.clear()
        if intervals.rows and (is_last or intervals.closed_count >= ROWS_A_GROUP):
            rows, ended = intervals.take(is_last=is_last)
            table = intervals_table(rows, ended, intervals.keys)
            is_known = pc.and_(table["isr"].is_valid(), table["replicas"].is_valid())
            is_final = pc.and_(table["ended_at"].is_valid(), pc.or_(is_known, pc.equal(table["what"], GONE)))
            self.write("partitions", table.filter(is_final))
            # What is open goes on in the next group, and only at the end to the neighbours.
            is_edge = pc.invert(is_final) if is_last else pc.and_(pc.invert(is_final), table["ended_at"].is_valid())
            starts = intervals.starts if is_last else ()
            self.write("edges", edges_table(table.filter(is_edge), starts, intervals.keys))

    def write_damage(self, damage: list[Damage]) -> None:
        """Write what was wrong with the split."""
        if damage:
            self.write("damage", pa.Table.from_batches([damage_batch(damage)]))


class Files(Tables):
    """One Parquet file a table, opened when there is something to write."""

    def __init__(self, out: str, number: int) -> None:
        """Below `out`, each with this number."""
        self._out = out
        self._number = number
        self._open: dict[str, Any] = {}

    def close(self) -> None:
        """Finish the files."""
        for writer in self._open.values():
            writer.close()

    def write(self, table: str, rows: pa.Table) -> None:
        """Add rows to a table's file."""
        writer = self._open.get(table)
        if writer is None:
            filesystem, target = filesystem_of(f"{self._out}/{table}/part-{self._number:05d}.parquet")
            repeating = [field.name for field in rows.schema if pa.types.is_string(field.type)]
            writer = pq.ParquetWriter(
                target, rows.schema, compression="zstd", compression_level=1, use_dictionary=repeating,
                filesystem=filesystem,
            )  # fmt: skip
            self._open[table] = writer
        writer.write_table(rows)


def make_directory(path: str) -> None:
    """Have a directory to write to."""
    filesystem, inside = filesystem_of(path)
    filesystem.create_dir(inside, recursive=True)
