"""Is every acknowledged record there, where it was acknowledged, in order, and once?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from msgspec import Struct

Partition = tuple[str, int]
"""Topic and number."""


class Acknowledgement(Struct, frozen=True):
    """What a producer was told about a record.

    Units:
        `at` is in seconds of a clock that only rises.
    """

    offset: int
    at: float


class Judgement(Struct, frozen=True):
    """What became of the records of one partition, or of all.

    Shape:
        `lost` are the times of acknowledgement of records that nobody finds; `rewritten` counts offsets at which
        a consumer once saw, or a producer was told of, another record than is there in the end. `duplicates` are the
        times of those that an idempotent producer sent and that are there more than once; `repeated` counts the same of
        producers that promise nothing. `disordered` counts acknowledged records of idempotent producers before which
        there is a later one. `unseen` were never seen by the consumer that reads all the while, but are there.
        `unlisted` were not sent, because a broker had listed their topic without their partition: a producer with keys
        would have sent them to another.
    """

    acknowledged: int = 0
    refused: int = 0
    lost: tuple[float, ...] = ()
    rewritten: int = 0
    duplicates: tuple[float, ...] = ()
    repeated: int = 0
    disordered: int = 0
    unseen: int = 0
    unlisted: int = 0

    def __add__(self, other: Judgement) -> Judgement:
        return Judgement(
            self.acknowledged + other.acknowledged,
            self.refused + other.refused,
            self.lost + other.lost,
            self.rewritten + other.rewritten,
            self.duplicates + other.duplicates,
            self.repeated + other.repeated,
            self.disordered + other.disordered,
            self.unseen + other.unseen,
            self.unlisted + other.unlisted,
        )


class Ledger:
    """The records of one partition: sent by several producers, each of which numbers its own.

    A record is the number of its producer and its own; producers may tell of it and consumers find it from
    different threads, as long as each does one of the two.
    """

    def __init__(self) -> None:
        self._acknowledged: dict[tuple[int, int], Acknowledgement] = {}
        self._consumed: dict[int, tuple[int, int]] = {}
        self._rewritten = 0
        self._refused = self._unlisted = 0

    @property
    def acknowledged(self) -> int:
        """How many records were acknowledged so far."""
        return len(self._acknowledged)

    def acknowledge(self, producer: int, number: int, offset: int, at: float) -> None:
        """A broker has acknowledged a record."""
        self._acknowledged[producer, number] = Acknowledgement(offset, at)

    def refuse(self) -> None:
        """A record was given up: it may be there or not."""
        self._refused += 1

    def withhold(self) -> None:
        """A record was not sent: the producer was told that there is no such partition."""
        self._unlisted += 1

    def consume(self, offset: int, producer: int, number: int) -> None:
        """The consumer that reads all the while saw a record."""
        if self._consumed.setdefault(offset, (producer, number)) != (producer, number):
            self._rewritten += 1

    def judge(self, log: Mapping[int, tuple[int, int]], idempotent: frozenset[int]) -> Judgement:
        """Compare with the whole log, read in the end: offset → producer and number."""
        found: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for offset in sorted(log):
            found[log[offset]].append(offset)
        consumed = set(self._consumed.values())
        again = {record for record, offsets in found.items() if len(offsets) > 1}
        rewritten = {offset for offset, record in self._consumed.items() if log.get(offset) != record}
        # What is lost altogether is counted as that. A broker that finds a repetition may not say where the first is.
        rewritten |= {
            told.offset
            for record, told in self._acknowledged.items()
            if told.offset >= 0 and record in found and log.get(told.offset) != record
        }
        return Judgement(
            acknowledged=len(self._acknowledged),
            refused=self._refused,
            lost=tuple(told.at for record, told in self._acknowledged.items() if record not in found),
            rewritten=self._rewritten + len(rewritten),
            duplicates=tuple(self._told_at(record) for record in sorted(again) if record[0] in idempotent),
            repeated=sum(producer not in idempotent for producer, _ in again),
            disordered=self._disordered(log, idempotent),
            unseen=sum(record in found and record not in consumed for record in self._acknowledged),
            unlisted=self._unlisted,
        )

    def _told_at(self, record: tuple[int, int]) -> float:
        told = self._acknowledged.get(record)
        return told.at if told else 0.0

    def _disordered(self, log: Mapping[int, tuple[int, int]], idempotent: frozenset[int]) -> int:
        latest: dict[int, int] = {}
        first_seen: set[tuple[int, int]] = set()
        count = 0
        for offset in sorted(log):
            producer, number = record = log[offset]
            if producer not in idempotent or record in first_seen or record not in self._acknowledged:
                continue
            first_seen.add(record)
            count += number < latest.get(producer, -1)
            latest[producer] = max(number, latest.get(producer, -1))
        return count
