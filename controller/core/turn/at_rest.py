"""Which partitions seen for the first time are so ordinary that no duty has anything to note or decide about them?

Nearly all of them are, where a term begins in a cluster without faults. So it is found out once for all duties.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.state.changes import ByPartition, Changes
from controller.core.state.topics import BLANK, Partition, TopicView
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, PartitionId


def at_rest(changes: Changes, cluster: Cluster) -> ByPartition[None]:
    """The partitions that do not move, led by the first replica, with all replicas in sync on brokers that live.

    None of them while a broker shuts down or has lost a log directory.
    """
    if not changes.is_initial or cluster.shutting_down or cluster.offline_replicas:
        return {}
    live = frozenset(filter(cluster.is_registered, cluster.hosted))
    are_all_live = len(live) == len(cluster.hosted)
    topics = ((cluster.topics.get(name), numbers) for name, numbers in changes.partitions.items())
    return {topic.name: _of(topic, numbers, None if are_all_live else live) for topic, numbers in topics if topic}


def _of(
    topic: TopicView, numbers: Mapping[PartitionId, Partition], live: frozenset[BrokerId] | None
) -> dict[PartitionId, None]:
    resting: dict[PartitionId, None] = {}
    if topic.is_queued_for_deletion or topic.is_malformed or topic.deletions:
        return resting
    partitions = topic.partitions
    for number, former in numbers.items():
        held = partitions[number]
        state, assignment = held.state, held.assignment
        replicas = assignment.replicas
        if state is None or former is not BLANK or not replicas or assignment.adding or assignment.removing:
            continue
        is_whole = state.isr == replicas or sorted(state.isr) == sorted(replicas)
        if is_whole and state.leader == replicas[0] and (live is None or live.issuperset(replicas)):
            resting[number] = None
    return resting
