"""What have the facts of a turn changed?"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.acls import AclAddress
from zk_layout.znodes.admin import PreferredElection
from zk_layout.znodes.configs import UserConfigAddress
from zk_layout.znodes.notifications import IsrChange, IsrChangeAddress, LogDirEvent, LogDirEventAddress
from zk_layout.znodes.waiting_moves import PartNumber

if TYPE_CHECKING:
    from controller.core.state.brokers import Broker
    from controller.core.state.topics import Partition, ReassignmentZnode, TopicView


T = TypeVar("T")
ByPartition = dict[TopicName, dict[PartitionId, T]]


class Changes(Struct):
    """The differences from the last turn, with the former values; duties that follow them can only read.

    Shape:
        `partitions`, `topics`, `brokers` and `children` map to the values before the turn: a blank partition, or None,
        if there was nothing. `gone_topics` map to their last values. `configs` were read, `reconfigured` must be read.
        `stray_deletions` are owed by topics that do not exist. `waiting` are parts that list waiting moves.
        `is_beginning`: everything has just been loaded. Its partitions are followed over several turns, in which
        `is_initial` says that all `partitions` and `topics` are seen for the first time, and `at_rest` are those about
        which no duty has anything to note or decide; `unseen` are still to come.
        `room` is how many more partitions the turn may follow.
    """

    is_beginning: bool = False
    is_initial: bool = False
    room: int = 0
    at_rest: Mapping[TopicName, Mapping[PartitionId, None]] = field(default_factory=dict)
    unseen: Mapping[TopicName, Mapping[PartitionId, Partition]] = field(default_factory=dict)
    partitions: Mapping[TopicName, Mapping[PartitionId, Partition]] = field(default_factory=dict)
    topics: Mapping[TopicName, TopicView | None] = field(default_factory=dict)
    gone_topics: Mapping[TopicName, TopicView] = field(default_factory=dict)
    brokers: Mapping[BrokerId, Broker | None] = field(default_factory=dict)
    configs: Mapping[TopicName, None] = field(default_factory=dict)
    reconfigured: Mapping[TopicName, None] = field(default_factory=dict)
    marks: Mapping[TopicName, None] = field(default_factory=dict)
    stray_deletions: Mapping[TopicName, None] = field(default_factory=dict)
    children: Mapping[TopicPartition, ReassignmentZnode | None] = field(default_factory=dict)
    waiting: Mapping[TopicName, Mapping[PartNumber, None]] = field(default_factory=dict)
    isr_changes: Sequence[tuple[IsrChangeAddress, IsrChange | None]] = field(default_factory=list)
    log_dir_events: Sequence[tuple[LogDirEventAddress, LogDirEvent | None]] = field(default_factory=list)
    malformed: Sequence[tuple[str, str]] = field(default_factory=list)
    refused: Sequence[tuple[str, str]] = field(default_factory=list)
    users: Mapping[UserConfigAddress, None] = field(default_factory=dict)
    rights: Mapping[AclAddress, None] = field(default_factory=dict)
    tokens: bool = False
    features: bool = False
    preferred_election: PreferredElection | None = None
    broker_defaults: bool = False
    legacy: bool = False
    pause: bool = False
    folder: bool = False

    def not_at_rest(self, name: TopicName) -> Mapping[PartitionId, Partition]:
        """The changed partitions of a topic about which duties may have something to note or decide."""
        numbers, resting = self.partitions[name], self.at_rest.get(name, {})
        if not resting:
            return numbers
        if len(resting) >= len(numbers):
            return {}
        return {number: former for number, former in numbers.items() if number not in resting}


class OpenChanges(Changes):
    """Changes still being collected: facts are folded in, and duties retract and amend before all follow."""

    unseen: dict[TopicName, dict[PartitionId, Partition]] = field(default_factory=dict)
    partitions: dict[TopicName, dict[PartitionId, Partition]] = field(default_factory=dict)
    topics: dict[TopicName, TopicView | None] = field(default_factory=dict)
    gone_topics: dict[TopicName, TopicView] = field(default_factory=dict)
    brokers: dict[BrokerId, Broker | None] = field(default_factory=dict)
    configs: dict[TopicName, None] = field(default_factory=dict)
    reconfigured: dict[TopicName, None] = field(default_factory=dict)
    marks: dict[TopicName, None] = field(default_factory=dict)
    stray_deletions: dict[TopicName, None] = field(default_factory=dict)
    children: dict[TopicPartition, ReassignmentZnode | None] = field(default_factory=dict)
    waiting: dict[TopicName, dict[PartNumber, None]] = field(default_factory=dict)
    isr_changes: list[tuple[IsrChangeAddress, IsrChange | None]] = field(default_factory=list)
    log_dir_events: list[tuple[LogDirEventAddress, LogDirEvent | None]] = field(default_factory=list)
    malformed: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    users: dict[UserConfigAddress, None] = field(default_factory=dict)
    rights: dict[AclAddress, None] = field(default_factory=dict)
    withheld: dict[TopicName, OpenChanges] = field(default_factory=dict)

    def touch(self, name: TopicName, number: PartitionId, former: Partition) -> None:
        """Mark a partition as changed, so that brokers get it and rules examine it; `former` is its value before."""
        if name in self.withheld:
            self.withheld[name].touch(name, number, former)
            return
        if self.unseen and number in self.unseen.get(name, ()):
            return  # whatever has changed, it is still to be seen for the first time
        of_topic = self.partitions.get(name)
        if of_topic is None:
            of_topic = self.partitions[name] = {}
        of_topic.setdefault(number, former)

    def touch_all(self, name: TopicName, numbers: Iterable[PartitionId], former: Partition) -> None:
        """Touch several partitions that have the same former value."""
        if name in self.partitions or name in self.withheld or name in self.unseen:
            for number in numbers:
                self.touch(name, number, former)
        elif touched := dict.fromkeys(numbers, former):
            self.partitions[name] = touched

    def untouch(self, name: TopicName, number: PartitionId) -> None:
        """Unmark a partition that has not changed after all."""
        of_topic = self.partitions[name]
        del of_topic[number]
        if not of_topic:
            del self.partitions[name]

    def forget_topic(self, view: TopicView) -> None:
        """The topic was deleted; a new one may already have its name."""
        self.partitions.pop(view.name, None)
        self.unseen.pop(view.name, None)
        former = self.topics.pop(view.name, view)
        if former is not None:
            self.gone_topics.setdefault(view.name, view)

    def withhold(self, name: TopicName, until: OpenChanges) -> None:
        """Report a topic's partitions later, with everything that changes in the topic until then."""
        for number, former in self.partitions.pop(name, {}).items():
            until.touch(name, number, former)
        self.withheld[name] = until
        if name in self.topics:
            until.topics.setdefault(name, self.topics[name])

    def leave(self, most: int, until: OpenChanges) -> None:
        """Keep `most` partitions for this turn, and leave the others `until` a later one."""
        left = self.partitions
        self.partitions = cut_off(left, most)
        self.room = most - sum(map(len, self.partitions.values()))
        for name, numbers in left.items():
            until.partitions[name] = numbers
            if name not in self.topics:
                continue
            former = self.topics[name]
            if name not in self.partitions:
                del self.topics[name]
            until.topics[name] = former


def _each_as_one(_: TopicName, numbers: Mapping[PartitionId, object], most: int) -> tuple[int, int]:
    count = min(len(numbers), most)
    return count, count


def cut_off(
    source: ByPartition[T],
    most: int,
    held: Container[TopicName] = (),
    *,
    weigh: Callable[[TopicName, Mapping[PartitionId, T], int], tuple[int, int]] = _each_as_one,
) -> ByPartition[T]:
    """Take out partitions that count as up to `most`, topic by topic; those of `held` topics stay.

    `weigh` says how many of a topic's partitions to take, and as how many they count.
    """
    taken: ByPartition[T] = {}
    for name in tuple(source):
        if most <= 0:
            break
        if name in held:
            continue
        count, work = weigh(name, source[name], most)
        taken[name] = _cut_off_one(source, name, count)
        most -= max(1, work)
    return taken


def _cut_off_one(source: ByPartition[T], name: TopicName, most: int) -> dict[PartitionId, T]:
    """Take out up to `most` partitions of one topic."""
    numbers = source[name]
    if len(numbers) <= most:
        return source.pop(name)
    taken = dict(islice(numbers.items(), most))
    for number in taken:
        del numbers[number]
    return taken
