"""What must be remembered of brokers because of what other duties do? The duty for brokers does so when asked."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from zk_layout.ids import BrokerId, TopicPartition
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


class Making(Struct, frozen=True):
    """Replicas that this controller makes by a write: they are new where ZooKeeper holds what it wrote."""

    written: PartitionState | Assignment
    replicas: frozenset[BrokerId]


class Announcements(Protocol):
    """What brokers have heard, and what they have still to hear."""

    def note_unannounced(self, at: TopicPartition) -> None:
        """The leader may not know what is in force: no replica joins the ISR in this leader epoch."""

    def note_log_deletion(self, at: TopicPartition, broker: BrokerId) -> None:
        """A command to delete its log goes to a replica; whatever becomes of that, the log may be gone."""

    def note_making(self, at: TopicPartition, making: Making) -> None:
        """Replicas are being made; brokers hear of them as new ones if ZooKeeper takes the write."""
