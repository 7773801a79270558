"""What does the status of a request say at this moment?"""

from __future__ import annotations

from itertools import groupby
from typing import TypedDict

from msgspec import UNSET, Struct, UnsetType, structs

from controller.core.progress.ledger import COMPLETED, Entry, OpenRequest
from controller.core.progress.measuring import Progress
from controller.core.transactions.sizes import RequestSizes
from zk_layout import catalog
from zk_layout.bounds import INT32_MAX
from zk_layout.ids import RequestId, TopicName, TopicPartition
from zk_layout.znodes.reassignment_status import (
    PartitionStatus,
    ReassignmentStatusAddress,
    ReplicaProgress,
    RequestStatus,
    TopicStatus,
)

LARGEST_WITH_PROGRESS_BYTES = 256 * 1024
MOST_WITH_PROGRESS = 1_000
MOST_LISTED_AT_THE_END = 1_000
MOST_MEASURED = 5_000
LONGEST_PATH = ReassignmentStatusAddress(RequestId(INT32_MAX)).path
BYTES_A_PARTITION = 30  # in a list, at least


class _Sums(Struct):
    """Bytes over all receiving replicas; `has_trouble` if the broker of one is away or silent."""

    copied: int = 0
    total: int = 0
    rate: float = 0
    has_trouble: bool = False

    def add(self, replica: ReplicaProgress) -> None:
        if replica.copied_bytes is None or replica.total_bytes is None:
            return
        self.copied += replica.copied_bytes
        self.total += replica.total_bytes
        if replica.total_bytes > replica.copied_bytes:
            self.rate += replica.bytes_per_second or 0.0
            self.has_trouble |= replica.error is not None


class StatusText:
    """Builds statuses, complete or small enough for a znode."""

    def __init__(self, progress: Progress, sizes: RequestSizes) -> None:
        """`sizes` limit what a status' znode can hold."""
        self._progress = progress
        self._sizes = sizes

    @property
    def _most_data_bytes(self) -> int:
        """The capacity of a status' znode now."""
        return self._sizes.most_data_bytes(LONGEST_PATH)

    def at_ms(self, now: float) -> int:
        """The Unix time in milliseconds at a time of this machine's clock."""
        return self._progress.at_ms(now)

    def whole(self, asked: OpenRequest, request: RequestId, now: float, *, has_progress: bool = True) -> RequestStatus:
        """The complete status of a request."""
        sums = _Sums()
        look = self._with_progress if has_progress else self._without_progress
        if asked.unfinished > MOST_MEASURED:
            look = self._unmeasured
        known = {
            at: _not_moving(entry, at, sums) or look(entry, at, sums, now)
            for at, entry in sorted(asked.entries.items())
        }
        topics = (
            _topic(topic, {at: _owned(known[at], request) for at in partitions}, asked)
            for topic, partitions in groupby(known, lambda at: at.topic)
        )
        is_known = sums.total > 0
        remaining_s = None if sums.has_trouble else asked.closing.remaining_s(self._progress.throttled())
        if sums.copied == sums.total:
            remaining_s = 0.0
        return RequestStatus(
            request,
            asked.origin,
            asked.requested_ms,
            self.at_ms(now),
            asked.finished_ms,
            asked.counts,
            tuple(topics),
            sums.copied if is_known else None,
            sums.total if is_known else None,
            round(sums.rate, 1) if is_known else None,
            round(remaining_s, 1) if is_known and remaining_s is not None else None,
            **_asked(asked),
        )

    def bounded(self, asked: OpenRequest, request: RequestId, now: float) -> RequestStatus:
        """The status as a znode can hold it: without progress if long, and at the end only what was not completed."""
        if asked.unfinished * BYTES_A_PARTITION > self._most_data_bytes:
            return self._counts(asked, request, now)
        if len(asked.entries) > MOST_MEASURED and asked.finished_ms is not None:
            return self._left_over(asked, request, now)
        status = self.whole(asked, request, now, has_progress=asked.unfinished <= MOST_WITH_PROGRESS)
        if asked.finished_ms is not None and len(asked.entries) > MOST_LISTED_AT_THE_END:
            status = _without_completed(status)
        size_bytes = _size(status)
        if size_bytes > LARGEST_WITH_PROGRESS_BYTES and asked.unfinished <= MOST_WITH_PROGRESS:
            status = structs.replace(status, topics=_without_progress(status.topics))
            size_bytes = _size(status)
        if size_bytes <= self._most_data_bytes:
            return status
        status = _without_completed(status)
        return status if _size(status) <= self._most_data_bytes else structs.replace(status, topics=())

    def _counts(self, asked: OpenRequest, request: RequestId, now: float) -> RequestStatus:
        """Only counts: no znode can name so many partitions."""
        now_ms = self.at_ms(now)
        times = (asked.requested_ms, now_ms, asked.finished_ms)
        return RequestStatus(request, asked.origin, *times, asked.counts, (), **_asked(asked))

    def _left_over(self, asked: OpenRequest, request: RequestId, now: float) -> RequestStatus:
        """After the end of a very large request, name only the partitions that were not completed."""
        copied = asked.copied_bytes or None
        status = structs.replace(self._counts(asked, request, now), copied_bytes=copied, total_bytes=copied)
        if (len(asked.entries) - asked.ended[COMPLETED]) * BYTES_A_PARTITION > self._most_data_bytes:
            return status
        rest = {at: entry for at, entry in asked.entries.items() if entry.outcome != COMPLETED}
        named = structs.replace(status, topics=self.whole(structs.replace(asked, entries=rest), request, now).topics)
        return named if _size(named) <= self._most_data_bytes else status

    def _with_progress(self, entry: Entry, at: TopicPartition, sums: _Sums, now: float) -> PartitionStatus:
        progress = self._progress.of(at, now)
        for replica in progress.replicas if progress is not None else ():
            sums.add(replica)
        return PartitionStatus(at.partition, entry.replicas, entry.is_cancel, progress=progress)

    def _without_progress(self, entry: Entry, at: TopicPartition, sums: _Sums, now: float) -> PartitionStatus:
        for replica in self._progress.replicas(at, now):
            sums.add(replica)
        return PartitionStatus(at.partition, entry.replicas, entry.is_cancel)

    @staticmethod
    def _unmeasured(entry: Entry, at: TopicPartition, sums: _Sums, now: float) -> PartitionStatus:  # noqa: ARG004 (like its siblings)
        """Without measurements, for very large requests."""
        return PartitionStatus(at.partition, entry.replicas, entry.is_cancel)


class _Asked(TypedDict):
    reason: str | UnsetType
    give_up_ms: int | UnsetType


def _asked(asked: OpenRequest) -> _Asked:
    """What the client said beyond Kafka's schema."""
    return {"reason": asked.reason or UNSET, "give_up_ms": UNSET if asked.give_up_ms is None else asked.give_up_ms}


def _topic(name: TopicName, known: dict[TopicPartition, PartitionStatus], asked: OpenRequest) -> TopicStatus:
    """The partitions of one topic; while one waits, with the identity of the topic."""
    partitions = tuple(known.values())
    waits_in = next((asked.entries[at].waits_in for at, partition in known.items() if partition.is_waiting), None)
    if waits_in is None:
        return TopicStatus(name, partitions)
    return TopicStatus(name, partitions, waits_in.czxid, waits_in.topic_id)


def _not_moving(entry: Entry, at: TopicPartition, sums: _Sums) -> PartitionStatus | None:
    """The status of a partition that has ended or waits; None if it moves."""
    if entry.waits_in is not None:
        return PartitionStatus(at.partition, entry.replicas, entry.is_cancel, is_waiting=True)
    if entry.outcome is None:
        return None
    sums.copied += entry.copied_bytes or 0
    sums.total += entry.copied_bytes or 0
    return PartitionStatus(
        at.partition, entry.replicas, entry.is_cancel, entry.outcome, copied_bytes=entry.copied_bytes
    )


def _owned(partition: PartitionStatus, request: RequestId) -> PartitionStatus:
    """Show the request's own id, even if it has none in the ledger yet, or shares a move with a later request."""
    progress = partition.progress
    if progress is None or progress.request_id == request:
        return partition
    return structs.replace(partition, progress=structs.replace(progress, request_id=request))


def _without_progress(topics: tuple[TopicStatus, ...]) -> tuple[TopicStatus, ...]:
    return tuple(
        structs.replace(t, partitions=tuple(structs.replace(p, progress=None) for p in t.partitions)) for t in topics
    )


def _without_completed(status: RequestStatus) -> RequestStatus:
    left = [(t, tuple(p for p in t.partitions if p.outcome != COMPLETED)) for t in status.topics]
    return structs.replace(status, topics=tuple(structs.replace(t, partitions=kept) for t, kept in left if kept))


def _size(status: RequestStatus) -> int:
    return len(catalog.encode(status))
