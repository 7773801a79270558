"""Counts: how many partitions are offline, under-replicated or moving?

Counted from what changes, never from scratch: a partition is looked at when it changed, its brokers' liveness included.
"""

from __future__ import annotations

from controller.core.messages.outbox import Outbox
from controller.core.state.changes import Changes
from controller.core.state.topics import Partition, TopicView
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerId, TopicName, TopicPartition

Counted = dict[TopicPartition, None]


class PartitionCounts(Duty):
    """The figures of the cluster; two of the sets are remembered for other duties."""

    def __init__(self, shared: Shared) -> None:
        self._cluster = shared.cluster
        self._offline = shared.memory.offline
        self._not_preferred = shared.memory.not_preferred
        self._under_replicated: Counted = {}
        self._moving_since: dict[TopicPartition, float] = {}
        self._every = (self._offline, self._under_replicated, self._not_preferred, self._moving_since)

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Count what changed anew."""
        for name, numbers in changes.partitions.items():
            topic = self._cluster.topics[name]
            for number in numbers:
                held = None if topic.is_queued_for_deletion else topic.partitions[number]
                self._see(TopicPartition(name, number), held, out)
        for name, gone in changes.gone_topics.items():
            if name not in self._cluster.topics:
                self._forget(name, gone)
                continue
            for number in gone.partitions:
                at = TopicPartition(name, number)
                self._see(at, self._cluster.partition(at), out)

    def _see(self, at: TopicPartition, held: Partition | None, out: Outbox) -> None:
        if held is None or not held.assignment.replicas:
            for counted in self._every:
                counted.pop(at, None)
            return
        state, assignment = held.state, held.assignment
        _keep(self._offline, at, state is None or not self._can_lead(state.leader, at))
        _keep(self._under_replicated, at, assignment.is_under_replicated(() if state is None else state.isr))
        _keep(self._not_preferred, at, _is_not_preferred(held))
        if assignment.is_moving:
            if at not in self._moving_since:
                self._moving_since[at] = out.now
                out.measured("reassignments_started")
        elif at in self._moving_since:
            out.measured("reassignment_seconds", out.now - self._moving_since.pop(at))

    def _forget(self, name: TopicName, gone: TopicView) -> None:
        """Nothing is looked for where nothing was counted."""
        for counted in self._every:
            for number in gone.partitions if counted else ():
                counted.pop(TopicPartition(name, number), None)

    def _can_lead(self, leader: BrokerId, at: TopicPartition) -> bool:
        """A broker that shuts down still leads; one whose log directory has failed does not, though it is there."""
        return self._cluster.is_registered(leader) and leader not in self._cluster.offline_replicas.get(at, ())

    def figures(self) -> dict[str, float]:
        """The gauges of this moment, by measure."""
        return {
            "offline_partitions": len(self._offline),
            "under_replicated_partitions": len(self._under_replicated),
            "preferred_replica_imbalance": len(self._not_preferred),
            "moving_partitions": len(self._moving_since),
            "partitions": self._cluster.partition_count,
            "topics": len(self._cluster.topics),
        }


def _is_not_preferred(held: Partition) -> bool:
    """A preferred replica that is still being added counts only once it is in sync."""
    state, first = held.state, held.assignment.replicas[0]
    if state is None or (first in held.assignment.adding and first not in state.isr):
        return False
    return state.leader != first


def _keep(counted: Counted, at: TopicPartition, belongs: bool) -> None:
    if belongs:
        counted[at] = None
    else:
        counted.pop(at, None)
