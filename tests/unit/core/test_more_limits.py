"""What begins where a rack, the changes of a second, or the znode of a topic limit moves?"""

from __future__ import annotations

import pytest

from tests.unit.core.test_move_queue import FOLDER, KEPT, LEGACY, THREE, arrive, assignment, moving, waiting
from tests.unit.traps.play import Play, some

RACK = "set moves_into_rack=1"
CHANGES = "set changes_a_second=2"
ZNODES = "set moves_wait_for_znodes=true znode_size_limit=850"
EAST = "brokers 1,2 rack=east"
WEST = "brokers 3,4,5 rack=west"
MANY = "topic orders " + " ".join(f"{n}=1,2" for n in range(20))
ALL = " ".join(f"orders-{n} to=3,4" for n in range(20))


# ---- racks ----------------------------------------------------------------------------------------------------


def racked(*more: str, limit: str = RACK) -> Play:
    """Two racks of which one may receive so many moves."""
    return Play(limit, EAST, WEST, "brokers 6", THREE, "elect", *more)


def test_the_brokers_of_a_rack_receive_no_more_than_its_limit_together() -> None:
    play = racked()

    lines = play.do("ask reassign orders-0 to=3,2 orders-1 to=4,2 orders-2 to=6,2")

    assert some(lines, "orders-1 waits to move to [4, 2]: 1 of 1 moves into rack west are in flight")
    assert (moving(play), waiting(play)) == ([0, 2], {1: [4, 2]})
    assert play.figures()["waiting_moves_rack"] == 1
    assert some(arrive(play, 0, "1,2,3"), "asked to move orders-1 to [4, 2]; it has waited")


def test_a_move_with_two_replicas_in_one_rack_takes_one_place_there() -> None:
    play = racked("ask reassign orders-0 to=3,4")
    assert moving(play) == [0]

    play.do("ask reassign orders-1 to=5,2", "isr orders-0 1,2,3")
    assert moving(play) == [0], "another replica still copies to this rack"
    assert play.figures()["waiting_moves_rack"] == 1
    arrive(play, 0, "1,2,3,4")
    assert moving(play) == [1]


def test_a_broker_that_dies_during_a_move_stays_in_its_rack() -> None:
    play = racked("ask reassign orders-0 to=3,2", "ask reassign orders-1 to=4,2", "broker 3 dies", "time +30s")
    assert moving(play) == [0]

    play.do("ask cancel orders-0", "time +30s")

    assert moving(play) == [1]


def test_a_broker_that_returns_in_another_rack_takes_room_there_from_then_on() -> None:
    play = racked("ask reassign orders-0 to=3,2", "ask reassign orders-1 to=4,2")

    play.do("broker 3 dies", "brokers 3 rack=south", "time +30s")
    assert moving(play) == [0, 1]

    play.do("brokers 7 rack=south", "ask reassign orders-2 to=7,2")
    assert waiting(play) == {2: [7, 2]}


def test_a_move_goes_on_waiting_for_a_broker_that_vanishes_and_lets_others_go_first() -> None:
    play = racked("ask reassign orders-0 to=3,2", "ask reassign orders-1 to=4,2", "ask reassign orders-2 to=5,2")

    play.do("broker 4 dies")
    arrive(play, 0, "1,2,3")
    assert (moving(play), waiting(play)) == ([2], {1: [4, 2]})
    play.do("broker 4 returns")
    arrive(play, 2, "1,2,5")

    assert moving(play) == [1]


def test_a_successor_knows_the_racks_and_counts_what_is_in_flight() -> None:
    play = racked("ask reassign orders-0 to=3,2", "ask reassign orders-1 to=4,2")

    play.do("elect", "time +1s")

    assert (moving(play), waiting(play)) == ([0], {1: [4, 2]})
    arrive(play, 0, "1,2,3")
    assert moving(play) == [1]


def test_a_limit_of_racks_that_is_set_or_raised_while_moves_wait_counts_at_once() -> None:
    play = racked("ask reassign orders-0 to=3,2", limit="set unclean_election=false")
    play.do("adjust moves_into_rack=1", "ask reassign orders-1 to=4,2", "ask reassign orders-2 to=5,2")
    assert moving(play) == [0]

    play.do("adjust moves_into_rack=2")

    assert moving(play) == [0, 1]


# ---- changes that copy nothing ----------------------------------------------------------------------------------


def paced(*more: str, topic: str = "topic orders 0=1,2 1=1,2 2=1,2 3=1,2 4=1,2") -> Play:
    """A controller that begins two moves a second that copy nothing."""
    return Play(CHANGES, "brokers 1,2,3", topic, "elect", *more)


def reordered(play: Play) -> list[int]:
    """The partitions that prefer broker 2."""
    return [n for n in range(5) if assignment(play, n).target[0] == 2]


FIVE = " ".join(f"orders-{n} to=2,1" for n in range(5))


def test_no_more_moves_that_copy_nothing_begin_in_a_second_than_allowed() -> None:
    play = paced()

    lines = play.do(f"ask reassign {FIVE}")

    assert some(lines, "orders-2 waits to move to [2, 1]: no more changes are allowed in this second")
    assert len(some(lines, "answer orders-", "NONE")) == 5
    assert (reordered(play), waiting(play)) == ([0, 1], {2: [2, 1], 3: [2, 1], 4: [2, 1]})
    assert play.figures()["waiting_moves_changes"] == 3
    play.do("time +1.1s")
    assert reordered(play) == [0, 1, 2, 3]
    play.do("time +1.1s")
    assert (reordered(play), waiting(play)) == ([0, 1, 2, 3, 4], {})


def test_a_move_that_removes_replicas_counts_too_and_one_that_copies_does_not() -> None:
    play = paced()

    play.do("ask reassign orders-0 to=1 orders-1 to=2 orders-2 to=1 orders-3 to=3,2")

    assert moving(play) == [3]
    assert waiting(play) == {2: [1]}
    play.do("time +2s")
    assert assignment(play, 2).target == (1,)


def test_what_copies_nothing_waits_for_no_room_and_takes_none() -> None:
    play = paced("adjust moves_at_once=1", "ask reassign orders-0 to=3,2 orders-1 to=3,2")

    play.do("ask reassign orders-2 to=2,1 orders-3 to=2,1 orders-4 to=2,1", "time +2s")

    assert (moving(play), reordered(play), waiting(play)) == ([0], [2, 3, 4], {1: [3, 2]})


@pytest.mark.parametrize("order", ["[]", '["round-robin"]'])
def test_a_busy_queue_of_moves_that_copy_is_not_held_up_by_those_that_do_not(order: str) -> None:
    play = paced(f"adjust moves_at_once=1 moves_order={order}", "ask reassign orders-3 to=3,2 orders-4 to=3,2")
    play.do("ask reassign orders-0 to=2,1 orders-1 to=2,1 orders-2 to=2,1")
    assert waiting(play) == {2: [2, 1], 4: [3, 2]}

    play.do("isr orders-3 1,2,3")

    assert moving(play) == [4]


def test_a_cancellation_and_what_a_move_in_flight_is_turned_into_do_not_wait() -> None:
    play = paced("ask reassign orders-3 to=3,2 orders-4 to=3,2", "ask reassign orders-0 to=2,1 orders-1 to=2,1")

    play.do("ask cancel orders-3", "ask reassign orders-4 to=2,1")

    assert moving(play) == []
    assert waiting(play) == {}


def test_the_waiting_change_can_be_cancelled_and_superseded() -> None:
    play = paced(f"ask reassign {FIVE}")

    assert some(play.do("ask cancel orders-3"), "answer orders-3 NONE")
    play.do("ask reassign orders-4 to=3,2")

    assert (moving(play), waiting(play)) == ([4], {2: [2, 1]})


@pytest.mark.parametrize("door", ["legacy", "child"])
def test_changes_that_znodes_ask_for_wait_there(door: str) -> None:
    folder = (KEPT, f"znode {FOLDER}") if door == "child" else ()
    play = Play(CHANGES, *folder, "brokers 1,2,3", "topic orders 0=1,2 1=1,2 2=1,2", "elect", "time +2s")
    if door == "legacy":
        play.do("legacy orders-0=2,1 orders-1=2,1 orders-2=2,1")
    else:
        play.do(*(f'znode {FOLDER}/orders-{n} {{"version":1,"assignment":[2,1]}}' for n in range(3)))
    assert len([n for n in range(3) if assignment(play, n).target == (2, 1)]) == 2

    play.do("time +3s")

    assert assignment(play, 2).target == (2, 1)
    assert play.data(LEGACY) is None


def test_another_rate_counts_at_once_and_without_one_all_begin() -> None:
    play = paced(f"ask reassign {FIVE}")

    play.do("adjust changes_a_second=1")
    assert reordered(play) == [0, 1, 2]
    play.do("adjust changes_a_second=null")
    assert reordered(play) == [0, 1, 2, 3, 4]


def test_waiting_changes_of_a_deleted_topic_are_forgotten() -> None:
    play = paced(f"ask reassign {FIVE}")

    play.do("delete topic orders", "time +30s")

    assert play.figures()["waiting_moves_changes"] == 0
    assert play.data("/kafka_zk_controller/waiting_moves/orders-0") is None


# ---- the znode of the topic -------------------------------------------------------------------------------------


def tight(*more: str, limit: str = ZNODES) -> Play:
    """A topic whose znode cannot hold the moves of all its partitions at once."""
    return Play(limit, "brokers 1,2,3,4,5", MANY, "elect", *more)


def finish(play: Play) -> int:
    """Let all moves end, those in flight together; returns in how many rounds."""
    rounds = 0
    while now := moving(play):
        play.do(*(f"isr orders-{n} 1,2,3,4" for n in now), "time +20s")
        rounds += 1
    return rounds


def test_without_the_setting_a_request_that_does_not_fit_is_refused() -> None:
    play = tight(limit="set znode_size_limit=850")

    assert some(play.do(f"ask reassign {ALL}"), "answer orders-0", "above ZooKeeper's limit")


def test_moves_for_which_the_topics_znode_has_no_room_wait_for_others_of_the_topic() -> None:
    play = tight()

    lines = play.do(f"ask reassign {ALL}")

    assert len(some(lines, "answer orders-", "NONE")) == 20
    assert 2 < len(moving(play)) < 20
    assert some(lines, "orders-19 waits", f"the znode of topic orders has room for {len(moving(play))} moves at once")
    assert play.figures()["waiting_moves_znode"] == 20 - len(moving(play))
    assert len(play.data("/brokers/topics/orders") or b"") <= 680
    assert finish(play) < 10
    assert all(assignment(play, n).replicas == (3, 4) for n in range(20))


def test_each_move_that_ends_lets_another_one_of_the_topic_begin() -> None:
    play = tight(f"ask reassign {ALL}")
    before = moving(play)

    arrive(play, before[0], "1,2,3,4")
    play.do("time +20s")

    assert len(moving(play)) == len(before)


def test_where_small_moves_follow_large_ones_more_of_them_begin_at_once() -> None:
    some_of_them = "topic orders " + " ".join(f"{n}=1,2" for n in range(14))
    play = Play("set moves_wait_for_znodes=true znode_size_limit=560", "brokers 1,2,3,4,5", some_of_them, "elect")
    play.do("ask reassign " + " ".join(f"orders-{n} to=3,4,5" for n in range(4)))
    play.do("ask reassign " + " ".join(f"orders-{n} to=1,2,3" for n in range(4, 10)))
    assert {*range(4)} > {*moving(play)}

    most = 0
    while moving(play):
        play.do(*(f"isr orders-{n} 1,2,3{',4,5' if n < 4 else ''}" for n in moving(play)), "time +20s")
        most = max(most, len(moving(play)))

    assert most > 4
    assert waiting(play) == {}


def test_topics_of_which_all_partitions_fit_do_not_wait() -> None:
    play = tight("topic sales 0=1,2 1=1,2", f"ask reassign {ALL}")

    play.do("ask reassign sales-0 to=3,4 sales-1 to=3,4")

    assert assignment(play, 1, "sales").adding == (3, 4)


def test_what_never_fits_is_refused_when_nothing_else_of_the_topic_moves() -> None:
    huge = "topic orders " + " ".join(f"{n}=1,2" for n in range(60))
    play = Play(ZNODES, "brokers 1,2,3,4,5,6,7,8,9,10", huge, "elect")

    lines = play.do("ask reassign orders-0 to=3,4,5,6,7,8,9,10 orders-1 to=3,4,5,6,7,8,9,10")

    assert some(lines, "answer orders-0", "above ZooKeeper's limit")
    assert moving(play) == []


def test_the_topic_is_deleted_while_its_moves_wait() -> None:
    play = tight(f"ask reassign {ALL}")

    play.do("delete topic orders", "time +60s", MANY.replace("topic", "create topic", 1), "time +5s")

    assert moving(play) == []
    assert play.figures()["waiting_moves_znode"] == 0
    play.do("ask reassign orders-0 to=3,4")
    assert moving(play) == [0]


def test_a_successor_waits_for_room_in_the_znode_too() -> None:
    play = tight(f"ask reassign {ALL}")
    before = moving(play)

    play.do("elect", "time +5s")

    assert moving(play)[: len(before)] == before
    assert len(play.data("/brokers/topics/orders") or b"") <= 680
    finish(play)
    assert waiting(play) == {}


def test_the_setting_counts_at_once_also_for_what_is_in_flight() -> None:
    play = tight("ask reassign " + " ".join(f"orders-{n} to=3,4" for n in range(6)), limit="set znode_size_limit=850")

    play.do("adjust moves_wait_for_znodes=true", "ask reassign " + " ".join(f"orders-{n} to=3,4" for n in range(6, 20)))

    assert 6 <= len(moving(play)) < 20
    assert len(moving(play)) + len(waiting(play)) == 20
    play.do("adjust moves_wait_for_znodes=false moves_at_once=8")
    assert len(moving(play)) == max(8, len(moving(play)))


def test_the_rest_of_a_large_topic_waits_for_the_rate_and_for_the_znode() -> None:
    play = tight("adjust changes_a_second=3")

    play.do("ask reassign " + " ".join(f"orders-{n} to=1" for n in range(12)))

    assert len([n for n in range(20) if assignment(play, n).target == (1,)]) == 3
    play.do("time +30s")
    assert all(assignment(play, n).replicas == (1,) for n in range(12))
    assert waiting(play) == {}
