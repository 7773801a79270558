"""When many moves of a topic end at about the same time, how often is its znode written?"""

from __future__ import annotations

from controller.core.reassignment.removal import GATHER_S, WORTH_GATHERING
from tests.unit.traps.play import Play, some


def wide(count: int) -> Play:
    """A topic all of whose partitions move to where all but the ISR is ready."""
    numbers = range(count)
    play = Play("brokers 1,2,3", "topic wide " + " ".join(f"{n}=1,2" for n in numbers), "elect")
    play.do("ask reassign " + " ".join(f"wide-{n} to=1,3" for n in numbers))
    return play


def moved(lines: list[str]) -> list[str]:
    return some(lines, "has moved to [1, 3]")


def test_ends_of_a_topic_are_gathered_into_one_write_but_deletions_are_asked_for_at_once() -> None:
    play = wide(WORTH_GATHERING + 2)
    lines = play.do(*(f"isr wide-{n} 1,2,3" for n in range(6)))
    assert moved(lines) == []
    assert len(some(lines, "tell 2  StopReplica", "delete")) == 6

    lines = play.do(f"time +{GATHER_S}s")

    assert len(moved(lines)) == 6
    assert len(some(lines, "set /brokers/topics/wide v")) == 1


def test_when_all_are_at_their_end_nothing_more_is_waited_for() -> None:
    count = WORTH_GATHERING + 2
    play = wide(count)

    lines = play.do(*(f"isr wide-{n} 1,2,3" for n in range(count)))

    assert len(moved(lines)) == count
    assert len(some(lines, "set /brokers/topics/wide v")) == 1


def test_the_last_ends_of_many_wait_for_each_other_too() -> None:
    count = WORTH_GATHERING + 2
    play = wide(count)
    play.do(*(f"isr wide-{n} 1,2,3" for n in range(count - 3)), f"time +{GATHER_S}s")

    assert moved(play.do(f"isr wide-{count - 3} 1,2,3", f"isr wide-{count - 2} 1,2,3")) == []
    lines = play.do(f"isr wide-{count - 1} 1,2,3")

    assert len(moved(lines)) == 3
    assert len(some(lines, "set /brokers/topics/wide v")) == 1


def test_afterwards_single_moves_of_the_topic_end_at_once() -> None:
    count = WORTH_GATHERING + 2
    play = wide(count)
    play.do(*(f"isr wide-{n} 1,2,3" for n in range(count)))
    play.do("ask reassign wide-0 to=1,2 wide-1 to=1,2")

    lines = play.do("isr wide-0 1,3,2")

    assert some(lines, "wide-0 has moved to [1, 2]")


def test_a_move_that_waits_for_a_second_deletion_does_not_end_with_the_first() -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "elect", "broker 2 hangs", "ask reassign orders-0 to=3,4")
    lines = play.do("isr orders-0 1,2,3,4")
    assert some(lines, "tell 1,2  StopReplica orders-0", "delete")
    assert not some(lines, "has moved to")

    assert some(play.do("broker 2 goes-on", "broker 2 bounces"), "orders-0 has moved to [3, 4]")


def test_without_a_broker_to_wait_for_the_first_end_is_written_and_those_that_follow_are_gathered() -> None:
    play = wide(WORTH_GATHERING + 2)
    play.do("broker 2 dies")
    assert len(moved(play.do("isr wide-0 1,3"))) == 1

    assert moved(play.do(*(f"isr wide-{n} 1,3" for n in range(1, 6)))) == []
    lines = play.do(f"time +{GATHER_S}s")

    assert len(moved(lines)) == 5
    assert len(some(lines, "set /brokers/topics/wide v")) == 1


def test_few_moves_do_not_wait_for_each_other() -> None:
    play = wide(2)

    assert len(moved(play.do("isr wide-0 1,2,3"))) == 1
    assert len(moved(play.do("isr wide-1 1,2,3"))) == 1


def test_the_end_of_a_move_that_is_redirected_meanwhile_is_not_written() -> None:
    play = wide(WORTH_GATHERING + 2)
    play.do("isr wide-0 1,2,3", "isr wide-1 1,2,3")
    assert some(play.do("ask reassign wide-1 to=1,2"), "answer wide-1 NONE")

    assert not some(play.do(f"time +{GATHER_S}s"), "wide-1 has moved to")


def test_who_has_confirmed_its_deletion_once_is_asked_again_after_a_later_move() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "ask reassign orders-0 to=2,3", "isr orders-0 1,2,3")
    assert some(play.do("ask reassign orders-0 to=2,1", "isr orders-0 2,3,1"), "tell 3  StopReplica", "delete")

    lines = play.do("ask reassign orders-0 to=2,3", "isr orders-0 2,1,3")

    assert some(lines, "tell 1  StopReplica orders-0", "delete")


def test_who_is_let_go_does_not_join_the_isr_again() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "broker 1 hangs", "ask reassign orders-0 to=2,3")
    assert some(play.do("isr orders-0 1,2,3"), "target [2, 3] of orders-0 in sync")

    assert some(play.do("isr orders-0 2,3,1"), "answer orders-0 NONE leader=2 isr=[2, 3]")
