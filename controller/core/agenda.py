"""Which topics are due, in which order, and how much of it in one turn?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from zk_layout.ids import PartitionId, TopicName

Item = TypeVar("Item")

PARTITIONS_A_TURN = 5_000


class Agenda:
    """Partitions the rules must look at, by topic. Topics that somebody waits for come before all others."""

    def __init__(self, budget: int = PARTITIONS_A_TURN) -> None:
        """Nothing due."""
        self._budget = budget
        self._urgent: dict[TopicName, set[PartitionId]] = {}
        self._normal: dict[TopicName, set[PartitionId]] = {}

    def add(self, topic: TopicName, numbers: Iterable[PartitionId] = (), *, is_urgent: bool = False) -> None:
        """Look at these partitions, and at what concerns the topic as a whole."""
        queue = self._urgent if is_urgent or topic in self._urgent else self._normal
        if queue is self._urgent and topic in self._normal:
            self._urgent.setdefault(topic, set()).update(self._normal.pop(topic))
        queue.setdefault(topic, set()).update(numbers)

    def forget(self, topic: TopicName) -> None:
        """The topic is gone."""
        self._urgent.pop(topic, None)
        self._normal.pop(topic, None)

    def take(self, is_busy: Iterable[TopicName]) -> list[tuple[TopicName, set[PartitionId]]]:
        """The topics of this turn: at most a budget of partitions, at least one topic, none with a step in flight."""
        busy = set(is_busy)
        taken: list[tuple[TopicName, set[PartitionId]]] = []
        spent = 0
        for queue in (self._urgent, self._normal):
            for topic in [t for t in queue if t not in busy] if busy else list(queue):
                if spent >= self._budget:
                    return taken
                numbers = queue.pop(topic)
                spent += 1 + len(numbers)
                taken.append((topic, numbers))
        return taken

    def is_due(self, topic: TopicName) -> bool:
        """Whether the rules have still to look at something of this topic."""
        return topic in self._urgent or topic in self._normal

    def has_more(self, is_busy: Iterable[TopicName]) -> bool:
        """Whether topics without a step in flight are left for the next turn."""
        busy = set(is_busy)
        return any(t not in busy for queue in (self._urgent, self._normal) for t in queue)
