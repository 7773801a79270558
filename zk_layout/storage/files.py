"""Which files of a data directory make up the history, in which order, and what is missing between them?

Source: Util.getZxidFromName, FileTxnLog.getLogFiles and ZxidUtils of ZooKeeper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

_NAME = re.compile(r"^(.*[/.])?(log|snapshot)\.([0-9a-fA-F]+)(?:\.(gz|snappy))?$")

LOG, SNAPSHOT = "log", "snapshot"


class StoredFile(Struct, frozen=True, order=True):
    """One file of the history, as its name tells.

    Shape:
        `zxid` is that of a log's first transaction; of a snapshot, the last one that it shows in full.
        `compression` is "", "gz" or "snappy".
    """

    zxid: int
    path: str
    kind: str
    compression: str = ""


def named(path: str) -> StoredFile | None:
    """What a file's name says; None for other files. Captured files may have a prefix: `incident-7.log.1.gz`.

    >>> named("version-2/log.100000001.gz")
    StoredFile(zxid=4294967297, path='version-2/log.100000001.gz', kind='log', compression='gz')
    >>> named("version-2/acceptedEpoch") is None
    True
    """
    match = _NAME.match(path)
    if match is None:
        return None
    return StoredFile(int(match[3], 16), path, match[2], match[4] or "")


def epoch_and_counter(zxid: int) -> tuple[int, int]:
    """A leader's epoch and its count of transactions.

    >>> epoch_and_counter(0x200000005)
    (2, 5)
    """
    return zxid >> 32, zxid & 0xFFFFFFFF


class Span(Struct, frozen=True):
    """The transactions of one log: from the first zxid to the last, both included."""

    file: str
    first: int
    last: int


class Gap(Struct, frozen=True):
    """Transactions that no file holds: those after `after` and before `before`.

    `missing` is None where an epoch ends, of which nobody knows how long it was; it need then not be a loss.
    """

    after: int
    before: int
    missing: int | None
    next_file: str


def gaps(spans: Iterable[Span]) -> tuple[Gap, ...]:
    """What is missing between logs in zxid order.

    >>> gaps([Span("log.1", 1, 5), Span("log.8", 8, 9), Span("log.100000001", 0x100000001, 0x100000003)])
    (Gap(after=5, before=8, missing=2, next_file='log.8'),)

    Shape:
        A new epoch that starts with its first transaction is no gap.
    """
    found = []
    last: int | None = None
    for span in sorted(spans, key=lambda s: s.first):
        if last is not None and span.first > last + 1:
            (epoch, _), (next_epoch, counter) = epoch_and_counter(last), epoch_and_counter(span.first)
            if epoch == next_epoch:
                found.append(Gap(last, span.first, span.first - last - 1, span.file))
            elif counter > 1:
                found.append(Gap(last, span.first, None, span.file))
        last = span.last if last is None else max(last, span.last)
    return tuple(found)


def overlaps(spans: Sequence[Span]) -> dict[str, tuple[tuple[int, int], ...]]:
    """For each log the zxid ranges that a later log has too, and which are taken from that one.

    >>> overlaps([Span("log.1", 1, 9), Span("log.5", 5, 12)])
    {'log.1': ((5, 9),)}
    """
    ordered = sorted(spans, key=lambda s: (s.first, s.file))
    shared = {}
    for position, span in enumerate(ordered):
        ranges = tuple(
            (later.first, min(span.last, later.last)) for later in ordered[position + 1 :] if later.first <= span.last
        )
        if ranges:
            shared[span.file] = ranges
    return shared
