"""What does the audit trail tell of a term: who leads, what moves, what becomes of topics?"""

from __future__ import annotations

from controller.core.messages.effects import Record, Recorded
from controller.core.messages.outbox import MOST_LINES, Outbox
from tests.unit.traps.play import Play


def cluster(*more: str) -> Play:
    return Play("brokers 1,2,3", "topic orders 0=1,2 1=2,1", *more, "elect")


def recorded(play: Play) -> list[tuple[str, str]]:
    return [(str(each.record), line) for each in play.theatre.recorded for line in each.lines]


def figure(play: Play, measure: str) -> float:
    return sum(each.value for each in play.theatre.measured if each.measure == measure)


def test_a_move_from_its_beginning_to_its_end() -> None:
    play = cluster()

    play.do("ask reassign orders-0 to=3,2", "isr orders-0 1,2,3", "time +1s")

    moves = [line for record, line in recorded(play) if record == Record.MOVE]
    assert moves[0] == "asked to move orders-0 to [3, 2]"
    assert moves[-1] == "orders-0 has moved to [3, 2]"


def test_elections_but_no_first_leader_and_no_smaller_isr() -> None:
    play = cluster()
    assert recorded(play) == []

    play.do("broker 1 dies")

    assert recorded(play) == [("election", "leader 1 of orders-0 is offline; 2 is the first online in-sync replica")]


def test_leaders_from_outside_the_isr_are_counted_and_others_are_not() -> None:
    play = Play("set unclean_election=true", "brokers 1,2,3", "topic orders 0=1,2,3", "state orders-0 leader=1 isr=1,2")
    play.do("elect")

    play.do("broker 1 dies")
    assert figure(play, "unclean_elections") == 0

    play.do("broker 2 dies")
    assert figure(play, "unclean_elections") == 1

    play.do("broker 3 dies")
    assert figure(play, "unclean_elections") == 0  # no one leads


def test_topics_are_created_grow_and_are_deleted() -> None:
    play = cluster()

    play.do("ask create new partitions=2 replicas=2", "ask grow new partitions=3", "ask delete new", "time +1s")

    assert recorded(play) == [
        ("topic", "asked to create topic new: 2 partitions of 2 replicas"),
        ("topic", "asked to give topic new 1 more: 3 partitions"),
        ("topic", "asked to delete topic new"),
        ("topic", "topic new is deleted: no broker has a replica of it any more"),
    ]


def test_nothing_is_recorded_that_zookeeper_has_not_accepted() -> None:
    play = cluster()

    play.do("hold reply", "ask reassign orders-0 to=3,2")
    assert recorded(play) == []

    play.do("reply")
    assert recorded(play)[0] == ("move", "asked to move orders-0 to [3, 2]")


def test_of_very_many_in_a_turn_the_first_are_shown_and_all_are_counted() -> None:
    out = Outbox(0.0, {})
    for number in range(1000):
        out.record(Record.ELECTION, f"election {number}")

    (effect,) = out.close()

    assert isinstance(effect, Recorded)
    assert (effect.record, len(effect.lines), effect.count) == (Record.ELECTION, MOST_LINES, 1000)
