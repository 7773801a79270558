"""The checker knows which moves begin, and when none may."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.core.messages.effects import Commit, Set
from controller.core.state.cluster import ClusterState
from controller.core.state.topics import Partition
from tests.simulation.broken import Broken
from tests.simulation.pauses import DECIDED_BEFORE_S, KNOWN_WITHIN_S, WISHED_WITHIN_S, begins
from tests.simulation.spoiled import AT
from tests.simulation.world import World
from tests.simulation.zookeeper import MakeNode, RemoveNode
from zk_layout import catalog
from zk_layout.facts import Stat, present
from zk_layout.ids import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionId,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.admin import (
    PreferredElection,
    PreferredElectionAddress,
)
from zk_layout.znodes.brokers import BrokerAddress, Registration
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.pause import Pause, PauseAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

PAUSED = present(PauseAddress(), Pause("ann", 1), Stat(Zxid(7), Zxid(7), ZnodeVersion(0)))
LEADS = PartitionState(BrokerId(1), LeaderEpoch(0), ControllerEpoch(1), (BrokerId(1), BrokerId(2)))


def decides(*commits: Commit, pause: bool, world: World | None = None) -> None:
    """One turn of a term that knows of `orders-0` on brokers 1 and 2."""
    state = ClusterState()
    stat = Stat(Zxid(5), Zxid(5), ZnodeVersion(0))
    state.apply(present(TopicAddress(AT.topic), Topic({AT.partition: Assignment((BrokerId(1), BrokerId(2)))}), stat))
    state.apply(present(StateAddress(AT.topic, AT.partition), LEADS, stat))
    if pause:
        state.apply(PAUSED)
    controller: Any = SimpleNamespace(own_id=BrokerId(100), name="controller 100", epoch=ControllerEpoch(1))
    (world or World(1)).pauses.decided(controller, list(commits), state)


def moving(to: Assignment) -> Any:
    write = Set(TopicAddress(AT.topic), Topic({AT.partition: to}), ZnodeVersion(0))
    return SimpleNamespace(writes=(write,), why=())


THIRD = Assignment((BrokerId(3), BrokerId(2), BrokerId(1)), (BrokerId(3),), (BrokerId(1),))


def test_no_move_begins_while_the_term_knows_of_a_pause() -> None:
    decides(moving(THIRD), pause=False)
    with pytest.raises(Broken, match=r"begins to move orders-0 to \[3, 2\], though moves are paused"):
        decides(moving(THIRD), pause=True)


@pytest.mark.parametrize(
    ("isr", "live", "why"),
    [((1,), (1, 2), "though others are below their min ISR"), ((1, 2), (1,), r"though \[2\] are away")],
)
def test_no_move_begins_while_the_cluster_is_not_as_moves_need_it(
    isr: tuple[int, ...], live: tuple[int, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, stat = World(1), Stat(Zxid(5), Zxid(5), ZnodeVersion(0))
    gates = world.limits.gates
    gates.need_min_isr = gates.need_brokers = True
    controller: Any = SimpleNamespace(own_id=BrokerId(100), name="controller 100", epoch=ControllerEpoch(1))
    two, other, state = Assignment((BrokerId(1), BrokerId(2))), PartitionId(1), ClusterState()
    lacking = msgspec.structs.replace(LEADS, isr=tuple(map(BrokerId, isr)))
    state.apply(present(TopicAddress(AT.topic), Topic({AT.partition: two, other: two}), stat))
    state.apply(present(StateAddress(AT.topic, AT.partition), LEADS, stat))
    state.apply(present(StateAddress(AT.topic, other), lacking, stat))
    for broker in live:
        state.apply(present(BrokerAddress(BrokerId(broker)), Registration(()), stat))

    gates.decided(controller, [moving(THIRD)], state)  # it may have been decided before
    world.clock.now += 11.0

    with pytest.raises(Broken, match=why):
        gates.decided(controller, [moving(THIRD)], state)
    if len(live) == 1:  # a replica leaves the broker that is away
        cure = Assignment((BrokerId(1), BrokerId(3), BrokerId(2)), (BrokerId(3),), (BrokerId(2),))
        gates.decided(controller, [moving(cure)], state)

    # The same transaction says that the partition has no leader: its log directory failed, for one.
    loses = Set(StateAddress(*AT), msgspec.structs.replace(LEADS, leader=NO_LEADER), ZnodeVersion(0))
    both: Any = SimpleNamespace(writes=(*moving(THIRD).writes, loses), why=())
    if len(isr) == 1:
        gates.decided(controller, [both], state)
        # Another replica in sync is elected in that transaction.
        elected = Set(
            StateAddress(*AT),
            msgspec.structs.replace(LEADS, leader=two.replicas[1], isr=two.replicas[1:]),
            ZnodeVersion(0),
        )
        both.writes = (*moving(THIRD).writes, elected)
        gates.decided(controller, [both], state)

    for lost in ("is_leaving", "is_offline"):  # the leader shuts down, or has lost its log directory
        with monkeypatch.context() as of:
            of.setattr(world.brokers[BrokerId(1)], lost, (lambda _: True) if lost == "is_offline" else True)
            gates.decided(controller, [moving(THIRD)], state)

    # The leader's broker restarts: for a moment the partition has no leader, and the move takes a replica off it.
    state.apply(present(BrokerAddress(BrokerId(1)), Registration(()), Stat(Zxid(9), Zxid(9), ZnodeVersion(0))))
    gates.decided(controller, [moving(THIRD)], state)
    world.clock.now += 11.0
    with pytest.raises(Broken, match=why):
        gates.decided(controller, [moving(THIRD)], state)


def test_no_move_begins_to_a_broker_that_has_just_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    gates = world.limits.gates
    monkeypatch.setattr(gates, "windows", ())
    gates.need_min_isr = gates.need_brokers = False
    gates.receivers_s = 20.0
    controller: Any = SimpleNamespace(own_id=BrokerId(100), name="controller 100", epoch=ControllerEpoch(1))
    state = ClusterState()

    def register(zxid: int) -> None:
        created = Stat(Zxid(zxid), Zxid(zxid), ZnodeVersion(0))
        state.apply(present(BrokerAddress(BrokerId(3)), Registration(()), created))

    stat = Stat(Zxid(5), Zxid(5), ZnodeVersion(0))
    state.apply(present(TopicAddress(AT.topic), Topic({AT.partition: Assignment((BrokerId(1), BrokerId(2)))}), stat))
    state.apply(present(StateAddress(*AT), LEADS, stat))
    for zxid in (6, 7):
        register(zxid)
        gates.decided(controller, [moving(THIRD)], state)  # it may have been decided before
        world.clock.now += 11.0
        with pytest.raises(Broken, match=r"though \[3\] have just registered"):
            gates.decided(controller, [moving(THIRD)], state)
    world.clock.now += 9.0

    gates.decided(controller, [moving(THIRD)], state)


def test_what_was_decided_before_a_pause_was_known_is_let_through_for_a_while() -> None:
    world = World(1)
    decides(moving(THIRD), pause=False, world=world)

    decides(moving(THIRD), pause=True, world=world)
    world.clock.now += DECIDED_BEFORE_S
    with pytest.raises(Broken, match="begins to move"):
        decides(moving(THIRD), pause=True, world=world)


def test_no_leader_moves_for_balance_while_moves_are_paused_unless_a_client_wants_it() -> None:
    world = World(1)
    balanced: Any = SimpleNamespace(writes=(), why=("1 is the preferred leader of orders-0: it takes over from 2",))
    with pytest.raises(Broken, match="moves the leader of orders-0 for balance"):
        decides(balanced, pause=True)

    path, data = PreferredElectionAddress.path, catalog.encode(PreferredElection((AT,)))
    world.zookeeper.multi(world.tools, [MakeNode(path, data)])
    decides(balanced, pause=True, world=world)
    world.clock.now += 10 * WISHED_WITHIN_S  # no controller leads
    decides(balanced, pause=True, world=world)
    world.zookeeper.multi(world.tools, [RemoveNode(path)])
    decides(balanced, pause=True, world=world)
    world.clock.now += WISHED_WITHIN_S
    with pytest.raises(Broken, match="moves the leader of orders-0 for balance"):
        decides(balanced, pause=True, world=world)


def test_a_term_must_know_of_a_pause_some_time_after_it_began() -> None:
    world = World(1)
    world.zookeeper.make_path("/kafka_zk_controller")
    world.zookeeper.multi(world.tools, [MakeNode(PauseAddress.path, b"")])
    decides(moving(THIRD), pause=False, world=world)

    world.clock.now += KNOWN_WITHIN_S + 1.0
    with pytest.raises(Broken, match="does not know of a pause"):
        decides(moving(THIRD), pause=False, world=world)


@pytest.mark.parametrize(
    ("before", "after", "is_begun"),
    [
        (THIRD, Assignment(THIRD.target), False),
        (THIRD, Assignment((BrokerId(2), BrokerId(1))), False),
        (THIRD, Assignment((BrokerId(1), BrokerId(2))), False),
        (THIRD, Assignment((BrokerId(3), BrokerId(2), BrokerId(1))), False),  # gently: the third has joined
        (THIRD, Assignment((BrokerId(2),)), True),
        (THIRD, Assignment((BrokerId(4), BrokerId(2), BrokerId(1)), (BrokerId(4),), (BrokerId(1),)), True),
        (Assignment(THIRD.original), THIRD, True),
        (Assignment((BrokerId(1), BrokerId(2))), Assignment((BrokerId(2), BrokerId(1))), True),
        (Assignment((BrokerId(1), BrokerId(100))), Assignment((BrokerId(1), BrokerId(2))), True),
    ],
)
def test_the_end_of_a_move_is_no_beginning(before: Assignment, after: Assignment, *, is_begun: bool) -> None:
    assert begins(Partition(before, LEADS), after, {BrokerId(100)}) is is_begun


def test_a_partition_that_has_no_records_does_not_move() -> None:
    before = Partition(Assignment((BrokerId(100), BrokerId(1))))

    assert not begins(before, Assignment((BrokerId(2), BrokerId(1))), {BrokerId(100)})
