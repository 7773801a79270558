"""What have the facts of a turn changed?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.admin import PreferredElection
from zk_layout.znodes.notifications import IsrChange, IsrChangeAddress, LogDirEvent, LogDirEventAddress

if TYPE_CHECKING:
    from controller.core.state.brokers import Broker
    from controller.core.state.topics import Partition, ReassignmentZnode, TopicView


class Changes(Struct):
    """What is different from the last turn, with what was there before.

    Shape:
        `partitions`, `topics`, `brokers` and `children` map to what was there before the turn: a blank partition, or
        None, where there was nothing. `gone_topics` are as they were last. `configs` were read, `reconfigured` are to
        be read. `is_initial`: everything has just been loaded, and all of it is new.
    """

    is_initial: bool = False
    partitions: dict[TopicName, dict[PartitionId, Partition]] = field(default_factory=dict)
    topics: dict[TopicName, TopicView | None] = field(default_factory=dict)
    gone_topics: dict[TopicName, TopicView] = field(default_factory=dict)
    brokers: dict[BrokerId, Broker | None] = field(default_factory=dict)
    configs: dict[TopicName, None] = field(default_factory=dict)
    reconfigured: dict[TopicName, None] = field(default_factory=dict)
    marks: dict[TopicName, None] = field(default_factory=dict)
    children: dict[TopicPartition, ReassignmentZnode | None] = field(default_factory=dict)
    isr_changes: list[tuple[IsrChangeAddress, IsrChange | None]] = field(default_factory=list)
    log_dir_events: list[tuple[LogDirEventAddress, LogDirEvent | None]] = field(default_factory=list)
    malformed: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    tokens: bool = False
    features: bool = False
    preferred_election: PreferredElection | None = None
    broker_defaults: bool = False
    legacy: bool = False
    folder: bool = False
    withheld: dict[TopicName, Changes] = field(default_factory=dict)

    def touch(self, name: TopicName, number: PartitionId, former: Partition) -> None:
        """Brokers must hear of a partition, and the rules must look at it; `former` is what it was before."""
        if name in self.withheld:
            self.withheld[name].touch(name, number, former)
            return
        of_topic = self.partitions.get(name)
        if of_topic is None:
            of_topic = self.partitions[name] = {}
        of_topic.setdefault(number, former)

    def forget_topic(self, view: TopicView) -> None:
        """A topic is gone, be it that another has its name already."""
        self.partitions.pop(view.name, None)
        former = self.topics.pop(view.name, view)
        if former is not None:
            self.gone_topics.setdefault(view.name, view)

    def withhold(self, name: TopicName, until: Changes) -> None:
        """Tell of a topic's partitions later, with all that has changed of the topic until then."""
        for number, former in self.partitions.pop(name, {}).items():
            until.touch(name, number, former)
        self.withheld[name] = until
        if name in self.topics:
            until.topics.setdefault(name, self.topics[name])
