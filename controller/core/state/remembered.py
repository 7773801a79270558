"""What does this term remember that ZooKeeper does not hold? All duties may read it, only the owners change it.

Losing it with the term costs a repetition: asking, announcing and waiting again.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from controller.core.state.brokers import Broker
from controller.core.state.waiting_znodes import Waiter
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition

Numbers = Mapping[TopicName, Mapping[PartitionId, None]]
SetsOfBrokers = Mapping[TopicPartition, frozenset[BrokerId]]


class Remembered(Struct, frozen=True, eq=False, kw_only=True):
    """A view of the memories of all duties; the owner's memory explains each field."""

    # brokers.Brokers
    controllers: Mapping[BrokerId, bool] = field(default_factory=dict)
    brokers: Mapping[BrokerId, Broker] = field(default_factory=dict)
    updated_in_full: Mapping[BrokerId, None] = field(default_factory=dict)
    shutting_down: Mapping[BrokerId, None] = field(default_factory=dict)
    offline_replicas: SetsOfBrokers = field(default_factory=dict)
    unannounced: Mapping[TopicPartition, None] = field(default_factory=dict)
    returning: Mapping[BrokerId, None] = field(default_factory=dict)
    logs_deleted: SetsOfBrokers = field(default_factory=dict)
    caught_up: SetsOfBrokers = field(default_factory=dict)
    # reassignment.Moves
    confirmed: SetsOfBrokers = field(default_factory=dict)
    out_of_patience: Mapping[TopicPartition, None] = field(default_factory=dict)
    gathering: Mapping[TopicName, None] = field(default_factory=dict)
    # reassignment.LegacyZnode
    legacy: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    # reassignment.MoveQueue
    waiting: Mapping[TopicName, Mapping[PartitionId, Waiter]] = field(default_factory=dict)
    gave_up: Numbers = field(default_factory=dict)
    # reassignment.ReassignmentFolder
    asked_by_child: Mapping[TopicPartition, None] = field(default_factory=dict)
    # reassignment.ForeignWrites
    overwritten: Numbers = field(default_factory=dict)
    # elections.Elections
    preferring: Mapping[TopicPartition, None] = field(default_factory=dict)
    fresh_configs: Numbers = field(default_factory=dict)
    # topics.Topics
    withdrawn: Mapping[TopicName, None] = field(default_factory=dict)
    # counts.PartitionCounts
    offline: Numbers = field(default_factory=dict)
    under_replicated: Numbers = field(default_factory=dict)
    not_preferred: Numbers = field(default_factory=dict)
