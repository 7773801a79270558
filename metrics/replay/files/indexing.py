"""What does each log hold? Any number of tasks index ranges of logs independently.

Records are self-synchronising: a task that starts anywhere finds the next one. The results of one log's ranges are
joined where one ends at the record with which the next begins; elsewhere, within damage, both are read again as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct, structs

from metrics.replay.files.sources import Source, size_of
from zk_layout.storage.damage import Damage, not_read
from zk_layout.storage.files import StoredFile
from zk_layout.storage.log_index import Index, Indexer

DEFAULT_SPLIT_BYTES = 32 << 20
DEFAULT_RANGE_BYTES = 64 << 20
_NO_CUT = 2**63 - 1

# Runs a function on each item, here or elsewhere; returns the results in the items' order.
Work = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


def here(task: Callable[[Any], Any], of: Sequence[Any]) -> list[Any]:
    """One after the other."""
    return [task(one) for one in of]


class Range(Struct, frozen=True):
    """The records of a log that start between two places; `stop` is None for the end."""

    file: StoredFile
    start: int
    stop: int | None
    step: int  # no section is longer by more than one record


class Part(Struct, frozen=True):
    """The index of a range, and how it meets its neighbours.

    Shape:
        `first` is where its first record starts, None if there is none; after `inked_until` there are only zeros.
        `next` is where the first record after it starts, if `is_at_record`.
    """

    of: Range
    index: Index
    first: int | None = None
    next: int = 0
    is_at_record: bool = False
    is_padded: bool = False
    inked_until: int = 0


def indexed(
    logs: Sequence[StoredFile], split_bytes: int, work: Work = here, range_bytes: int = DEFAULT_RANGE_BYTES
) -> dict[str, Index]:
    """The index of each log, by its path; one that cannot be read, or only in part, has damage."""
    groups = [*_packed([r for file in logs for r in _ranges(file, split_bytes, range_bytes)], range_bytes)]
    parts = [part for group in work(_parts_of, groups) for part in group]
    by_file = groupby(parts, key=lambda part: part.of.file)
    return {file.path: _together([*of_one]) for file, of_one in by_file}


def index_of(file: StoredFile, split_bytes: int = DEFAULT_SPLIT_BYTES, offset: int = 0) -> Index:
    """The index of one log, from a record on."""
    return _part_of(Range(file, offset, None, _step(file, split_bytes)), is_lost=False).index


def index_again(file: StoredFile, known: Index, split_bytes: int = DEFAULT_SPLIT_BYTES) -> Index | None:
    """The index of a log that has grown since it was indexed; None if its former part has changed.

    Its last section is indexed again, to notice if the log was cut back in between.
    """
    if file.compression or not known.sections:
        return None
    last = known.sections[-1]
    more = index_of(file, split_bytes, last.offset)
    if not more.sections or more.sections[0].offset != last.offset or more.sections[0].first != last.first:
        return None
    if more.end < known.end:
        return None
    return Index(
        known.sections[:-1] + more.sections,
        tuple(write for write in known.writes if write.offset < last.offset) + more.writes,
        tuple(found for found in known.damage if found.offset < last.offset) + more.damage,
        more.end,
    )


def _step(file: StoredFile, split_bytes: int) -> int:
    return _NO_CUT if file.compression else split_bytes  # a compressed file cannot be cut


def _ranges(file: StoredFile, split_bytes: int, range_bytes: int) -> Iterator[Range]:
    step = _step(file, split_bytes)
    try:
        size = 0 if file.compression else size_of(file.path)
    except OSError:  # its reader reports it
        size = 0
    starts = [*range(0, size, range_bytes)] or [0]
    for start, stop in zip(starts, [*starts[1:], None], strict=True):
        yield Range(file, start, stop, step)


def _packed(ranges: Sequence[Range], most_bytes: int) -> Iterator[tuple[Range, ...]]:
    """Tasks of about equal size; small logs share one."""
    held: list[Range] = []
    size = 0
    for one in ranges:
        length = most_bytes if one.stop is not None or one.file.compression else _rest_of(one)
        if held and size + length > most_bytes:
            yield tuple(held)
            held, size = [], 0
        held.append(one)
        size += length
    if held:
        yield tuple(held)


def _rest_of(one: Range) -> int:
    try:
        return size_of(one.file.path) - one.start
    except OSError:
        return 0


def _parts_of(group: Sequence[Range]) -> list[Part]:
    return [_part_of(one, is_lost=one.start > 0) for one in group]


def _part_of(one: Range, *, is_lost: bool) -> Part:
    source = Source(one.file)
    indexer = Indexer(
        one.file.path, one.step, keep_data=bool(one.file.compression), offset=one.start, stop=one.stop, is_lost=is_lost
    )
    records, inked_until, at = indexer.records, one.start, one.start
    try:
        for chunk in source.chunks(one.start, one.stop):
            indexer.feed(chunk)
            inked = 0 if records.count else len(chunk.rstrip(b"\0"))
            inked_until = at + inked if inked else inked_until
            at += len(chunk)
            if records.is_done:
                break
    except OSError as wrong:
        return Part(one, Index(damage=(not_read(one.file.path, wrong),)))
    is_at_record, is_padded = records.is_at_record and records.is_done, records.is_padded
    index = indexer.result()
    index = structs.replace(index, damage=(*index.damage, *source.damage))
    first = index.sections[0].offset if index.sections else None
    return Part(one, index, first, records.offset, is_at_record, is_padded, inked_until)


def _together(parts: Sequence[Part]) -> Index:
    """The index of a log, from its parts."""
    joined = [parts[0]]
    for following in parts[1:]:
        last = joined[-1]
        if last.is_at_record and following.of.stop is not None and last.next >= following.of.stop:
            continue  # one record spans all of it
        if last.is_at_record and last.next == following.first:
            joined.append(following)
        elif following.first is None and _is_padding(last, following):
            joined[-1] = structs.replace(last, is_at_record=False, is_padded=True)
        else:
            joined[-1] = _part_of(structs.replace(last.of, stop=following.of.stop), is_lost=last.of.start > 0)
    damage: list[Damage] = []
    for part in joined:
        damage += part.index.damage
    return Index(
        tuple(section for part in joined for section in part.index.sections),
        tuple(write for part in joined for write in part.index.writes),
        tuple(damage),
        max(part.index.end for part in joined),
    )


def _is_padding(last: Part, following: Part) -> bool:
    """Whether only zeros follow the last record."""
    return (last.is_at_record or last.is_padded) and max(last.next, following.of.start) >= following.inked_until
