"""May this broker shut down, and what does it still lead?

Source: Kafka's KafkaController.doControlledShutdown.
"""

from __future__ import annotations

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ShutdownPermitted
from controller.core.messages.requests import ControlledShutdown
from controller.core.state.view import Cluster
from zk_layout.ids import NO_BROKER_EPOCH, BrokerId, TopicPartition


def refuse(request: ControlledShutdown, cluster: Cluster) -> ErrorCode:
    """Why the request does not apply to the broker's current registration; NONE if it does."""
    held = cluster.brokers.get(request.broker)
    if held is None or request.broker in cluster.controllers:
        unknown_by_epoch = request.broker_epoch != NO_BROKER_EPOCH
        return ErrorCode.UNKNOWN_SERVER_ERROR if unknown_by_epoch else ErrorCode.BROKER_NOT_AVAILABLE
    if request.broker_epoch not in (NO_BROKER_EPOCH, held.epoch) and request.broker_epoch < held.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


def endangered(broker: BrokerId, cluster: Cluster, redundancy: int) -> tuple[TopicPartition, ...]:
    """Partitions that would have fewer than `redundancy` other in-sync replicas without the broker.

    Ignores partitions that never have so many other replicas, and those for which the broker is out of sync.
    """
    found = []
    for topic, numbers in sorted(cluster.hosted.get(broker, {}).items()) if redundancy else ():
        for number in sorted(numbers):
            at = TopicPartition(topic, number)
            held = cluster.partition(at)
            if held is None or held.state is None or broker not in held.state.isr:
                continue
            others = sum(r != broker and cluster.is_online(r, at) for r in held.state.isr)
            if others < redundancy < len(held.assignment.target):
                found.append(at)
    return tuple(found)


def permit(request: ControlledShutdown, cluster: Cluster) -> ShutdownPermitted:
    """The partitions that the broker still leads although they have other replicas; single replicas do not block it."""
    remaining = []
    for topic, numbers in sorted(cluster.hosted.get(request.broker, {}).items()):
        if cluster.topics[topic].is_queued_for_deletion:
            continue
        for number in sorted(numbers):
            at = TopicPartition(topic, number)
            held = cluster.partition(at)
            if held is None or held.state is None or len(held.assignment.replicas) == 1:
                continue
            if held.state.leader == request.broker:
                remaining.append(at)
    return ShutdownPermitted(tuple(remaining))


def too_few_in_sync(broker: BrokerId, endangered: tuple[TopicPartition, ...], redundancy: int) -> str:
    """Explain to an operator why a broker must not shut down yet."""
    named = ", ".join(map(str, endangered[:5])) + (" …" if len(endangered) > 5 else "")
    return (
        f"broker {broker} must not shut down yet: {len(endangered)} partitions ({named}) would have fewer than "
        f"{redundancy} other in-sync replicas (controlled.shutdown.redundancy)"
    )
