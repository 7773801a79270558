"""For how long at a time is the event loop busy, so that everything else in the process waits?

By the clock, and by processor time: on a machine that is busy with other things, the clock says nothing about this
process.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Sequence
from typing import Any

from controller.runtime.pump import NO_TIME, Took


class LongestBusy:
    """The longest times that one event loop, the one of `new_loop`, was busy between two looks for input.

    Garbage collection, and whatever else runs on that thread, is included.
    """

    def __init__(self) -> None:
        """Nothing is measured before a loop runs."""
        self._wall_s = self._cpu_s = 0.0

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop that is measured."""
        return asyncio.SelectorEventLoop(_Selector(self))

    def note(self, wall_s: float, cpu_s: float) -> None:
        """The loop was busy for so long."""
        self._wall_s, self._cpu_s = max(self._wall_s, wall_s), max(self._cpu_s, cpu_s)

    def take(self) -> Took:
        """The longest times since the last call, each by itself."""
        longest = Took(self._wall_s, self._cpu_s)
        self._wall_s, self._cpu_s = NO_TIME.wall_s, NO_TIME.cpu_s
        return longest


class _Selector(selectors.DefaultSelector):
    """Notes how long it was between two calls of `select`."""

    def __init__(self, busy: LongestBusy) -> None:
        super().__init__()
        self._busy = busy
        self._since: tuple[float, float] | None = None

    def select(self, timeout: float | None = None) -> Sequence[tuple[selectors.SelectorKey, Any]]:  # type: ignore[override]
        if self._since is not None:
            wall, cpu = self._since
            self._busy.note(time.monotonic() - wall, time.thread_time() - cpu)
        ready = super().select(timeout)
        self._since = time.monotonic(), time.thread_time()
        return ready
