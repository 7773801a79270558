"""Which partitions come next in the full updates of brokers that need one?

All such brokers share one round over all topics, so that each command is made once; a broker that joins later continues
until it is back where it joined. Meanwhile changes go to all brokers at once, except that a broker gets a topic it does
not know as a whole: clients take the listed partitions for all of them, and choose by their number.

Source: Kafka's KafkaController.onBrokerStartup, which sends a new broker everything in one request.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice

from msgspec import Struct

from controller.core.state.changes import Changes
from controller.core.state.topics import TopicView
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, PartitionId, TopicName


class UpdatePart(Struct, frozen=True):
    """The part of the full updates that some brokers get in this turn.

    Shape:
        Replicas of `partitions` get LeaderAndIsr; `whole` has all partitions of the topics that end with them.
    """

    brokers: Mapping[BrokerId, int]
    partitions: Mapping[TopicName, tuple[PartitionId, ...]]
    whole: Mapping[TopicName, tuple[PartitionId, ...]]


class FullUpdates:
    """The round of one term.

    Shape:
        `_left` is how many topics each broker still needs. `_begun` is how many partitions of the next topic were
        already sent. Topics in `_held_back` could not be sent in their turn; for brokers with 0 there, the LeaderAndIsr
        requests were.
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
        """Start full updates for these brokers."""
        for broker in brokers:
            if not self._left:
                self._names, self._places, self._next, self._begun = [], {}, 0, 0
            known = len(self._names)
            self._names += [name for name in self._cluster.topics if name not in self._places]
            self._places.update((name, place) for place, name in enumerate(self._names[known:], known))
            for other in self._left:
                self._left[other] += len(self._names) - known
            # A topic already sent in part comes once more at the end.
            self._left[broker] = len(self._names) + (1 if self._begun else 0)

    def leave(self, broker: BrokerId) -> None:
        """Forget a broker that has left."""
        self._left.pop(broker, None)
        for brokers in self._held_back.values():
            brokers.pop(broker, None)

    def hold_back(self, changes: Changes, left: Changes, brokers: Iterable[BrokerId]) -> None:
        """Delay topics with new partitions while others are `left` for a later turn, until all have been followed."""
        for name in changes.partitions.keys() & left.partitions.keys() - self._cluster.withdrawn.keys():
            if any(not former.assignment.replicas for former in changes.partitions[name].values()):
                self._held_back[name] = {**dict.fromkeys(brokers, 0), **self._held_back.get(name, {})}

    @property
    def is_under_way(self) -> bool:
        """Whether some broker may still lack a part of some topic."""
        return bool(self._left or self._held_back)

    def has_more(self, incomplete: Container[TopicName]) -> bool:
        """Whether there is anything to send now."""
        return bool(self._left) or any(name not in incomplete for name in self._held_back)

    def still_needed_by(self, broker: BrokerId) -> tuple[int, tuple[TopicName, ...]]:
        """What the broker still needs: how many topics, and which delayed ones. Equal results mean equal needs."""
        return self._left.get(broker, 0), tuple(name for name, held in self._held_back.items() if broker in held)

    def is_incomplete_at(self, topic: TopicName, broker: BrokerId) -> bool:
        """Whether a broker still lacks partitions of a topic: it would take a part for the whole."""
        if broker in self._held_back.get(topic, ()):
            return True
        left, place = self._left.get(broker, 0), self._places.get(topic)
        return left > 0 and place is not None and (place - self._next) % len(self._names) < left

    def take(self, incomplete: Container[TopicName], most: int) -> Iterator[UpdatePart]:
        """Take the next parts; a topic that is not completely read or followed is delayed until it is."""
        released = [name for name in self._held_back if name not in incomplete]
        for name in released:
            brokers = self._held_back.pop(name)
            numbers = tuple(self._numbers(name))
            if brokers and numbers:
                whole = {name: numbers}
                yield UpdatePart(brokers, whole if any(brokers.values()) else {}, whole)
        while self._left and most > 0:
            # Brokers leave the round one by one: each part is for those still on it.
            brokers, most_topics = dict(self._left), min(self._left.values())
            part, taken = self._part(most_topics, most, incomplete, brokers)
            if part.partitions or part.whole:
                yield part
            most -= taken

    def _part(
        self, most_topics: int, most: int, incomplete: Container[TopicName], brokers: Mapping[BrokerId, int]
    ) -> tuple[UpdatePart, int]:
        sent: dict[TopicName, tuple[PartitionId, ...]] = {}
        whole: dict[TopicName, tuple[PartitionId, ...]] = {}
        taken = ended = 0
        while ended < most_topics and taken < most:
            name = self._names[self._next]
            if name in incomplete:
                self._held_back.setdefault(name, {}).update(brokers)
                numbers: tuple[PartitionId, ...] = ()
            else:
                numbers = tuple(islice(self._numbers(name), self._begun, self._begun + most - taken))
                if numbers:
                    sent[name] = (*sent.get(name, ()), *numbers)
            taken += 1 + len(numbers)
            self._begun += len(numbers)
            if taken >= most and numbers and self._begun < len(self._topic(name).partitions):
                break
            if self._begun and name not in incomplete:
                whole[name] = tuple(self._numbers(name)) if self._begun > len(numbers) else numbers
            self._next, self._begun = (self._next + 1) % len(self._names), 0
            ended += 1
        self._left = {b: left - ended for b, left in self._left.items() if left > ended}
        return UpdatePart(brokers, sent, whole), taken

    def _numbers(self, name: TopicName) -> Iterable[PartitionId]:
        topic = self._cluster.topics.get(name)
        if topic is None or topic.is_queued_for_deletion or name in self._cluster.withdrawn:
            return ()
        return (number for number, held in topic.partitions.items() if held.assignment.replicas)

    def _topic(self, name: TopicName) -> TopicView:
        return self._cluster.topics[name]
