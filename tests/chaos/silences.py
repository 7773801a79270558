"""For how long were writes to a partition blocked?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

# Shorter ones come from the producers' pace.
SHORTEST_S = 0.2


class Silence(Struct, frozen=True):
    """A time between two acknowledged records.

    Units:
        Seconds of a clock that only rises.
    """

    began: float
    ended: float

    @property
    def length_s(self) -> float:
        """Its length."""
        return self.ended - self.began


class Silences:
    """The silences of one partition. Only these are kept, so an hour takes little memory."""

    def __init__(self, began: float) -> None:
        """Expect records from now on."""
        self._last = began
        self._silences: list[Silence] = []

    @property
    def last(self) -> float:
        """The time of the last acknowledgement."""
        return self._last

    def acknowledge(self, at: float) -> None:
        """A record was acknowledged. Times may come in any order within a batch; earlier ones are ignored."""
        if at - self._last >= SHORTEST_S:
            self._silences.append(Silence(self._last, at))
        self._last = max(self._last, at)

    def longest_s(self, since: float, until: float) -> float:
        """The longest silence that reaches into an interval, at its full length; 0 if all were too short to count.

        One that has not ended counts up to the end of the interval.
        """
        found: Sequence[Silence] = [s for s in tuple(self._silences) if s.ended > since and s.began < until]
        lengths = [silence.length_s for silence in found]
        if until - self._last >= SHORTEST_S:
            lengths.append(until - self._last)
        return max(lengths, default=0.0)
