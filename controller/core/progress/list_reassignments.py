"""Which moves are in progress?

Source: KIP-455 "ListPartitionReassignmentsRequest".
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.replies import OngoingMove, ReassignmentsListed
from controller.core.requests import ListReassignments
from controller.core.view import Cluster
from zk_layout.ids import TopicPartition


def reply(request: ListReassignments, cluster: Cluster) -> ReassignmentsListed:
    """The moves in progress among the partitions asked for; those that do not move are left out.

    The moves of a topic that is being deleted have ended.
    """
    moves = []
    for at in _asked(request, cluster):
        held = cluster.partition(at)
        if held is not None and not cluster.topics[at.topic].is_queued_for_deletion and held.assignment.is_moving:
            assignment = held.assignment
            moves.append(OngoingMove(at, assignment.replicas, assignment.adding, assignment.removing))
    return ReassignmentsListed(tuple(moves))


def _asked(request: ListReassignments, cluster: Cluster) -> Iterable[TopicPartition]:
    if request.partitions is not None:
        return dict.fromkeys(request.partitions)
    return (
        TopicPartition(topic, number) for topic in sorted(cluster.moving) for number in sorted(cluster.moving[topic])
    )
