"""Moving is the same arithmetic as in Kafka's newer controller: its PartitionReassignmentReplicas as a slow twin.

Two differences are meant: lists keep the order in which replicas were named, where KRaft sorts them, as Kafka's
controller on ZooKeeper does; and a move that only removes is done as soon as nothing that leaves is in sync.

Source: KRaft's PartitionReassignmentReplicas and its test of 3.9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import assume, given
from hypothesis import strategies as st

from controller.core.reassignment import rule as reassignment
from controller.core.stage import Stage, stage, toward
from controller.core.steps.change import Change
from tests.properties.clusters import Situation, situations, some_replicas
from zk_layout.ids import Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

ENDS = (Stage.HANDING_OVER, Stage.LETTING_GO)


@dataclass(frozen=True)
class Kraft:
    """What KRaft works out for a move from one list of replicas to another."""

    current: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def removing(self) -> list[int]:
        return sorted(set(self.current) - set(self.target))

    @property
    def adding(self) -> list[int]:
        return sorted(set(self.target) - set(self.current))

    def completed(self, isr: tuple[int, ...]) -> tuple[list[int], list[int]] | None:
        """Replicas and ISR after the move, or None while it is not done."""
        replicas = [*self.target, *self.removing]
        if not (self.removing or self.adding):
            return None
        rest = [r for r in replicas if r not in self.removing]
        in_sync = [r for r in isr if r not in self.removing]
        return (rest, in_sync) if in_sync and rest and set(rest) <= set(in_sync) else None


def moved(current: tuple[int, ...], target: tuple[int, ...]) -> Assignment:
    return toward(Assignment(current), target)


def reached(current: tuple[int, ...], target: tuple[int, ...], isr: tuple[int, ...]) -> Stage:
    return stage(moved(current, target), PartitionState(isr[0], 1, 1, isr))


def test_none_added_or_removed() -> None:
    assert moved((3, 2, 1), (3, 2, 1)) == Assignment((3, 2, 1))


def test_additions() -> None:
    assert moved((3, 2, 1), (3, 6, 2, 1, 5)) == Assignment((3, 6, 2, 1, 5), (6, 5), ())


def test_removals() -> None:
    assert moved((3, 2, 1, 0), (3, 1)) == Assignment((3, 1, 2, 0), (), (2, 0))


def test_additions_and_removals() -> None:
    assert moved((3, 2, 1, 0), (7, 3, 1, 9)) == Assignment((7, 3, 1, 9, 2, 0), (7, 9), (2, 0))


def test_rearrangement() -> None:
    assert moved((3, 2, 1, 0), (0, 1, 3, 2)) == Assignment((0, 1, 3, 2))


def test_does_not_complete_reassignment() -> None:
    assert reached((0, 1, 2), (3, 4, 5), (0, 1, 2, 3, 4)) is Stage.CATCHING_UP


def test_does_not_complete_reassignment_if_none_ongoing() -> None:
    assert reached((0, 1, 2), (0, 1, 2), (0, 1, 2)) is Stage.SETTLED


def test_does_complete_reassignment_all_new_replicas() -> None:
    assert reached((0, 1, 2), (3, 4, 5), (0, 1, 2, 3, 4, 5)) is Stage.HANDING_OVER


def test_does_complete_reassignment_some_new_replicas() -> None:
    assert reached((0, 1, 2), (0, 1, 3), (0, 1, 2, 3)) is Stage.HANDING_OVER


def test_is_reassignment_in_progress() -> None:
    assert Assignment((0, 1, 3, 2), (3,), (2,)).is_moving
    assert Assignment((0, 1, 3, 2), (), (2,)).is_moving
    assert Assignment((0, 1, 3, 2), (3,), ()).is_moving
    assert not Assignment((0, 1, 2)).is_moving


def test_does_not_complete_reassignment_if_isr_does_not_have_all_target_replicas() -> None:
    assert reached((0, 1, 2), (0, 1, 3), (3,)) is Stage.CATCHING_UP


def test_original_replicas() -> None:
    assert moved((0, 1, 2), (0, 1, 3)).original == (0, 1, 2)


@given(some_replicas(), some_replicas())
def test_what_is_added_and_removed_is_what_kraft_adds_and_removes(current: Replicas, target: Replicas) -> None:
    ours, kraft = toward(Assignment(current), target), Kraft(current, target)

    assert sorted(ours.adding) == kraft.adding
    assert sorted(ours.removing) == kraft.removing
    assert ours.replicas[: len(target)] == target
    assert sorted(ours.replicas[len(target) :]) == kraft.removing
    assert set(ours.original) == set(current)
    assert ours.is_moving == bool(kraft.adding or kraft.removing)


@given(some_replicas(), some_replicas(), st.data())
def test_a_move_ends_when_kraft_ends_it(current: Replicas, target: Replicas, data: st.DataObject) -> None:
    moving = toward(Assignment(current), target)
    isr = data.draw(st.lists(st.sampled_from(moving.replicas), min_size=1, unique=True).map(tuple))
    leader = data.draw(st.sampled_from(isr))

    where = stage(moving, PartitionState(leader, 3, 1, isr))

    if Kraft(current, target).completed(isr) is not None:
        assert where in ENDS
    elif moving.adding or any(r in moving.removing for r in isr):
        assert where not in ENDS
    else:
        assert where in (Stage.SETTLED, Stage.LETTING_GO)  # nothing in sync leaves


@given(situations(), st.data())
def test_who_is_left_in_sync_after_the_hand_over_is_who_kraft_leaves(situation: Situation, data: st.DataObject) -> None:
    held = situation.assignment
    isr = data.draw(st.permutations(held.replicas).map(tuple))
    in_sync = replace(
        situation, state=PartitionState(isr[0], situation.state.leader_epoch, situation.state.controller_epoch, isr)
    )
    cluster = in_sync.cluster()

    step = reassignment.next_step(in_sync.case(cluster), cluster)

    done = Kraft(held.original, held.target).completed(isr)
    assert (done is None) == (not held.is_moving)
    if isinstance(step, Change) and step.state is not None and done is not None:
        assert (list(held.target), list(step.state.isr)) == done


@given(situations(), st.data())
def test_a_target_that_kraft_completes_at_once_is_done_in_one_step(situation: Situation, data: st.DataObject) -> None:
    cluster = situation.cluster()
    held, isr = situation.assignment, situation.state.isr
    target = data.draw(st.lists(st.sampled_from(isr), min_size=1, unique=True).map(tuple))
    assume(stage(held, situation.state) is not Stage.LETTING_GO)
    done = Kraft(held.original, target).completed(isr)

    begun = reassignment.begin(situation.case(cluster), cluster, target)

    # KRaft's brokers that are gone left the ISR before.
    if isinstance(begun, Change) and done is not None and all(situation.is_online(r) for r in target):
        assert begun.assignment == Assignment(target)
        assert begun.state is not None
        assert list(begun.assignment.replicas) == done[0]
        assert list(begun.state.isr) == [r for r in done[1] if r in target]  # what was being added may be in sync too
