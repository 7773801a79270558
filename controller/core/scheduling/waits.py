"""What waits until each of a set of partitions has been examined?

Each wait is for partitions, not for topics: neither a partition that cannot progress nor one whose topic is busy with
others blocks it. And each wait has a deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from zk_layout.ids import PartitionId, TopicName

Callback = Callable[[Outbox], None]


class LongEnough(Alarm, frozen=True):
    """A wait has reached its deadline; one alarm serves all waits."""


class Wait(Struct, eq=False):
    """One wait.

    Shape:
        `patience_s`, if set, restarts with each partition that settles. While it `is_open`, it learns what it waits
        for, and does not end.
    """

    callback: Callback
    until: float
    patience_s: float | None
    is_open: bool = True
    topics: dict[TopicName, set[PartitionId]] = field(default_factory=dict)

    def expect(self, topic: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Wait for these partitions, too."""
        self.topics.setdefault(topic, set()).update(numbers)


class Waits:
    """Callbacks for settled partitions: those that no rule applies to, or whose rule cannot act for now."""

    def __init__(self) -> None:
        self._waiting: list[Wait] = []

    @property
    def is_idle(self) -> bool:
        """Whether there are no waits."""
        return not self._waiting

    def start(self, callback: Callback, wait_s: float, out: Outbox, *, is_prolonged: bool = False) -> Wait:
        """Run the callback once the partitions that the wait is given have settled; until `close` it may be given more.

        Units:
            Waits for at most `wait_s`; if `is_prolonged`, each partition that settles restarts that time.
        """
        wait = Wait(callback, out.now + wait_s, wait_s if is_prolonged else None)
        self._waiting.append(wait)
        return wait

    def close(self, wait: Wait, out: Outbox) -> None:
        """Note that a wait knows everything it waits for."""
        wait.is_open = False
        if wait.patience_s is not None:
            wait.until = out.now + wait.patience_s
        self._set_alarm(out)

    def note(self, topic: TopicName, numbers: Iterable[PartitionId], out: Outbox) -> None:
        """Note that these partitions have settled."""
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
        """Stop waiting for a topic."""
        for wait in self._waiting:
            wait.topics.pop(topic, None)

    def do_due(self, out: Outbox) -> None:
        """Run the callbacks of waits that are complete or past their deadline."""
        due = [w for w in self._waiting if not w.is_open and (not w.topics or w.until <= out.now)]
        if due:
            self._waiting = [wait for wait in self._waiting if wait not in due]
        for wait in due:
            wait.callback(out)

    def woke(self, out: Outbox) -> None:
        """Set the next alarm; this turn runs what is due."""
        self._set_alarm(out, at_least=out.now + 1.0)

    def _set_alarm(self, out: Outbox, at_least: float = 0.0) -> None:
        ends = [wait.until for wait in self._waiting if not wait.is_open]
        if ends:
            out.wake(LongEnough(), max(at_least, min(ends)))
