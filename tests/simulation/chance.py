"""From which random source is each choice drawn?

From that of the event that led to it: an event is a fault, a client's request, the start of a process, and all that
follows from it later. So the consequences of one event draw the same numbers when another one is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from tests.simulation.clock import Clock

T = TypeVar("T")
SHARES = (1.0, 0.5, 0.25)


def some_of(kinds: Sequence[T], drawn: Random) -> list[T]:
    """All kinds, half of them or a quarter; at least one."""
    share = drawn.choice(SHARES)
    return [kind for kind in kinds if drawn.random() < share] or [drawn.choice(kinds)]


class Chance(Random):
    """Draws from the clock's present source."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        super().__init__(0)

    def random(self) -> float:
        """A number below 1."""
        return self._clock.source.random()

    def getrandbits(self, k: int, /) -> int:
        """So many bits."""
        return self._clock.source.getrandbits(k)
