"""Small clusters to plan for, and what a plan must never break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from controller.reassign.planning.fair_shares import rack_limit
from controller.reassign.planning.layout import Layout, Placed
from controller.reassign.planning.planner import Planned
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition


def brokers(*ids: int) -> Replicas:
    return tuple(map(BrokerId, ids))


def layout(
    racks: Mapping[int, str | None], replicas: Sequence[tuple[int, ...]], sizes: Sequence[int] | None = None
) -> Layout:
    """Partitions of one topic, of one byte each unless sizes are given."""
    placed = [
        Placed(TopicPartition(TopicName("t"), PartitionId(number)), brokers(*its), sizes[number] if sizes else 1)
        for number, its in enumerate(replicas)
    ]
    return Layout({BrokerId(broker): rack for broker, rack in racks.items()}, placed)


def no_racks(*ids: int) -> dict[int, str | None]:
    return dict.fromkeys(ids)


def after(made: Planned, of: Layout) -> dict[TopicPartition, Replicas]:
    """Every partition's replicas after a plan."""
    return {p.at: p.replicas for p in of.partitions} | {change.at: change.after for change in made.changes}


def crowded(of: Layout, replicas: Replicas, leaving: frozenset[BrokerId] = frozenset()) -> bool:
    """Whether a rack has more than its part of a partition; with fewer brokers than replicas there are no parts."""
    members = {broker: rack for broker, rack in of.racks.items() if broker not in leaving}
    if len(members) < len(replicas):
        return False
    sizes = Counter(members.values())
    limit = rack_limit(len(replicas), list(sizes.values()))
    return any(count > limit for count in Counter(members[b] for b in replicas if b in members).values())


def random_layout(seed: int, most_brokers: int = 6, partitions: int = 5) -> tuple[Layout, Random]:
    """A cluster of few brokers with two replicas of each partition, in racks or in none."""
    random = Random(seed)
    number = random.randint(4, most_brokers)
    in_racks = random.choice((0, 2, 3))
    racks = {broker: f"r{broker % in_racks}" if in_racks else None for broker in range(number)}
    hosts = range(number - random.randint(0, 1))
    return layout(racks, [tuple(random.sample(hosts, 2)) for _ in range(partitions)]), random
