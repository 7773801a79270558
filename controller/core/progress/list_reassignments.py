"""Which moves are in progress, and which are accepted and wait?

A waiting move is listed with its current replicas: the ones to be added are not among them, which distinguishes it from
a move that has begun.

Source: KIP-455 "ListPartitionReassignmentsRequest".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from controller.core.messages.replies import OngoingMove
from controller.core.messages.requests import ListReassignments
from controller.core.progress.ledger import WAITING, RequestLedger
from controller.core.state.remembered import Numbers
from controller.core.state.view import Cluster
from zk_layout.ids import PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.reassignment_status import MoveProgress


def asked(request: ListReassignments, cluster: Cluster, waiting: Numbers) -> Iterator[TopicPartition]:
    """The partitions to examine for a request; the indexes may change during iteration."""
    if request.partitions is None:
        return in_order(cluster.moving, cluster.waiting, waiting)
    return iter(dict.fromkeys(request.partitions))


def in_order(*indexes: Mapping[TopicName, Mapping[PartitionId, object]]) -> Iterator[TopicPartition]:
    """All partitions of these indexes, which may change during iteration."""
    for topic in sorted({*chain.from_iterable(indexes)}):
        for number in sorted({*chain.from_iterable(index.get(topic, ()) for index in indexes)}):
            yield TopicPartition(topic, number)


def move(at: TopicPartition, cluster: Cluster, progress: MoveProgress | None) -> OngoingMove | None:
    """The move of one partition; None if it does not move. The deletion of a topic ends its moves."""
    held = cluster.partition(at)
    if held is None or cluster.topics[at.topic].is_queued_for_deletion or not held.assignment.is_moving:
        return None
    return OngoingMove(at, held.assignment.replicas, held.assignment.adding, held.assignment.removing, progress)


def waiting_move(at: TopicPartition, cluster: Cluster, ledger: RequestLedger) -> OngoingMove | None:
    """The move of one partition that has not begun; None if none waits."""
    held, request = cluster.partition(at), ledger.waiting_request(at)
    waiter = cluster.waiting.get(at.topic, {}).get(at.partition)
    if held is None or (request is None and waiter is None) or cluster.topics[at.topic].is_queued_for_deletion:
        return None
    now, target = held.assignment.replicas, () if request is None else request.entries[at].replicas
    if waiter is not None:
        target = waiter.to
    adding, removing = tuple(r for r in target if r not in now), tuple(r for r in now if r not in target)
    progress = None
    if request is not None:
        progress = MoveProgress(request.request, WAITING, request.requested_ms, _waits_for(adding, cluster))
    return OngoingMove(at, now, adding, removing, progress)


def _waits_for(adding: Replicas, cluster: Cluster) -> str:
    """What keeps a move from beginning, as far as anybody but the queue can see."""
    absent = next((broker for broker in adding if not cluster.is_live(broker)), None)
    if absent is not None:
        return f"broker {absent} is not alive"
    return "its turn: moves are paused" if cluster.pause is not None else "its turn: moves are limited"
