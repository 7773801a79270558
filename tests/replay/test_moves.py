"""A partition's history gives the stages and the outcome of its moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from metrics.replay.partitions.moves import STALLED_MS, Move, moves_of
from metrics.replay.partitions.stalls import why_stalled
from metrics.replay.partitions.terms import Sighting, Terms
from tests.replay.histories import History, moved_as_kafka_does, moving
from zk_layout.ids import BrokerId
from zk_layout.znodes.topics import Assignment


def only(history: History) -> Move:
    (move,) = moves_of(history.events)
    return move


def test_a_finished_move_has_its_stages_and_milestones() -> None:
    move = only(moved_as_kafka_does())

    assert (move.outcome, move.origin) == ("finished", "api")
    assert move.ended_ms is not None
    assert move.ended_ms - move.started_ms == 7000
    assert move.stage_ms == {"catching up": 3000, "handing over": 3000, "letting go": 1000}
    assert [m.isr for m in move.milestones][-2:] == [(2, 3, 4), (3, 4)]
    assert move.in_sync_ms == move.started_ms + 3000
    assert (move.from_replicas, move.assignment.target) == ((1, 2), (3, 4))
    assert (move.state_writes, move.topic_writes) == (6, 2)


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (lambda h: h, "unfinished"),
        (lambda h: h.assigned("1,2"), "cancelled"),
        (lambda h: h.assigned("2,1"), "cancelled"),
        (lambda h: h.deleted(), "deleted with the topic"),
        (lambda h: h.assigned("9"), "superseded"),
    ],
)
def test_a_move_may_end_otherwise(end: Callable[[History], History], outcome: str) -> None:
    assert only(end(moving())).outcome == outcome


def test_a_second_request_supersedes_the_first_and_keeps_its_origin() -> None:
    first, second = moves_of(moving().assigned("5,1,2", "5", "1,2").assigned("5").events)

    assert (first.outcome, second.outcome) == ("superseded", "finished")
    assert second.from_replicas == (1, 2)
    assert second.started_ms == first.ended_ms


def test_a_move_named_in_the_legacy_znode_comes_from_there() -> None:
    history = History().created("1,2").state(1, "1,2").legacy("3,4").assigned("3,4,1,2", "3,4", "1,2")

    assert only(history).origin == "legacy"


def test_a_znode_of_the_partition_asks_for_a_move_unless_the_controller_wrote_it() -> None:
    history = History().created("1,2").state(1, "1,2")

    assert only(history.wanted("3", session=99).assigned("3,1,2", "3", "1,2")).origin == "znode"
    history = History().created("1,2").state(1, "1,2")
    assert only(history.wanted("3", session=7).assigned("3,1,2", "3", "1,2")).origin == "api"


def test_a_write_that_no_controller_fenced_is_a_hand_on_the_znode() -> None:
    history = History().created("1,2").state(1, "1,2").assigned("3,1,2", "3", "1,2", fence=None)

    assert only(history).origin == "by hand"


def test_another_order_is_a_move_that_ends_at_once() -> None:
    move = only(History().created("1,2").state(1, "1,2").assigned("2,1"))

    assert (move.outcome, move.started_ms) == ("finished", move.ended_ms)


def test_a_state_that_somebody_empties_is_no_deletion() -> None:
    emptied = moving().emptied()

    assert only(emptied).outcome == "unfinished"
    assert only(emptied.assigned("3,4")).outcome == "finished"


def test_a_long_pause_makes_a_move_stalled_even_if_it_finished() -> None:
    history = moving().isr(1, "1,2,3,4", after_ms=STALLED_MS + 1).state(3, "3,4").assigned("3,4")

    assert only(history).is_stalled(now_ms=0)
    assert not only(moved_as_kafka_does()).is_stalled(now_ms=2**60)


def test_an_unfinished_move_is_stalled_when_the_log_goes_on_without_it() -> None:
    move = only(moving())

    assert not move.is_stalled(move.started_ms + STALLED_MS)
    assert move.is_stalled(move.started_ms + STALLED_MS + 1)


def test_what_a_split_repeats_is_no_change() -> None:
    history = moving()
    repeated = [*history.events, history.events[-1]]

    assert len(moves_of(repeated)) == 1


def test_a_move_that_began_before_the_log_shows_where_it_came_from() -> None:
    move = only(History().assigned("3,4,1,2", "3,4", "1,2", op="known"))

    assert (move.from_replicas, move.origin) == ((1, 2), "unknown")
    assert move.before == Assignment((BrokerId(1), BrokerId(2)))


def test_a_stalled_move_says_what_it_waited_for() -> None:
    history = moving().state(1, "1,2").isr(1, "1,2,3").isr(1, "1,2,3,4", after_ms=STALLED_MS + 1000)
    (move,) = moves_of(history.events)
    last = history.events[-1].time_ms
    brokers = [Sighting(n, "broker", broker=n, op="create") for n in (1, 2, 3, 4)]
    led = [Sighting(5, "controller", broker=1, session=7, op="create")]
    gone = Sighting(104, "broker", False, 4, op="expire")
    vacant = Sighting(104, "controller", False, 1, op="expire")

    assert why_stalled(move, last, Terms(brokers)) == "[4] had to catch up"
    assert why_stalled(move, last, Terms([*brokers, gone])) == "[4] had to catch up; broker 4 was not there"
    assert why_stalled(move, last, Terms([*brokers, *led, vacant])) == "[4] had to catch up; no controller led"
    assert why_stalled(only(moved_as_kafka_does()), last, Terms(brokers)) is None


def test_a_move_whose_target_is_in_sync_waits_for_the_controller() -> None:
    history = moving().state(1, "1,2").isr(1, "1,2,3,4")
    move, last = only(history), history.events[-1].time_ms

    assert why_stalled(move, last, Terms([])) is None
    assert why_stalled(move, last + STALLED_MS + 1, Terms([])) == "the controller did not continue handing over"
