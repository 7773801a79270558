"""How is a long table summed up? Each of its files, batch by batch, and then the results of the files together.

The result does not depend on how rows lie in files, and takes no more memory than itself. Several sums are computed
at the same time: one pass over the tables, and one job of Spark's, serves all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.engine.bulk import read_file, written
from metrics.replay.engine.tasks import Engine, File, Part

Of = TypeVar("Of")


class Source(Struct, frozen=True):
    """What to read from a table: its columns, the rows `where`, and the function applied to any of these rows."""

    columns: tuple[str, ...]
    part: Part
    where: Any = None


class Reduction(Struct, frozen=True):
    """Sources by table, and how their parts are combined.

    Shape:
        All parts have the same columns. `combine` may be applied to parts and to its own results, in any
        order, with the same result.
    """

    sources: Mapping[str, Source]
    combine: Part


# A generator that yields the sums it needs, is sent their results, and may yield again.
Summing = Generator[Sequence[Reduction], Sequence[pa.Table], Of]


def together(engine: Engine, out: str, asking: Mapping[str, Summing[Any]]) -> dict[str, Any]:
    """Run several, and return their results. All their sums at a time take one pass over the tables below `out`."""
    done: dict[str, Any] = {}
    answers: dict[str, Sequence[pa.Table] | None] = dict.fromkeys(asking)
    while answers:
        asked: dict[str, Sequence[Reduction]] = {}
        for name, answer in answers.items():
            try:
                asked[name] = next(asking[name]) if answer is None else asking[name].send(answer)
            except StopIteration as ended:
                done[name] = ended.value
        found = iter(_reduced(engine, out, [one for reductions in asked.values() for one in reductions]))
        answers = {name: [next(found) for _ in reductions] for name, reductions in asked.items()}
    return done


def reduced(engine: Engine, out: str, reduction: Reduction) -> pa.Table:
    """Sum up tables below `out`."""
    (found,) = _reduced(engine, out, [reduction])
    return found


def _reduced(engine: Engine, out: str, reductions: Sequence[Reduction]) -> Iterator[pa.Table]:
    tables = dict.fromkeys(table for reduction in reductions for table in reduction.sources)
    files = [(table, path) for table in tables for path in written(out, table).files]
    both = partial(_both, reductions)
    found = engine.reduce(partial(_of_file, out, reductions), files, both) if files else None
    for number, reduction in enumerate(reductions):
        made = (found or {}).get(number)
        yield _nothing(out, reduction) if made is None else made


def _nothing(out: str, reduction: Reduction) -> pa.Table:
    parts = [
        source.part(written(out, table).schema.empty_table().select(source.columns))
        for table, source in reduction.sources.items()
    ]
    return reduction.combine(pa.concat_tables(parts))


# By the index of their reduction.
Parts = dict[int, pa.Table]


def _both(reductions: Sequence[Reduction], a: Parts, b: Parts) -> Parts:
    shared = a.keys() & b.keys()
    return a | b | {n: reductions[n].combine(pa.concat_tables([a[n], b[n]])) for n in shared}


def _of_file(out: str, reductions: Sequence[Reduction], file: File) -> Parts:
    rows = read_file(out, file)
    sums = {n: _Sum(r, r.sources[file[0]], rows.schema) for n, r in enumerate(reductions) if file[0] in r.sources}
    waiting = [*sums.values()]
    while waiting:
        source = waiting[0].source
        alike = [one for one in waiting if _is_read_alike(one.source, source)]
        waiting = [one for one in waiting if one not in alike]
        for batch in rows.to_batches(columns=[*source.columns], filter=source.where):
            if batch.num_rows:
                for one in alike:
                    one.add(pa.Table.from_batches([batch]))
    return {number: one.end() for number, one in sums.items()}


def _is_read_alike(a: Source, b: Source) -> bool:
    """Whether both can share one reading of the file."""
    if a.where is None or b.where is None:
        return a.columns == b.columns and a.where is b.where
    return a.columns == b.columns and bool(a.where.equals(b.where))


class _Sum:
    """The sum over a source, batch by batch."""

    def __init__(self, reduction: Reduction, source: Source, schema: pa.Schema) -> None:
        self.source = source
        self._combine = reduction.combine
        self._parts = [source.part(schema.empty_table().select(source.columns))]
        self._waiting = 0

    def add(self, rows: pa.Table) -> None:
        parts = self._parts
        parts.append(self.source.part(rows))
        self._waiting += parts[-1].num_rows
        if self._waiting > max(parts[0].num_rows, _FEW_ROWS):  # else a sum that does not shrink would be repeated
            self._parts, self._waiting = [self.end()], 0

    def end(self) -> pa.Table:
        return self._combine(pa.concat_tables(self._parts))


_FEW_ROWS = 50_000


def grouped(rows: pa.Table, keys: Sequence[str], how: Mapping[str, str], order: Sequence[str] = ()) -> pa.Table:
    """One row for each value of the keys; `how` aggregates each column: sum, min, max, first, last.

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
