"""Has enough been said about this? So many lines for each cause, then one now and then with how many were left out."""

from __future__ import annotations

from msgspec import Struct

from controller.logs import lines

FIRST = 5
EVERY_S = 10.0
LONGEST_TEXT = 300


class _Said(Struct):
    at: float
    left: int
    unsaid: int = 0


class RepeatedLines:
    """Bounds how often each cause is logged. Causes must be few: they are remembered for ever."""

    def __init__(self, first: int = FIRST, every_s: float = EVERY_S) -> None:
        self._first, self._every_s = first, every_s
        self._said: dict[str, _Said] = {}

    def say(self, cause: str, now: float) -> int | None:
        """None to be silent; otherwise how often the same was not said since the last time."""
        said = self._said.get(cause)
        if said is None or now - said.at >= self._every_s:
            unsaid = 0 if said is None else said.unsaid
            self._said[cause] = _Said(now, self._first - 1)
            return unsaid
        if said.left:
            said.left -= 1
            return 0
        said.unsaid += 1
        return None


def shortened(text: str) -> str:
    """A text from outside as it may be logged."""
    return lines.cut(text, LONGEST_TEXT)
