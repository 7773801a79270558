"""Which partitions do brokers that know nothing yet hear of next?

All of them go round all topics together, so that what they are told is made once; one that comes later goes on until
it is back where it came in. What changes meanwhile everybody is told at once, but who knows nothing of a topic hears of
all its partitions together: clients take those that a broker lists for all there are, and choose by their number.

Source: Kafka's KafkaController.onBrokerStartup, which tells a new broker everything in one request.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice

from msgspec import Struct

from controller.core.state.changes import Changes
from controller.core.state.topics import TopicView
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, PartitionId, TopicName


class Greeting(Struct, frozen=True):
    """What some brokers hear of in this turn.

    Shape:
        `partitions` are those whose replicas are told to lead or to follow, `whole` all partitions of the topics that
        end with them.
    """

    brokers: Mapping[BrokerId, int]
    partitions: Mapping[TopicName, tuple[PartitionId, ...]]
    whole: Mapping[TopicName, tuple[PartitionId, ...]]


class Greetings:
    """The round of one term.

    Shape:
        `_left` is how many topics each broker has still to hear of. `_begun` is how many partitions of the next topic
        were told already. Topics in `_held_back` could not be told when their turn came; for whoever has 0 there, the
        replicas were.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._round: dict[TopicName, None] = {}
        self._names: list[TopicName] = []
        self._places: dict[TopicName, int] = {}
        self._next = self._begun = 0
        self._left: dict[BrokerId, int] = {}
        self._held_back: dict[TopicName, dict[BrokerId, int]] = {}

    def join(self, brokers: Iterable[BrokerId]) -> None:
        """These know nothing yet, or not any more."""
        for broker in brokers:
            if not self._left:
                self._names, self._places, self._next, self._begun = [], {}, 0, 0
            known = len(self._names)
            self._names += [name for name in self._cluster.topics if name not in self._places]
            self._places.update((name, place) for place, name in enumerate(self._names[known:], known))
            for other in self._left:
                self._left[other] += len(self._names) - known
            # A topic of which some partitions were told already comes once more in the end.
            self._left[broker] = len(self._names) + (1 if self._begun else 0)

    def leave(self, broker: BrokerId) -> None:
        """A broker has gone."""
        self._left.pop(broker, None)
        for brokers in self._held_back.values():
            brokers.pop(broker, None)

    def hold_back(self, changes: Changes, left: Changes, brokers: Iterable[BrokerId]) -> None:
        """Topics with new partitions of which others are `left` to a later turn are shown when all were followed."""
        for name in changes.partitions.keys() & left.partitions.keys() - self._cluster.withdrawn.keys():
            if any(not former.assignment.replicas for former in changes.partitions[name].values()):
                self._held_back[name] = {**dict.fromkeys(brokers, 0), **self._held_back.get(name, {})}

    def has_more(self, half_told: Container[TopicName]) -> bool:
        """Whether there is something to tell now."""
        return bool(self._left) or any(name not in half_told for name in self._held_back)

    def still_to_hear(self, broker: BrokerId) -> tuple[int, tuple[TopicName, ...]]:
        """How many topics are left for it, and which could not be told in their turn: the same, the same is unknown."""
        return self._left.get(broker, 0), tuple(name for name, held in self._held_back.items() if broker in held)

    def knows_nothing_of(self, topic: TopicName, broker: BrokerId) -> bool:
        """Whether a broker has still to hear of some partitions of a topic: a part would pass for the whole."""
        if broker in self._held_back.get(topic, ()):
            return True
        left, place = self._left.get(broker, 0), self._places.get(topic)
        return left > 0 and place is not None and (place - self._next) % len(self._names) < left

    def take(self, half_told: Container[TopicName], most: int) -> Iterator[Greeting]:
        """The next partitions; a topic of which a part was not read or followed yet comes when all of it was."""
        released = [name for name in self._held_back if name not in half_told]
        for name in released:
            brokers = self._held_back.pop(name)
            if brokers:
                whole = {name: tuple(self._numbers(name))}
                yield Greeting(brokers, whole if any(brokers.values()) else {}, whole)
        while self._left and most > 0:
            # Brokers leave the round one by one: each part of it is for those who are on it.
            brokers, most_topics = dict(self._left), min(self._left.values())
            greeting, taken = self._part(most_topics, most, half_told, brokers)
            if greeting.partitions or greeting.whole:
                yield greeting
            most -= taken

    def _part(
        self, most_topics: int, most: int, half_told: Container[TopicName], brokers: Mapping[BrokerId, int]
    ) -> tuple[Greeting, int]:
        told: dict[TopicName, tuple[PartitionId, ...]] = {}
        whole: dict[TopicName, tuple[PartitionId, ...]] = {}
        taken = ended = 0
        while ended < most_topics and taken < most:
            name = self._names[self._next]
            if name in half_told:
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
            if self._begun and name not in half_told:
                whole[name] = tuple(self._numbers(name)) if self._begun > len(numbers) else numbers
            self._next, self._begun = (self._next + 1) % len(self._names), 0
            ended += 1
        self._left = {b: left - ended for b, left in self._left.items() if left > ended}
        return Greeting(brokers, told, whole), taken

    def _numbers(self, name: TopicName) -> Iterable[PartitionId]:
        topic = self._cluster.topics.get(name)
        if topic is None or topic.is_queued_for_deletion or name in self._cluster.withdrawn:
            return ()
        return (number for number, held in topic.partitions.items() if held.assignment.replicas)

    def _topic(self, name: TopicName) -> TopicView:
        return self._cluster.topics[name]
