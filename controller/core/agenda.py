"""Which topics are due, in which order, and how much of it in one turn?"""

from __future__ import annotations

from collections.abc import Container, Iterable

from zk_layout.ids import PartitionId, TopicName

PARTITIONS_A_TURN = 5_000

Numbers = dict[PartitionId, None]


class Agenda:
    """Partitions the rules must look at, by topic. Topics that somebody waits for come before all others."""

    def __init__(self, budget: int = PARTITIONS_A_TURN) -> None:
        """Nothing due."""
        self._budget = budget
        self._urgent: dict[TopicName, Numbers] = {}
        self._normal: dict[TopicName, Numbers] = {}

    def add(self, topic: TopicName, numbers: Iterable[PartitionId] = (), *, is_urgent: bool = False) -> None:
        """Look at these partitions, and at what concerns the topic as a whole."""
        queue = self._urgent if is_urgent or topic in self._urgent else self._normal
        if queue is self._urgent and topic in self._normal:
            self._urgent.setdefault(topic, {}).update(self._normal.pop(topic))
        queue.setdefault(topic, {}).update(dict.fromkeys(numbers))

    def take(self, busy: Container[TopicName]) -> list[tuple[TopicName, Numbers]]:
        """The topics of this turn: at most a budget of partitions, at least one topic, none that is busy."""
        taken: list[tuple[TopicName, Numbers]] = []
        spent = 0
        for queue in (self._urgent, self._normal):
            for topic in [t for t in queue if t not in busy]:
                if spent >= self._budget:
                    return taken
                numbers = queue.pop(topic)
                spent += 1 + len(numbers)
                taken.append((topic, numbers))
        return taken

    def is_due(self, topic: TopicName) -> bool:
        """Whether the rules have still to look at something of this topic."""
        return topic in self._urgent or topic in self._normal

    def has_more(self, *busy: Container[TopicName]) -> bool:
        """Whether topics that are not busy are left for the next turn."""
        return any(not any(t in some for some in busy) for queue in (self._urgent, self._normal) for t in queue)
