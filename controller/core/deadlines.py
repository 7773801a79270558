"""Until when does somebody wait for an answer?

Source: KIP-455: `TimeoutMs`, "The time in ms to wait for the request to complete", and REQUEST_TIMED_OUT; Kafka's own
controller ignores both (KAFKA-8873).
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.effects import Wake
from controller.core.events import Asked, AskId
from controller.core.requests import Request

DEADLINE = "deadline of requests"


class Deadlines:
    """The requests that name a time, in one reign; one alarm serves them all."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._until: dict[AskId, tuple[float, Request]] = {}
        self._alarm: float | None = None

    def note(self, asked: Asked, now: float) -> Iterator[Wake]:
        """A request has come in; one that names no time, or none above zero, waits as long as it takes."""
        timeout_ms = getattr(asked.request, "timeout_ms", 0)
        if timeout_ms <= 0:
            return
        until = now + timeout_ms / 1000
        self._until[asked.ask] = until, asked.request
        if self._alarm is None or until < self._alarm:
            self._alarm = until
            yield Wake(DEADLINE, until)

    def answered(self, ask: AskId) -> None:
        """A request was answered in time."""
        self._until.pop(ask, None)

    def expired(self, now: float) -> list[tuple[AskId, Request]]:
        """The requests whose time is over; each is named once."""
        over = [(ask, request) for ask, (until, request) in self._until.items() if until <= now]
        for ask, _ in over:
            del self._until[ask]
        return over

    def next_alarm(self) -> Iterator[Wake]:
        """The alarm has rung: the next one, if anybody still waits."""
        self._alarm = min((until for until, _ in self._until.values()), default=None)
        if self._alarm is not None:
            yield Wake(DEADLINE, self._alarm)
