"""When does a move give up that has not begun?"""

from __future__ import annotations

import json

from tests.unit.core.test_move_queue import LEGACY, ONE, PART, THREE, arrive, moving, waiting
from tests.unit.traps.play import Play, some

MINUTE = "set moves_give_up_s=60"
STATUS = "/admin/reassign_partitions_status/{}"


def hurried(*more: str, limit: str = ONE, topic: str = THREE) -> Play:
    """One move copies at a time, and the others wait for a minute."""
    return Play(limit, MINUTE, "brokers 1,2,3,4,5", topic, "elect", *more)


def outcomes(play: Play, request: int = 1) -> dict[int, str | None]:
    """What became of a request's partitions."""
    status = json.loads(play.data(STATUS.format(request)) or "{}")
    return {p["partition"]: p.get("outcome") for topic in status["topics"] for p in topic["partitions"]}


def test_a_move_that_has_not_begun_in_time_is_dropped_by_name_and_the_status_says_so() -> None:
    play = hurried("ask reassign orders-0 to=3,2 orders-1 to=4,2", "time +59s")
    assert waiting(play) == {1: [4, 2]}

    lines = play.do("time +2s")

    assert some(lines, "notice (move gave up)", "orders-1 gives up waiting to move to [4, 2]", "1 of 1 moves are in")
    assert play.data(PART) is None
    arrive(play, 0, "1,2,3")
    assert moving(play) == []
    assert outcomes(play) == {0: "completed", 1: "gave up"}


def test_what_begins_in_time_does_not_give_up() -> None:
    play = hurried("ask reassign orders-0 to=3,2 orders-1 to=4,2", "time +30s")
    arrive(play, 0, "1,2,3")

    play.do("time +100s")

    assert moving(play) == [1]


def test_many_that_give_up_together_are_said_once_for_each_topic() -> None:
    play = hurried("ask reassign orders-0 to=3,2 orders-1 to=4,2 orders-2 to=5,2")

    assert len(some(play.do("time +61s"), "notice (move gave up)", "(and 1 more of its topic)")) == 1
    assert waiting(play) == {}


def test_each_move_waits_from_when_it_was_accepted() -> None:
    play = hurried("ask reassign orders-0 to=3,2 orders-1 to=4,2", "time +30s", "ask reassign orders-2 to=5,2")

    play.do("time +31s")
    assert waiting(play) == {2: [5, 2]}
    play.do("time +30s")
    assert waiting(play) == {}


def test_a_move_that_waits_for_a_broker_that_has_vanished_gives_up() -> None:
    play = hurried("ask reassign orders-0 to=3,2 orders-1 to=4,2", "broker 4 dies")
    arrive(play, 0, "1,2,3")

    assert some(play.do("time +61s"), "orders-1 gives up", "broker 4 is not alive")
    play.do("broker 4 returns", "time +60s")
    assert moving(play) == []


def test_a_successor_counts_from_when_the_move_was_accepted() -> None:
    play = hurried("ask reassign orders-0 to=3,2 orders-1 to=4,2", "time +40s", "elect", "time +10s")
    assert waiting(play) == {1: [4, 2]}

    play.do("time +11s")

    assert waiting(play) == {}
    arrive(play, 0, "1,2,3")
    assert outcomes(play) == {0: "completed", 1: "gave up"}


def test_a_move_that_was_accepted_before_the_setting_waits_from_when_it_was_set() -> None:
    play = Play(ONE, "brokers 1,2,3,4,5", THREE, "elect", "ask reassign orders-0 to=3,2 orders-1 to=4,2", "time +200s")

    play.do("adjust moves_give_up_s=60", "time +59s")
    assert waiting(play) == {1: [4, 2]}
    play.do("time +2s")
    assert waiting(play) == {}


def test_a_longer_time_and_none_at_all_count_at_once() -> None:
    play = hurried("ask reassign orders-0 to=3,2 orders-1 to=4,2 orders-2 to=5,2", "time +50s")

    play.do("adjust moves_give_up_s=100", "time +40s", "adjust moves_give_up_s=null", "time +500s")
    assert waiting(play) == {1: [4, 2], 2: [5, 2]}
    play.do("adjust moves_give_up_s=1", "time +1s")
    assert waiting(play) == {}


def test_what_a_znode_asks_for_does_not_give_up() -> None:
    play = hurried("legacy orders-0=3,2 orders-1=4,2", "time +500s")

    assert '"replicas": [4, 2]' in (play.data(LEGACY) or "")
    arrive(play, 0, "1,2,3")
    assert moving(play) == [1]


def test_a_partition_whose_move_gave_up_can_be_moved_again_cancelled_and_superseded() -> None:
    play = hurried("ask reassign orders-0 to=3,2 orders-1 to=4,2", "time +61s")

    play.do("ask reassign orders-1 to=5,2", "ask reassign orders-1 to=4,2", "ask cancel orders-1")

    assert outcomes(play, 2) == {1: "superseded"}
    assert outcomes(play, 3) == {1: "cancelled"}


def test_the_topic_may_grow_and_be_deleted_and_made_again_while_its_moves_wait() -> None:
    play = hurried("ask reassign orders-0 to=3,2 orders-1 to=4,2", "ask grow orders partitions=4", "time +30s")
    play.do("delete topic orders", "time +10s", "create topic orders 0=1,2 1=1,2", "time +1s")

    lines = play.do("ask reassign orders-0 to=3,2 orders-1 to=4,2", "time +50s")
    assert not some(lines, "gives up")

    assert some(play.do("time +11s"), "orders-1 gives up")


def test_a_move_whose_end_could_not_be_written_gives_up_later_or_is_what_it_became_meanwhile() -> None:
    play = hurried("ask reassign orders-0 to=3,2 orders-1 to=4,2", f"refuse {PART}", "time +70s")
    assert waiting(play) == {1: [4, 2]}

    play.do(f"allow {PART}", "time +60s")

    assert waiting(play) == {}
    arrive(play, 0, "1,2,3")
    assert outcomes(play) == {0: "completed", 1: "gave up"}


def test_what_is_not_recorded_is_counted_from_the_beginning_of_the_term() -> None:
    play = Play(ONE, "brokers 1,2,3,4,5", THREE, "elect", "ask reassign orders-0 to=3,2 orders-1 to=4,2", "time +200s")

    play.do(MINUTE, "elect", "time +59s")
    assert waiting(play) == {1: [4, 2]}

    play.do("time +2s")
    assert waiting(play) == {}


def test_the_time_that_a_request_gives_counts_for_its_own_moves_whatever_the_setting_says() -> None:
    play = hurried("ask reassign give_up_ms=10000 orders-0 to=3,2 orders-1 to=4,2", "ask reassign orders-2 to=5,2")

    lines = play.do("time +11s")

    assert some(lines, "notice (move gave up)", "orders-1 gives up", "after the 10 s that its request gave it")
    assert waiting(play) == {2: [5, 2]}
    play.do("time +50s")
    assert waiting(play) == {}


def test_a_request_gives_its_moves_more_time_than_the_setting_or_all_the_time_there_is() -> None:
    play = hurried("ask reassign give_up_ms=100000 orders-0 to=3,2 orders-1 to=4,2")
    play.do("ask reassign give_up_ms=0 orders-2 to=5,2", "time +61s")
    assert waiting(play) == {1: [4, 2], 2: [5, 2]}

    play.do("time +40s", "adjust moves_give_up_s=1", "time +500s")

    assert waiting(play) == {2: [5, 2]}


def test_the_time_of_a_request_counts_where_there_is_no_setting_and_for_a_successor() -> None:
    play = Play(ONE, "brokers 1,2,3,4,5", THREE, "elect")
    play.do("ask reassign give_up_ms=60000 orders-0 to=3,2 orders-1 to=4,2", "ask reassign orders-2 to=5,2")
    play.do("time +40s", "elect", "time +10s")
    assert waiting(play) == {1: [4, 2], 2: [5, 2]}

    assert some(play.do("time +11s"), "orders-1 gives up", "after the 60 s that its request gave it")

    assert waiting(play) == {2: [5, 2]}
    assert json.loads(play.data(STATUS.format(1)) or "{}")["give_up_ms"] == 60_000
    assert "give_up_ms" not in json.loads(play.data(STATUS.format(2)) or "{}")


def test_who_asks_again_may_give_another_time_which_counts_from_then_on_and_keeps_the_place() -> None:
    play = hurried("ask reassign orders-0 to=3,2 orders-1 to=4,2 orders-2 to=5,2", "time +40s")

    lines = play.do("ask reassign give_up_ms=30000 orders-1 to=4,2", "ask reassign orders-2 to=5,2", "time +21s")

    assert some(lines, "orders-1 was asked again to move to [4, 2]: it waits on, as the later request says")
    assert waiting(play) == {1: [4, 2]}
    play.do("ask reassign orders-1 to=4,2", "time +5s")
    assert waiting(play) == {1: [4, 2]}
    play.do("time +5s")
    assert waiting(play) == {}


def test_what_a_request_is_followed_with_has_the_time_of_its_own_successor() -> None:
    play = hurried("ask reassign give_up_ms=10000 orders-0 to=3,2 orders-1 to=4,2", "ask reassign orders-1 to=5,2")

    play.do("time +59s")
    assert waiting(play) == {1: [5, 2]}


def test_a_request_whose_time_is_negative_is_refused() -> None:
    play = hurried()

    lines = play.do("ask reassign give_up_ms=-1 orders-0 to=3,2")

    assert some(lines, "answer INVALID_REQUEST", "moves cannot give up after -1 ms")
    assert moving(play) == []
