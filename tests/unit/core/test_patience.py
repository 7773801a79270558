"""Is room kept for a move that was passed over too often, and given up when the move waits no longer?"""

from __future__ import annotations

import pytest

from tests.unit.core.test_move_queue import arrive, assignment, limited, moving, waiting
from tests.unit.traps.play import Play

WIDE = "topic orders " + " ".join(f"{n}=1,2" for n in range(60))
TARGETS = ("3,2", "4,2")


def contended() -> Play:
    """Broker 3 and broker 4 each receive one move, and `orders-2` needs both."""
    play = limited(limit="set moves_into_broker=1", topic=WIDE)
    play.do("ask reassign orders-0 to=3,2", "ask reassign orders-1 to=4,2", "ask reassign orders-2 to=3,4")
    return play


def next_round(play: Play, number: int) -> None:
    """Another move is asked for that needs one of the two brokers; the one that has moved longest arrives."""
    play.do(f"ask reassign orders-{number} to={TARGETS[number % 2 == 0]}")
    arrived = next(n for n in moving(play) if n != 2)
    arrive(play, arrived, "1,2,4" if (arrived > 1 and arrived % 2 == 0) or arrived == 1 else "1,2,3")


def rounds_until_room_is_kept(play: Play) -> int:
    """Let others pass `orders-2` until one of its two places is kept; the number of the next partition."""
    for number in range(3, 50):
        next_round(play, number)
        if len(moving(play)) < 2:
            return number + 1
    pytest.fail("no room was ever kept")


def test_a_move_of_two_places_begins_though_others_always_want_one_of_them() -> None:
    play = contended()

    number = rounds_until_room_is_kept(play)
    assert 2 not in moving(play)
    next_round(play, number)

    assert 2 in moving(play)
    assert 2 not in waiting(play)


def test_room_is_kept_no_longer_once_the_move_is_cancelled() -> None:
    play = contended()
    rounds_until_room_is_kept(play)

    play.do("ask cancel orders-2", "time +1s")

    assert len(moving(play)) == 2


def test_room_is_kept_no_longer_once_a_broker_dies_that_the_move_needs() -> None:
    play = contended()
    rounds_until_room_is_kept(play)
    (other,) = moving(play)
    idle, needed = (3, 4) if assignment_of(play, other) == 4 else (4, 3)

    play.do(f"broker {needed} dies", "time +1s")

    assert any(assignment_of(play, n) == idle for n in moving(play))


def assignment_of(play: Play, number: int) -> int:
    """The broker that receives a partition."""
    return assignment(play, number).adding[0]
