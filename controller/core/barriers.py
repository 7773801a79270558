"""What may happen only after the rules have nothing more to say about some topics?"""

from __future__ import annotations

from msgspec import Struct

from controller.core.events import AskId
from controller.core.requests import ControlledShutdown
from zk_layout.ids import BrokerId, TopicName


class PermitShutdown(Struct, frozen=True):
    """Answer a broker that wants to leave."""

    ask: AskId
    request: ControlledShutdown


class Readmit(Struct, frozen=True):
    """Let a broker in whose former life ended unseen."""

    broker: BrokerId


Deferred = PermitShutdown | Readmit


class Barriers:
    """Things put off until a set of topics is at rest."""

    def __init__(self) -> None:
        """Nothing put off."""
        self._waiting: list[tuple[set[TopicName], Deferred]] = []

    def put_off(self, deferred: Deferred, topics: set[TopicName]) -> None:
        """Do this when all of these topics have come to rest once."""
        self._waiting.append((topics, deferred))

    def at_rest(self, topic: TopicName) -> None:
        """The rules have nothing to say about this topic, and no step of it is in flight."""
        for topics, _ in self._waiting:
            topics.discard(topic)

    def take_due(self) -> list[Deferred]:
        """What can be done now."""
        if all(topics for topics, _ in self._waiting):
            return []
        due = [deferred for topics, deferred in self._waiting if not topics]
        self._waiting = [(topics, deferred) for topics, deferred in self._waiting if topics]
        return due
