"""Who awaits an answer, and what is still missing from it?"""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct

from controller.core.admin import alter_partition, alter_reassignments
from controller.core.cluster import Cluster
from controller.core.effects import Answer
from controller.core.errors import MESSAGES, ErrorCode, Refusal
from controller.core.events import AskId
from controller.core.replies import (
    IsrResult,
    LeadersElected,
    PartitionResult,
    PartitionsAltered,
    PartitionsCreated,
    ReassignmentsAltered,
    Reply,
    Result,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
    TopicsCreated,
    TopicsDeleted,
)
from controller.core.requests import (
    AlterPartition,
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Election,
    Growth,
    IsrProposal,
    MoveWish,
    NewTopic,
    TopicReference,
    TopicRequest,
)
from zk_layout.ids import PartitionId, TopicName, TopicPartition

WHOLE_TOPIC = PartitionId(-1)
Wanted = MoveWish | IsrProposal | NewTopic | TopicReference | Growth | Election
Divided = AlterReassignments | AlterPartition | TopicRequest


class Item(Struct, frozen=True):
    """The part of a request that concerns one partition, or a topic as a whole (`WHOLE_TOPIC`)."""

    ask: AskId
    index: int
    at: TopicPartition
    wanted: Wanted


class _Open(Struct):
    request: Divided
    items: list[Item]
    results: list[Result | None]
    missing: int


class Asks:
    """Requests whose parts are decided topic by topic; each is answered once, when its last part is settled."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._open: dict[AskId, _Open] = {}
        self._inbox: dict[TopicName, list[Item]] = {}

    def open(self, ask: AskId, request: Divided, items: list[Item], size: int) -> Answer | None:
        """Take in a request of `size` parts; parts not among `items` are settled by the caller."""
        self._open[ask] = _Open(request, items, [None] * size, size)
        for item in items:
            self._inbox.setdefault(item.at.topic, []).append(item)
        return self._close_if_done(ask)

    def is_open(self, ask: AskId) -> bool:
        """Whether somebody still waits for its answer."""
        return ask in self._open

    def request(self, ask: AskId) -> Divided | None:
        """The request as it was asked; None where it has been answered."""
        held = self._open.get(ask)
        return None if held is None else held.request

    def take(self, topic: TopicName) -> list[Item]:
        """The parts that wait for this topic, in the order asked; not those whose request was given up."""
        return [item for item in self._inbox.pop(topic, []) if item.ask in self._open]

    def put_back(self, items: list[Item]) -> None:
        """Consider these parts again, before any that came later."""
        for topic in dict.fromkeys(i.at.topic for i in items):
            again = [i for i in items if i.at.topic == topic]
            self._inbox[topic] = again + self._inbox.get(topic, [])

    def settle(self, ask: AskId, index: int, result: Result) -> Answer | None:
        """Note what became of one part; the answer, once that was the last. Nobody hears what comes too late."""
        held = self._open.get(ask)
        if held is not None and held.results[index] is None:
            held.results[index] = result
            held.missing -= 1
            return self._close_if_done(ask)
        return None

    def give_up(self, ask: AskId) -> Answer | None:
        """The time of a request is over: what has not been considered yet will not be; None where it was answered.

        Parts that were settled keep their result.
        """
        held = self._open.get(ask)
        if held is None:
            return None
        error, answer = ErrorCode.REQUEST_TIMED_OUT, None
        for item in [item for item in held.items if held.results[item.index] is None]:
            answer = self.settle(ask, item.index, refused(item, error, MESSAGES[error]))
        if answer is not None and isinstance(answer.reply, ReassignmentsAltered):
            return Answer(ask, ReassignmentsAltered(answer.reply.results, error, MESSAGES[error]))
        return answer

    def _close_if_done(self, ask: AskId) -> Answer | None:
        held = self._open[ask]
        if held.missing:
            return None
        del self._open[ask]
        return Answer(ask, _reply(held.request, [r for r in held.results if r is not None]))


def _reply(request: Divided, results: list[Result]) -> Reply:
    match request:
        case AlterPartition():
            return PartitionsAltered(tuple(r for r in results if isinstance(r, IsrResult)))
        case CreateTopics():
            return TopicsCreated(tuple(r for r in results if isinstance(r, TopicCreated)))
        case DeleteTopics():
            return TopicsDeleted(tuple(r for r in results if isinstance(r, TopicDeleted)))
        case CreatePartitions():
            return PartitionsCreated(tuple(r for r in results if isinstance(r, TopicGrown)))
        case AlterReassignments():
            return ReassignmentsAltered(tuple(r for r in results if isinstance(r, PartitionResult)))
        case _:
            elected = tuple(r for r in results if isinstance(r, PartitionResult))
            if request.partitions is None:
                elected = tuple(r for r in elected if r.error is not ErrorCode.ELECTION_NOT_NEEDED)
            return LeadersElected(elected)


def granted(item: Item, cluster: Cluster) -> Result:
    """The answer to a part whose writes are done."""
    match item.wanted:
        case IsrProposal():
            held = cluster.partition(item.at)
            if held is None:
                return unknown(item, cluster)
            return alter_partition.granted(item.wanted, item.at, held)
        case NewTopic():
            return _created(item.wanted, cluster)
        case _:
            return refused(item, ErrorCode.NONE, None)


def _created(wish: NewTopic, cluster: Cluster) -> TopicCreated:
    topic = cluster.topics.get(wish.name)
    configs = tuple((name, value) for name, value in wish.configs if value is not None)
    if topic is None or not topic.partitions:
        return TopicCreated(wish.name, configs=configs)
    factor = len(topic.partitions[PartitionId(0)].assignment.replicas)
    return TopicCreated(wish.name, ErrorCode.NONE, None, topic.topic_id, len(topic.partitions), factor, configs)


def unknown(item: Item, cluster: Cluster) -> Result:
    """The answer to a part whose topic does not exist."""
    if isinstance(item.wanted, MoveWish):
        refusal = alter_reassignments.consider(item.wanted, None, cluster)
        if isinstance(refusal, Refusal):
            return denied(item, refusal)
    what = "partition" if isinstance(item.wanted, Election) else "topic"
    return refused(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The {what} does not exist.")


def oversized(item: Item, message: str) -> Result:
    """The answer to a part that would make a znode too large."""
    match item.wanted:
        case NewTopic() | Growth():
            return refused(item, ErrorCode.INVALID_PARTITIONS, message)
        case MoveWish():
            return refused(item, ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        case _:
            return refused(item, ErrorCode.UNKNOWN_SERVER_ERROR, message)


def denied(item: Item, refusal: Refusal) -> Result:
    """The answer to a part that is refused."""
    return refused(item, refusal.error, refusal.message)


def refused(item: Item, error: ErrorCode, message: str | None) -> Result:
    """The answer to a part with nothing but an error in it, or none."""
    topic = item.at.topic
    match item.wanted:
        case IsrProposal() as wanted:
            return IsrResult(topic, wanted.topic.topic_id, item.at.partition, error)
        case NewTopic():
            return TopicCreated(topic, error, message)
        case TopicReference() as wanted:
            return TopicDeleted(topic, wanted.topic_id, error, message)
        case Growth():
            return TopicGrown(topic, error, message)
        case MoveWish() | Election():
            return moved(item, error, message)
        case _:
            assert_never(item.wanted)


def moved(item: Item, error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> PartitionResult:
    """What became of a wish to move or to cancel."""
    return PartitionResult(item.at, error, message)
