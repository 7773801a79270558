"""What time is it, and when must the controller be woken?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from controller.core.messages.effects import Wake
from controller.core.messages.events import Alarm, Woke


class Clock:
    """Monotonic seconds and alarms, both those of one event loop.

    Setting an alarm equal to a pending one replaces that.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._alarms: dict[Alarm, asyncio.TimerHandle] = {}

    def now(self) -> float:
        """Monotonic seconds."""
        return self._loop.time()

    def busy(self) -> float:
        """Processor seconds of this thread: what it did, however busy the machine is with other things."""
        return time.thread_time()

    def wake(self, wake: Wake, emit: Callable[[Woke], None]) -> None:
        """Emit `Woke` once at the time given, or as soon as possible if that is past."""
        earlier = self._alarms.pop(wake.alarm, None)
        if earlier is not None:
            earlier.cancel()
        self._alarms[wake.alarm] = self._loop.call_at(wake.at, self._ring, wake.alarm, emit)

    def cancel_all(self) -> None:
        """Drop every alarm: the term that set them is over."""
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()

    def _ring(self, alarm: Alarm, emit: Callable[[Woke], None]) -> None:
        del self._alarms[alarm]
        emit(Woke(alarm))
