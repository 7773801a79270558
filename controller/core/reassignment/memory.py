"""What do the duties for reassignments remember of this term? One struct a duty, and only that duty writes it."""

from __future__ import annotations

from msgspec import Struct, field

from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition


class MovesMemory(Struct, frozen=True, eq=False):
    """Written by `Moves`, in `removal.py`."""

    # The brokers that have deleted replicas that leave.
    confirmed: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    # Moves that have waited long enough for that.
    out_of_patience: dict[TopicPartition, None] = field(default_factory=dict)
    # Topics of which the ends of moves are about to be written together.
    gathering: dict[TopicName, None] = field(default_factory=dict)


class LegacyMemory(Struct, frozen=True, eq=False):
    """Written by `LegacyZnode`."""

    # The entries of `/admin/reassign_partitions` that were accepted.
    entries: dict[TopicPartition, Replicas] = field(default_factory=dict)


class FolderMemory(Struct, frozen=True, eq=False):
    """Written by `ReassignmentFolder`."""

    # Moves that a child of `/admin/reassignments` asked for.
    asked_by_child: dict[TopicPartition, None] = field(default_factory=dict)


class ForeignWritesMemory(Struct, frozen=True, eq=False):
    """Written by `ForeignWrites`."""

    # Partitions whose replicas another writer has changed in the topic's znode: they are written back.
    overwritten: dict[TopicName, dict[PartitionId, None]] = field(default_factory=dict)
