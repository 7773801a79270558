"""What do other duties ask the duty for brokers to remember about announcements?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from zk_layout.ids import BrokerId, TopicPartition
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


class Making(Struct, frozen=True):
    """Replicas that this controller creates by a write: they are new if ZooKeeper holds what it wrote."""

    written: PartitionState | Assignment
    replicas: frozenset[BrokerId]


class Announcements(Protocol):
    """What brokers have been sent, and what they must still be sent."""

    def note_unannounced(self, at: TopicPartition) -> None:
        """Note that the leader may not know its current state: no replica joins the ISR in this leader epoch."""

    def note_log_deletion(self, at: TopicPartition, broker: BrokerId) -> None:
        """Note that a replica is sent a deletion; whatever the outcome, its log may be gone."""

    def note_former_log_deletion(self, at: TopicPartition, broker: BrokerId) -> None:
        """Note that a former replica is sent a deletion: if it is added again, it is new."""

    def note_making(self, at: TopicPartition, making: Making) -> None:
        """Note replicas that a proposal creates; brokers are sent them as new if ZooKeeper accepts the write."""

    def note_known(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Note that a broker is sent its replicas as existing ones: it may make their logs, so they are new no more."""
