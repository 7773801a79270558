"""How do events reach the machine, and its effects the parts that carry them out?"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, get_args

from msgspec import Struct

from controller.core.messages.effects import Effect, Wake
from controller.core.messages.events import Event
from controller.runtime.clock import Clock

MOST_EVENTS_A_TURN = 500
# Enough after a turn of 50 ms for a broker to answer a command and to get the next.
SHARE_OF_OTHERS, LEAST_SHARE_S = 1 / 16, 0.001

Performer = Callable[[Any], None]
"""Carries out one kind of effect, on the event loop; must not block."""


class StateMachine(Protocol):
    """The part that decides: `controller.core.machine.Machine`."""

    def turn(self, events: Sequence[Event], now: float) -> list[Effect]:
        """The effects of these events."""


class Took(Struct, frozen=True):
    """How long a turn took, without what its effects took.

    Units:
        Seconds by the clock, and seconds of processor time of the event loop's thread.
    """

    wall_s: float
    cpu_s: float


NO_TIME = Took(0.0, 0.0)


class TurnObserver(Protocol):
    """Receives every turn, on the event loop, before its effects are carried out; must return at once."""

    def turned(self, now: float, events: Sequence[Event], effects: Sequence[Effect], took: Took, left: int) -> None:
        """A turn at `now` took these events; `left` more are waiting."""


class Pump:
    """One term's loop: passes emitted events to the machine and has the effects carried out in order.

    Everything emitted while a turn runs is one batch, so that a busy controller takes fewer and larger turns. A batch
    has at most `most_events`, and other tasks of the event loop run between two: no flood of events delays answers,
    acknowledgements and heartbeats. While commands queue up for brokers, which get one after the other, a long turn is
    followed by a share of its time.

    An exception from a turn or a performer means that an invariant is violated: nothing more is decided, and
    `on_broken` is called to end the term.
    """

    def __init__(  # noqa: PLR0913 - each is a seam of its own, and most have a default
        self,
        machine: StateMachine,
        perform: Mapping[type, Performer],
        clock: Clock,
        on_broken: Callable[[Exception], None],
        *,
        observers: Sequence[TurnObserver] = (),
        most_events: int = MOST_EVENTS_A_TURN,
        are_commands_queued: Callable[[], bool] = lambda: False,
    ) -> None:
        """Events can be emitted at once; nothing is decided before `run`. `Wake` needs no performer.
        `are_commands_queued`: a broker has to answer a command before it gets the next.

        Raises:
            ValueError: a kind of effect has no performer.
        """
        self._machine = machine
        self._perform: dict[type, Performer] = {Wake: lambda wake: clock.wake(wake, self.emit), **perform}
        missing = [kind.__name__ for kind in get_args(Effect) if kind not in self._perform]
        if missing:
            raise ValueError(f"no performer for {', '.join(missing)}; give the pump one for each")
        self._clock = clock
        self._on_broken = on_broken
        self._observers = observers
        self._most_events = most_events
        self._are_commands_queued = are_commands_queued
        self._queue: deque[Event] = deque()
        self._stirred = asyncio.Event()
        self._is_stopped = False

    @property
    def depth(self) -> int:
        """How many events wait for their turn."""
        return len(self._queue)

    def emit(self, event: Event) -> None:
        """Queue an event; one that comes after the end is dropped."""
        if not self._is_stopped:
            self._queue.append(event)
            self._stirred.set()

    def stop(self) -> None:
        """Decide nothing more, and carry out no more effects of the present turn; a performer may call this."""
        self._is_stopped = True
        self._queue.clear()
        self._clock.cancel_all()
        self._stirred.set()

    async def run(self) -> None:
        """Take turns until stopped or broken."""
        while not self._is_stopped:
            if not self._queue:
                self._stirred.clear()
                await self._stirred.wait()
                continue
            began = self._clock.now()
            try:
                self._turn()
            except Exception as error:
                self.stop()
                self._on_broken(error)
                return
            share_s = (self._clock.now() - began) * SHARE_OF_OTHERS
            await asyncio.sleep(share_s if share_s >= LEAST_SHARE_S and self._are_commands_queued() else 0)

    def _turn(self) -> None:
        queue = self._queue
        batch = [queue.popleft() for _ in range(min(len(queue), self._most_events))]
        now, busy = self._clock.now(), self._clock.busy()
        effects = self._machine.turn(batch, now)
        took = Took(self._clock.now() - now, self._clock.busy() - busy)
        for observer in self._observers:
            observer.turned(now, batch, effects, took, len(queue))
        for effect in effects:
            if self._is_stopped:
                return
            self._perform[type(effect)](effect)
