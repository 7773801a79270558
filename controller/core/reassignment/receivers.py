"""Has each broker that would receive a replica been registered for long enough?

The time begins when this term sees the registration: one that is older than the term may have come just before it. A
broker that restarts, or opens another session, begins again.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerEpoch, BrokerId

NAMED = 5


class ReceiverStayed(Alarm, frozen=True):
    """A broker has been registered for long enough."""


class Receivers:
    """Since when each broker has been registered, and which of them for too short a time."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        # In the order in which they were registered, so the first one that is recent is the first that is no longer.
        self._since: dict[BrokerId, tuple[BrokerEpoch, float]] = {}
        self._recent: dict[BrokerId, float] = {}
        self._alarm_at: float | None = None

    @property
    def are_waited_for(self) -> bool:
        """Whether moves wait for that."""
        return self._shared.settings.moves_need_receivers_s > 0

    def is_recent(self, broker: BrokerId) -> bool:
        """Whether a broker is registered, and not for long enough."""
        return broker in self._recent

    def follow(self, brokers: Iterable[BrokerId], out: Outbox) -> None:
        """Take in which of these are registered now."""
        for broker in brokers:
            held, known = self._shared.state.brokers.get(broker), self._since.get(broker)
            if held is not None and known is not None and known[0] == held.epoch:
                continue
            self._since.pop(broker, None)
            self._recent.pop(broker, None)
            if held is not None:
                self._since[broker] = held.epoch, out.now
                if self.are_waited_for:
                    self._recent[broker] = out.now
        self.look(out)

    def adjust(self, out: Outbox) -> None:
        """Count by the changed setting. Passes over all brokers."""
        self._recent = {b: since for b, (_, since) in self._since.items()} if self.are_waited_for else {}
        self.look(out)

    def look(self, out: Outbox) -> None:
        """Look at the clock, and have it looked at again when the next one has been registered for long enough."""
        after_s = self._shared.settings.moves_need_receivers_s
        while self._recent:
            first = next(iter(self._recent))
            until = self._recent[first] + after_s
            if out.now < until:
                if until != self._alarm_at:
                    self._alarm_at = until
                    out.wake(ReceiverStayed(), until)
                return
            del self._recent[first]

    def woke(self, out: Outbox) -> None:
        """The alarm rang."""
        self._alarm_at = None
        self.look(out)

    def sentence(self, broker: BrokerId) -> str:
        """What a move waits for that would copy to this broker."""
        return f"broker {broker} has been registered for less than {self._after}"

    def held_up(self) -> tuple[str, ...]:
        """What moves wait for, for status pages, whether or not any move waits."""
        recent = sorted(b for b in self._recent if b not in self._shared.cluster.controllers)
        if not recent:
            return ()
        more = f" and {len(recent) - NAMED} more" if len(recent) > NAMED else ""
        which = ", ".join(map(str, recent[:NAMED])) + more
        who = f"broker {which}, which has" if len(recent) == 1 else f"brokers {which}, which have"
        return (f"no move begins that copies to {who} been registered for less than {self._after}",)

    @property
    def _after(self) -> str:
        return f"{self._shared.settings.moves_need_receivers_s:g} s"
