"""What waits until each of a set of partitions has been looked at?

Each wait is for partitions, not for topics: one that nothing can be done for holds up nobody, nor does one whose topic
is busy with others. And each has an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from zk_layout.ids import PartitionId, TopicName

Deed = Callable[[Outbox], None]


class LongEnough(Alarm, frozen=True):
    """Somebody has waited as long as it may; one alarm serves them all."""


class _Wait(Struct, eq=False):
    """Shape: with `patience_s` it ends only so long after the last partition that came to rest."""

    topics: dict[TopicName, set[PartitionId]]
    deed: Deed
    until: float
    patience_s: float | None


class Rest:
    """A partition is at rest when the rules have nothing to say about it, or what they say cannot be done for now."""

    def __init__(self) -> None:
        self._waiting: list[_Wait] = []

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits."""
        return not self._waiting

    def put_off(
        self,
        deed: Deed,
        partitions: Mapping[TopicName, Iterable[PartitionId]],
        wait_s: float,
        out: Outbox,
        *,
        is_prolonged: bool = False,
    ) -> None:
        """Do this when all of these partitions have come to rest once.

        Units:
            It waits for at most `wait_s`; where it `is_prolonged`, as long as not even one partition comes to rest in
            that time.
        """
        topics = {name: set(numbers) for name, numbers in partitions.items()}
        self._waiting.append(_Wait(topics, deed, out.now + wait_s, wait_s if is_prolonged else None))
        self._set_alarm(out)

    def note(self, topic: TopicName, numbers: Iterable[PartitionId], out: Outbox) -> None:
        """These partitions are at rest."""
        for wait in self._waiting:
            awaited = wait.topics.get(topic)
            if awaited is None:
                continue
            before = len(awaited)
            awaited.difference_update(numbers)
            if len(awaited) < before and wait.patience_s is not None:
                wait.until = out.now + wait.patience_s
            if not awaited:
                del wait.topics[topic]

    def note_topic(self, topic: TopicName) -> None:
        """Nothing is to be waited for in a topic."""
        for wait in self._waiting:
            wait.topics.pop(topic, None)

    def do_due(self, out: Outbox) -> None:
        """Do what waits for nothing any more, or has waited long enough."""
        due = [wait for wait in self._waiting if not wait.topics or wait.until <= out.now]
        if due:
            self._waiting = [wait for wait in self._waiting if wait not in due]
        for wait in due:
            wait.deed(out)

    def woke(self, out: Outbox) -> None:
        """Somebody may have waited long enough: this turn does what is due."""
        self._set_alarm(out, at_least=out.now + 1.0)

    def _set_alarm(self, out: Outbox, at_least: float = 0.0) -> None:
        if self._waiting:
            out.wake(LongEnough(), max(at_least, min(wait.until for wait in self._waiting)))
