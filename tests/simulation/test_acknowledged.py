"""The checker knows which records were acknowledged, and who may be without them."""

from __future__ import annotations

from contextlib import nullcontext

import msgspec
import pytest

from controller.core.messages.commands import LeaderAndIsr, PartitionView
from controller.core.settings import WRITES_A_TRANSACTION
from controller.lab.broker_model import KAFKA_3_9, BrokerModel, Traits
from tests.equipment.broker_versions import KAFKA_2_6
from tests.simulation.broken import Broken
from tests.simulation.network import ZkConnection
from tests.simulation.spoiled import AT
from tests.simulation.world import World
from zk_layout.ids import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
)
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment, Topic


def test_what_a_broker_writes_does_not_pass_a_connection_that_is_cut() -> None:
    world = World(0)
    connection = ZkConnection(world.network)
    arrived: list[str] = []
    connection.close()

    connection.call(lambda: arrived.append("written"), lambda _: None)
    while world.clock.now < 1.0 and world.clock.step():
        pass

    assert arrived == []


@pytest.mark.parametrize(("traits", "counts"), [(KAFKA_2_6, False), (KAFKA_3_9, True)])
def test_what_a_leader_before_2_7_acknowledges_without_whom_it_has_itself_written_into_the_isr_does_not_count(
    traits: Traits, counts: bool
) -> None:
    world, one, two = World(0), BrokerId(1), BrokerId(2)
    first = PartitionState(one, LeaderEpoch(3), ControllerEpoch(1), (one,))
    larger = msgspec.structs.replace(first, isr=(one, two))
    world.checker.accepted[AT, 1] = [larger]
    world.checker.states[AT] = msgspec.structs.replace(larger, leader=two, leader_epoch=LeaderEpoch(4))
    view = PartitionView(
        AT.topic, None, AT.partition, ControllerEpoch(1), one, LeaderEpoch(3), (one,), PartitionEpoch(0), 0, (one, two)
    )
    model = BrokerModel(one, traits)
    model.receive(LeaderAndIsr((view,), (), ()), one, ControllerEpoch(1), BrokerEpoch(1))
    model.hear(AT, two, 0, 0.0)
    (wanted,) = model.proposals(0.0)
    assert wanted.isr == (one, two)

    model.append(AT, 1)  # the new member must have it
    model.forget_wish(AT, wanted)  # the leader takes the write for failed: there was another write since
    model.append(AT, 2)
    world.checker.records.acknowledged(model)

    assert model.disk[AT].high_watermark == 2
    assert bool(world.checker.records.acknowledged_numbers(AT)) is counts


def acknowledged_without(follower: BrokerId) -> World:
    """The leader has acknowledged a record that a broker, registered for long, does not have."""
    world, leader = World(0), BrokerId(101)
    world.brokers[follower].start()
    world.clock.now = 100.0
    world.checker.states[AT] = PartitionState(leader, LeaderEpoch(3), ControllerEpoch(1), (leader,))
    view = PartitionView(
        AT.topic,
        None,
        AT.partition,
        ControllerEpoch(1),
        leader,
        LeaderEpoch(3),
        (leader,),
        PartitionEpoch(0),
        0,
        (leader,),
    )
    model = BrokerModel(leader, KAFKA_3_9)
    model.receive(LeaderAndIsr((view,), (), ()), leader, ControllerEpoch(1), BrokerEpoch(1))
    model.append(AT, 1)
    world.checker.records.acknowledged(model)
    return world


@pytest.mark.parametrize("restart_s", [None, 0.1, 1.0])
def test_who_joins_an_isr_without_what_was_acknowledged_is_seen_unless_its_former_life_has_only_just_ended(
    restart_s: float | None,
) -> None:
    joined = BrokerId(1)
    world = acknowledged_without(joined)
    broker, checker = world.brokers[joined], world.checker

    with pytest.raises(Broken, match="without the acknowledged records"):
        checker.records.joins_with_everything(AT, [joined], 0.0)
    broker.crash(restart_s=None)
    checker.records.joins_with_everything(AT, [joined], 0.0)  # it is still registered
    if restart_s is None:
        world.expire(broker.session)
    else:
        world.clock.now += restart_s
        broker.start()
    checker.records.joins_with_everything(AT, [joined], 0.0)  # the write may have been in flight
    world.clock.now += 10.0
    checker.records.joins_with_everything(AT, [joined], world.clock.now)  # the server lagged until now
    with pytest.raises(Broken, match="without the acknowledged records"):
        checker.records.joins_with_everything(AT, [joined], 0.0)


def test_nobody_needs_what_was_acknowledged_in_a_topic_that_is_being_deleted() -> None:
    world = acknowledged_without(BrokerId(1))
    world.checker.unwanted[AT.topic] = None

    world.checker.records.joins_with_everything(AT, [BrokerId(1)], 0.0)


def test_a_forced_request_may_give_up_records_where_there_is_no_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joined = BrokerId(1)
    world = acknowledged_without(joined)
    checker, session = world.checker, world.zookeeper.open_session()
    monkeypatch.setattr(checker, "is_ours", lambda _: True)
    checker.topics[AT.topic] = Topic({AT.partition: Assignment((joined,))})
    before = PartitionState(NO_LEADER, LeaderEpoch(4), ControllerEpoch(0), (BrokerId(101),))
    after = msgspec.structs.replace(before, leader_epoch=LeaderEpoch(5), isr=(joined,))

    with pytest.raises(Broken, match="without the acknowledged records"):
        checker._state_follows(AT, before, after, session)
    checker.answers.forced[AT] = None
    checker._state_follows(AT, before, after, session)
    assert AT in checker.records.lost


@pytest.mark.parametrize(
    ("is_forced", "at_once", "is_excused"), [(True, 6, True), (False, 6, False), (True, WRITES_A_TRANSACTION, False)]
)
def test_a_forced_move_may_be_written_before_its_state_where_it_has_to_be_cut(
    is_forced: bool, at_once: int, is_excused: bool
) -> None:
    world, (one, two) = World(0), (BrokerId(1), BrokerId(2))
    world.plan, checker = msgspec.structs.replace(world.plan, writes_a_transaction=at_once), world.checker
    before = Topic({AT.partition: Assignment((one, two))})
    checker.topics[AT.topic] = Topic({AT.partition: Assignment((two,))})
    checker.states[AT] = PartitionState(one, LeaderEpoch(3), ControllerEpoch(1), (one,))
    checker.answers.forced.update({AT: None} if is_forced else {})

    with nullcontext() if is_excused else pytest.raises(Broken, match="no in-sync replica among"):
        checker.departures.nobody_left_early(before, dict(checker.states), AT.topic)


@pytest.mark.parametrize("is_listed", [True, False])
def test_what_is_acknowledged_without_an_in_sync_replica_that_is_not_listed_does_not_count(*, is_listed: bool) -> None:
    world, one, two = World(0), BrokerId(1), BrokerId(2)
    world.checker.states[AT] = PartitionState(one, LeaderEpoch(3), ControllerEpoch(1), (one, two))
    replicas, isr = ((one, two), (one,)) if is_listed else ((one,), (one, two))
    view = PartitionView(
        AT.topic, None, AT.partition, ControllerEpoch(1), one, LeaderEpoch(3), isr, PartitionEpoch(0), 0, replicas
    )
    model = BrokerModel(one, KAFKA_2_6)
    model.receive(LeaderAndIsr((view,), (), ()), one, ControllerEpoch(1), BrokerEpoch(1))

    model.append(AT, 1)
    world.checker.records.acknowledged(model)

    assert model.disk[AT].high_watermark == 1
    assert bool(world.checker.records.acknowledged_numbers(AT)) is is_listed
