"""For how long at a time is the event loop busy, so that everything else in the process waits?

By the clock, and by processor time: on a machine that is busy with other things, the clock says nothing about this
process.
"""

from __future__ import annotations

import asyncio
import selectors
import time

from controller.runtime.pump import NO_TIME, Took


class LongestBusy:
    """The longest times that one event loop, the one of `new_loop`, was busy between two looks for input.

    Garbage collection, and whatever else runs on that thread, is included.
    """

    def __init__(self) -> None:
        """Nothing is measured before a loop runs."""
        self._longest = NO_TIME

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop that is measured."""
        return asyncio.SelectorEventLoop(_Selector(self))

    def note(self, wall_s: float, cpu_s: float) -> None:
        """The loop was busy for so long."""
        longest = self._longest
        if wall_s > longest.wall_s or cpu_s > longest.cpu_s:
            self._longest = Took(max(longest.wall_s, wall_s), max(longest.cpu_s, cpu_s))

    def take(self) -> Took:
        """The longest times since the last call, each by itself."""
        longest, self._longest = self._longest, NO_TIME
        return longest


class _Selector(selectors.DefaultSelector):
    """Notes how long it was between two calls of `select`."""

    def __init__(self, busy: LongestBusy) -> None:
        super().__init__()
        self._busy = busy
        self._since: tuple[float, float] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._since is not None:
            wall, cpu = self._since
            self._busy.note(time.monotonic() - wall, time.thread_time() - cpu)
        ready = super().select(timeout)
        self._since = time.monotonic(), time.thread_time()
        return ready
