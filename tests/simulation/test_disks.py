"""The checker knows to whom a move may begin, as brokers have said how much room they have."""

from __future__ import annotations

import re
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from controller.core.messages.effects import DescribeDisks, Set
from controller.core.messages.events import Directory, DisksDescribed, LogDirsDescribed, ReplicaSize
from controller.core.state.cluster import ClusterState
from tests.simulation.broken import Broken
from tests.simulation.spoiled import AT
from tests.simulation.world import World
from zk_layout.facts import Stat, present
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress, Registration
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))
LEADS = PartitionState(ONE, LeaderEpoch(0), ControllerEpoch(1), (ONE, TWO))
MOVING = Assignment((THREE, TWO, ONE), (THREE,), (ONE,))
CONTROLLER: Any = SimpleNamespace(own_id=BrokerId(100), name="controller 100", epoch=ControllerEpoch(1))
EPOCH = BrokerEpoch(5)


def waiting_world() -> World:
    world = World(2)
    world.limits.disks.percent, world.limits.disks.begins_unknown = 10, False
    return world


def knows(epoch: int = EPOCH) -> ClusterState:
    """A partition on brokers 1 and 2, and a broker 3."""
    state, stat = ClusterState(), Stat(Zxid(5), Zxid(5), ZnodeVersion(0))
    state.apply(present(TopicAddress(AT.topic), Topic({AT.partition: Assignment((ONE, TWO))}), stat))
    state.apply(present(StateAddress(*AT), LEADS, stat))
    state.apply(present(BrokerAddress(THREE), Registration(()), Stat(Zxid(epoch), Zxid(epoch), ZnodeVersion(0))))
    return state


def said(usable: int, epoch: BrokerEpoch = EPOCH) -> DisksDescribed:
    return DisksDescribed(THREE, epoch, (Directory("/a", 1_000_000, usable),))


def size_of(size_bytes: int) -> LogDirsDescribed:
    return LogDirsDescribed(ONE, EPOCH, {AT: ReplicaSize(size_bytes)}, is_of_waiting=True)


def decides(world: World, state: ClusterState | None = None) -> None:
    """A turn of a term that begins to move to broker 3."""
    write = Set(TopicAddress(AT.topic), Topic({AT.partition: MOVING}), ZnodeVersion(0))
    begins: Any = SimpleNamespace(writes=(write,), why=())
    world.limits.disks.decided(CONTROLLER, [begins], state or knows())


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ((size_of(7_000),), "has not said that it has room"),
        ((said(107_000),), "would receive an unknown number of bytes"),
        ((said(106_999), size_of(7_000)), "has room for 6999 bytes, not 7000"),
        ((said(107_000, BrokerEpoch(4)), size_of(7_000)), "has not said that it has room"),
        ((DisksDescribed(THREE, EPOCH, error="no answer"), size_of(7_000)), "has not said that it has room"),
        ((said(107_000), size_of(7_000)), None),
    ],
)
def test_no_move_begins_to_a_broker_that_has_not_said_that_it_has_room(
    events: tuple[Any, ...], why: str | None
) -> None:
    world = waiting_world()
    world.limits.disks.decided(CONTROLLER, [], knows())
    world.clock.now += 11.0
    world.limits.disks.heard(CONTROLLER, events)

    with nullcontext() if why is None else pytest.raises(Broken, match=f"begins to move .*, though 3 {re.escape(why)}"):
        decides(world)


def test_what_was_decided_before_a_broker_filled_up_may_be_sent_for_a_while_and_what_it_said_counts_for_its_time() -> (
    None
):
    world = waiting_world()
    world.limits.disks.decided(CONTROLLER, [], knows())
    world.limits.disks.heard(CONTROLLER, [said(900_000), size_of(7_000)])
    world.clock.now += 100.0
    decides(world)

    world.limits.disks.heard(CONTROLLER, [said(0)])
    decides(world)
    world.clock.now += 11.0
    with pytest.raises(Broken, match="has room for -100000 bytes"):
        decides(world)

    world.limits.disks.heard(CONTROLLER, [said(900_000)])
    decides(world)
    world.clock.now += 131.0
    with pytest.raises(Broken, match="has not said that it has room"):
        decides(world)


def test_what_was_decided_before_a_broker_restarted_may_be_sent_for_a_while() -> None:
    world = waiting_world()
    world.limits.disks.heard(CONTROLLER, [said(900_000), size_of(7_000)])

    decides(world, knows(epoch=6))
    world.clock.now += 11.0
    with pytest.raises(Broken, match="has not said that it has room"):
        decides(world, knows(epoch=6))


def test_a_successor_must_ask_anew() -> None:
    world = waiting_world()
    world.limits.disks.heard(CONTROLLER, [said(900_000), size_of(7_000)])
    later: Any = SimpleNamespace(own_id=BrokerId(100), name="controller 100", epoch=ControllerEpoch(2))

    world.limits.disks.decided(later, [], knows())

    assert world.limits.disks._term(later).said == {}


@pytest.mark.parametrize(
    ("percent", "after_s", "why"), [(10, 29.0, "after 29.0 s"), (10, 30.0, None), (0, 60.0, "though")]
)
def test_brokers_are_asked_only_where_moves_wait_for_disks_and_not_too_often(
    percent: int, after_s: float, why: str | None
) -> None:
    world = waiting_world()
    world.limits.disks.percent = percent
    asked = DescribeDisks(THREE, EPOCH, Registration(()), ())

    with nullcontext() if why is None else pytest.raises(Broken, match=f"controller 100 asks 3 for room.*{why}"):
        world.limits.disks.asked(CONTROLLER, [asked])
        world.clock.now += after_s
        world.limits.disks.asked(CONTROLLER, [asked])


@pytest.mark.parametrize("changed", ["", "old broker", "no leader"])
def test_in_the_end_moves_wait_only_where_something_is_not_known(monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    world = waiting_world()
    brokers = {broker: SimpleNamespace(is_registered=True) for broker in (ONE, TWO, THREE)}
    brokers[ONE].is_registered = changed != "no leader"
    monkeypatch.setattr(world, "brokers", brokers)
    monkeypatch.setattr(world.limits.disks, "is_old", lambda broker: changed == "old broker" and broker == THREE)
    world.checker.topics[AT.topic] = Topic({AT.partition: Assignment((ONE, TWO))})
    world.checker.states[AT] = LEADS

    assert world.limits.disks.may_wait(AT, (THREE, TWO)) is bool(changed)
    assert not world.limits.disks.may_wait(AT, (TWO, ONE))
    world.limits.disks.begins_unknown = True
    assert not world.limits.disks.may_wait(AT, (THREE, TWO))
