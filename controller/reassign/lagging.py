"""How much does a receiving replica lack of its leader's log? By offsets, which compaction and retention do not move.

Sizes mislead where a log is compacted or its oldest segments are deleted: a replica that copied both before that lacks
records, and has as many bytes as its leader or more. A broker tells a debugging consumer (replica id -2) where its own
replica's log ends, whether that is in sync or not (seen with 2.4.1, 2.8.2 and 3.9.1: `tests/cluster/test_progress.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from controller.reassign.cluster import Cluster, Edge, Move, PartitionState
from controller.reassign.plans import Replica
from zk_layout.ids import TopicPartition


class Lag(Struct, frozen=True):
    """What a replica lacks.

    Units:
        Both are offsets: `lacking` those that its leader has in addition, `whole` all that its leader has.
    """

    lacking: int
    whole: int

    def bytes_of(self, total: int) -> int:
        """What it lacks in bytes, where the leader's log has `total`; at least one if it lacks anything.

        >>> Lag(250, 1000).bytes_of(80), Lag(1, 1000).bytes_of(80), Lag(0, 0).bytes_of(80)
        (20, 1, 0)
        """
        return -(-total * self.lacking // self.whole) if self.whole else 0


NONE = Lag(0, 0)


def lags(
    cluster: Cluster, moves: Mapping[TopicPartition, Move], states: Mapping[TopicPartition, PartitionState]
) -> dict[Replica, Lag]:
    """The lag of each receiving replica whose broker tells it; nothing is asked about those in sync.

    Receivers are asked before their leaders, so that none seems to have what its leader lacks.
    """
    in_sync, leaders = set(), {}
    for at, move in moves.items():
        if at not in states or states[at].leader < 0:
            continue
        for broker in move.adding:
            replica = Replica(broker, at.topic, at.partition)
            if broker in states[at].isr:
                in_sync.add(replica)
            elif broker in move.replicas:
                leaders[replica] = Replica(states[at].leader, at.topic, at.partition)
    ends = cluster.offsets(leaders, Edge.END)
    asked = {leaders[replica] for replica in ends}
    last, first = cluster.offsets(asked, Edge.END), cluster.offsets(asked, Edge.START)
    return dict.fromkeys(in_sync, NONE) | {
        replica: _lag(end, first[leaders[replica]], last[leaders[replica]])
        for replica, end in ends.items()
        if leaders[replica] in first and leaders[replica] in last
    }


def _lag(end: int, first: int, last: int) -> Lag:
    """A replica whose log ends before its leader's begins has nothing that it will keep."""
    return Lag(min(max(0, last - end), last - first), last - first)
