"""On which brokers are the replicas of new partitions placed, so that brokers and racks share them evenly?

First replicas go round the brokers; the others follow at a distance that grows with each complete round. With racks,
brokers are taken from each rack in turn, and a rack gets a second replica only when every rack has one.

Source: KIP-36 (rack aware replica assignment); Kafka's AdminUtils.assignReplicasToBrokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from msgspec import Struct

from zk_layout.ids import BrokerId, PartitionId, Replicas


class Unspreadable(ValueError):
    """These replicas cannot be placed on these brokers; the message says why."""


class Start(Struct, frozen=True):
    """Where the round begins, and the distance of the second replica from the first; the caller draws both.

    Units:
        Positions in the sequence of brokers.
    """

    index: int
    shift: int


def spread(
    racks: Mapping[BrokerId, str | None], partitions: int, replication_factor: int, start: Start, first: int = 0
) -> dict[PartitionId, Replicas]:
    """The replicas of `partitions` partitions from number `first` on; the first of each is its preferred leader.

    >>> racks = {0: "a", 1: "c", 2: "c", 3: "b", 4: "b", 5: "a"}
    >>> for partition, replicas in spread(racks, 7, 3, Start(0, 0)).items():
    ...     print(partition, replicas)
    0 (0, 3, 1)
    1 (3, 1, 5)
    2 (1, 5, 4)
    3 (5, 4, 2)
    4 (4, 2, 0)
    5 (2, 0, 3)
    6 (0, 4, 2)

    Shape:
        `racks` names every broker to be used, in the order of the round where no broker has a rack.
    Raises:
        Unspreadable: too few brokers, nothing to place, or racks that are known of some brokers only.
    """
    if partitions <= 0:
        raise Unspreadable("Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise Unspreadable("Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        raise Unspreadable(f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}.")
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    if known and len(known) < len(racks):
        raise Unspreadable("Not all brokers have rack information for replica rack aware assignment.")
    order = _alternating(known) if known else list(racks)
    placed: dict[PartitionId, Replicas] = {}
    shift = start.shift
    for partition in range(first, first + partitions):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        leader = (partition + start.index) % len(order)
        if known:
            replicas = _across_racks(order, known, leader, shift, replication_factor)
        else:
            followers = range(shift, shift + replication_factor - 1)
            replicas = (order[leader], *(order[_position(leader, distance, len(order))] for distance in followers))
        placed[PartitionId(partition)] = replicas
    return placed


def _across_racks(
    order: list[BrokerId], rack_of: Mapping[BrokerId, str], leader: int, shift: int, replication_factor: int
) -> Replicas:
    """Continue round the brokers, skipping racks that have a replica while another has none."""
    racks = set(rack_of.values())
    chosen = [order[leader]]
    distance = shift * len(racks)
    while len(chosen) < replication_factor:
        broker = order[_position(leader, distance, len(order))]
        distance += 1
        used = {rack_of[b] for b in chosen}
        if broker not in chosen and (rack_of[broker] not in used or used == racks):
            chosen.append(broker)
    return tuple(chosen)


def _position(leader: int, distance: int, brokers: int) -> int:
    """The position at this distance; never the leader itself."""
    return (leader + 1 + distance % (brokers - 1)) % brokers


def _alternating(rack_of: Mapping[BrokerId, str]) -> list[BrokerId]:
    """One broker of each rack in turn, racks by name, brokers by id.

    >>> _alternating({0: "a", 1: "a", 2: "b", 3: "b", 4: "b"})
    [0, 2, 1, 3, 4]
    """
    by_rack = [sorted(b for b, its in rack_of.items() if its == rack) for rack in sorted(set(rack_of.values()))]
    return [broker for turn in zip_longest(*by_rack) for broker in turn if broker is not None]
