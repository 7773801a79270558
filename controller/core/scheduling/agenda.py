"""Which topics are due, in which order, and how much of them in one turn? A queue of topics, not of moves."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import islice

from zk_layout.ids import PartitionId, TopicName

Numbers = dict[PartitionId, None]
Due = tuple[TopicName, Numbers]

SHARE_OF_PARTITIONS = 4


def _no_parts(_: TopicName) -> int:
    return 0


class Agenda:
    """Partitions that the rules must examine, by topic. Topics with a waiting caller come first, then those partitions
    that have lost their leaders.
    """

    def __init__(self) -> None:
        self._urgent: dict[TopicName, Numbers] = {}
        self._leaderless: dict[TopicName, Numbers] = {}
        self._normal: dict[TopicName, Numbers] = {}

    @property
    def _queues(self) -> tuple[dict[TopicName, Numbers], ...]:
        return self._urgent, self._leaderless, self._normal

    def add(self, topic: TopicName, numbers: Iterable[PartitionId] = (), *, is_urgent: bool = False) -> None:
        """Schedule these partitions, and the topic as a whole."""
        queue = self._urgent if is_urgent or topic in self._urgent else self._normal
        if queue is self._urgent and topic in self._normal:
            self._urgent.setdefault(topic, {}).update(self._normal.pop(topic))
        queue.setdefault(topic, {}).update(dict.fromkeys(numbers))

    def add_leaderless(self, topic: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Schedule these partitions before all for which no caller waits, even before others of their topic."""
        leaderless = dict.fromkeys(numbers)
        if leaderless:
            self._leaderless.setdefault(topic, {}).update(leaderless)

    def take(
        self, most: int, *busy: Container[TopicName], waiting: Callable[[TopicName], int] = _no_parts
    ) -> list[Due]:
        """Take this turn's topics: up to `most` units of work, but at least one topic; skips busy topics.

        Shape:
            Each topic, each of its partitions and each part of a request `waiting` for it costs one unit. If one topic
            exceeds the budget, the rest of its partitions stays due; parts leave a share of it to partitions.
        """
        taken: dict[TopicName, Numbers] = {}
        spent = 0
        for queue in self._queues:
            for topic in tuple(queue):
                if spent >= most:
                    return [*taken.items()]
                if any(topic in some for some in busy):
                    continue
                numbers, parts = queue.pop(topic), waiting(topic)
                room = max(most - parts, most // SHARE_OF_PARTITIONS, 1)
                if len(numbers) > room:
                    queue[topic] = dict(islice(numbers.items(), room, None))
                    numbers = dict(islice(numbers.items(), room))
                spent += 1 + len(numbers) + parts
                taken.setdefault(topic, {}).update(numbers)
        return [*taken.items()]

    def is_due(self, topic: TopicName) -> bool:
        """Whether any part of this topic is still due."""
        return any(topic in queue for queue in self._queues)

    def has_more(self, *busy: Container[TopicName]) -> bool:
        """Whether topics that are not busy are left for the next turn."""
        return any(not any(t in some for some in busy) for queue in self._queues for t in queue)
