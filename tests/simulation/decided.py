"""What do a term's decisions change in topics, and which changes obey no limit?"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from controller.core.messages.effects import Commit
from controller.core.state.cluster import ClusterState
from controller.core.state.topics import Partition, TopicView
from zk_layout.ids import BrokerId, TopicPartition
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress


def topics_written(commits: Iterable[Commit], state: ClusterState) -> Iterator[tuple[TopicView, Topic]]:
    """Each existing topic whose znode is written, as the term knows it, and what is written."""
    for commit in commits:
        for write in commit.writes:
            value = getattr(write, "value", None)
            view = state.topics.views.get(write.address.topic) if isinstance(write.address, TopicAddress) else None
            if view is not None and isinstance(value, Topic):
                yield view, value


def is_put_right(assignment: Assignment, state: PartitionState | None, controllers: Container[BrokerId]) -> bool:
    """Whether a partition is changed at once: it has a replica on a controller's id, or one in sync is not listed."""
    isr = () if state is None else state.isr
    replicas = assignment.replicas
    return any(r in controllers for r in replicas) or any(r not in replicas for r in isr)


def begun(commits: list[Commit], state: ClusterState) -> Iterator[tuple[TopicPartition, Partition, Assignment]]:
    """The moves that begin to copy; what is in flight may be redirected."""
    for view, value in topics_written(commits, state):
        for number, to in value.partitions.items():
            held = view.partitions.get(number)
            if held is not None and held.assignment.replicas and to.adding and not held.assignment.adding:
                yield TopicPartition(view.name, number), held, to
