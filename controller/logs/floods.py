"""Which log lines are too many of a kind?"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

WINDOW_S: Final = 10.0
MOST_A_WINDOW: Final = 100
_MOST_KINDS: Final = 1_000
_ANY_OTHER: Final = "lines of other kinds"


class _Kind(Struct):
    began: float
    passed: int = 0
    held_back: int = 0


class Floods:
    """Lets a number of lines of each kind pass in a period, and counts the others.

    >>> floods = Floods(most=2)
    >>> [floods.passes("a", at) for at in (0.0, 1.0, 2.0)], floods.passes("b", 2.0)
    ([True, True, False], True)
    >>> floods.settled(5.0), floods.settled(12.0), floods.passes("a", 12.0)
    ([], [('a', 1)], True)

    Units:
        All times are in seconds of a clock that only goes forward.
    """

    def __init__(self, most: int = MOST_A_WINDOW, window_s: float = WINDOW_S) -> None:
        self.held_back = 0
        self._most = most
        self._window_s = window_s
        self._kinds: dict[str, _Kind] = {}

    def passes(self, kind: str, now: float) -> bool:
        """Whether another line of this kind may be logged now."""
        if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            kind = _ANY_OTHER
        counted = self._kinds.setdefault(kind, _Kind(now))
        if now - counted.began >= self._window_s and not counted.held_back:
            counted.began, counted.passed = now, 0
        if counted.passed < self._most:
            counted.passed += 1
            return True
        counted.held_back += 1
        self.held_back += 1
        return False

    def settled(self, now: float) -> list[tuple[str, int]]:
        """The kinds whose period is over, with the number of lines held back; a new period begins."""
        over = [kind for kind, counted in self._kinds.items() if now - counted.began >= self._window_s]
        counts = [(kind, self._kinds.pop(kind).held_back) for kind in over]
        return [(kind, count) for kind, count in counts if count]
