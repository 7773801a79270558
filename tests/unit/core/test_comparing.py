"""What does a decision of another controller say beside what this one's rules say of the same partition?"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.core.comparing.judging import DIFFERENCES, Outcome, Verdict, Written, is_end_of_move, judge
from controller.core.comparing.wishes import DONE_WITHIN_S, Key, Matter, Wish, Wishes
from controller.core.messages.events import CommitId
from controller.core.state.topics import Partition, TopicView
from tests.unit.core.builders import AT, cluster, ids, state
from zk_layout.ids import NO_LEADER, PartitionEpoch
from zk_layout.znodes.configs import Config
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

ON_123 = Assignment(ids("1,2,3"))
TO_34 = Assignment(ids("3,4,1,2"), adding=ids("3,4"), removing=ids("1,2"))
SAFE = Config({"unclean.leader.election.enable": "false"})


def judged(
    former: PartitionState | None,
    theirs: PartitionState,
    *,
    live: str = "1,2,3,4",
    assignment: Assignment = ON_123,
    config: Config | None = SAFE,
    missed: int = 0,
    is_deleted: bool = False,
    wanted: PartitionState | None = None,
) -> Verdict:
    """The verdict on a write at the version after the former state's, or after some that nobody saw."""
    epoch = PartitionEpoch(-1 if former is None else 5)
    held = Partition(assignment, former, epoch, is_state_known=True)
    topic = TopicView(AT.topic, {AT.partition: held}, is_queued_for_deletion=is_deleted)
    written = Written(AT, held, theirs, epoch + 1 + missed, wanted)
    return judge(written, topic, cluster(live), config)


BEFORE = state(1, "1,2,3")


@pytest.mark.parametrize(
    ("theirs", "live", "outcome"),
    [
        (state(2, "2,3", 4), "2,3", Outcome.SAME),
        (state(2, "3,2", 9), "2,3", Outcome.SAME),
        (state(3, "2,3", 4), "2,3", Outcome.LEADER),
        (state(2, "2", 4), "2,3", Outcome.ISR),
        (state(2, "1,2,3", 4), "2,3", Outcome.STEP),
        (state(NO_LEADER, "1,2,3", 4), "2,3", Outcome.STEP),
        (state(1, "1,2", 4), "1,2", Outcome.SAME),
        (state(2, "1,2", 4), "1,2", Outcome.LEADER),
        (state(1, "1,2", 4), "1,2,3", Outcome.ASKED),
        (state(2, "2,3", 4), "1,2,3", Outcome.ASKED),
        (state(2, "1,2,3", 4), "1,2,3", Outcome.NOT_HERE),
        (state(1, "1,2,3", 4), "1,2,3", Outcome.STEP),
        (state(4, "4", 4), "1,2,3,4", Outcome.NOT_HERE),
    ],
    ids=[
        "the leader has died",
        "more writes, and another order",
        "the second in-sync replica leads",
        "an online replica left the ISR with the dead leader",
        "the new leader first, the ISR later",
        "the dead leader first, the new one later",
        "a follower has died",
        "a follower has died, and a live leader is replaced",
        "a live follower stops",
        "a live leader stops",
        "a live leader is replaced by one that is not preferred",
        "only a higher leader epoch",
        "a stranger leads",
    ],
)
def test_an_election(theirs: PartitionState, live: str, outcome: Outcome) -> None:
    verdict = judged(BEFORE, theirs, live=live)
    assert verdict.outcome is outcome
    assert bool(verdict.text) is (outcome in DIFFERENCES)


def test_a_difference_says_what_either_wrote_and_why() -> None:
    text = judged(BEFORE, state(3, "2,3", 4), live="2,3").text
    assert text == (
        "orders-0: the controller that leads wrote leader 3, ISR [2, 3], after leader 1, ISR [1, 2, 3]; "
        "this one would have written leader 2, ISR [2, 3]: "
        "leader 1 of orders-0 is offline; 2 is the first online in-sync replica"
    )


def test_the_preferred_leader_is_each_controllers_own_affair() -> None:
    assert judged(state(2, "1,2,3"), state(1, "1,2,3", 4)).outcome is Outcome.ASKED


def test_an_unclean_election_where_the_settings_forbid_it_is_a_difference() -> None:
    dead = state(1, "1")
    assert judged(dead, state(2, "2", 4), live="2,3").outcome is Outcome.LEADER
    allowed = Config({"unclean.leader.election.enable": "true"})
    assert judged(dead, state(2, "2", 4), live="2,3", config=allowed).outcome is Outcome.SAME
    assert judged(dead, state(2, "2", 4), live="2,3", config=None).outcome is Outcome.UNSEEN


@pytest.mark.parametrize(
    ("theirs", "outcome"),
    [
        (state(3, "3,4", 4), Outcome.SAME),
        (state(3, "1,2,3,4", 4), Outcome.STEP),
        (state(4, "3,4", 4), Outcome.LEADER),
    ],
    ids=["as here", "the new leader first, the ISR later", "the second target replica leads"],
)
def test_a_move_that_hands_over(theirs: PartitionState, outcome: Outcome) -> None:
    assert judged(state(1, "1,2,3,4"), theirs, assignment=TO_34).outcome is outcome


@pytest.mark.parametrize(
    ("theirs", "is_same"),
    [(state(3, "3,4", 4), True), (state(4, "3,4", 4), False), (state(3, "3", 4), False)],
    ids=["as here", "the second target replica leads", "an unclean election"],
)
def test_a_hand_over_in_the_write_of_the_isr_that_the_leader_requested(theirs: PartitionState, is_same: bool) -> None:
    assert (judged(state(1, "1,2"), theirs, assignment=TO_34).outcome is Outcome.SAME) is is_same


@pytest.mark.parametrize(
    ("former", "theirs", "live", "assignment"),
    [
        (state(1, "1,2"), state(3, "3,4", 4), "3,4", TO_34),
        (state(1, "1"), state(2, "2,3", 4), "2,3", ON_123),
        (state(1, "1,2"), state(1, "1,3", 4), "1,3", ON_123),
    ],
    ids=["without the leader that would have requested it", "unclean, without a move", "another joins, without a move"],
)
def test_no_hand_over_of_a_move(
    former: PartitionState, theirs: PartitionState, live: str, assignment: Assignment
) -> None:
    assert judged(former, theirs, live=live, assignment=assignment).outcome in DIFFERENCES


@pytest.mark.parametrize(
    ("theirs", "live", "outcome"),
    [
        (state(1, "1,2,3", 0), "1,2,3", Outcome.SAME),
        (state(2, "2,3", 0), "2,3", Outcome.SAME),
        (state(2, "1,2,3", 0), "1,2,3", Outcome.LEADER),
        (state(1, "1", 0), "1,2,3", Outcome.ISR),
    ],
)
def test_a_new_partition(theirs: PartitionState, live: str, outcome: Outcome) -> None:
    assert judged(None, theirs, live=live).outcome is outcome


def test_writes_that_were_not_seen_apart_are_not_compared_unless_they_lead_to_the_same() -> None:
    assert judged(BEFORE, state(3, "2,3", 5), live="2,3", missed=1).outcome is Outcome.UNSEEN
    assert judged(BEFORE, state(2, "2,3", 5), live="2,3", missed=1).outcome is Outcome.SAME


def test_a_topic_that_is_being_deleted_has_its_replicas_stopped_one_by_one() -> None:
    assert judged(BEFORE, state(NO_LEADER, "1", 4), is_deleted=True).outcome is Outcome.STEP


def test_what_this_controller_had_decided_counts_more_than_what_its_rules_say_now() -> None:
    assert judged(BEFORE, state(2, "2,3", 4), live="1,2,3", wanted=state(2, "2,3", 4)).outcome is Outcome.SAME
    assert judged(BEFORE, state(2, "2,3", 4), live="1,2,3", wanted=state(3, "2,3", 4)).outcome is Outcome.LEADER


@pytest.mark.parametrize(
    ("before", "now", "is_end"),
    [
        (state(1, "1,2,3,4"), state(3, "3,4", 4), True),
        (state(3, "3,4"), state(3, "3,4"), True),
        (state(1, "1,2,3"), state(1, "1,2,3"), False),
        (state(1, "1,2,3,4"), state(1, "1,2,3,4"), False),
    ],
    ids=["handed over with it", "handed over before", "catching up", "not handed over"],
)
def test_an_end_of_a_move(before: PartitionState, now: PartitionState, is_end: bool) -> None:
    former = Partition(TO_34, before, PartitionEpoch(5))
    assert is_end_of_move(former, replace(former, assignment=Assignment(TO_34.target), state=now)) is is_end


def wish(since: float, leader: int = 2) -> Wish:
    return Wish(CommitId(1), ("because",), since, since, state=state(leader, "2,3"))


KEY = Key(Matter.STATE, *AT)


def test_a_wish_is_due_once_after_a_while_however_often_it_is_proposed() -> None:
    wishes = Wishes()
    assert wishes.note(KEY, wish(0.0))
    assert wishes.note(KEY, wish(15.0))
    assert list(wishes.overdue(DONE_WITHIN_S - 1, 10)) == []
    ((key, due),) = wishes.overdue(DONE_WITHIN_S, 10)
    assert (key, due.since, due.renewed) == (KEY, 0.0, 15.0)
    due.is_told = True
    wishes.wait_for(key, DONE_WITHIN_S + 5)
    assert list(wishes.overdue(DONE_WITHIN_S + 6, 10)) == []


def test_another_wish_about_the_same_waits_anew() -> None:
    wishes = Wishes()
    wishes.note(KEY, wish(0.0))
    wishes.note(KEY, wish(15.0, leader=3))
    assert list(wishes.overdue(DONE_WITHIN_S, 10)) == []
    assert [key for key, _ in wishes.overdue(15.0 + DONE_WITHIN_S, 10)] == [KEY]


def test_a_wish_that_was_fulfilled_is_not_due() -> None:
    wishes = Wishes()
    wishes.note(KEY, wish(0.0))
    assert wishes.take(KEY) is not None
    assert list(wishes.overdue(100.0, 10)) == []
    assert wishes.next_due is None


def test_wishes_are_bounded() -> None:
    wishes = Wishes(most=1)
    assert wishes.note(KEY, wish(0.0))
    assert not wishes.note(Key(Matter.DELETION, AT.topic), wish(0.0))
    assert len(wishes) == 1
