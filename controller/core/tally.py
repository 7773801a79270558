"""How many partitions are offline, under-replicated or moving? Counted from what changes, never from scratch."""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.cluster import Cluster, Partition
from controller.core.effects import Measured
from zk_layout.ids import TopicPartition


class Tally:
    """Sets that follow the facts; a partition is looked at when it changed, its brokers' liveness included."""

    def __init__(self) -> None:
        """An empty cluster."""
        self.offline: set[TopicPartition] = set()
        self.under_replicated: set[TopicPartition] = set()
        self.not_preferred: set[TopicPartition] = set()
        self.moving_since: dict[TopicPartition, float] = {}

    def see(self, at: TopicPartition, held: Partition | None, cluster: Cluster, now: float) -> Iterator[Measured]:
        """Count one partition anew; None where it is gone."""
        listed = held is not None and bool(held.assignment.replicas)
        if held is None or not listed:
            for counted in (self.offline, self.under_replicated, self.not_preferred):
                counted.discard(at)
            self.moving_since.pop(at, None)
            return
        state, assignment = held.state, held.assignment
        is_offline = state is None or state.leader not in cluster.brokers
        _keep(self.offline, at, is_offline)
        expected = len(assignment.original) if assignment.is_moving else len(assignment.replicas)
        _keep(self.under_replicated, at, state is None or len(state.isr) < expected)
        _keep(self.not_preferred, at, _is_not_preferred(held))
        if assignment.is_moving:
            if at not in self.moving_since:
                self.moving_since[at] = now
                yield Measured("reassignments_started")
        elif at in self.moving_since:
            yield Measured("reassignment_seconds", now - self.moving_since.pop(at))

    def figures(self, cluster: Cluster) -> dict[str, float]:
        """The gauges of this moment, by measure."""
        return {
            "offline_partitions": len(self.offline),
            "under_replicated_partitions": len(self.under_replicated),
            "preferred_replica_imbalance": len(self.not_preferred),
            "moving_partitions": len(self.moving_since),
            "partitions": cluster.partition_count,
            "topics": len(cluster.topics),
            "live_brokers": len(cluster.live_brokers()),
            "unconfirmed_deletions": sum(len(n) for topics in cluster.owing.values() for n in topics.values()),
            "legacy_entries": len(cluster.legacy),
        }


def _is_not_preferred(held: Partition) -> bool:
    """A preferred replica that is still being added counts only once it is in sync."""
    state, first = held.state, held.assignment.replicas[0]
    if state is None or (first in held.assignment.adding and first not in state.isr):
        return False
    return state.leader != first


def _keep(counted: set[TopicPartition], at: TopicPartition, belongs: bool) -> None:
    if belongs:
        counted.add(at)
    else:
        counted.discard(at)
