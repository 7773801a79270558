"""Which transactions are in the logs of all servers, in which order, and from which log is each taken?

Each zxid is taken once, from any log in which it is intact; the servers of an ensemble log the same.

Source: ZxidUtils of ZooKeeper; Zab, in which a new leader's history replaces what only its predecessor had logged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct, structs

from zk_layout.storage.files import epoch_and_counter
from zk_layout.storage.log_index import Section

_FIRST_OF_ALL = 1


class Piece(Struct, frozen=True):
    """Transactions read in one go: those from `first` to `last` between two places of one log.

    Shape:
        `records` counts all between the two places, also those that are taken from other logs.
    """

    file: str
    offset: int
    end: int
    first: int
    last: int
    from_ms: int
    to_ms: int
    records: int


class Gap(Struct, frozen=True):
    """Transactions that no file holds intact, between `after` and `before`.

    `missing` is None at the end of an epoch, whose length is unknown; it need not be a loss then.
    """

    after: int
    before: int
    missing: int | None


class Uncommitted(Struct, frozen=True):
    """Transactions that a server logged and that never took effect: the next epoch began without them."""

    file: str
    first: int
    last: int


class Order(Struct, frozen=True):
    """All transactions, in order of zxid, and those that are missing."""

    pieces: tuple[Piece, ...]
    gaps: tuple[tuple[Gap, Piece], ...]
    uncommitted: tuple[Uncommitted, ...]


class _Run(Struct, frozen=True):
    """Sections that follow each other without a hole, so that it does not matter where a log is cut."""

    file: str
    first: int
    last: int
    sections: tuple[Section, ...]


def in_order(logs: Mapping[str, Sequence[Section]]) -> Order:
    """One order of all transactions in these logs.

    >>> def log(*spans): return [Section(n, n, first, last, 0, 0) for n, (first, last) in enumerate(spans)]
    >>> order = in_order({"a/log.1": log((1, 3), (5, 9)), "b/log.1": log((1, 4))})
    >>> [(piece.file, piece.first, piece.last) for piece in order.pieces]
    [('b/log.1', 1, 4), ('a/log.1', 5, 9)]
    >>> [gap for gap, _ in in_order({"log.1": log((1, 5)), "log.8": log((8, 9))}).gaps]
    [Gap(after=5, before=8, missing=2)]
    """
    uncommitted = tuple(_uncommitted(logs))
    dead = {found.file: found.first for found in uncommitted}
    runs = [run for file, sections in logs.items() for run in _runs(file, sections, dead.get(file))]
    runs.sort(key=lambda run: (run.first, -run.last, run.file))
    pieces = tuple(piece for run, first, last in _swept(runs) for piece in _pieces(run, first, last))
    gaps = ((gap_between(piece.last, following.first), following) for piece, following in pairwise(pieces))
    return Order(pieces, tuple((gap, following) for gap, following in gaps if gap is not None), uncommitted)


def gap_between(last: int, following: int) -> Gap | None:
    """The gap between two transactions. A new epoch that starts with its first transaction is no gap.

    >>> gap_between(5, 6), gap_between(0x100000005, 0x200000001)
    (None, None)
    >>> gap_between(0x100000005, 0x200000003)
    Gap(after=4294967301, before=8589934595, missing=None)
    """
    if following <= last + 1:
        return None
    (epoch, _), (next_epoch, counter) = epoch_and_counter(last), epoch_and_counter(following)
    if epoch == next_epoch:
        return Gap(last, following, following - last - 1)
    return Gap(last, following, None) if counter > _FIRST_OF_ALL else None


def _runs(file: str, sections: Sequence[Section], dead_from: int | None) -> Iterator[_Run]:
    held: list[Section] = []
    for section in sections if dead_from is None else _until(sections, dead_from):
        if held and (section.offset != held[-1].end or section.first != held[-1].last + 1):
            yield _Run(file, held[0].first, held[-1].last, tuple(held))
            held = []
        held.append(section)
    if held:
        yield _Run(file, held[0].first, held[-1].last, tuple(held))


def _until(sections: Sequence[Section], dead_from: int) -> Iterator[Section]:
    for section in sections:
        if section.first < dead_from:
            yield structs.replace(section, last=min(section.last, dead_from - 1))


def _swept(runs: Sequence[_Run]) -> Iterator[tuple[_Run, int, int]]:
    """Sweep all runs by zxid; leave a log only where it does not continue."""
    coming = list(reversed(runs))
    within: list[_Run] = []
    at, file = -1, ""
    while within or coming:
        if not within:
            at = max(at, coming[-1].first)
        while coming and coming[-1].first <= at:
            within.append(coming.pop())
        within = [run for run in within if run.last >= at]
        if within:
            chosen = max(within, key=lambda run: (run.file == file, run.last, -run.first, run.file))
            yield chosen, at, chosen.last
            at, file = chosen.last + 1, chosen.file
            within = [run for run in within if run.last >= at]


def _pieces(run: _Run, first: int, last: int) -> Iterator[Piece]:
    for section in run.sections:
        begin, end = max(section.first, first), min(section.last, last)
        if begin <= end:
            yield Piece(
                run.file, section.offset, section.end, begin, end, section.from_ms, section.to_ms, section.count
            )  # fmt: skip


def _uncommitted(logs: Mapping[str, Sequence[Section]]) -> Iterator[Uncommitted]:
    """Transactions after an epoch's last one, as shown by a log that continues with the next epoch."""
    ends: dict[int, int] = {}
    for sections in logs.values():
        for section, following in pairwise(sections):
            epoch = epoch_and_counter(section.last)[0]
            next_epoch, counter = epoch_and_counter(following.first)
            if following.offset == section.end and next_epoch > epoch and counter == _FIRST_OF_ALL:
                ends[epoch] = max(ends.get(epoch, 0), section.last)
    for file, sections in logs.items():
        last = max((section.last for section in sections), default=0)
        end = ends.get(epoch_and_counter(last)[0])
        # A server that took part in the next epoch has cut its log itself.
        if end is not None and last > end:
            yield Uncommitted(file, end + 1, last)
