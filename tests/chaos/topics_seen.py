"""What does ZooKeeper hold about all topics?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from msgspec import Struct

from tests.chaos.ledger import Partition
from tests.chaos.stage import Stage
from zk_layout.ids import PartitionId, TopicName
from zk_layout.znodes import partition_state, topics
from zk_layout.znodes.admin import DELETE_TOPICS
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import ROOT, Assignment, TopicAddress


class TopicsSeen(Struct, frozen=True):
    """The assignments and deletion requests of a moment ago.

    Shape:
        `is_whole` is False if ZooKeeper left a read unanswered.
    """

    assignments: Mapping[str, Mapping[PartitionId, Assignment]]
    deletions: tuple[str, ...]
    is_whole: bool

    @classmethod
    def of(cls, stage: Stage) -> Self:
        """Read them now."""
        names = stage.children(ROOT)
        found: dict[str, Mapping[PartitionId, Assignment]] = {}
        for name in names:
            data = stage.read(TopicAddress(TopicName(name)).path)
            if data is not None:
                found[name] = topics.decode(data).partitions
        return cls(found, tuple(stage.children(DELETE_TOPICS)), bool(names) and len(found) == len(names))

    def assignment(self, partition: Partition) -> Assignment | None:
        """One partition's assignment, if it exists."""
        topic, number = partition
        return self.assignments.get(topic, {}).get(PartitionId(number))

    def starting_with(self, prefix: str) -> list[str]:
        """Topics that are not to be deleted."""
        return sorted(name for name in self.assignments if name.startswith(prefix) and name not in self.deletions)

    def unsettled(self, stage: Stage) -> Iterator[str]:
        """Everything that is not settled yet, in words."""
        if not self.is_whole:
            yield "ZooKeeper does not answer"
            return
        for name in self.deletions:
            yield f"topic {name} is not deleted"
        for name, assignments in self.assignments.items():
            for partition, assignment in assignments.items():
                if name not in self.deletions:
                    data = stage.read(StateAddress(TopicName(name), partition).path)
                    state = None if data is None else partition_state.decode(data)
                    if fault := _fault(assignment, state):
                        yield f"{name}-{partition} {fault}"


def _fault(assignment: Assignment, state: PartitionState | None) -> str:
    if assignment.is_moving:
        return f"moves still, {assignment}"
    if state is None:
        return "never had a leader"
    if state.leader not in assignment.replicas:
        return f"has no leader: {state}"
    if set(state.isr) != set(assignment.replicas):
        return f"has replicas {assignment.replicas}, of which {state.isr} are in sync"
    return ""
