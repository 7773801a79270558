"""Which topics are due, in which order, and how much of them in one turn? A queue of topics, not of moves."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import islice

from zk_layout.ids import PartitionId, TopicName

Numbers = dict[PartitionId, None]
Due = tuple[TopicName, Numbers]


def _no_parts(_: TopicName) -> int:
    return 0


class Agenda:
    """Partitions that the rules must examine, by topic. Topics with a waiting caller come first."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._urgent: dict[TopicName, Numbers] = {}
        self._normal: dict[TopicName, Numbers] = {}

    def add(self, topic: TopicName, numbers: Iterable[PartitionId] = (), *, is_urgent: bool = False) -> None:
        """Schedule these partitions, and the topic as a whole."""
        queue = self._urgent if is_urgent or topic in self._urgent else self._normal
        if queue is self._urgent and topic in self._normal:
            self._urgent.setdefault(topic, {}).update(self._normal.pop(topic))
        queue.setdefault(topic, {}).update(dict.fromkeys(numbers))

    def take(self, *busy: Container[TopicName], waiting: Callable[[TopicName], int] = _no_parts) -> list[Due]:
        """Take this turn's topics: within the budget, but at least one; skips busy topics.

        Shape:
            Each topic, each of its partitions and each part of a request `waiting` for it costs one unit. If one topic
            exceeds the budget, the rest of its partitions stays due.
        """
        taken: list[Due] = []
        spent = 0
        for queue in (self._urgent, self._normal):
            for topic in tuple(queue):
                if spent >= self._budget:
                    return taken
                if any(topic in some for some in busy):
                    continue
                numbers = queue.pop(topic)
                if len(numbers) > self._budget:
                    queue[topic] = dict(islice(numbers.items(), self._budget, None))
                    numbers = dict(islice(numbers.items(), self._budget))
                spent += 1 + len(numbers) + waiting(topic)
                taken.append((topic, numbers))
        return taken

    def is_due(self, topic: TopicName) -> bool:
        """Whether any part of this topic is still due."""
        return topic in self._urgent or topic in self._normal

    def has_more(self, *busy: Container[TopicName]) -> bool:
        """Whether topics that are not busy are left for the next turn."""
        return any(not any(t in some for some in busy) for queue in (self._urgent, self._normal) for t in queue)
