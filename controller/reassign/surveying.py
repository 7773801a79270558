"""What is where on a cluster, and how large is it? What a plan is made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import median_low

from msgspec import Struct

from controller.reassign.cluster import Cluster, PartitionState, hosting
from controller.reassign.planning.layout import Layout, Placed
from controller.reassign.plans import Replica
from zk_layout.ids import TopicName, TopicPartition


class Survey(Struct, frozen=True):
    """A layout, and what it was impossible to learn.

    Shape:
        `moving` are partitions that move: they keep the replicas they will have. `unmeasured` have no known size, and
        are taken for as large as the median.
    """

    layout: Layout
    moving: tuple[TopicPartition, ...]
    unmeasured: tuple[TopicPartition, ...]


def survey(cluster: Cluster, movable: Collection[TopicName], *, is_rack_aware: bool) -> Survey:
    """Ask for everything; only topics of `movable` may move, or all where it is empty."""
    racks = {b: node.rack if is_rack_aware else None for b, node in hosting(cluster.nodes()).items()}
    states = {
        TopicPartition(topic, partition): state
        for topic, partitions in sorted(cluster.topics(None).items())
        for partition, state in sorted(partitions.items())
    }
    moves = cluster.listing().moves
    sizes = _sizes(cluster, states)
    typical = median_low(sorted(sizes.values())) if sizes else 0
    placed = [
        Placed(
            at,
            moves[at].target if at in moves else state.replicas,
            sizes.get(at, typical),
            is_fixed=at in moves or bool(movable and at.topic not in movable),
        )
        for at, state in states.items()
    ]
    unmeasured = tuple(at for at in states if at not in sizes)
    return Survey(Layout(racks, placed), tuple(sorted(at for at in moves if at in states)), unmeasured)


def _sizes(cluster: Cluster, states: Mapping[TopicPartition, PartitionState]) -> dict[TopicPartition, int]:
    """The size of each partition: its leader's, or where that is unknown the largest of its replicas."""
    leaders = {Replica(state.leader, *at): at for at, state in states.items() if state.leader >= 0}
    found = _known(cluster, leaders)
    others = {Replica(broker, *at): at for at, state in states.items() if at not in found for broker in state.replicas}
    return _known(cluster, others) | found


def _known(cluster: Cluster, replicas: Mapping[Replica, TopicPartition]) -> dict[TopicPartition, int]:
    sizes: dict[TopicPartition, int] = {}
    for replica, directories in (cluster.directories(replicas) if replicas else {}).items():
        if directories.size_bytes is not None:
            at = replicas[replica]
            sizes[at] = max(sizes.get(at, 0), directories.size_bytes)
    return sizes
