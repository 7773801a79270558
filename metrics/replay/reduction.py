"""How is a long table summed up? Each of its files by itself, batch by batch, and then what came of them together.

What is computed so is the same however the rows lie in files, and needs no more memory than its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.bulk import read_file, written
from metrics.replay.tasks import Engine, File, Part


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
    source, rows = reduction.sources[file[0]], read_file(out, file)
    parts = [source.part(rows.schema.empty_table().select(source.columns))]
    waiting = 0
    for batch in rows.to_batches(columns=[*source.columns], filter=source.where):
        if batch.num_rows:
            parts.append(source.part(pa.Table.from_batches([batch])))
            waiting += parts[-1].num_rows
            if waiting > max(parts[0].num_rows, _FEW_ROWS):  # or what does not get shorter would be summed up again
                parts, waiting = [reduction.combine(pa.concat_tables(parts))], 0
    return reduction.combine(pa.concat_tables(parts))


_FEW_ROWS = 50_000


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
