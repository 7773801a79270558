"""Which moves are in progress?

Source: KIP-455 "ListPartitionReassignmentsRequest".
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.messages.replies import OngoingMove
from controller.core.messages.requests import ListReassignments
from controller.core.state.view import Cluster
from zk_layout.ids import TopicPartition
from zk_layout.znodes.reassignment_status import MoveProgress


def asked(request: ListReassignments, cluster: Cluster) -> Iterator[TopicPartition]:
    """The partitions to be looked at for a request; those that move may change while one goes through them."""
    return moves_of(cluster) if request.partitions is None else iter(dict.fromkeys(request.partitions))


def moves_of(cluster: Cluster) -> Iterator[TopicPartition]:
    """All that move; they may change while one goes through them."""
    for topic in sorted(cluster.moving):
        for number in sorted(cluster.moving.get(topic, ())):
            yield TopicPartition(topic, number)


def move(at: TopicPartition, cluster: Cluster, progress: MoveProgress | None) -> OngoingMove | None:
    """The move of one partition; None where it does not move. The moves of a topic that is being deleted have ended."""
    held = cluster.partition(at)
    if held is None or cluster.topics[at.topic].is_queued_for_deletion or not held.assignment.is_moving:
        return None
    return OngoingMove(at, held.assignment.replicas, held.assignment.adding, held.assignment.removing, progress)
