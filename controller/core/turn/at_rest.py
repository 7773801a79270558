"""Which partitions seen for the first time are so ordinary that no duty has anything to note or decide about them?

Nearly all of them are, where a term begins in a cluster without faults. So it is found out once for all duties.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import islice

from controller.core.state.changes import ByPartition, Changes, cut_off
from controller.core.state.topics import BLANK, Partition, TopicView
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, PartitionId, TopicName

RESTING_AS_ONE = 4
"""So many partitions at rest take no longer than one other."""


class AtRest:
    """Finds the partitions that do not move, led by the first replica, with all replicas in sync on brokers that live.

    None of them while a broker shuts down or has lost a log directory.
    """

    def __init__(self, cluster: Cluster) -> None:
        """It follows `cluster` as that changes."""
        self._cluster = cluster
        self._found: dict[TopicName, tuple[int, dict[PartitionId, None]]] = {}
        self._live: frozenset[BrokerId] | None = None

    def cut_unseen(
        self, unseen: ByPartition[Partition], most: int, held: Container[TopicName]
    ) -> ByPartition[Partition]:
        """Take out what one turn can see for the first time: up to `most` partitions, of which several at rest count as
        one. Fewer and larger commands then tell brokers of all partitions. Those of `held` topics stay.
        """
        live, may_rest = _live(self._cluster), _may_any_rest(self._cluster)
        self._found, self._live = {}, live

        def weigh(name: TopicName, some: Mapping[PartitionId, Partition], most: int) -> tuple[int, int]:
            topic = self._cluster.topics.get(name)
            if len(some) > RESTING_AS_ONE * most:
                some = dict(islice(some.items(), RESTING_AS_ONE * most))
            resting = _of(topic, some, live) if topic is not None and may_rest else {}
            work = len(some) - len(resting) + -(-len(resting) // RESTING_AS_ONE)
            if work > most:
                return most, work
            self._found[name] = len(some), resting
            return len(some), work

        return cut_off(unseen, most, held, weigh=weigh)

    def of(self, changes: Changes) -> ByPartition[None]:
        """Those of what is seen for the first time. A duty may have let brokers in since that was cut."""
        if not changes.is_initial or not _may_any_rest(self._cluster):
            return {}
        live = _live(self._cluster)
        known = self._found if live == self._live else {}
        self._found = {}
        resting: ByPartition[None] = {}
        for name, numbers in changes.partitions.items():
            count, found = known.get(name, (0, {}))
            topic = self._cluster.topics.get(name)
            if topic is not None:
                resting[name] = found if count == len(numbers) else _of(topic, numbers, live)
        return resting


def _may_any_rest(cluster: Cluster) -> bool:
    return not cluster.shutting_down and not cluster.offline_replicas


def _live(cluster: Cluster) -> frozenset[BrokerId] | None:
    """The live brokers, or None if all that host replicas are."""
    live = frozenset(filter(cluster.is_registered, cluster.hosted))
    return None if len(live) == len(cluster.hosted) else live


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
