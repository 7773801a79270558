"""How do brokers see a partition, and which brokers do they see?"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.messages.commands import LiveBroker, PartitionView
from controller.core.stage import in_force
from controller.core.state.topics import Partition, TopicView
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, PartitionId, Replicas, TopicPartition
from zk_layout.znodes.partition_state import RECOVERED, PartitionState
from zk_layout.znodes.topics import Assignment

DELETED = BrokerId(-2)


def live_brokers(cluster: Cluster) -> tuple[LiveBroker, ...]:
    """Every registered broker with all its endpoints, by id; this controller included, so that it can be found."""
    registrations = ((broker, cluster.brokers[broker].registration) for broker in cluster.nodes())
    return tuple(LiveBroker(broker, held.endpoints, held.rack) for broker, held in registrations)


def view(
    topic: TopicView, number: PartitionId, held: Partition, state: PartitionState, cluster: Cluster
) -> PartitionView:
    """One partition with the replicas in force."""
    assignment = _assignment(held, state)
    return _seen(topic, number, held, state, assignment, _offline(topic, number, assignment.replicas, cluster))


def view_at_rest(topic: TopicView, number: PartitionId, held: Partition, state: PartitionState) -> PartitionView:
    """The same for a partition that does not move, all of whose replicas are in sync and online."""
    return _seen(topic, number, held, state, held.assignment, ())


def views_of(topic: TopicView, numbers: Iterable[PartitionId], cluster: Cluster) -> list[PartitionView]:
    """These partitions as far as they have states, quickly: a topic may have very many."""
    stated = ((number, held, held.state) for number in numbers for held in (topic.partitions[number],))
    if cluster.shutting_down or cluster.offline_replicas:
        return [view(topic, number, held, state, cluster) for number, held, state in stated if state is not None]
    views: list[PartitionView] = []
    online = frozenset(cluster.brokers)
    for number, held, state in stated:
        if state is not None:
            assignment = _assignment(held, state)
            replicas = assignment.replicas
            offline = () if online.issuperset(replicas) else tuple(r for r in replicas if r not in online)
            views.append(_seen(topic, number, held, state, assignment, offline))
    return views


def _assignment(held: Partition, state: PartitionState) -> Assignment:
    assignment = held.assignment
    if assignment.is_moving or state.isr != assignment.replicas:
        return in_force(assignment, state)
    return assignment


def _seen(
    topic: TopicView,
    number: PartitionId,
    held: Partition,
    state: PartitionState,
    assignment: Assignment,
    offline: Replicas,
) -> PartitionView:
    return PartitionView(
        topic.name,
        topic.topic_id,
        number,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        state.isr,
        held.epoch,
        state.leader_recovery_state,
        assignment.replicas,
        assignment.adding,
        assignment.removing,
        offline,
    )


def deleted(
    topic: TopicView, controller_epoch: ControllerEpoch, numbers: Iterable[PartitionId] | None = None
) -> list[PartitionView]:
    """Partitions of a deleted topic, by default all, so that brokers drop them from their metadata."""
    partitions = (
        topic.partitions if numbers is None else {n: topic.partitions[n] for n in numbers if n in topic.partitions}
    )
    return [
        PartitionView(
            topic.name,
            topic.topic_id,
            number,
            controller_epoch,
            DELETED,
            LeaderEpoch(0),
            held.state.isr if held.state else (),
            PartitionEpoch(0),
            held.state.leader_recovery_state if held.state else RECOVERED,
            held.assignment.replicas,
        )
        for number, held in partitions.items()
        if held.assignment.replicas
    ]


def _offline(topic: TopicView, number: PartitionId, replicas: Replicas, cluster: Cluster) -> Replicas:
    brokers, shutting_down = cluster.brokers, cluster.shutting_down
    if not shutting_down and not cluster.offline_replicas:
        for r in replicas:
            if r not in brokers:
                return tuple(r for r in replicas if r not in brokers)
        return ()
    at = TopicPartition(topic.name, number)
    return tuple(r for r in replicas if not cluster.is_online(r, at))
