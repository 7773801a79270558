"""The checker knows what a decision may leave behind that is written in parts, or whose answer is lost."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.core.messages.commands import LeaderAndIsr, PartitionView
from controller.core.messages.effects import Commit, Set, Tell, Write, operation
from controller.core.messages.events import CommitId
from controller.core.settings import WRITES_A_TRANSACTION
from tests.simulation.broken import Broken
from tests.simulation.refusals import Right
from tests.simulation.spoiled import AT
from tests.simulation.world import World
from tests.simulation.zookeeper import Permission, SetData
from zk_layout import catalog
from zk_layout.ids import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    SessionId,
    ZnodeVersion,
)
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ONE, TWO, THREE, FOUR = (BrokerId(b) for b in (1, 2, 3, 4))
MOVING = Assignment((ONE, TWO, THREE), adding=(TWO, THREE))
REDIRECTED = Assignment((ONE, TWO), adding=(TWO,))


class Cut:
    """Broker 1 writes the ISR itself; broker 3, which was being added, left with a write of the topic alone."""

    def __init__(self) -> None:
        self.world = World(0)
        self.foreign = self.world.zookeeper.open_session()
        self.leader = self.world.brokers[ONE].session = self.world.zookeeper.open_session()
        for path in (TopicAddress(AT.topic).path, StateAddress(*AT).path):
            self.world.zookeeper.make_path(path)
        self.state = PartitionState(ONE, LeaderEpoch(3), ControllerEpoch(0), (ONE,))
        self.write(self.foreign, MOVING, self.state)
        self.write(self.foreign, REDIRECTED)

    def write(self, session: SessionId, *values: Assignment | PartitionState) -> None:
        operations = [
            SetData(StateAddress(*AT).path, catalog.encode(value))
            if isinstance(value, PartitionState)
            else SetData(TopicAddress(AT.topic).path, catalog.encode(Topic({AT.partition: value})))
            for value in values
        ]
        assert not self.world.zookeeper.multi(session, operations).errors
        self.world.checker.after_step()

    def with_isr(self, *isr: BrokerId) -> PartitionState:
        return msgspec.structs.replace(self.state, isr=isr)


def test_a_leader_may_take_in_who_left_with_a_part_of_a_decision_until_its_leader_epoch_is_raised() -> None:
    cut = Cut()

    cut.write(cut.leader, cut.with_isr(ONE, THREE))
    cut.write(cut.leader, cut.with_isr(ONE, THREE, TWO))


@pytest.mark.parametrize("is_raised", [True, False])
def test_a_move_ends_though_the_leader_has_just_shrunk_the_isr_if_its_epoch_began_without_who_leaves(
    *, is_raised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Cut()
    cut.world.plan = msgspec.structs.replace(cut.world.plan, writes_a_transaction=WRITES_A_TRANSACTION)
    cut.world.sizes.is_tight = False
    monkeypatch.setattr(cut.world.checker, "is_ours", lambda session: session == cut.foreign)
    leaving = Assignment((ONE, TWO, THREE), adding=(TWO,), removing=(THREE,))
    cut.state = msgspec.structs.replace(cut.state, leader_epoch=LeaderEpoch(4), isr=(ONE, THREE))
    cut.write(cut.foreign, leaving, cut.state)
    epoch = LeaderEpoch(5 if is_raised else 4)
    cut.state = msgspec.structs.replace(cut.state, leader_epoch=epoch, isr=(ONE, TWO))
    cut.write(cut.foreign if is_raised else cut.leader, cut.state)
    cut.write(cut.leader, cut.with_isr(ONE))

    with nullcontext() if is_raised else pytest.raises(Broken, match="its leader epoch stayed"):
        cut.write(cut.foreign, Assignment((ONE, TWO)))


def test_nobody_but_the_leader_may_take_in_who_has_left() -> None:
    cut = Cut()

    with pytest.raises(Broken, match="but the replicas"):
        cut.write(cut.foreign, cut.with_isr(ONE, THREE))


def test_no_leader_may_take_in_who_was_no_replica_in_its_leader_epoch() -> None:
    cut = Cut()

    with pytest.raises(Broken, match="but the replicas"):
        cut.write(cut.leader, cut.with_isr(ONE, FOUR))


@pytest.mark.parametrize("is_whole", [False, True])
def test_no_leader_may_take_in_who_has_left_once_its_leader_epoch_has_been_raised(*, is_whole: bool) -> None:
    cut = Cut()
    if is_whole:
        cut.write(cut.foreign, MOVING)
    cut.state = msgspec.structs.replace(cut.state, leader_epoch=LeaderEpoch(4))
    cut.write(cut.foreign, *([REDIRECTED] if is_whole else []), cut.state)

    with pytest.raises(Broken, match="but the replicas"):
        cut.write(cut.leader, cut.with_isr(ONE, THREE))


@pytest.mark.parametrize(("is_hidden", "joins"), [(True, THREE), (False, THREE), (True, FOUR)])
def test_a_controller_takes_in_who_has_left_only_while_it_may_not_read_that(
    *, is_hidden: bool, joins: BrokerId, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Cut()
    monkeypatch.setattr(cut.world.checker, "is_ours", lambda session: session == cut.foreign)
    monkeypatch.setattr(
        cut.world.refusals, "hid_lately", lambda path: is_hidden and path == TopicAddress(AT.topic).path
    )

    with nullcontext() if is_hidden and joins == THREE else pytest.raises(Broken, match="but the replicas"):
        cut.write(cut.foreign, cut.with_isr(ONE, joins))


@pytest.mark.parametrize("is_by_leader", [True, False])
def test_only_what_a_leader_wrote_by_itself_may_be_unknown_to_who_changes_the_replicas(*, is_by_leader: bool) -> None:
    cut = Cut()
    version = cut.world.zookeeper.nodes[StateAddress(*AT).path].version
    cut.write(cut.leader if is_by_leader else cut.foreign, cut.with_isr(ONE))
    moving = Assignment((ONE, TWO, FOUR), adding=(FOUR,))
    cut.write(cut.foreign, moving)

    assert ((version, moving) in cut.world.checker.together[AT]) == is_by_leader


class Doubtful(Cut):
    """Controller 100 took a move back in the topic's znode, and lost the answer; then it wrote the state."""

    def __init__(self, *, with_state: bool = False) -> None:
        super().__init__()
        self.checker = self.world.checker
        self.checker._epoch = 1
        self.own: Any = SimpleNamespace(name="100", own_id=BrokerId(100), epoch=ControllerEpoch(1), links={ONE: None})
        self.back = Assignment((ONE,))
        writes: list[Write] = [Set(TopicAddress(AT.topic), Topic({AT.partition: self.back}), ZnodeVersion(2))]
        if with_state:
            writes.append(Set(StateAddress(*AT), self.state, ZnodeVersion(1)))
        commit = Commit(CommitId(1), tuple(map(operation, writes)), ())
        self.checker.announcements.doubts.accepted(self.own.epoch, commit)
        self.write(self.foreign, self.back, *([self.state] if with_state else []))
        self.checker.announcements.doubts.lost(self.own.epoch, commit.commit)
        self.state = msgspec.structs.replace(self.state, leader_epoch=LeaderEpoch(4), controller_epoch=self.own.epoch)
        self.write(self.foreign, self.state)

    def hide(self, path: str = TopicAddress(AT.topic).path) -> None:
        self.world.refusals.take_for(Right(path, Permission.READ), math.inf)

    def spoil(self) -> None:
        self.world.zookeeper.multi(self.foreign, [SetData(TopicAddress(AT.topic).path, b"{")])
        self.checker.after_step()

    def announce(self, assignment: Assignment) -> None:
        version, state = self.world.zookeeper.nodes[StateAddress(*AT).path].version, self.state
        view = PartitionView(
            AT.topic,
            None,
            AT.partition,
            state.controller_epoch,
            state.leader,
            state.leader_epoch,
            state.isr,
            PartitionEpoch(version),
            0,
            assignment.replicas,
            assignment.adding,
            assignment.removing,
        )
        tell = Tell(ONE, BrokerEpoch(1), self.own.epoch, LeaderAndIsr((view,), (), ()))
        self.checker.announcements.sent(self.own, tell)


@pytest.mark.parametrize("strike", [Doubtful.hide, Doubtful.spoil], ids=["hidden", "spoiled"])
def test_former_replicas_may_be_announced_while_nothing_that_proves_the_transaction_can_be_read(
    strike: Callable[[Doubtful], None],
) -> None:
    doubtful = Doubtful()
    strike(doubtful)

    doubtful.announce(REDIRECTED)
    doubtful.announce(Assignment(REDIRECTED.target))
    with pytest.raises(Broken, match="never were together"):
        doubtful.announce(MOVING)


def test_former_replicas_with_a_new_leader_are_seen_where_a_znode_proves_the_transaction() -> None:
    readable, half_readable = Doubtful(), Doubtful(with_state=True)
    half_readable.hide()

    for doubtful in (readable, half_readable):
        with pytest.raises(Broken, match="never were together"):
            doubtful.announce(REDIRECTED)


def test_former_replicas_are_seen_once_their_controller_has_announced_the_new_ones() -> None:
    doubtful = Doubtful()
    doubtful.hide()
    doubtful.announce(doubtful.back)

    with pytest.raises(Broken, match="never were together"):
        doubtful.announce(REDIRECTED)


def test_the_next_controller_is_in_no_doubt() -> None:
    doubtful = Doubtful()
    doubtful.hide()
    doubtful.own.epoch = doubtful.checker._epoch = ControllerEpoch(2)

    with pytest.raises(Broken, match="never were together"):
        doubtful.announce(REDIRECTED)


FIVE = BrokerId(5)
GROWING = Assignment((FIVE, FOUR, TWO, ONE), adding=(FIVE,), removing=(TWO, ONE))
GROWING_ON = Assignment((ONE, THREE, FOUR), adding=(THREE,))


def two_moves_at_once(*, isr: tuple[BrokerId, ...] = (ONE,), first: tuple[BrokerId, ...] | None = (FOUR, ONE)) -> None:
    """A move is redirected in the transaction that removes its leaving replicas; `first` was requested as well."""
    cut = Cut()
    state = msgspec.structs.replace(cut.state, leader=NO_LEADER, leader_epoch=LeaderEpoch(4), isr=isr)
    cut.write(cut.foreign, GROWING, state)
    if first is not None:
        cut.world.folder.wanted(AT, first)
    cut.write(cut.foreign, GROWING_ON, msgspec.structs.replace(state, isr=(ONE,), leader_epoch=LeaderEpoch(5)))


def test_of_two_moves_in_one_transaction_the_first_may_have_had_nothing_to_wait_for() -> None:
    two_moves_at_once()


def test_nobody_is_let_go_for_a_move_between_that_nobody_asked_for() -> None:
    with pytest.raises(Broken, match="were in sync"):
        two_moves_at_once(first=None)
    with pytest.raises(Broken, match="were in sync"):
        two_moves_at_once(first=(ONE, TWO))


def test_a_move_between_has_to_wait_while_who_leaves_is_in_sync() -> None:
    with pytest.raises(Broken, match="were in sync"):
        two_moves_at_once(isr=(ONE, TWO))
