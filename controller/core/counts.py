"""How many partitions are offline, under-replicated or moving?

Counts are updated incrementally: a partition is examined when it or the liveness of its brokers changes.
"""

from __future__ import annotations

from msgspec import Struct, field

from controller.core.messages.outbox import Outbox
from controller.core.state.changes import Changes
from controller.core.state.placement import Numbers, discard
from controller.core.state.topics import Partition, TopicView
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition


class CountsMemory(Struct, frozen=True, eq=False):
    """Written only by `PartitionCounts`."""

    # Partitions without a leader that can serve.
    offline: Numbers = field(default_factory=dict)
    # Partitions with fewer replicas in sync than there should be.
    under_replicated: Numbers = field(default_factory=dict)
    # Partitions that are not led by their first replica.
    not_preferred: Numbers = field(default_factory=dict)


class _Counted:
    """Partitions of one kind, by topic, and how many there are."""

    def __init__(self, topics: Numbers) -> None:
        self.topics = topics
        self.count = 0

    def keep(self, name: TopicName, number: PartitionId, *, belongs: bool) -> None:
        """Note whether a partition is of this kind."""
        numbers = self.topics.get(name)
        if belongs and (numbers is None or number not in numbers):
            self.topics.setdefault(name, {})[number] = None
            self.count += 1
        elif not belongs and numbers is not None and number in numbers:
            discard(self.topics, name, number)
            self.count -= 1

    def forget(self, name: TopicName) -> None:
        """Forget a deleted topic."""
        self.count -= len(self.topics.pop(name, ()))


class PartitionCounts(Duty):
    """The gauges of the cluster; other duties read the sets from memory."""

    def __init__(self, shared: Shared, memory: CountsMemory) -> None:
        self._cluster = shared.cluster
        self._offline = _Counted(memory.offline)
        self._not_preferred = _Counted(memory.not_preferred)
        self._under_replicated = _Counted(memory.under_replicated)
        self._every = (self._offline, self._under_replicated, self._not_preferred)
        self._moving_since: dict[TopicPartition, float] = {}

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Recount the partitions that changed."""
        for name, numbers in changes.partitions.items():
            topic = self._cluster.topics[name]
            is_blank = not self._moving_since and not any(name in counted.topics for counted in self._every)
            for number in changes.not_at_rest(name) if is_blank else numbers:
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
                counted.keep(*at, belongs=False)
            self._moving_since.pop(at, None)
            return
        state, assignment = held.state, held.assignment
        self._offline.keep(*at, belongs=state is None or not self._can_lead(state.leader, at))
        is_under_replicated = assignment.is_under_replicated(() if state is None else state.isr)
        self._under_replicated.keep(*at, belongs=is_under_replicated)
        self._not_preferred.keep(*at, belongs=_is_not_preferred(held))
        if assignment.is_moving:
            if at not in self._moving_since:
                self._moving_since[at] = out.now
                out.measured("reassignments_started")
        elif at in self._moving_since:
            out.measured("reassignment_seconds", out.now - self._moving_since.pop(at))

    def _forget(self, name: TopicName, gone: TopicView) -> None:
        """Forget a deleted topic."""
        for counted in self._every:
            counted.forget(name)
        for number in gone.partitions if self._moving_since else ():
            self._moving_since.pop(TopicPartition(name, number), None)

    def _can_lead(self, leader: BrokerId, at: TopicPartition) -> bool:
        """A leader that is shutting down still counts; one whose log directory has failed does not."""
        return self._cluster.is_registered(leader) and leader not in self._cluster.offline_replicas.get(at, ())

    def figures(self) -> dict[str, float]:
        """The current gauges, by measure."""
        return {
            "offline_partitions": self._offline.count,
            "under_replicated_partitions": self._under_replicated.count,
            "preferred_replica_imbalance": self._not_preferred.count,
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
