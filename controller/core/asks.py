"""Who awaits an answer, and what is still missing from it?"""

from __future__ import annotations

from msgspec import Struct

from controller.core.admin import alter_partition, alter_reassignments
from controller.core.cluster import Cluster
from controller.core.effects import Answer
from controller.core.errors import MESSAGES, ErrorCode, Refusal
from controller.core.events import AskId
from controller.core.replies import IsrResult, PartitionResult, PartitionsAltered, ReassignmentsAltered
from controller.core.requests import AlterPartition, AlterReassignments, IsrProposal, MoveWish
from zk_layout.ids import TopicName, TopicPartition


class Item(Struct, frozen=True):
    """The part of a request that concerns one partition."""

    ask: AskId
    index: int
    at: TopicPartition
    wanted: MoveWish | IsrProposal


class _Open(Struct):
    request: AlterReassignments | AlterPartition
    results: list[PartitionResult | IsrResult | None]
    missing: int


class Asks:
    """Requests whose parts are decided topic by topic; each is answered once, when its last part is settled."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._open: dict[AskId, _Open] = {}
        self._inbox: dict[TopicName, list[Item]] = {}

    def open(
        self, ask: AskId, request: AlterReassignments | AlterPartition, items: list[Item], size: int
    ) -> Answer | None:
        """Take in a request of `size` parts; parts not among `items` are settled by the caller."""
        self._open[ask] = _Open(request, [None] * size, size)
        for item in items:
            self._inbox.setdefault(item.at.topic, []).append(item)
        return self._close_if_done(ask)

    def request(self, ask: AskId) -> AlterReassignments | AlterPartition:
        """The request as it was asked."""
        return self._open[ask].request

    def take(self, topic: TopicName) -> list[Item]:
        """The parts that wait for this topic, in the order asked; not those whose request was given up."""
        return [item for item in self._inbox.pop(topic, []) if item.ask in self._open]

    def put_back(self, items: list[Item]) -> None:
        """Consider these parts again, before any that came later."""
        for topic in dict.fromkeys(i.at.topic for i in items):
            again = [i for i in items if i.at.topic == topic]
            self._inbox[topic] = again + self._inbox.get(topic, [])

    def settle(self, ask: AskId, index: int, result: PartitionResult | IsrResult) -> Answer | None:
        """Note what became of one part; the answer, once that was the last. Nobody hears what comes too late."""
        held = self._open.get(ask)
        if held is None:
            return None
        if held.results[index] is None:
            held.results[index] = result
            held.missing -= 1
        return self._close_if_done(ask)

    def give_up(self, ask: AskId) -> Answer | None:
        """The time of a request is over: what has not been considered yet will not be; None where it was answered.

        Parts that were settled keep their result.
        """
        held = self._open.get(ask)
        if held is None or not isinstance(held.request, AlterReassignments):
            return None
        del self._open[ask]
        error = ErrorCode.REQUEST_TIMED_OUT
        results = tuple(
            r if isinstance(r, PartitionResult) else PartitionResult(w.topic_partition, error, MESSAGES[error])
            for w, r in zip(held.request.wishes, held.results, strict=True)
        )
        return Answer(ask, ReassignmentsAltered(results, error, MESSAGES[error]))

    def _close_if_done(self, ask: AskId) -> Answer | None:
        held = self._open[ask]
        if held.missing:
            return None
        del self._open[ask]
        if isinstance(held.request, AlterPartition):
            return Answer(ask, PartitionsAltered(tuple(r for r in held.results if isinstance(r, IsrResult))))
        return Answer(ask, ReassignmentsAltered(tuple(r for r in held.results if isinstance(r, PartitionResult))))


def granted(item: Item, cluster: Cluster) -> PartitionResult | IsrResult:
    """The answer to a part whose writes are done."""
    if not isinstance(item.wanted, IsrProposal):
        return moved(item)
    held = cluster.partition(item.at)
    return alter_partition.granted(item.wanted, item.at, held) if held is not None else unknown(item, cluster)


def unknown(item: Item, cluster: Cluster) -> PartitionResult | IsrResult:
    """The answer to a part whose topic does not exist."""
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if isinstance(item.wanted, IsrProposal):
        return IsrResult(item.at.topic, item.wanted.topic.topic_id, item.at.partition, error)
    refused = alter_reassignments.consider(item.wanted, None, cluster)
    return moved(item, refused.error, refused.message) if isinstance(refused, Refusal) else moved(item, error)


def oversized(item: Item, message: str) -> PartitionResult | IsrResult:
    """The answer to a part that would make a znode too large."""
    if isinstance(item.wanted, IsrProposal):
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        return IsrResult(item.at.topic, item.wanted.topic.topic_id, item.at.partition, error)
    return moved(item, ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def moved(item: Item, error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> PartitionResult:
    """What became of a wish to move or to cancel."""
    return PartitionResult(item.at, error, message)
