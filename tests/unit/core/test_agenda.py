"""Which topics are due first, and how much of it in one turn?"""

from __future__ import annotations

import pytest

from controller.core.scheduling.agenda import Agenda
from tests.unit.traps.play import Play, some
from zk_layout.ids import PartitionId, TopicName

NO_TOPICS: frozenset[TopicName] = frozenset()
A, B, C = TopicName("a"), TopicName("b"), TopicName("c")


def numbers(*those: int) -> dict[PartitionId, None]:
    return dict.fromkeys(map(PartitionId, those))


def test_a_turn_takes_its_budget_of_partitions_and_leaves_the_rest() -> None:
    agenda = Agenda()
    for topic in (A, B, C):
        agenda.add(topic, numbers(0, 1))

    assert agenda.take(3, NO_TOPICS) == [(A, numbers(0, 1))]
    assert agenda.has_more(NO_TOPICS)
    assert agenda.take(3, NO_TOPICS) == [(B, numbers(0, 1))]
    assert agenda.take(3, NO_TOPICS) == [(C, numbers(0, 1))]
    assert not agenda.has_more(NO_TOPICS)


def test_of_a_topic_larger_than_the_budget_the_rest_stays_due() -> None:
    agenda = Agenda()
    agenda.add(A, numbers(0, 1, 2))

    assert agenda.take(2, NO_TOPICS) == [(A, numbers(0, 1))]
    assert agenda.is_due(A)
    assert agenda.take(2, NO_TOPICS) == [(A, numbers(2))]
    assert not agenda.is_due(A)


def test_parts_of_requests_that_wait_for_a_topic_are_work_too() -> None:
    agenda = Agenda()
    agenda.add(A, is_urgent=True)
    agenda.add(B, is_urgent=True)

    assert agenda.take(3, NO_TOPICS, waiting=lambda _: 2) == [(A, {})]


def test_parts_of_requests_that_fill_a_turn_leave_a_share_of_it_to_partitions_of_their_topic() -> None:
    agenda = Agenda()
    agenda.add(A, numbers(*range(10)))

    assert agenda.take(8, NO_TOPICS, waiting=lambda _: 5) == [(A, numbers(0, 1, 2))]
    assert agenda.take(8, NO_TOPICS, waiting=lambda _: 50) == [(A, numbers(3, 4))]
    assert agenda.take(1, NO_TOPICS, waiting=lambda _: 50) == [(A, numbers(5))]
    assert agenda.is_due(A)


def test_whom_someone_waits_for_comes_first_with_all_that_was_due_of_it() -> None:
    agenda = Agenda()
    agenda.add(A, numbers(0))
    agenda.add(B, numbers(1))
    agenda.add(B, numbers(2), is_urgent=True)
    agenda.add(B, numbers(3))

    assert agenda.take(1_000, NO_TOPICS) == [(B, numbers(1, 2, 3)), (A, numbers(0))]


def test_what_has_lost_its_leader_comes_before_everything_for_which_no_caller_waits() -> None:
    agenda = Agenda()
    agenda.add(A, numbers(0, 1))
    agenda.add(B, numbers(0))
    agenda.add_leaderless(B, numbers(1))
    agenda.add_leaderless(A, numbers(2))
    agenda.add(C, numbers(0), is_urgent=True)

    assert agenda.take(2, NO_TOPICS) == [(C, numbers(0))]
    assert agenda.take(2, NO_TOPICS) == [(B, numbers(1))]
    assert agenda.take(2, NO_TOPICS) == [(A, numbers(2))]
    assert agenda.take(2, NO_TOPICS) == [(A, numbers(0, 1))]
    assert agenda.has_more(NO_TOPICS)


def test_a_topic_that_is_due_in_two_ways_is_decided_at_once_if_a_turn_has_room_for_it() -> None:
    agenda = Agenda()
    agenda.add(A, numbers(0, 1))
    agenda.add_leaderless(A, numbers(1, 2))
    agenda.add_leaderless(B, ())

    assert agenda.is_due(A)
    assert not agenda.is_due(B)
    assert agenda.take(1_000, NO_TOPICS) == [(A, numbers(1, 2, 0))]
    assert not agenda.is_due(A)


def test_a_busy_topic_stays_due_and_makes_no_further_turn() -> None:
    agenda = Agenda()
    agenda.add(A, numbers(0))

    assert agenda.take(1_000, {A}) == []
    assert agenda.is_due(A)
    assert not agenda.has_more({A})


def test_what_a_turn_leaves_is_done_in_the_next_ones_without_anybody_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Agenda.take
    monkeypatch.setattr(Agenda, "take", lambda agenda, _, *busy, **rest: take(agenda, 2, *busy, **rest))
    play = Play("brokers 1,2", *(f"topic t{n} 0=1,2" for n in range(5)), "elect")

    lines = play.do("broker 1 dies")

    assert len(some(lines, "leader 1 of t", "2 is the first online in-sync replica")) == 5
    assert len(some(lines, "commit #")) > 1
