"""Moving replicas is set arithmetic; KIP-455's own examples are among the cases."""

from __future__ import annotations

from hypothesis import given

from controller.core.stage import Stage, in_force, stage, toward
from tests.properties.clusters import Situation, assignments, situations, some_replicas
from zk_layout.ids import Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


def test_the_move_of_the_kip_adds_4_and_removes_1() -> None:
    assert toward(Assignment((1, 2, 3)), (4, 3, 2)) == Assignment((4, 3, 2, 1), adding=(4,), removing=(1,))


def test_the_move_of_the_kip_waits_until_4_is_in_sync_and_then_hands_over() -> None:
    moving = Assignment((1, 4, 3, 2), adding=(4,), removing=(1,))

    assert stage(moving, PartitionState(1, 0, 1, (1, 2, 3))) is Stage.CATCHING_UP
    assert stage(moving, PartitionState(1, 0, 1, (1, 2, 3, 4))) is Stage.HANDING_OVER
    assert stage(moving, PartitionState(4, 1, 1, (2, 3, 4))) is Stage.LETTING_GO
    assert stage(Assignment((4, 3, 2)), PartitionState(4, 1, 1, (2, 3, 4))) is Stage.SETTLED


def test_the_cancellation_of_the_kip_restores_1_2_3() -> None:
    moving = toward(Assignment((1, 2, 3)), (3, 4, 5))

    assert set(moving.replicas) == {1, 2, 3, 4, 5}
    assert (moving.adding, moving.removing) == ((4, 5), (1, 2))
    assert set(moving.original) == {1, 2, 3}


@given(assignments(), some_replicas())
def test_a_move_names_the_target_first_and_then_what_leaves(held: Assignment, target: Replicas) -> None:
    moving = toward(held, target)

    assert moving.replicas[: len(target)] == target == moving.target
    assert set(moving.replicas) == set(held.original) | set(target)
    assert len(set(moving.replicas)) == len(moving.replicas)
    assert set(moving.adding) == set(target) - set(held.original)
    assert set(moving.removing) == set(held.original) - set(target)
    assert set(moving.original) == set(held.original)


@given(assignments(), some_replicas(), some_replicas())
def test_a_superseded_target_leaves_no_trace(held: Assignment, first: Replicas, second: Replicas) -> None:
    redirected, at_once = toward(toward(held, first), second), toward(held, second)

    assert redirected.target == at_once.target
    assert redirected.adding == at_once.adding
    assert set(redirected.removing) == set(at_once.removing)


@given(assignments())
def test_going_back_to_the_original_moves_nothing(held: Assignment) -> None:
    assert toward(held, held.original) == Assignment(held.original)


@given(situations())
def test_the_stage_follows_from_sets_alone(situation: Situation) -> None:
    assert stage(situation.assignment, situation.state) is _slow_stage(situation)


def _slow_stage(situation: Situation) -> Stage:
    moving, isr = situation.assignment, set(situation.state.isr)
    target = set(moving.replicas) - set(moving.removing)
    if not moving.adding and not moving.removing:
        return Stage.SETTLED
    is_only_of_the_target = situation.state.leader in target | {-1} and isr <= target
    is_caught_up = target <= isr
    if is_only_of_the_target and (is_caught_up or not moving.adding):
        return Stage.LETTING_GO
    return Stage.HANDING_OVER if is_caught_up else Stage.CATCHING_UP


@given(situations())
def test_brokers_know_only_the_target_while_it_lets_go(situation: Situation) -> None:
    known = in_force(situation.assignment, situation.state)

    if stage(situation.assignment, situation.state) is Stage.LETTING_GO:
        assert known == Assignment(situation.assignment.target)
        assert set(situation.state.isr) <= set(known.replicas)
    else:
        assert known == situation.assignment
