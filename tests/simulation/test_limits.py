"""The checker knows when a move may begin, and when one is too many."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from controller.core.messages.effects import DescribeLogDirs
from tests.simulation.broken import Broken
from tests.simulation.reassignment_folder import IN_FLIGHT_S
from tests.simulation.world import World
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionId,
    SessionId,
    TopicName,
    TopicPartition,
)
from zk_layout.znodes.brokers import Registration
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ONE, TWO, THREE, FOUR = (BrokerId(b) for b in (1, 2, 3, 4))
ORDERS, PAYMENTS = TopicName("orders"), TopicName("payments")
OURS = SessionId(7)


def limited(monkeypatch: pytest.MonkeyPatch, **limits: int) -> World:
    world = World(3)
    world.limits.are_set, world.limits.at_once, world.limits.into, world.limits.out = True, None, None, None
    for name, limit in limits.items():
        setattr(world.limits, name, limit)
    monkeypatch.setattr(world.checker, "is_ours", lambda session: session == OURS)
    world.clock.now = 1000.0
    return world


def write(world: World, **topics: Assignment) -> None:
    """One transaction that gives the first partition of each topic these replicas."""
    former: dict[TopicName, Topic | None] = {}
    for name, assignment in topics.items():
        former[TopicName(name)] = world.checker.topics.get(TopicName(name))
        world.checker.topics[TopicName(name)] = Topic({PartitionId(0): assignment})
    world.limits.wrote({TopicAddress(name).path: OURS for name in former}, former)


def elect(world: World, name: TopicName, leader: BrokerId) -> None:
    at = TopicPartition(name, PartitionId(0))
    world.checker.states[at] = PartitionState(leader, LeaderEpoch(0), ControllerEpoch(1), (leader,))
    world.limits.wrote({StateAddress(*at).path: OURS}, {})


@pytest.mark.parametrize("is_moving", [True, False])
def test_a_redirection_takes_room_at_once_even_in_the_transaction_in_which_another_move_begins(
    is_moving: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = limited(monkeypatch, into=1)
    before = Assignment((THREE, TWO), (THREE,)) if is_moving else Assignment((TWO,))
    world.checker.topics[ORDERS] = Topic({PartitionId(0): Assignment((TWO,))})
    world.checker.topics[PAYMENTS] = Topic({PartitionId(0): before})

    with nullcontext() if is_moving else pytest.raises(Broken, match="2 moves at"):
        write(world, orders=Assignment((ONE, TWO), (ONE,)), payments=Assignment((ONE, TWO), (ONE,)))


@pytest.mark.parametrize("ago_s", [1.0, IN_FLIGHT_S])
def test_an_election_takes_room_without_asking(ago_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    world = limited(monkeypatch, out=1)
    world.checker.topics[ORDERS] = Topic({PartitionId(0): Assignment((ONE,))})
    world.checker.topics[PAYMENTS] = Topic({PartitionId(0): Assignment((TWO, ONE), (TWO,))})
    elect(world, ORDERS, ONE)
    world.clock.now += IN_FLIGHT_S
    elect(world, PAYMENTS, ONE)
    world.clock.now += ago_s

    with nullcontext() if ago_s < IN_FLIGHT_S else pytest.raises(Broken, match="2 moves at"):
        write(world, orders=Assignment((TWO, ONE), (TWO,)))


@pytest.mark.parametrize("ago_s", [0.0, 1.0, IN_FLIGHT_S])
def test_what_is_put_right_takes_room_without_asking(ago_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    world = limited(monkeypatch, at_once=1)
    controller = min(world.controllers)
    world.checker.topics[ORDERS] = Topic({PartitionId(0): Assignment((ONE,))})
    world.checker.topics[PAYMENTS] = Topic({PartitionId(0): Assignment((ONE, controller))})
    write(world, payments=Assignment((ONE, TWO, controller), (TWO,), (controller,)))
    world.clock.now += ago_s

    with nullcontext() if ago_s < IN_FLIGHT_S else pytest.raises(Broken, match="2 moves at"):
        write(world, orders=Assignment((TWO, ONE), (TWO,)))


@pytest.mark.parametrize(("is_free", "to"), [(False, THREE), (True, TWO)])
def test_a_move_to_a_broker_that_is_away_takes_room_in_its_rack(
    is_free: bool, to: BrokerId, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = limited(monkeypatch)
    brokers = {b: SimpleNamespace(is_registered=b != ONE) for b in (ONE, TWO, THREE, FOUR)}
    monkeypatch.setattr(world, "brokers", brokers)
    monkeypatch.setattr(world.limits.paces, "into_rack", 1)
    monkeypatch.setattr(world.limits.gates, "may_wait", lambda *_: False)
    world.checker.topics[ORDERS] = Topic({PartitionId(0): Assignment((FOUR, ONE), (ONE,))})
    world.checker.topics[PAYMENTS] = Topic({PartitionId(0): Assignment((FOUR,))})

    assert world.limits.may_wait(TopicPartition(PAYMENTS, PartitionId(0)), (to,)) != is_free


SIZES_OF = "controller 100 asks 1 for sizes of what waits"


@pytest.mark.parametrize(
    ("order", "wished", "numbers", "after_s", "why"),
    [
        (("weight",), True, (0,), 2.0, f"{SIZES_OF}, though nothing depends on them"),
        (("small",), False, (0,), 2.0, f"{SIZES_OF}, though nobody has asked for moves of orders-0"),
        (("large",), True, (0, 0), 2.0, f"{SIZES_OF}: 2 at once"),
        (("small",), True, range(1001), 2.0, f"{SIZES_OF}: 1001 at once"),
        (("small",), True, (0,), 0.5, f"{SIZES_OF} after 0.5 s"),
        (("weight", "large"), True, (0,), 1.5, None),
    ],
)
def test_brokers_are_asked_for_sizes_only_where_they_are_needed_and_not_too_often(
    order: tuple[str, ...], wished: bool, numbers: Iterable[int], after_s: float, why: str | None
) -> None:
    world = World(3)
    world.limits.order = order
    partitions = tuple(TopicPartition(ORDERS, PartitionId(number)) for number in numbers)
    for at in partitions if wished else ():
        world.limits._wish(at, (THREE,))
    controller: Any = SimpleNamespace(own_id=BrokerId(100), name="controller 100", epoch=ControllerEpoch(1))
    asked = DescribeLogDirs(ONE, BrokerEpoch(7), Registration(()), partitions, is_of_waiting=True)

    with nullcontext() if why is None else pytest.raises(Broken, match=re.escape(why)):
        world.limits.size_questions.decided(controller, [asked])
        world.clock.now += after_s
        world.limits.size_questions.decided(controller, [structs.replace(asked, is_of_waiting=False), asked])
