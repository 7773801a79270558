"""The checker knows what brokers may be sent, and what they may delete for it."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from controller.core.candidacy.phases import Phase
from controller.core.messages.commands import LeaderAndIsr, PartitionView, UpdateMetadata
from controller.core.messages.effects import Tell
from tests.simulation.announcements import OFTEN
from tests.simulation.broken import Broken
from tests.simulation.spoiled import AT, stop_replica
from tests.simulation.world import World
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData
from zk_layout import catalog
from zk_layout.ids import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    Zxid,
)
from zk_layout.znodes.admin import (
    TopicDeletionAddress,
)
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress


def test_a_replica_that_is_told_to_go_while_it_is_wanted_is_seen_and_one_that_is_wanted_later_is_none() -> None:
    world = World(0)
    model: Any = SimpleNamespace(broker=BrokerId(1))
    world.checker.states[AT] = PartitionState(BrokerId(2), LeaderEpoch(3), ControllerEpoch(1), (BrokerId(2),))
    world.checker.topics[AT.topic] = Topic({AT.partition: Assignment((BrokerId(2),))})
    world.checker.announcements.deletion_sent(stop_replica(1))
    back = Assignment((BrokerId(1), BrokerId(2)), adding=(BrokerId(1),))
    world.checker.topics[AT.topic] = Topic({AT.partition: back})
    world.checker.announcements.deletion_sent(stop_replica(2))

    world.checker.announcements.deleted(model, AT, stop_replica(1))
    with pytest.raises(Broken, match="which it must keep"):
        world.checker.announcements.deleted(model, AT, stop_replica(2))


@pytest.mark.parametrize(("writer", "is_shown"), [(None, False), (ControllerEpoch(1), False), (None, True)])
def test_a_controller_that_cannot_know_that_another_wants_a_replica_again_may_let_it_go(
    writer: ControllerEpoch | None, is_shown: bool
) -> None:
    world, model = World(0), cast(Any, SimpleNamespace(broker=BrokerId(1)))
    checker, path, others = world.checker, TopicAddress(AT.topic).path, (BrokerId(2),)
    world.write_at_once(MakeNode(path, catalog.encode(Topic({AT.partition: Assignment(others)}))))
    checker.announcements.assigned(AT, Assignment(others), ControllerEpoch(1))
    seen, wanted = world.zookeeper.zxid, Assignment((*others, BrokerId(1)), adding=(BrokerId(1),))
    world.write_at_once(SetData(path, catalog.encode(Topic({AT.partition: wanted}))))
    checker.announcements.assigned(AT, wanted, writer)
    checker.topics[AT.topic] = Topic({AT.partition: wanted})

    checker.announcements.deletion_sent(stop_replica(1), world.zookeeper.zxid if is_shown else seen)
    with nullcontext() if writer is None and not is_shown else pytest.raises(Broken, match="which it must keep"):
        checker.announcements.deleted(model, AT, stop_replica(1))


def leaderless() -> PartitionView:
    """How brokers see the partition `AT` without a leader and without replicas."""
    term, epoch, version = ControllerEpoch(1), LeaderEpoch(1), PartitionEpoch(1)
    return PartitionView(AT.topic, None, AT.partition, term, NO_LEADER, epoch, (), version, 0, (), (), ())


@pytest.mark.parametrize("hindered", ["", "its state may not be written", "its leader's registration is hidden"])
def test_a_broker_gets_the_same_again_and_again_only_where_what_it_wants_cannot_be_done(
    hindered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, broker, model = World(0), BrokerId(1), SimpleNamespace(without_log={AT: LeaderEpoch(1)})
    monkeypatch.setattr(world.brokers[broker], "model", model)
    monkeypatch.setattr(world.refusals, "excuses", lambda at, _: at == AT and "state" in hindered)
    world.checker.states[AT] = PartitionState(BrokerId(3), LeaderEpoch(1), ControllerEpoch(1), (BrokerId(3),))
    if "registration" in hindered:
        world.zookeeper.hidden.add(BrokerAddress(BrokerId(3)).path)
    view = leaderless()
    tell = Tell(broker, BrokerEpoch(1), ControllerEpoch(1), UpdateMetadata((view,), ()))
    for _ in range(OFTEN):
        world.checker.announcements._is_no_repetition(tell, (view,))

    with nullcontext() if hindered else pytest.raises(Broken, match="th time"):
        world.checker.announcements._is_no_repetition(tell, (view,))


@pytest.mark.parametrize(
    ("happens", "is_reason"),
    [
        ("nothing", False),
        ("broker 1, which gets it, tells of a failed log directory", True),
        ("broker 2, which hosts it, leaves", True),
        ("broker 3, which the move removes, wants to shut down", True),
        ("broker 4, which has nothing to do with it, leaves", False),
    ],
)
def test_what_happens_to_a_broker_is_a_reason_to_announce_again_what_it_hosts(happens: str, is_reason: bool) -> None:
    """World 4033: broker 2 leaves, then 3, both with failed log directories: what others must know stays the same."""
    world, two, three = World(0), BrokerId(2), BrokerId(3)
    for broker in world.brokers.values():
        broker.start()
    checker, view = world.checker, replace(leaderless(), replicas=(two,))
    checker.topics[AT.topic] = Topic({AT.partition: Assignment((two, three), removing=(three,))})
    tell = Tell(BrokerId(1), BrokerEpoch(1), ControllerEpoch(1), UpdateMetadata((view,), ()))
    for _ in range(OFTEN):
        checker.announcements._is_no_repetition(tell, (view,))

    if "tells" in happens:
        world.brokers[BrokerId(1)]._tell_of_failure(world.brokers[BrokerId(1)].life)
    elif "leaves" in happens:
        world.write_at_once(RemoveNode(BrokerAddress(two if "2" in happens else BrokerId(4)).path))
    elif "shut down" in happens:
        world.brokers[three].shut_down(1.0)

    with nullcontext() if is_reason else pytest.raises(Broken, match="th time"):
        checker.announcements._is_no_repetition(tell, (view,))


class Withdrawn:
    """Topic `AT` has its only replica at broker 1; its deletion is requested, and the request withdrawn."""

    def __init__(self) -> None:
        self.world = World(0)
        self.topic, self.request = TopicAddress(AT.topic).path, TopicDeletionAddress(AT.topic).path
        self.begin()

    def begin(self) -> None:
        one = BrokerId(1)
        value = catalog.encode(Topic({AT.partition: Assignment((one,))}))
        self.write(MakeNode(self.topic, value))
        self.world.checker.states[AT] = PartitionState(one, LeaderEpoch(3), ControllerEpoch(1), (one,))

    def write(self, *operations: MakeNode | RemoveNode) -> Zxid:
        """Other clients write; return the zxid."""
        self.world.zookeeper.multi(self.world.zookeeper.open_session(), operations)
        self.world.checker.after_step()
        return self.world.zookeeper.zxid

    def send(self, seen: Zxid | None = None) -> None:
        self.world.checker.announcements.deletion_sent(stop_replica(1), seen)

    def carry_out(self) -> None:
        model: Any = SimpleNamespace(broker=BrokerId(1))
        self.world.checker.announcements.deleted(model, AT, stop_replica(1))


@pytest.mark.parametrize("is_shown", [True, False], ids=["sent before", "sent before it was shown"])
def test_a_topic_deletion_that_was_sent_may_be_carried_out_after_its_request_is_withdrawn(is_shown: bool) -> None:
    topic = Withdrawn()
    requested_at = topic.write(MakeNode(topic.request))
    if is_shown:
        topic.send()
    topic.write(RemoveNode(topic.request))
    if not is_shown:
        topic.send(requested_at)

    topic.carry_out()


def test_a_topic_deletion_that_is_sent_after_its_request_was_withdrawn_is_seen() -> None:
    topic = Withdrawn()
    topic.write(MakeNode(topic.request))
    topic.send()
    topic.send(topic.write(RemoveNode(topic.request)))

    with pytest.raises(Broken, match="being in its ISR"):
        topic.carry_out()


def test_a_topic_deletion_that_is_carried_out_against_the_next_topic_of_that_name_is_seen() -> None:
    topic = Withdrawn()
    topic.write(MakeNode(topic.request))
    topic.send()
    topic.write(RemoveNode(topic.topic), RemoveNode(topic.request))
    topic.begin()

    with pytest.raises(Broken, match="being in its ISR"):
        topic.carry_out()


def elected_at_any_price() -> World:
    """Broker 1 was to delete its replica in leader epoch 3, and was elected, empty, in leader epoch 5."""
    world = World(0)
    at_last = PartitionState(BrokerId(1), LeaderEpoch(5), ControllerEpoch(1), (BrokerId(1),))
    world.checker.states[AT] = at_last
    world.checker.topics[AT.topic] = Topic({AT.partition: Assignment((BrokerId(1),))})
    world.checker.records.lost[AT] = LeaderEpoch(5)
    return world


def test_who_is_elected_at_any_price_may_first_delete_the_log_that_it_was_told_to_delete_before() -> None:
    model: Any = SimpleNamespace(broker=BrokerId(1))

    elected_at_any_price().checker.announcements.deleted(model, AT, stop_replica(1))


def test_a_log_that_is_deleted_while_it_alone_is_in_sync_is_seen() -> None:
    model: Any = SimpleNamespace(broker=BrokerId(1))
    never_given_up, gone_on = elected_at_any_price(), elected_at_any_price()
    del never_given_up.checker.records.lost[AT]
    gone_on.checker.records.note_led(BrokerId(1), AT, 0, LeaderEpoch(5))

    for world in (never_given_up, gone_on):
        with pytest.raises(Broken, match="being in its ISR"):
            world.checker.announcements.deleted(model, AT, stop_replica(1))


@pytest.mark.parametrize(
    ("is_later", "phase", "counts"),
    [(False, Phase.ACTIVE, False), (True, Phase.ACTIVE, True), (False, Phase.LOADING, True)],
    ids=["same term", "later term", "a term that loads"],
)
def test_a_replica_that_was_taken_out_by_hand_is_made_again_only_by_a_term_that_loads_that(
    is_later: bool, phase: Phase, counts: bool
) -> None:
    world, before, now = World(0), ControllerEpoch(1), ControllerEpoch(3 if is_later else 2)
    one, two = BrokerId(1), BrokerId(2)
    moving = Assignment((two, one), (two,), (one,))
    checker = world.checker
    checker.topics[AT.topic], checker.edited[AT], checker.together[AT] = Topic({AT.partition: moving}), None, {}
    checker._epoch = 2
    world.controllers = {BrokerId(100): cast(Any, SimpleNamespace(epoch=ControllerEpoch(2), phase=phase))}

    checker.announcements.assigned(AT, moving, before)
    checker.announcements.edited(AT, Assignment((one,)))
    checker.announcements.edited(AT, Assignment((one,)))
    checker._epoch = now
    checker.announcements.assigned(AT, moving, now)

    view = PartitionView(
        AT.topic, None, AT.partition, now, one, LeaderEpoch(3), (one,), PartitionEpoch(0), 0, (two, one), (two,), (one,)
    )
    tell = Tell(two, BrokerEpoch(1), now, LeaderAndIsr((), (view,), ()))
    controller: Any = SimpleNamespace(name="100", own_id=BrokerId(100), epoch=now, links={two: None})
    with nullcontext() if counts else pytest.raises(Broken, match="the controller did not make it"):
        checker.announcements.sent(controller, tell)


@pytest.mark.parametrize("taken_out_in", [ControllerEpoch(1), None], ids=["by itself", "by a native controller"])
def test_a_controller_announces_what_it_made_until_it_can_know_that_it_is_gone(
    taken_out_in: ControllerEpoch | None,
) -> None:
    world, term = World(0), ControllerEpoch(1)
    one, two = BrokerId(1), BrokerId(2)
    moving = Assignment((two, one), (two,), (one,))
    checker = world.checker
    checker.topics[AT.topic], checker.edited[AT], checker.together[AT] = Topic({AT.partition: moving}), None, {}

    checker.announcements.assigned(AT, moving, term)
    checker.announcements.assigned(AT, Assignment((one,)), taken_out_in)

    view = PartitionView(
        AT.topic,
        None,
        AT.partition,
        term,
        one,
        LeaderEpoch(3),
        (one,),
        PartitionEpoch(0),
        0,
        (two, one),
        (two,),
        (one,),
    )
    tell = Tell(two, BrokerEpoch(1), term, LeaderAndIsr((), (view,), ()))
    controller: Any = SimpleNamespace(name="100", own_id=BrokerId(100), epoch=term, links={two: None})
    with pytest.raises(Broken, match="the controller did not make it") if taken_out_in else nullcontext():
        checker.announcements.sent(controller, tell)
