"""What goes wrong in the permanent parts of this process, and how do they recover?"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import structlog

AGAIN_AFTER_S = 60.0

_log = structlog.get_logger(__name__)


class Troubles:
    """The failures of each part, until it recovers. Usable from any thread.

    A cause is logged once while it lasts, and once in a while if it comes and goes; it is counted each time.
    """

    def __init__(self) -> None:
        self.count: Callable[[str], None] = lambda _: None
        """Called for each failure of a part."""
        self._lock = threading.Lock()
        self._expected: set[str] = set()
        self._by_part: dict[str, tuple[str, str]] = {}
        self._logged: dict[str, tuple[tuple[str, str], float]] = {}

    def expect(self, part: str) -> None:
        """The part exists, and has not failed yet."""
        with self._lock:
            self._expected.add(part)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that are known to exist."""
        with self._lock:
            return tuple(sorted(self._expected))

    def wrong(self, part: str, what: str, why: str, error: BaseException | None = None) -> None:
        """A part failed and will try again. A traceback is logged only for unexpected errors."""
        is_news = self.note(part, what, why)
        if is_news:
            _log.error(what, part=part, reason=why, exc_info=error)

    def note(self, part: str, what: str, why: str) -> bool:
        """The same without a line in the log; return whether it is news."""
        cause, now = (what, why), time.monotonic()
        with self._lock:
            logged, at = self._logged.get(part, (None, 0.0))
            is_news = cause != logged or (part not in self._by_part and now - at >= AGAIN_AFTER_S)
            self._by_part[part] = cause
            if is_news:
                self._logged[part] = cause, now
        self.count(part)
        return is_news

    def right(self, part: str) -> None:
        """The part has recovered."""
        if part not in self._by_part:
            return
        with self._lock:
            self._by_part.pop(part, None)

    def now(self) -> tuple[str, ...]:
        """A sentence for each part whose last outcome was a failure."""
        with self._lock:
            return tuple(f"{part}: {what}: {why}" for part, (what, why) in sorted(self._by_part.items()))


def reason_of(error: BaseException) -> str:
    """An unexpected error, in a line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


async def supervised(
    part: str,
    live: Callable[[], Awaitable[None]],
    troubles: Troubles,
    *,
    again_after_s: float,
    expected: tuple[type[Exception], ...] = (),
) -> None:
    """Run a part again and again until cancelled, however a run ends.

    `expected` errors are reported elsewhere. A run that ends by itself has succeeded; one that lasts reports its own
    recovery.
    """
    troubles.expect(part)
    while True:
        try:
            await live()
            troubles.right(part)
        except expected:
            pass
        except Exception as error:
            troubles.wrong(part, "a part of this process failed; trying again", reason_of(error), error)
        await asyncio.sleep(again_after_s)
