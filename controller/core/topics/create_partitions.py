"""May this topic get more partitions, and on which brokers?

Source: Kafka's ZkAdminManager.createPartitions and AdminZkClient.createNewPartitionsAssignment, with their order of
checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.requests import CreatePartitions, Growth
from controller.core.state.topics import TopicView
from controller.core.state.view import Cluster
from controller.core.topics.create_topics import MOST_PARTITIONS, candidates, too_many
from controller.core.topics.placement import Start, spread
from zk_layout.ids import PartitionId, Replicas, TopicName

FORBIDDEN = Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed.")
QUEUED = Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")


def refuse_within(request: CreatePartitions) -> list[Refusal | None]:
    """The refusal of each topic that follows from the request alone."""
    counts = Counter(growth.topic for growth in request.growths)
    twice = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
    return [twice if counts[growth.topic] > 1 else None for growth in request.growths]


def missing(name: TopicName) -> Refusal:
    """The refusal for a topic that does not exist, or has no partitions."""
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def consider(wanted_growth: Growth, topic: TopicView, cluster: Cluster) -> dict[PartitionId, Replicas] | Refusal:
    """The replicas of each new partition, or the reason to refuse them."""
    if topic.is_malformed:
        text = f"the znode of topic {topic.name} is malformed; repair it first"
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    if topic.name in cluster.moving:
        text = f"A partition reassignment is in progress for the topic '{topic.name}'."
        return Refusal(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
    held = {number: p.assignment.replicas for number, p in topic.partitions.items() if p.assignment.replicas}
    now, wanted = len(held), wanted_growth.partition_count
    if not held:
        return missing(topic.name)
    if wanted < now:
        text = f"Topic currently has {now} partitions, which is higher than the requested {wanted}."
        return Refusal(ErrorCode.INVALID_PARTITIONS, text)
    if wanted == now:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partitions.")
    if held.keys() != set(range(now)):
        text = f"the partitions of topic {topic.name} are not numbered from 0 to {now - 1}; repair its znode first"
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    first = held[PartitionId(0)]
    placed = (
        _place(wanted - now, now, first, cluster) if wanted_growth.assignments is None else wanted_growth.assignments
    )
    if isinstance(placed, Refusal):
        return placed
    problem = _problem_of(placed, now, wanted, len(first), cluster) if wanted_growth.assignments is not None else None
    if problem is not None:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    return {PartitionId(now + index): replicas for index, replicas in enumerate(placed)}


def _place(count: int, now: int, first: Replicas, cluster: Cluster) -> tuple[Replicas, ...] | Refusal:
    """Continue the round from the first partition's first replica, as Kafka does."""
    brokers = candidates(cluster)
    if now + count > MOST_PARTITIONS:
        return too_many(now + count)
    if len(first) > len(brokers):
        text = f"Replication factor: {len(first)} larger than available brokers: {len(brokers)}."
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    without_rack = [broker for broker, rack in brokers.items() if rack is None]
    if 0 < len(without_rack) < len(brokers):
        text = f"Not all brokers have rack information for replica rack aware assignment: {without_rack} have none."
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    start = next((at for at, broker in enumerate(brokers) if broker >= first[0]), 0)
    return tuple(spread(brokers, count, len(first), Start(start, start), first=now).values())


def _problem_of(placed: tuple[Replicas, ...], now: int, wanted: int, factor: int, cluster: Cluster) -> str | None:
    unknown = sorted({r for replicas in placed for r in replicas if not cluster.is_registered(r)})
    if unknown:
        return f"Unknown broker(s) in replica assignment: {_plain(unknown)}."
    if len(placed) != wanted - now:
        return f"Increasing the number of partitions by {wanted - now} but {len(placed)} assignments provided."
    for number, replicas in enumerate(placed, now):
        if not replicas:
            return f"Cannot have replication factor of 0 for partition id {number}."
        if len(set(replicas)) < len(replicas):
            return f"Duplicate brokers not allowed in replica assignment: {_plain(replicas)} for partition id {number}."
    others = {number: len(replicas) for number, replicas in enumerate(placed, now) if len(replicas) != factor}
    if others:
        text = f"partition 0 has {factor} while partitions [{_plain(others)}] have replication factors"
        return f"Inconsistent replication factor between partitions, {text} [{_plain(others.values())}], respectively."
    return None


def _plain(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
