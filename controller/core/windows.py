"""Is it within one of the times of a week that are given in local time, and when does that change?

A window has the wall clock of its place: where clocks are put forward it may be shorter, or missing, and where they are
put back longer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct

DAY_S = 24 * 60 * 60
LOOKED_AHEAD_DAYS = 8


class Zone(Struct, frozen=True):
    """A time zone as rules without files see it.

    Shape:
        `offsets` are, in order, from when local time is how much later than UTC; at least one. The first holds before
        its time as well.
    Units:
        Unix seconds, and seconds.
    """

    name: str
    offsets: tuple[tuple[int, int], ...]

    def offset_s(self, unix_s: int) -> int:
        """How much later than in UTC it is there."""
        return self.offsets[max(0, bisect_right(self.offsets, (unix_s, DAY_S)) - 1)][1]


UTC = Zone("UTC", ((0, 0),))


class Window(Struct, frozen=True):
    """A time of each of some days of the week.

    Shape:
        `days` begin with Monday as 0. If `end` is not after `begin`, it is on the next day.
    Units:
        `begin` and `end` are minutes since midnight, `end` up to 1440.
    """

    days: tuple[int, ...]
    begin: int
    end: int
    zone: Zone = UTC

    def is_open(self, unix_s: int) -> bool:
        """Whether it is within the window.

        >>> nights = Window((0,), 22 * 60, 6 * 60)  # 1970-01-05 was a Monday
        >>> [nights.is_open(4 * DAY_S + hour * 3600) for hour in (5, 21, 22, 29, 30)]
        [False, False, True, True, False]
        """
        local_s = unix_s + self.zone.offset_s(unix_s)
        day, minute = (local_s // DAY_S + 3) % 7, local_s % DAY_S // 60  # 1970-01-01 was a Thursday
        if self.begin < self.end:
            return day in self.days and self.begin <= minute < self.end
        return (day in self.days and minute >= self.begin) or ((day - 1) % 7 in self.days and minute < self.end)

    def edges(self, unix_s: int) -> Iterator[int]:
        """All times in the next days at which it may begin or end, and others."""
        until_s = unix_s + LOOKED_AHEAD_DAYS * DAY_S
        changes = [at for at, _ in self.zone.offsets if unix_s < at <= until_s]
        yield from changes
        # Each local time with each offset that is in force about then: which of them is right need not be known.
        offsets = {self.zone.offset_s(at) for at in (unix_s, *changes)}
        for offset_s in offsets:
            midnight_s = (unix_s + offset_s) // DAY_S * DAY_S - offset_s
            for day in range(LOOKED_AHEAD_DAYS + 1):
                yield from (midnight_s + day * DAY_S + minute * 60 for minute in (self.begin, self.end))


def is_open(windows: Sequence[Window], unix_s: int) -> bool:
    """Whether it is within any of the windows."""
    return any(window.is_open(unix_s) for window in windows)


def next_change(windows: Sequence[Window], unix_s: int) -> int | None:
    """The next Unix second at which `is_open` is another; None if there is none in the next eight days."""
    now_open = is_open(windows, unix_s)
    edges = sorted({at for window in windows for at in window.edges(unix_s) if at > unix_s})
    return next((at for at in edges if is_open(windows, at) != now_open), None)
