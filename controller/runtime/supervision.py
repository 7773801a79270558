"""What goes wrong in the parts of this process that never end, and how do they go on all the same?"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import structlog

AGAIN_AFTER_S = 60.0

_log = structlog.get_logger(__name__)


class Troubles:
    """What has gone wrong in which part, until it goes right there. It may be used from any thread.

    A cause is logged once for as long as it lasts, and once in a while if it comes and goes; it is counted each time.
    """

    def __init__(self) -> None:
        self.count: Callable[[str], None] = lambda _: None
        """Hears of each time that a part went wrong."""
        self._lock = threading.Lock()
        self._by_part: dict[str, tuple[str, str]] = {}
        self._logged: dict[str, tuple[tuple[str, str], float]] = {}

    def wrong(self, part: str, what: str, why: str, error: BaseException | None = None) -> None:
        """Something went wrong in this part, and is tried again. A trace is logged only of what nobody expected."""
        cause, now = (what, why), time.monotonic()
        with self._lock:
            logged, at = self._logged.get(part, (None, 0.0))
            is_news = cause != logged or (part not in self._by_part and now - at >= AGAIN_AFTER_S)
            self._by_part[part] = cause
            if is_news:
                self._logged[part] = cause, now
        self.count(part)
        if is_news:
            _log.error(what, part=part, reason=why, exc_info=error)

    def right(self, part: str) -> None:
        """All is well there."""
        if part not in self._by_part:
            return
        with self._lock:
            self._by_part.pop(part, None)

    def now(self) -> tuple[str, ...]:
        """A sentence for each part that went wrong last."""
        with self._lock:
            return tuple(f"{part}: {what}: {why}" for part, (what, why) in sorted(self._by_part.items()))


def reason_of(error: BaseException) -> str:
    """An error that nobody expected, in a line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


async def supervised(
    part: str,
    live: Callable[[], Awaitable[None]],
    troubles: Troubles,
    *,
    again_after_s: float,
    expected: tuple[type[Exception], ...] = (),
) -> None:
    """Have a part live again and again until it is cancelled, whatever a life ends with.

    What is `expected` is said elsewhere. A life that ends by itself has gone well; one that lasts says so itself.
    """
    while True:
        try:
            await live()
            troubles.right(part)
        except expected:
            pass
        except Exception as error:
            troubles.wrong(part, "a part of this process failed; it is tried again", reason_of(error), error)
        await asyncio.sleep(again_after_s)
