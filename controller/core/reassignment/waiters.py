"""Which moves wait, by which door did they come, and which of them wait only for their throttle?"""

from __future__ import annotations

from controller.core.state.waiting_znodes import Door, Waiter
from zk_layout.ids import PartitionId, TopicName, TopicPartition


class Waiters:
    """Counts what it notes in the memory of `MoveQueue`.

    Shape:
        `unthrottled` stand in no line, because their throttle is not in force.
    """

    def __init__(self, waiting: dict[TopicName, dict[PartitionId, Waiter]]) -> None:
        """Begin with nothing in memory."""
        self._waiting = waiting
        self._count = self._entries = 0
        self.unthrottled: dict[TopicPartition, None] = {}

    @property
    def is_any_in_line(self) -> bool:
        """Whether any waits for more than its throttle."""
        return self._count > len(self.unthrottled)

    @property
    def is_any_entry_in_line(self) -> bool:
        """Whether any entry of the legacy znode does."""
        doors = [waiter.door for at in self.unthrottled if (waiter := self.of(at)) is not None]
        return self._entries > doors.count(Door.LEGACY)

    def of(self, at: TopicPartition) -> Waiter | None:
        """What waits in a partition."""
        of_topic = self._waiting.get(at.topic)
        return None if of_topic is None else of_topic.get(at.partition)

    def remember(self, at: TopicPartition, waiter: Waiter) -> None:
        """Note that a move waits, in a partition where none does."""
        self._waiting.setdefault(at.topic, {})[at.partition] = waiter
        self._entries += waiter.door is Door.LEGACY
        self._count += 1

    def forget(self, at: TopicPartition) -> None:
        """Forget what waits in a partition, if anything does."""
        self.unthrottled.pop(at, None)
        of_topic = self._waiting.get(at.topic)
        gone = None if of_topic is None else of_topic.pop(at.partition, None)
        self._count -= gone is not None
        self._entries -= gone is not None and gone.door is Door.LEGACY
        if of_topic is not None and not of_topic:
            del self._waiting[at.topic]
