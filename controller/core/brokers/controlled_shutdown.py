"""May this broker shut down, and what does it still lead?

Source: Kafka's KafkaController.doControlledShutdown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import ControlledShutdown
from controller.core.state.view import Cluster
from zk_layout.ids import NO_BROKER_EPOCH, BrokerId, PartitionId, TopicName, TopicPartition


def refuse(request: ControlledShutdown, cluster: Cluster) -> ErrorCode:
    """Why the request does not apply to the broker's current registration; NONE if it does."""
    held = cluster.brokers.get(request.broker)
    if held is None or request.broker in cluster.controllers:
        unknown_by_epoch = request.broker_epoch != NO_BROKER_EPOCH
        return ErrorCode.UNKNOWN_SERVER_ERROR if unknown_by_epoch else ErrorCode.BROKER_NOT_AVAILABLE
    if request.broker_epoch not in (NO_BROKER_EPOCH, held.epoch) and request.broker_epoch < held.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


def endangered(
    broker: BrokerId, topic: TopicName, numbers: Iterable[PartitionId], cluster: Cluster, redundancy: int
) -> Iterator[TopicPartition]:
    """Those of its partitions that would have fewer than `redundancy` other in-sync replicas without the broker.

    Ignores partitions that never have so many other replicas, and those for which the broker is out of sync.
    """
    for number in numbers:
        at = TopicPartition(topic, number)
        held = cluster.partition(at)
        if held is None or held.state is None or broker not in held.state.isr:
            continue
        others = sum(r != broker and cluster.is_online(r, at) for r in held.state.isr)
        if others < redundancy < len(held.assignment.target):
            yield at


def still_led(
    broker: BrokerId, topic: TopicName, numbers: Iterable[PartitionId], cluster: Cluster
) -> Iterator[TopicPartition]:
    """Those of its partitions that a broker still leads although they have other replicas; single replicas do not
    block a shutdown.
    """
    held = cluster.topics.get(topic)
    if held is None or held.is_queued_for_deletion:
        return
    for number in numbers:
        partition = held.partitions.get(number)
        if partition is None or partition.state is None or len(partition.assignment.replicas) <= 1:
            continue
        if partition.state.leader == broker:
            yield TopicPartition(topic, number)


def too_few_in_sync(broker: BrokerId, endangered: Sequence[TopicPartition], redundancy: int) -> str:
    """Explain to an operator why a broker must not shut down yet."""
    named = ", ".join(map(str, endangered[:5])) + (" …" if len(endangered) > 5 else "")
    return (
        f"broker {broker} must not shut down yet: {len(endangered)} partitions ({named}) would have fewer than "
        f"{redundancy} other in-sync replicas (controlled.shutdown.redundancy)"
    )
