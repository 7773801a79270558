"""When is a window open that an operator has written: on which days, across midnight, and where clocks change?"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.windows import is_open, next_change
from controller.settings.windows import windows_in

BERLIN = ZoneInfo("Europe/Berlin")
HOUR_S = 3600


def at(text: str) -> int:
    """Unix seconds of a time in UTC."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def opens(windows: str, *times: str) -> list[bool]:
    return [is_open(windows_in(windows), at(time)) for time in times]


def test_a_window_belongs_to_the_day_on_which_it_begins() -> None:
    # 2026-11-27 is a Friday.
    times = ("2026-11-27 21:59:59", "2026-11-27 22:00", "2026-11-28 05:59:59", "2026-11-28 06:00", "2026-11-28 23:00")

    assert opens("Mon-Fri 22:00-06:00", *times) == [False, True, True, False, False]
    assert opens("Sat 00:00-24:00", "2026-11-27 23:59:59", "2026-11-28 00:00", "2026-11-28 23:59:59") == [
        False,
        True,
        True,
    ]


def test_days_may_reach_over_the_end_of_a_week() -> None:
    assert windows_in("Sat-Mon 01:00-02:00")[0].days == (0, 5, 6)
    assert windows_in("mon-SUN 01:00-02:00")[0].days == (0, 1, 2, 3, 4, 5, 6)


def test_a_window_has_local_time_in_summer_and_winter() -> None:
    night = "Mon-Sun 22:00-06:00 Europe/Berlin"

    assert opens(night, "2026-07-01 19:59", "2026-07-01 20:00", "2026-07-02 03:59", "2026-07-02 04:00") == [
        False,
        True,
        True,
        False,
    ]
    assert opens(night, "2026-12-01 20:59", "2026-12-01 21:00") == [False, True]


def test_a_window_in_the_hour_that_is_left_out_does_not_open() -> None:
    """On 2026-03-29 clocks are put forward from 02:00 to 03:00, at 01:00 in UTC."""
    windows = windows_in("Sun 02:00-03:00 Europe/Berlin")

    times = [at("2026-03-29 00:00") + 60 * n for n in range(180)]
    assert not any(is_open(windows, time) for time in times)
    assert next_change(windows, at("2026-03-29 00:30")) == at("2026-04-05 00:00")


def test_a_window_in_the_hour_that_comes_twice_is_twice_as_long() -> None:
    """On 2026-10-25 clocks are put back from 03:00 to 02:00, at 01:00 in UTC."""
    windows = windows_in("Sun 02:00-03:00 Europe/Berlin")

    assert next_change(windows, at("2026-10-24 23:30")) == at("2026-10-25 00:00")
    assert next_change(windows, at("2026-10-25 00:00")) == at("2026-10-25 02:00")
    both = windows_in("Sun 02:15-02:45 Europe/Berlin")
    changes = [at("2026-10-25 00:00")]
    for _ in range(4):
        changes.append(next_change(both, changes[-1]) or 0)
    assert [(change - changes[0]) // 60 for change in changes] == [0, 15, 45, 75, 105]


def test_what_is_always_open_never_changes() -> None:
    assert next_change(windows_in("Mon-Sun 00:00-24:00"), at("2026-11-27 12:00")) is None


texts = st.builds(
    lambda days, begin, end, zone: f"{days} {begin:02}:00-{end:02}:30 {zone}",
    st.sampled_from(["Mon-Fri", "Sat", "Sun-Tue", "Mon-Sun"]),
    st.integers(0, 23),
    st.integers(0, 23),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe"]),
)


@given(texts, st.integers(at("2025-01-01 00:00"), at("2040-01-01 00:00")))
def test_it_is_open_by_the_clock_on_the_wall_and_the_next_change_is_the_next(text: str, now: int) -> None:
    (window,) = windows = windows_in(text)
    local = datetime.fromtimestamp(now, ZoneInfo(window.zone.name))
    minute = local.hour * 60 + local.minute
    began_today = local.weekday() in window.days and minute >= window.begin
    began_before = (local.weekday() - 1) % 7 in window.days and window.end <= window.begin and minute < window.end
    is_over = window.begin < window.end <= minute

    assert is_open(windows, now) == ((began_today and not is_over) or began_before)

    change = next_change(windows, now)
    assert change is not None
    assert is_open(windows, change) != is_open(windows, change - 1) == is_open(windows, now)
    quarters = range(now, change, 15 * 60)
    assert all(is_open(windows, quarter) == is_open(windows, now) for quarter in quarters)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("22:00-06:00", "is not a window"),
        ("Mon 22-6", "is not a window"),
        ("Mon-Fry 22:00-06:00", "names a day"),
        ("Mon 25:00-26:00", "no clock shows"),
        ("Mon 20:61-22:00", "no clock shows"),
        ("Mon 22:00-22:00", "has no length"),
        ("Mon 24:00-06:00", "has no length"),
        ("Mon 22:00-06:00 Europe/Bärlin", "no time zone that this machine knows"),
        ("Mon 22:00-06:00 ../../etc/passwd", "no time zone that this machine knows"),
    ],
)
def test_what_is_no_window_is_refused_with_what_is_expected(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        windows_in(text)
