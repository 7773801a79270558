"""What do the duties for reassignments remember of this term? One struct a duty, written only by that duty."""

from __future__ import annotations

from msgspec import Struct, field

from controller.core.state.placement import Numbers
from controller.core.state.waiting_znodes import Waiter
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition


class MovesMemory(Struct, frozen=True, eq=False):
    """Written by `Moves`, in `removal.py`."""

    # Brokers that confirmed the deletion of removed replicas.
    confirmed: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    # Moves that have waited long enough for that.
    out_of_patience: dict[TopicPartition, None] = field(default_factory=dict)
    # Topics whose ended moves are about to be written together.
    gathering: dict[TopicName, None] = field(default_factory=dict)


class LegacyMemory(Struct, frozen=True, eq=False):
    """Written by `LegacyZnode`."""

    # The accepted entries of `/admin/reassign_partitions`.
    entries: dict[TopicPartition, Replicas] = field(default_factory=dict)


class FolderMemory(Struct, frozen=True, eq=False):
    """Written by `ReassignmentFolder`."""

    # Moves requested by a child of `/admin/reassignments`.
    asked_by_child: dict[TopicPartition, None] = field(default_factory=dict)


class ForeignWritesMemory(Struct, frozen=True, eq=False):
    """Written by `ForeignWrites`."""

    # Partitions whose replicas someone else changed in the topic's znode: such changes are reverted.
    overwritten: dict[TopicName, dict[PartitionId, None]] = field(default_factory=dict)


class QueueMemory(Struct, frozen=True, eq=False):
    """Written by `MoveQueue`, and in `giving_up.py`."""

    # The moves that limits keep from beginning.
    waiting: dict[TopicName, dict[PartitionId, Waiter]] = field(default_factory=dict)
    # Partitions whose move has given up waiting, until another one waits.
    gave_up: Numbers = field(default_factory=dict)
