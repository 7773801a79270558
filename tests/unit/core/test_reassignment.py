"""Moving a partition: may it begin, and what comes next?"""

from __future__ import annotations

import pytest

from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.requests import Mode
from controller.core.reassignment import rule as reassignment
from controller.core.reassignment.redirection import redirect
from controller.core.steps.change import Change, Gather, Rule
from tests.unit.core.builders import Term, case, cluster, ids, state, written
from zk_layout.znodes.topics import Assignment


def test_a_move_adds_all_new_replicas_and_removes_none_yet() -> None:
    begun = reassignment.begin(case("1,2", 1, "1,2"), cluster("1,2,3,4"), ids("3,4"))

    assert isinstance(begun, Change)
    assert begun.assignment == Assignment(ids("3,4,1,2"), ids("3,4"), ids("1,2"))
    assert begun.state == written(1, "1,2")


def test_a_leaving_leader_hands_over_to_the_first_live_target() -> None:
    moving = case("3,4,1,2", 1, "1,2,3,4", adding="3,4", removing="1,2")

    step = reassignment.next_step(moving, cluster("1,2,4"))

    assert isinstance(step, Change)
    assert step.state == written(4, "3,4")
    assert step.why == "target [3, 4] of orders-0 in sync; leader 1 leaves, 4 is the first live target"


def test_a_leader_that_is_part_of_the_target_keeps_leading() -> None:
    moving = case("3,1,2", 1, "1,2,3", adding="3", removing="2")

    step = reassignment.next_step(moving, cluster("1,2,3"))

    assert isinstance(step, Change)
    assert step.state == written(1, "1,3")


def test_a_target_that_gets_in_sync_by_a_requested_isr_is_handed_over_to_in_the_same_write() -> None:
    requested = case("3,4,1,2", 1, "1,2,3,4", adding="3,4", removing="1,2")

    change = reassignment.hand_over_at_once(requested, state(1, "1,2,3"), cluster("1,2,3,4"))

    assert change is not None
    assert change.state == written(3, "3,4")


@pytest.mark.parametrize(
    ("replicas", "isr", "adding", "removing", "before"),
    [("3,4,1,2", "1,2,3", "3,4", "1,2", "1,2"), ("3,1", "1,3", "3", "1", "1"), ("3,1,2", "1,2,3", "3", "", "1,2")],
    ids=["not the whole target", "as an unclean election would look", "nothing to hand over"],
)
def test_other_requested_isrs_are_written_as_they_are(
    replicas: str, isr: str, adding: str, removing: str, before: str
) -> None:
    requested = case(replicas, 1, isr, adding=adding, removing=removing)

    assert reassignment.hand_over_at_once(requested, state(1, before), cluster("1,2,3,4")) is None


def test_no_replica_is_let_go_before_the_whole_target_is_in_sync() -> None:
    moving = case("3,4,1,2", 1, "1,2,3", adding="3,4", removing="1,2")

    assert reassignment.next_step(moving, cluster("1,2,3,4")) is None


def test_a_move_whose_target_has_no_live_member_waits_although_in_sync() -> None:
    moving = case("3,4,1,2", 1, "1,2,3,4", adding="3,4", removing="1,2")

    assert reassignment.next_step(moving, cluster("1,2")) is None


def test_letting_go_waits_for_live_leaving_replicas_to_confirm() -> None:
    leaving = case("3,4,1,2", 3, "3,4", adding="3,4", removing="1,2", confirmed="1")

    assert reassignment.next_step(leaving, cluster("1,2,3,4")) is None


def test_a_move_is_done_when_all_leaving_replicas_confirmed() -> None:
    leaving = case("3,4,1,2", 3, "3,4", adding="3,4", removing="1,2", confirmed="1,2")

    step = reassignment.next_step(leaving, cluster("1,2,3,4"))

    assert isinstance(step, Change)
    assert (step.assignment, step.owed) == (Assignment(ids("3,4")), ())


def test_moves_of_a_topic_that_end_about_the_same_time_share_one_write() -> None:
    leaving = case("3,1", 3, "3", adding="3", removing="1", confirmed="1", is_gathering=True)

    assert isinstance(reassignment.next_step(leaving, cluster("1,3")), Gather)


@pytest.mark.parametrize(("live", "is_patience_over"), [("2,3,4", False), ("1,2,3,4", True)])
def test_a_dead_or_mute_leaving_replica_does_not_stall_the_move_but_is_remembered(
    live: str, is_patience_over: bool
) -> None:
    leaving = case("3,4,1,2", 3, "3,4", adding="3,4", removing="1,2", confirmed="2", is_patience_over=is_patience_over)

    step = reassignment.next_step(leaving, cluster(live))

    assert isinstance(step, Change)
    assert (step.assignment, step.owed) == (Assignment(ids("3,4")), ids("1"))


def test_a_replica_that_owes_its_deletion_already_is_named_once_when_it_leaves_again() -> None:
    leaving = case("3,1", 3, "3", adding="3", removing="1", owed="1", is_patience_over=True)
    moving = case("1,3", 1, "1", adding="3", owed="3")

    left = reassignment.next_step(leaving, cluster("1,3"))
    cancelled = redirect(moving, cluster("1,3"), Assignment(ids("1")), "cancelled", Mode.SAFE)

    assert isinstance(left, Change)
    assert isinstance(cancelled, Change)
    assert (left.owed, cancelled.owed) == (ids("1"), ids("3"))


def test_a_leader_that_does_not_know_its_replicas_gets_them_before_anything_else() -> None:
    unannounced = case("3,4,1,2", 3, "3,4", adding="3,4", removing="1,2", is_unannounced=True)

    step = reassignment.next_step(unannounced, cluster("1,2,3,4"))

    assert isinstance(step, Change)
    assert (step.assignment, step.state) == (None, written(3, "3,4"))


@pytest.mark.parametrize("rule", [reassignment.next_step, reassignment.new_epoch])
def test_an_empty_isr_is_not_written_again_for_an_announcement(rule: Rule) -> None:
    assert rule(case("1,2", -1, "", is_unannounced=True), cluster("1,2")) is None


def test_cancelling_restores_the_original_set_and_leads_from_it() -> None:
    moving = case("3,4,1,2", 3, "3,1", adding="3,4", removing="1,2")

    step = reassignment.cancel(moving, cluster("1,2,3,4"))

    assert isinstance(step, Change)
    assert step.assignment == Assignment(ids("1,2"))
    assert step.state == written(1, "1")
    assert step.owed == ids("3,4")


def test_cancelling_is_refused_where_it_would_stop_the_only_in_sync_replicas() -> None:
    moving = case("3,4,5,1,2", 3, "3,4", adding="3,4,5", removing="1,2")

    refusal = reassignment.cancel(moving, cluster("1,2,3,4"))

    assert isinstance(refusal, Refusal)
    assert refusal.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refusal.message is not None
    assert "only in-sync replicas [3, 4]" in refusal.message


def test_cancelling_is_refused_where_the_in_sync_originals_are_offline() -> None:
    moving = case("3,1,2", 3, "3,1", adding="3", removing="1")

    assert isinstance(reassignment.cancel(moving, cluster("2,3")), Refusal)


def test_a_move_that_is_letting_go_has_arrived_and_cannot_be_cancelled() -> None:
    leaving = case("3,4,1,2", 3, "3,4", adding="3,4", removing="1,2")

    refusal = reassignment.cancel(leaving, cluster("1,2,3,4"))

    assert isinstance(refusal, Refusal)
    assert refusal.error is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_new_target_for_a_move_that_is_letting_go_starts_from_where_it_arrived() -> None:
    leaving = case("3,4,1,2", 3, "3,4", adding="3,4", removing="1,2")

    step = reassignment.begin(leaving, cluster("1,2,3,4"), ids("1,3"))

    assert isinstance(step, Change)
    assert step.assignment == Assignment(ids("1,3,4"), ids("1"), ids("4"))
    assert step.owed == ids("2")


def test_a_leader_that_shuts_down_keeps_leading_where_no_one_else_can() -> None:
    step = reassignment.begin(case("1,2", 1, "1"), cluster("1,2,3", shutting_down="1"), ids("1,3"))

    assert isinstance(step, Change)
    assert step.state == written(1, "1")


def test_cancelling_without_a_move_says_so() -> None:
    assert reassignment.cancel(case("1,2", 1, "1,2"), cluster("1,2")) == Refusal(
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
    )


def test_a_new_target_keeps_the_original_and_drops_what_only_the_old_target_added() -> None:
    moving = case("3,4,1,2", 1, "1,2,3", adding="3,4", removing="1,2")

    step = reassignment.begin(moving, cluster("1,2,3,4,5"), ids("4,5"))

    assert isinstance(step, Change)
    assert step.assignment == Assignment(ids("4,5,1,2"), ids("4,5"), ids("1,2"))
    assert step.state == written(1, "1,2")
    assert step.owed == ids("3")


def test_asking_for_what_is_under_way_changes_nothing() -> None:
    moving = case("3,4,1,2", 1, "1,2", adding="3,4", removing="1,2")

    assert reassignment.begin(moving, cluster("1,2,3,4"), ids("3,4")) is None


def test_a_pure_reordering_is_one_step() -> None:
    step = reassignment.begin(case("1,2,3", 1, "1,2,3"), cluster("1,2,3"), ids("3,2,1"))

    assert isinstance(step, Change)
    assert step.assignment == Assignment(ids("3,2,1"))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "Empty replica list specified in partition reassignment."),
        ("3,3", "Duplicate replica ids in partition reassignment replica list: [3, 3]"),
        ("3,-1", "Invalid broker id in replica list: [3, -1]"),
        ("1,5", "brokers that are not alive. Replica list: [5], live broker list: [1, 2, 3]"),
        ("1,900", "brokers that are not alive. Replica list: [900], live broker list: [1, 2, 3]"),
    ],
)
def test_an_impossible_target_is_refused_with_kafkas_message(target: str, message: str) -> None:
    refusal = reassignment.begin(case("1,2", 1, "1,2"), cluster("1,2,3"), ids(target))

    assert isinstance(refusal, Refusal)
    assert refusal.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refusal.message is not None
    assert message in refusal.message


def test_a_replica_that_stays_may_be_dead() -> None:
    assert isinstance(reassignment.begin(case("1,2", 1, "1"), cluster("1,3"), ids("1,2,3")), Change)


def test_a_broker_that_is_shutting_down_is_no_target() -> None:
    refused = reassignment.begin(case("1,2", 1, "1,2"), cluster("1,2,3", shutting_down="3"), ids("3,1"))

    assert isinstance(refused, Refusal)


def test_owed_deletions_are_struck_out_once_confirmed_or_wanted_again() -> None:
    step = reassignment.next_step(case("1,2", 1, "1,2", owed="2,3,4", confirmed="3"), cluster("1,2,3,4"))

    assert isinstance(step, Change)
    assert step.owed == ids("4")


def test_a_partition_without_data_lets_go_at_once() -> None:
    step = reassignment.next_step(case("3,1", adding="3", removing="1"), cluster("1,3"))

    assert isinstance(step, Change)
    assert (step.assignment, step.owed) == (Assignment(ids("3")), ())


def test_a_shrink_whose_rest_is_in_sync_is_one_step_and_owes_the_deletion() -> None:
    begun = reassignment.begin(case("1,2,3", 3, "1,2,3"), cluster("1,2,3"), ids("2,1"))

    assert isinstance(begun, Change)
    assert (begun.assignment, begun.owed) == (Assignment(ids("2,1")), ids("3"))
    assert begun.state == written(2, "1,2")


def test_a_shrink_waits_where_a_replica_that_stays_is_not_in_sync() -> None:
    begun = reassignment.begin(case("1,2,3", 1, "1,3"), cluster("1,2,3"), ids("1,2"))

    assert isinstance(begun, Change)
    assert begun.assignment == Assignment(ids("1,2,3"), (), ids("3"))


@pytest.mark.parametrize("mode", [Mode.SAFE, Mode.FORCED])
@pytest.mark.parametrize(
    ("leader", "isr", "target", "online"),
    [
        (1, "1,2,3", "2,3", "1"),
        (1, "1,2,3", "2,3", "1,3"),
        (1, "1,2,3", "2,3", "1,2"),
        (-1, "2,3", "2,3", "1"),
        (-1, "2,3", "3,2", "1"),
    ],
)
def test_a_target_in_sync_is_waited_for_where_one_of_its_replicas_is_offline(
    leader: int, isr: str, target: str, online: str, mode: Mode
) -> None:
    """An offline replica is still in the ISR only because the request comes before the elections of its turn."""
    begun = reassignment.begin(case("1,2,3", leader, isr), cluster(online), ids(target), mode)

    assert isinstance(begun, Change)
    assert begun.assignment == Assignment(ids(f"{target},1"), (), ids("1"))
    assert (begun.state, begun.owed) == (written(leader, isr), ())


def test_a_redirected_move_whose_new_target_is_in_sync_and_offline_is_waited_for() -> None:
    moving = case("3,4,1,2", 1, "1,2,3", adding="3,4", removing="1,2")

    begun = reassignment.begin(moving, cluster("1,2,4"), ids("3"), may_wait=True)

    assert isinstance(begun, Change)
    assert begun.assignment == Assignment(ids("3,1,2"), ids("3"), ids("1,2"))
    assert (begun.state, begun.owed) == (written(1, "1,2,3"), ids("4"))


def test_a_gentle_cancel_keeps_what_has_joined_the_isr_and_stops_the_rest() -> None:
    moving = case("3,4,5,1,2", 1, "1,2,4", adding="3,4,5", removing="1,2")

    stopped = reassignment.cancel(moving, cluster("1,2,3,4,5"), Mode.GENTLE)

    assert isinstance(stopped, Change)
    assert (stopped.assignment, stopped.owed) == (Assignment(ids("4,1,2")), ids("3,5"))
    assert stopped.state == written(1, "1,2,4")


def test_a_forced_cancel_gives_up_the_only_in_sync_replica_and_says_so() -> None:
    moving = case("3,4,1,2", 3, "3", adding="3,4", removing="1,2")

    forced = reassignment.cancel(moving, cluster("2,3"), Mode.FORCED)

    assert isinstance(forced, Change)
    assert forced.assignment == Assignment(ids("1,2"))
    assert forced.state is not None
    assert (forced.state.leader, forced.state.isr, forced.state.leader_recovery_state) == (2, ids("2"), 1)
    assert forced.notice is not None
    assert "records may be lost" in forced.notice.text


def test_a_forced_cancel_with_none_of_the_old_replicas_live_waits_for_the_first_of_them() -> None:
    moving = case("3,4,1,2", 3, "3", adding="3,4", removing="1,2")

    forced = reassignment.cancel(moving, cluster("3"), Mode.FORCED)

    assert isinstance(forced, Change)
    assert forced.state == written(-1, "1,2")


def test_a_forced_cancel_elects_no_replica_that_was_sent_a_deletion() -> None:
    moving = case("3,4,1,2", 3, "3", adding="3,4", removing="1,2")
    held = Term("1,2,3")
    held.memory.brokers.note_log_deletion(moving.at, ids("1")[0])

    forced = reassignment.cancel(moving, held.cluster, Mode.FORCED)

    assert isinstance(forced, Change)
    assert forced.state is not None
    assert forced.state.leader == 2


def test_cancelling_an_offline_move_whose_added_replicas_never_joined_loses_nothing() -> None:
    moving = case("2,1", -1, "1", adding="2", removing="1")

    cancelled = reassignment.cancel(moving, cluster("2"))

    assert isinstance(cancelled, Change)
    assert cancelled.state == written(-1, "1")
