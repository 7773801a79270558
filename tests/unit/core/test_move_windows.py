"""At which times of a week do moves begin?"""

from __future__ import annotations

import json

from msgspec import to_builtins

from controller.core.messages.events import ClockShown
from controller.settings.windows import windows_in
from tests.unit.core.test_move_queue import LEGACY, arrive, moving, waiting
from tests.unit.traps.play import Play, some

NIGHTS = "Mon-Sun 22:00-06:00"
HOUR_S = 3600
PLACES = ("brokers 1,2,3,4,5", "topic orders 0=1,2 1=1,2 2=1,2", "elect")


def setting(verb: str, windows: str) -> str:
    """A setting as a story has it."""
    found = json.dumps(to_builtins(windows_in(windows)), separators=(",", ":"))
    return f"{verb} moves_windows={found}"


def at_hour(hour: float, *more: str, windows: str = NIGHTS) -> Play:
    """A controller with windows, elected at this hour of a Thursday in UTC."""
    return Play(f"set clock_zero_ms={round(hour * HOUR_S * 1000)}", setting("set", windows), *PLACES, *more)


def test_outside_of_the_windows_moves_wait_and_begin_when_one_opens() -> None:
    play = at_hour(21.99, "ask reassign orders-0 to=3,2 orders-1 to=3,2")
    assert (moving(play), waiting(play)) == ([], {0: [3, 2], 1: [3, 2]})
    assert play.figures()["waiting_moves_windows"] == 2

    play.do("time +35s")
    assert moving(play) == []
    play.do("time +2s")

    assert (moving(play), waiting(play)) == ([0, 1], {})


def test_the_answer_says_what_is_waited_for() -> None:
    lines = at_hour(21).do("ask reassign orders-0 to=3,2")

    assert some(lines, "answer orders-0 NONE")
    assert some(lines, "orders-0 waits to move to [3, 2]: none begins outside of reassignment.moves.windows")


def test_what_has_begun_goes_on_when_the_window_shuts_and_may_be_redirected() -> None:
    play = at_hour(5.99, "ask reassign orders-0 to=3,2", "time +37s", "ask reassign orders-1 to=3,2")
    assert moving(play) == [0]

    play.do("ask reassign orders-0 to=4,2")
    assert some(arrive(play, 0, "1,2,4"), "orders-0 has moved to [4, 2]")

    assert (moving(play), waiting(play)) == ([], {1: [3, 2]})


def test_what_copies_nothing_does_not_wait_for_a_window() -> None:
    play = at_hour(12, "ask reassign orders-0 to=2,1 orders-1 to=1", "time +1s")

    assert waiting(play) == {}


def test_entries_of_the_legacy_znode_wait_for_a_window_too() -> None:
    play = at_hour(21.99, "legacy orders-0=3,2", "time +1s")
    assert moving(play) == []
    assert play.data(LEGACY) is not None

    play.do("time +40s")

    assert moving(play) == [0]


def test_a_successor_waits_for_the_window_as_well() -> None:
    play = at_hour(21.99, "ask reassign orders-0 to=3,2", "elect", "time +30s")
    assert moving(play) == []

    play.do("time +10s")

    assert moving(play) == [0]


def test_windows_are_set_and_taken_back_while_moves_wait() -> None:
    play = at_hour(12.99, "ask reassign orders-0 to=3,2")

    play.do(setting("adjust", "Mon-Sun 13:00-13:01"), "time +35s")
    assert moving(play) == []
    play.do("time +2s", "ask reassign orders-1 to=3,2")
    assert moving(play) == [0, 1]

    play.do("time +60s", "ask reassign orders-2 to=3,2")
    assert waiting(play) == {2: [3, 2]}
    play.do("adjust moves_windows=[]")
    assert moving(play) == [0, 1, 2]


def test_of_several_windows_any_will_do() -> None:
    play = at_hour(21, "ask reassign orders-0 to=3,2", windows=f"{NIGHTS}, Thu 20:00-21:30")

    assert moving(play) == [0]


def test_a_clock_that_is_set_counts_once_it_is_shown() -> None:
    play = at_hour(12, "ask reassign orders-0 to=3,2")
    assert moving(play) == []

    play.theatre._events.append(ClockShown(23 * HOUR_S * 1000))
    play.do("time +1s")

    assert moving(play) == [0]
