"""How is a long table summed up? Each of its files by itself, batch by batch, and then what came of them together.

What is computed so is the same however the rows lie in files, and needs no more memory than its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.dataset as ds  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.bulk import Each, written
from metrics.replay.output import filesystem_of

Part = Callable[[pa.Table], pa.Table]
File = tuple[str, str]  # the table, and the path


class Source(Struct, frozen=True):
    """What is taken from a table: its columns, the rows `where`, and what is made of any of these rows."""

    columns: tuple[str, ...]
    part: Part
    where: Any = None


class Reduction(Struct, frozen=True):
    """Sources by table, and what makes one of several parts.

    Shape:
        All parts have the same columns. `combine` may be applied to parts and to what it has made of parts, in any
        order, with the same result.
    """

    sources: Mapping[str, Source]
    combine: Part


class Engine(Protocol):
    """Where the work is done: in this process, or by Spark."""

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        ...

    @property
    def each(self) -> Each:
        """What does something for each of several."""
        ...

    @property
    def most_edges(self) -> int:
        """How many edges of splits one process should hold."""
        ...

    def join_edges(self, out: str) -> None:
        """Join more edges than that, from the table `edges` below `out`."""
        ...

    def reduce(self, task: Callable[[File], pa.Table], files: Sequence[File], combine: Part) -> pa.Table | None:
        """What the task makes of each file, as one; None if there are no files."""
        ...

    def audit(self, out: str, history: Any, judge: Any) -> None:
        """Judge each partition's history and add what was found to the table `audit` below `out`."""
        ...


def reduced(engine: Engine, out: str, reduction: Reduction) -> pa.Table:
    """Sum up tables below `out`."""
    files = [(table, path) for table in reduction.sources for path in written(out, table).files]
    found = engine.reduce(partial(_of_file, out, reduction), files, reduction.combine)
    return _nothing(out, reduction) if found is None else found


def _nothing(out: str, reduction: Reduction) -> pa.Table:
    parts = [
        source.part(written(out, table).schema.empty_table().select(source.columns))
        for table, source in reduction.sources.items()
    ]
    return reduction.combine(pa.concat_tables(parts))


def _of_file(out: str, reduction: Reduction, file: File) -> pa.Table:
    table, path = file
    source = reduction.sources[table]
    rows = ds.dataset(path, schema=written(out, table).schema, format="parquet", filesystem=filesystem_of(out)[0])
    parts = [source.part(rows.schema.empty_table().select(source.columns))]
    for batch in rows.to_batches(columns=[*source.columns], filter=source.where):
        if batch.num_rows:
            parts = [reduction.combine(pa.concat_tables([*parts, source.part(pa.Table.from_batches([batch]))]))]
    return reduction.combine(parts[0])


def grouped(rows: pa.Table, keys: Sequence[str], how: Mapping[str, str], order: Sequence[str] = ()) -> pa.Table:
    """One row for each value of the keys; `how` each column comes of those of its rows: sum, min, max, first, last.

    >>> rows = pa.table({"at": [2, 1, 2], "zxid": [7, 8, 9], "n": [1, 2, 3], "last": [4, 5, 6]})
    >>> grouped(rows, ["at"], {"n": "sum", "last": "last"}, order=["zxid"]).sort_by("at").to_pylist()
    [{'at': 1, 'n': 2, 'last': 5}, {'at': 2, 'n': 4, 'last': 6}]
    """
    chosen = rows.select([*dict.fromkeys((*keys, *how, *order))])
    if order:
        chosen = chosen.sort_by([(name, "ascending") for name in order])
    is_any = pc.ScalarAggregateOptions(skip_nulls=False)
    wanted = [(name, does, is_any if does in ("first", "last") else None) for name, does in how.items()]
    made = chosen.group_by([*keys], use_threads=False).aggregate(wanted)
    return made.select([*keys, *(f"{name}_{does}" for name, does in how.items())]).rename_columns([*keys, *how])


def ms(times: Any) -> Any:
    """Times in milliseconds."""
    return pc.divide(times.cast(pa.int64()), 1000)


def as_time(times_ms: Any) -> Any:
    """Milliseconds as times."""
    return times_ms.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))


def whole(column: Any) -> Any:
    """A column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def exploded(lists: Any) -> tuple[Any, Any]:
    """Each element of the lists, beside the place of its list."""
    column = whole(lists)
    return pc.list_parent_indices(column), pc.list_flatten(column)
