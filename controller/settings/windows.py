"""Within which times of a week may something be done, as an operator writes them?"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo

from controller.core.windows import DAY_S, Window, Zone
from controller.core.windows import UTC as UTC_ZONE

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
EXPECTED = "expected days, times and perhaps a time zone, such as Mon-Fri 22:00-06:00 Europe/Berlin"
FROM, UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2070, 1, 1, tzinfo=UTC)
MIDNIGHT = 24 * 60

_WINDOW = re.compile(r"(\w{3})(?:-(\w{3}))? +(\d\d):(\d\d)-(\d\d):(\d\d)(?: +(\S+))?")


def windows_in(text: str) -> tuple[Window, ...]:
    """All windows of a list.

    >>> [night] = windows_in("Fri-Sun 22:00-06:00")
    >>> night.days, night.begin, night.end, night.zone.name
    ((4, 5, 6), 1320, 360, 'UTC')

    Raises:
        ValueError: the text is malformed, or this machine does not know the time zone.
    """
    return tuple(_window(part.strip()) for part in text.split(",") if part.strip())


def _window(text: str) -> Window:
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a window; {EXPECTED}")
    first, last, *times, zone = match.groups()
    begin, end = _minutes(text, *times[:2]), _minutes(text, *times[2:])
    if begin in (end, MIDNIGHT):
        raise ValueError(f"{text!r} has no length; a whole day is 00:00-24:00")
    return Window(_days(text, first, last or first), begin, end, _zone(zone or "UTC"))


def _days(text: str, first: str, last: str) -> tuple[int, ...]:
    names = [name.capitalize() for name in (first, last)]
    if not {*names} <= {*DAYS}:
        raise ValueError(f"{text!r} names a day that is none of {', '.join(DAYS)}")
    begin, end = map(DAYS.index, names)
    return tuple(sorted((begin + n) % 7 for n in range((end - begin) % 7 + 1)))


def _minutes(text: str, hour: str, minute: str) -> int:
    minutes = int(hour) * 60 + int(minute)
    if int(minute) >= 60 or minutes > MIDNIGHT:
        raise ValueError(f"{text!r} has a time that no clock shows; {EXPECTED}")
    return minutes


@cache
def _zone(name: str) -> Zone:
    """A time zone by its name in the tz database, as far as that says today; after 2070 as it is then."""
    if name == "UTC":
        return UTC_ZONE
    try:
        known = ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        message = f"{name} is no time zone that this machine knows; take one of its tz database, such as Europe/Berlin"
        raise ValueError(f"{message}, or UTC") from error

    def offset_s(unix_s: int) -> int:
        found = datetime.fromtimestamp(unix_s, known).utcoffset()
        assert found is not None
        return round(found.total_seconds())

    start, end = round(FROM.timestamp()), round(UNTIL.timestamp())
    offsets = [(start, offset_s(start))]
    for day in range(start, end, DAY_S):
        if offset_s(day + DAY_S) != offsets[-1][1]:
            at = _first(day, day + DAY_S, offset_s)
            offsets.append((at, offset_s(at)))
    return Zone(name, tuple(offsets))


def _first(before: int, after: int, offset_s: Callable[[int], int]) -> int:
    """The first second between these that has the offset of `after`."""
    wanted = offset_s(after)
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (before, middle) if offset_s(middle) == wanted else (middle, after)
    return after
