"""Which topics are due, in which order, and how much of it in one turn? A queue of topics, and of no moves."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import islice

from zk_layout.ids import PartitionId, TopicName

Numbers = dict[PartitionId, None]
Due = tuple[TopicName, Numbers]


def _nobody(_: TopicName) -> int:
    return 0


class Agenda:
    """Partitions the rules must look at, by topic. Topics that somebody waits for come before all others."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._urgent: dict[TopicName, Numbers] = {}
        self._normal: dict[TopicName, Numbers] = {}

    def add(self, topic: TopicName, numbers: Iterable[PartitionId] = (), *, is_urgent: bool = False) -> None:
        """Look at these partitions, and at what concerns the topic as a whole."""
        queue = self._urgent if is_urgent or topic in self._urgent else self._normal
        if queue is self._urgent and topic in self._normal:
            self._urgent.setdefault(topic, {}).update(self._normal.pop(topic))
        queue.setdefault(topic, {}).update(dict.fromkeys(numbers))

    def take(self, *busy: Container[TopicName], waiting: Callable[[TopicName], int] = _nobody) -> list[Due]:
        """The topics of this turn: at most a budget of work, at least one topic, none that is busy.

        Shape:
            Work is a topic, a partition of it, or a part of a request that is `waiting` for it. Of a topic that is more
            than the budget by itself, the rest stays due.
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
        """Whether the rules have still to look at something of this topic."""
        return topic in self._urgent or topic in self._normal

    def has_more(self, *busy: Container[TopicName]) -> bool:
        """Whether topics that are not busy are left for the next turn."""
        return any(not any(t in some for some in busy) for queue in (self._urgent, self._normal) for t in queue)
