"""What happens next, and when? A queue of callbacks in simulated time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random


class Clock:
    """Simulated time in seconds; callbacks of the same time run in the order in which they were set.

    A callback draws from the random source of the event that set it.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.source = Random(0)
        self._queue: list[tuple[float, int, Random, Callable[[], None]]] = []
        self._order = count()

    def after(self, delay_s: float, happening: Callable[[], None]) -> None:
        """Schedule a callback."""
        heapq.heappush(self._queue, (self.now + delay_s, next(self._order), self.source, happening))

    def step(self) -> bool:
        """Run the next callback; False if none is left."""
        if not self._queue:
            return False
        self.now, _, self.source, happening = heapq.heappop(self._queue)
        happening()
        return True

    def next_at(self) -> float | None:
        """The time of the next callback."""
        return self._queue[0][0] if self._queue else None
