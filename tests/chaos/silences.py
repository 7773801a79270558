"""For how long could nobody write to a partition?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

# Shorter ones are the pace of the producers.
SHORTEST_S = 0.2


class Silence(Struct, frozen=True):
    """Between two acknowledged records nothing was acknowledged.

    Units:
        Seconds of a clock that only rises.
    """

    began: float
    ended: float

    @property
    def length_s(self) -> float:
        """How long it was."""
        return self.ended - self.began


class Silences:
    """When nothing was acknowledged in one partition. Only silences are kept, so an hour of it takes little."""

    def __init__(self, began: float) -> None:
        """From now on records are expected."""
        self._last = began
        self._silences: list[Silence] = []

    @property
    def last(self) -> float:
        """When a record was acknowledged last."""
        return self._last

    def acknowledge(self, at: float) -> None:
        """A record was acknowledged. Times may come in any order within a batch; an earlier one says nothing new."""
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
