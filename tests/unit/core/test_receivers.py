"""Does a move wait until each broker that would receive has been registered for long enough?"""

from __future__ import annotations

import pytest

from tests.unit.core.test_move_queue import FOLDER, LEGACY, moving, waiting
from tests.unit.traps.play import Play, some

HALF_A_MINUTE = "set moves_need_receivers_s=30"


def settled(*more: str, topic: str = "topic orders 0=1,2 1=1,2", after: str = "time +31s") -> Play:
    """A controller that lets moves begin only to brokers that have been registered for half a minute, as these have."""
    return Play(HALF_A_MINUTE, "brokers 1,2,3,4,5", topic, "elect", after, *more)


def held_up(play: Play) -> tuple[str, ...]:
    assert play.theatre.machine is not None
    return play.theatre.machine.held_up()


def test_moves_begin_at_once_to_brokers_that_have_been_there_for_long() -> None:
    play = settled("ask reassign orders-0 to=3,2 orders-1 to=4,3,2")

    assert (moving(play), waiting(play)) == ([0, 1], {})
    assert held_up(play) == ()


def test_a_move_begins_when_the_broker_has_been_registered_for_long_enough_and_not_before() -> None:
    play = settled("broker 3 dies", "time +60s", "broker 3 returns", "time +5s")

    lines = play.do("ask reassign orders-0 to=3,2 orders-1 to=4,2")

    assert some(lines, "answer orders-0 NONE")
    assert some(lines, "orders-0 waits to move to [3, 2]: broker 3 has been registered for less than 30 s")
    assert (moving(play), waiting(play)) == ([1], {0: [3, 2]})
    assert play.figures()["waiting_moves_receivers"] == 1
    play.do("time +24s")
    assert moving(play) == [1]
    play.do("time +2s")
    assert (moving(play), waiting(play)) == ([0, 1], {})
    assert play.figures()["waiting_moves_receivers"] == 0


def test_a_broker_that_flaps_begins_anew_each_time() -> None:
    play = settled("broker 3 dies", "time +5s", "broker 3 returns", "ask reassign orders-0 to=3,2")

    for _ in range(3):
        play.do("time +20s", "broker 3 dies", "time +2s")
        assert play.figures()["waiting_moves_absent"] == 1
        play.do("broker 3 returns", "time +1s")
        assert play.figures()["waiting_moves_receivers"] == 1
    play.do("time +25s")
    assert moving(play) == []

    play.do("time +6s")
    assert moving(play) == [0]


def test_a_broker_that_restarts_before_its_absence_is_seen_begins_anew() -> None:
    play = settled("broker 3 bounces", "time +1s", "ask reassign orders-0 to=3,2", "time +28s")
    assert moving(play) == []

    play.do("time +2s")

    assert moving(play) == [0]


def test_each_of_several_receivers_is_waited_for() -> None:
    play = settled("broker 3 bounces", "time +10s", "broker 4 bounces", "time +1s")
    play.do("ask reassign orders-0 to=3,4", "time +22s")
    assert moving(play) == []

    assert some(play.do("ask reassign orders-1 to=3,4"), "broker 4 has been registered for less than 30 s")
    play.do("time +8s")

    assert moving(play) == [0, 1]


def test_only_what_copies_to_it_waits() -> None:
    """A broker that has a replica already, and one that leads, receive nothing; nor does a reordering copy."""
    play = settled("broker 2 bounces", "broker 1 bounces", "time +1s", "isr orders-0 1,2", "isr orders-1 1,2")

    play.do("ask reassign orders-0 to=3,2 orders-1 to=2,1", "time +1s")

    assert (moving(play), waiting(play)) == ([0], {})


def test_what_is_under_way_goes_on_and_may_be_redirected_and_cancelled() -> None:
    play = settled("ask reassign orders-0 to=3,2 orders-1 to=3,2", "broker 4 bounces", "time +1s")

    play.do("ask reassign orders-0 to=4,2", "ask cancel orders-1")

    assert (moving(play), waiting(play)) == ([0], {})


def test_a_move_that_cures_its_partition_waits_too() -> None:
    play = settled("adjust moves_need_min_isr=true", "config <default> min.insync.replicas=2", "isr orders-0 1")

    play.do("broker 3 bounces", "time +1s", "ask reassign orders-0 to=1,3")
    assert moving(play) == []
    play.do("time +31s")

    assert moving(play) == [0]


def test_a_new_leader_counts_from_the_beginning_of_its_term() -> None:
    play = settled("broker 3 bounces", "time +20s", "ask reassign orders-0 to=3,2", "elect 101", "time +20s")
    assert moving(play) == []

    play.do("time +11s")

    assert moving(play) == [0]


# ---- what is said ---------------------------------------------------------------------------------------------


def test_status_pages_name_the_brokers_whether_or_not_anything_waits() -> None:
    play = settled("broker 3 bounces", "time +1s")
    (sentence,) = held_up(play)
    assert sentence == "no move begins that copies to broker 3, which has been registered for less than 30 s"

    play.do("broker 5 bounces", "time +1s")
    assert "to brokers 3, 5, which have been registered for less than 30 s" in str(held_up(play))
    play.do("elect 101", "time +1s")
    assert "brokers 1, 2, 3, 4, 5, which" in str(held_up(play))

    play.do("time +30s")
    assert held_up(play) == ()


def test_of_many_brokers_some_are_named() -> None:
    play = Play("set moves_need_receivers_s=0.5", "brokers 1,2,3,4,5,6,7", "topic orders 0=1,2", "elect")

    assert "to brokers 1, 2, 3, 4, 5 and 2 more, which" in str(held_up(play))


# ---- changed at run time --------------------------------------------------------------------------------------


def test_another_time_counts_at_once_also_for_brokers_that_are_there() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2 1=1,2", "elect", "time +10s", "broker 3 bounces", "time +10s")

    play.do("adjust moves_need_receivers_s=15", "ask reassign orders-0 to=3,2")
    assert moving(play) == []
    play.do("adjust moves_need_receivers_s=60", "time +20s")
    assert moving(play) == []
    play.do("adjust moves_need_receivers_s=31", "time +2s")
    assert moving(play) == [0]

    play.do("adjust moves_need_receivers_s=600", "ask reassign orders-1 to=3,2")
    assert (moving(play), waiting(play)) == ([0], {1: [3, 2]})
    play.do("adjust moves_need_receivers_s=0", "time +1s")
    assert (moving(play), waiting(play)) == ([0, 1], {})


# ---- other doors ----------------------------------------------------------------------------------------------


def test_an_entry_of_the_legacy_znode_waits_there() -> None:
    play = settled("broker 3 bounces", "time +1s")
    entry = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2]}]}'

    play.do(f"znode {LEGACY} {entry}", "time +1s")
    assert (moving(play), play.data(LEGACY)) == ([], entry)

    play.do("time +30s")
    assert moving(play) == [0]


def test_a_child_of_the_folder_waits_there() -> None:
    play = settled("set keeps_reassignment_znodes=true", "elect 101", "time +1s")

    play.do(f'znode {FOLDER}/orders-0 {{"version":1,"assignment":[3,2]}}', "time +1s")
    assert moving(play) == []

    play.do("time +30s")
    assert moving(play) == [0]


@pytest.mark.parametrize("limit", ['moves_order=["round-robin"]', "moves_at_once=1", "moves_into_broker=1"])
def test_one_that_waits_keeps_no_room_from_others(limit: str) -> None:
    play = settled("broker 3 bounces", f"adjust {limit}", "time +1s")

    play.do("ask reassign orders-0 to=3,2", "ask reassign orders-1 to=4,2", "time +1s")

    assert moving(play) == [1]
