"""Are answers to clients about topics true?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import LeadersElected, PartitionsCreated, TopicsCreated, TopicsDeleted
from controller.core.messages.requests import CreatePartitions, CreateTopics, DeleteTopics, ElectLeaders, Request
from zk_layout.ids import TopicName, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.checker import Checker


def unfit(checker: Checker, request: Request, reply: object) -> str | None:
    """What is wrong with an answer about topics; None if it covers the request and is true."""
    match request, reply:
        case CreateTopics(), TopicsCreated():
            if [r.topic for r in reply.results] != [t.name for t in request.topics]:
                return "it does not cover the request"
            done = [r for r in reply.results if r.error is ErrorCode.NONE and not request.is_validation_only]
            return next((text for r in done if (text := _uncreated(checker, r.topic, r.partition_count))), None)
        case DeleteTopics(), TopicsDeleted():
            if len(reply.results) != len(request.topics):
                return "it does not cover the request"
            done_names = [r.topic for r in reply.results if r.error is ErrorCode.NONE and r.topic is not None]
            return next((f"no request to delete {n}" for n in done_names if n not in checker.asked_for), None)
        case CreatePartitions(), PartitionsCreated():
            if [r.topic for r in reply.results] != [g.topic for g in request.growths]:
                return "it does not cover the request"
            pairs = zip(request.growths, reply.results, strict=True)
            grown = [g for g, r in pairs if r.error is ErrorCode.NONE and not request.is_validation_only]
            return next((text for g in grown if (text := _uncreated(checker, g.topic, g.partition_count))), None)
        case ElectLeaders(), LeadersElected():
            if request.partitions is None or reply.error:
                return None
            covered = [r.topic_partition for r in reply.results] == list(request.partitions)
            return None if covered else "it does not cover the request"
        case _:
            return None


def _uncreated(checker: Checker, name: TopicName, count: int) -> str | None:
    """Whether a topic has fewer partitions than the answer, or one that never had a leader."""
    topic = checker.topics.get(name)
    if topic is None or name in checker.asked_for:
        return None if name in checker.asked_for else f"there is no topic {name}"
    if len(topic.partitions) < count:
        return f"topic {name} has {len(topic.partitions)} partitions"
    leaderless = [n for n in topic.partitions if n < count and TopicPartition(name, n) not in checker.states]
    return f"partitions {leaderless} of topic {name} never had a leader" if leaderless else None
