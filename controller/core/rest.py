"""What waits until a set of topics has come to rest?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.core.outbox import Outbox
from zk_layout.ids import TopicName

Deed = Callable[[Outbox], None]


class Rest:
    """A topic is at rest when the rules have nothing to say about it and no step of it is under way."""

    def __init__(self) -> None:
        """Nothing waits."""
        self._waiting: list[tuple[dict[TopicName, None], Deed]] = []

    def put_off(self, deed: Deed, topics: Iterable[TopicName]) -> None:
        """Do this when all of these topics have come to rest once."""
        self._waiting.append((dict.fromkeys(topics), deed))

    def note(self, topic: TopicName) -> None:
        """A topic is at rest."""
        for topics, _ in self._waiting:
            topics.pop(topic, None)

    def do_due(self, out: Outbox) -> None:
        """Do what waits for nothing any more."""
        due = [deed for topics, deed in self._waiting if not topics]
        if due:
            self._waiting = [(topics, deed) for topics, deed in self._waiting if topics]
        for deed in due:
            deed(out)
