"""Which partitions do brokers that know nothing yet hear of next?

All of them go round all topics together, so that what they are told is made once; one that comes later goes on until
it is back where it came in. What changes meanwhile everybody is told at once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice

from msgspec import Struct

from controller.core.state.topics import TopicView
from controller.core.view import Cluster
from zk_layout.ids import BrokerId, PartitionId, TopicName


class Greeting(Struct, frozen=True):
    """What some brokers hear of in this turn."""

    brokers: Mapping[BrokerId, int]
    partitions: Mapping[TopicName, tuple[PartitionId, ...]]


class Greetings:
    """The round of one term.

    Shape:
        `_left` is how many topics each broker has still to hear of. `_begun` is how many partitions of the next topic
        were told already. Topics in `_held_back` could not be told when their turn came.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Everybody knows everything."""
        self._cluster = cluster
        self._round: dict[TopicName, None] = {}
        self._names: list[TopicName] = []
        self._next = self._begun = 0
        self._left: dict[BrokerId, int] = {}
        self._held_back: dict[TopicName, dict[BrokerId, int]] = {}

    def join(self, brokers: Iterable[BrokerId]) -> None:
        """These know nothing yet, or not any more."""
        for broker in brokers:
            if not self._left:
                self._names, self._next, self._begun = [], 0, 0
            known = len(self._names)
            listed = frozenset(self._names)
            self._names += [name for name in self._cluster.topics if name not in listed]
            for other in self._left:
                self._left[other] += len(self._names) - known
            # A topic of which some partitions were told already comes once more in the end.
            self._left[broker] = len(self._names) + (1 if self._begun else 0)

    def leave(self, broker: BrokerId) -> None:
        """A broker has gone."""
        self._left.pop(broker, None)
        for brokers in self._held_back.values():
            brokers.pop(broker, None)

    def has_more(self, half_read: Container[TopicName]) -> bool:
        """Whether there is something to tell now."""
        return bool(self._left) or any(name not in half_read for name in self._held_back)

    def take(self, half_read: Container[TopicName], most: int) -> Iterator[Greeting]:
        """The next partitions; a topic of which only some znodes have been read comes when all of it was."""
        released = [name for name in self._held_back if name not in half_read]
        for name in released:
            brokers = self._held_back.pop(name)
            if brokers:
                yield Greeting(brokers, {name: tuple(self._numbers(name))})
        while self._left and most > 0:
            # Brokers leave the round one by one: each part of it is for those who are on it.
            brokers, most_topics = dict(self._left), min(self._left.values())
            partitions, taken = self._part(most_topics, most, half_read, brokers)
            if partitions:
                yield Greeting(brokers, partitions)
            most -= taken

    def _part(
        self, most_topics: int, most: int, half_read: Container[TopicName], brokers: Mapping[BrokerId, int]
    ) -> tuple[dict[TopicName, tuple[PartitionId, ...]], int]:
        told: dict[TopicName, tuple[PartitionId, ...]] = {}
        taken = ended = 0
        while ended < most_topics and taken < most:
            name = self._names[self._next]
            if name in half_read:
                self._held_back.setdefault(name, {}).update(brokers)
                numbers: tuple[PartitionId, ...] = ()
            else:
                numbers = tuple(islice(self._numbers(name), self._begun, self._begun + most - taken))
                if numbers:
                    told[name] = (*told.get(name, ()), *numbers)
            taken += 1 + len(numbers)
            self._begun += len(numbers)
            if taken >= most and numbers and self._begun < len(self._topic(name).partitions):
                break
            self._next, self._begun = (self._next + 1) % len(self._names), 0
            ended += 1
        self._left = {b: left - ended for b, left in self._left.items() if left > ended}
        return told, taken

    def _numbers(self, name: TopicName) -> Iterable[PartitionId]:
        topic = self._cluster.topics.get(name)
        if topic is None or topic.is_queued_for_deletion or name in self._cluster.withdrawn:
            return ()
        return (number for number, held in topic.partitions.items() if held.assignment.replicas)

    def _topic(self, name: TopicName) -> TopicView:
        return self._cluster.topics[name]
