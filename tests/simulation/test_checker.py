"""The checker notices a faulty controller: each of these spoils a correct one a little."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from controller.core.candidacy.phases import Phase
from controller.core.machine import Machine
from controller.core.messages.commands import LeaderAndIsr, PartitionView, ReplicaStop, StopReplica, UpdateMetadata
from controller.core.messages.effects import Answer, Commit, Delete, Effect, Notice, Set, Tell, Write, operation
from controller.core.messages.events import CommitId, Event, Observed
from controller.core.messages.requests import ControlledShutdown
from controller.core.settings import WRITES_A_TRANSACTION
from controller.core.state.cluster import ClusterState
from controller.core.state.topic_facts import Topics
from controller.core.state.topics import DeletionMark, Partition, TopicView
from controller.core.topics import deletion_writes
from controller.core.topics.deletion import DURING_DELETE, TopicDeletions
from controller.core.transactions.packing import Packing, Piece
from controller.core.transactions.proposal import Proposal
from controller.lab.broker_model import KAFKA_3_9, BrokerModel, Traits
from controller.zk import protocol
from tests.equipment.broker_versions import KAFKA_2_6
from tests.simulation.announcements import OFTEN
from tests.simulation.broken import Broken
from tests.simulation.brokers import Broker
from tests.simulation.network import ZkConnection
from tests.simulation.outcome import _is_at_rest
from tests.simulation.pauses import DECIDED_BEFORE_S, KNOWN_WITHIN_S, WISHED_WITHIN_S, begins
from tests.simulation.refusals import Concern, Right
from tests.simulation.sizes import GUARD_BYTES, HANG_UPS
from tests.simulation.world import World
from tests.simulation.zookeeper import MakeNode, Permission, RemoveNode, SetData, Znode
from zk_layout import catalog
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    SessionId,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.admin import (
    LegacyReassignmentAddress,
    PreferredElection,
    PreferredElectionAddress,
    TopicDeletionAddress,
)
from zk_layout.znodes.brokers import BrokerAddress, Registration
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.pause import Pause, PauseAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

SEEDS = 40
AT = TopicPartition(TopicName("orders"), PartitionId(0))
Spoil = Callable[[Effect], Iterable[Effect]]


class SpoiledMachine:
    """A correct machine whose effects are spoiled."""

    def __init__(self, machine: Machine, spoil: Spoil) -> None:
        self._machine = machine
        self._spoil = spoil
        self._queue, self._transactions = machine._queue, machine._transactions

    def turn(self, events: Sequence[Event], now: float) -> list[Effect]:
        return [spoiled for effect in self._machine.turn(events, now) for spoiled in self._spoil(effect)]

    def let_go(self) -> bool:
        return self._machine.let_go()


def broken_by(spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> str:
    """The first broken promise that some seed finds."""
    right = World.new_machine

    def spoiled(world: World, own_id: BrokerId, epoch: ControllerEpoch, state: ClusterState) -> SpoiledMachine:
        return SpoiledMachine(right(world, own_id, epoch, state), spoil)

    monkeypatch.setattr(World, "new_machine", spoiled)
    return broken_first()


def broken_first(but: str | None = None) -> str:
    """The first broken promise that some seed finds, apart from an irrelevant one."""
    for seed in range(SEEDS):
        try:
            World(seed).run()
        except Broken as broken:
            if but is None or but not in str(broken):
                return str(broken)
    return "nothing"


def rewritten(commit: Commit, rewrite: Callable[[Write], Write]) -> Commit:
    rewritten = [(held, rewrite(held.write)) for held in commit.operations]
    operations = tuple(held if new is held.write else operation(new) for held, new in rewritten)
    return msgspec.structs.replace(commit, operations=operations)


def writing(rewrite: Callable[[Write], Write]) -> Spoil:
    """Write something else, and send no commands, so that only ZooKeeper's side is checked."""

    def spoil(effect: Effect) -> Iterable[Effect]:
        if isinstance(effect, Commit):
            return [rewritten(effect, rewrite)]
        return [] if isinstance(effect, Tell) else [effect]

    return spoil


def test_a_replica_that_is_never_told_to_go_is_a_stray(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(effect: Effect) -> Iterable[Effect]:
        if isinstance(effect, Tell) and isinstance(effect.command, StopReplica):
            of_topics = tuple(s for s in effect.command.stops if s.leader_epoch == DURING_DELETE)
            return [msgspec.structs.replace(effect, command=StopReplica(of_topics))]
        return [effect]

    assert "keeps a stray replica" in broken_by(spoil, monkeypatch)


def test_brokers_must_hear_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(effect: Effect) -> Iterable[Effect]:
        if isinstance(effect, Tell) and isinstance(effect.command, UpdateMetadata):
            return [msgspec.structs.replace(effect, command=UpdateMetadata((), effect.command.brokers))]
        return [effect]

    message = broken_by(spoil, monkeypatch)

    assert "has never heard of" in message or "ZooKeeper has" in message


def test_nothing_may_be_told_that_zookeeper_has_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(effect: Effect) -> Iterable[Effect]:
        if isinstance(effect, Tell) and isinstance(effect.command, LeaderAndIsr) and effect.command.new:
            view = effect.command.new[0]
            ahead = msgspec.structs.replace(view, leader_epoch=LeaderEpoch(view.leader_epoch + 1))
            command = msgspec.structs.replace(effect.command, new=(ahead,))
            return [msgspec.structs.replace(effect, command=command)]
        return [effect]

    assert "never accepted by ZooKeeper" in broken_by(spoil, monkeypatch)


def test_no_replica_is_told_to_be_new_that_its_controller_has_not_just_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(effect: Effect) -> Iterable[Effect]:
        if isinstance(effect, Tell) and isinstance(effect.command, LeaderAndIsr):
            command = msgspec.structs.replace(effect.command, partitions=(), new=effect.command.partitions)
            return [effect if effect.command.new else msgspec.structs.replace(effect, command=command)]
        return [effect]

    assert "as new" in broken_by(spoil, monkeypatch)


def test_an_answer_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(effect: Effect) -> Iterable[Effect]:
        return [effect, effect] if isinstance(effect, Answer) else [effect]

    assert "twice" in broken_by(spoil, monkeypatch)


def test_an_answer_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(effect: Effect) -> Iterable[Effect]:
        return [] if isinstance(effect, Answer) else [effect]

    assert "never answered" in broken_by(spoil, monkeypatch)


def test_a_leader_is_elected_among_the_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewrite(write: Write) -> Write:
        if isinstance(write, Set) and isinstance(write.value, PartitionState) and len(write.value.isr) > 1:
            spoilt = msgspec.structs.replace(write.value, leader=write.value.isr[0], isr=write.value.isr[1:])
            return msgspec.structs.replace(write, value=spoilt)
        return write

    assert "is not in the ISR" in broken_by(writing(rewrite), monkeypatch)


def test_a_leader_epoch_rises_with_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewrite(write: Write) -> Write:
        if isinstance(write, Set) and isinstance(write.value, PartitionState):
            return msgspec.structs.replace(write, value=msgspec.structs.replace(write.value, leader_epoch=0))
        return write

    message = broken_by(writing(rewrite), monkeypatch)

    assert "within leader epoch" in message or "leader epoch of" in message


def test_a_topic_keeps_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewrite(write: Write) -> Write:
        if isinstance(write, Set) and isinstance(write.value, Topic):
            return msgspec.structs.replace(write, value=Topic(write.value.partitions))
        return write

    assert "lost its id" in broken_by(writing(rewrite), monkeypatch)


def test_nobody_is_let_go_before_the_target_is_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(assignment: Assignment) -> Assignment:
        return Assignment(assignment.target)

    def rewrite(write: Write) -> Write:
        if isinstance(write, Set) and isinstance(write.value, Topic):
            partitions = {p: at_once(a) for p, a in write.value.partitions.items()}
            return msgspec.structs.replace(write, value=Topic(partitions, write.value.topic_id))
        return write

    message = broken_by(writing(rewrite), monkeypatch)

    assert "no in-sync replica among" in message or "but the replicas" in message


def stop_replica(number: int) -> Tell:
    """Broker 1 gets the command to delete its replica."""
    stop = ReplicaStop(AT.topic, AT.partition, LeaderEpoch(3), is_deletion=True)
    return Tell(BrokerId(1), BrokerEpoch(1), ControllerEpoch(number), StopReplica((stop,)))


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


@pytest.mark.parametrize("may_be_written", [True, False])
def test_a_broker_gets_the_same_again_and_again_only_where_what_it_wants_may_not_be_written(
    may_be_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, broker, model = World(0), BrokerId(1), SimpleNamespace(without_log={AT: LeaderEpoch(1)})
    monkeypatch.setattr(world.brokers[broker], "model", model)
    monkeypatch.setattr(world.refusals, "excuses", lambda at, _: at == AT and not may_be_written)
    view = PartitionView(
        AT.topic,
        None,
        AT.partition,
        ControllerEpoch(1),
        NO_LEADER,
        LeaderEpoch(1),
        (),
        PartitionEpoch(1),
        0,
        (),
        (),
        (),
    )
    tell = Tell(broker, BrokerEpoch(1), ControllerEpoch(1), UpdateMetadata((view,), ()))
    for _ in range(OFTEN):
        world.checker.announcements._is_no_repetition(tell, (view,))

    with pytest.raises(Broken, match="th time") if may_be_written else nullcontext():
        world.checker.announcements._is_no_repetition(tell, (view,))


OF_LEADER, FORMER = (BrokerId(1), BrokerId(2)), BrokerId(3)


def overwritten(monkeypatch: pytest.MonkeyPatch, *, may_be_put_right: bool = False, is_edited: bool = True) -> World:
    """A world in which the replicas in a topic's znode may not be put right."""
    world = World(0)
    if is_edited:
        world.checker.edited[AT] = None
    monkeypatch.setattr(
        world.refusals, "excuses", lambda _, concern: not may_be_put_right and concern is Concern.MOVING
    )
    return world


def at_rest(world: World, *, told: tuple[BrokerId, ...] = OF_LEADER) -> None:
    """Check a partition led by 1, with 2 in sync, whose topic's znode says 3 and 1, as it did before a move.

    Shape:
        `told` are the replicas that the leader was sent.
    """
    leader, partition = OF_LEADER[0], StateAddress(AT.topic, AT.partition).path
    state = PartitionState(leader, LeaderEpoch(6), ControllerEpoch(1), OF_LEADER)
    assignment = Assignment((FORMER, leader))
    world.checker.states[AT], world.checker.topics[AT.topic] = state, Topic({AT.partition: assignment})
    world.zookeeper.nodes[partition] = Znode(b"", 1, 0)
    view = PartitionView(
        AT.topic, None, AT.partition, ControllerEpoch(1), leader, LeaderEpoch(6), OF_LEADER, PartitionEpoch(0), 0, told
    )
    live: dict[BrokerId, Any] = {
        broker: SimpleNamespace(
            cache={AT: view},
            replicas={AT: SimpleNamespace(view=view)} if broker in OF_LEADER else {},
            disk={AT: None},
            is_offline=lambda _: False,
            leads=lambda _, broker=broker: broker == leader,
        )
        for broker in (*OF_LEADER, FORMER)
    }
    _is_at_rest(world, AT, assignment, live)


def test_what_was_written_over_a_topic_and_may_not_be_put_right_says_nothing_about_who_has_to_be_in_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_rest(overwritten(monkeypatch))

    with pytest.raises(Broken, match=r"live replicas \[3\]"):  # whoever the leader was sent has to
        at_rest(overwritten(monkeypatch), told=(*OF_LEADER, FORMER))


@pytest.mark.parametrize("case", [{"may_be_put_right": True}, {"is_edited": False}])
def test_a_replica_that_is_not_in_sync_is_seen_where_nothing_prevents_that_its_leader_knows_it(
    case: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Broken, match=r"live replicas \[3\]"):
        at_rest(overwritten(monkeypatch, **case))


def test_a_topic_is_led_unless_the_age_of_the_request_to_delete_it_may_not_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, request, assignment = World(0), TopicDeletionAddress(AT.topic).path, Assignment((BrokerId(1),))
    session, live = (
        world.zookeeper.open_session(),
        {BrokerId(1): cast(Any, SimpleNamespace(is_offline=lambda _: False))},
    )

    def write(operation: MakeNode | RemoveNode) -> None:
        world.zookeeper.multi(session, [operation])
        world.checker.after_step()

    write(MakeNode(request))
    write(MakeNode(TopicAddress(AT.topic).path, catalog.encode(Topic({AT.partition: assignment}))))
    rights = world.refusals._rights_of(AT.topic, AT.partition)
    monkeypatch.setattr(world.refusals, "_of_some_topic", lambda: tuple(r for r in rights if r.path == request))
    monkeypatch.setattr("tests.simulation.refusals.LEFT_FOR_GOOD", 1.0)
    world.refusals.heal()
    _is_at_rest(world, AT, assignment, live)

    write(RemoveNode(request))
    with pytest.raises(Broken, match="never given a leader"):
        _is_at_rest(world, AT, assignment, live)


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
    world.checker.lost[AT] = LeaderEpoch(5)
    return world


def test_who_is_elected_at_any_price_may_first_delete_the_log_that_it_was_told_to_delete_before() -> None:
    model: Any = SimpleNamespace(broker=BrokerId(1))

    elected_at_any_price().checker.announcements.deleted(model, AT, stop_replica(1))


def test_a_log_that_is_deleted_while_it_alone_is_in_sync_is_seen() -> None:
    model: Any = SimpleNamespace(broker=BrokerId(1))
    never_given_up, gone_on = elected_at_any_price(), elected_at_any_price()
    del never_given_up.checker.lost[AT]
    gone_on.checker.note_led(BrokerId(1), AT, 0, LeaderEpoch(5))

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
    world.checker.acknowledged(model)

    assert model.disk[AT].high_watermark == 2
    assert bool(world.checker.acknowledged_numbers(AT)) is counts


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
    world.checker.acknowledged(model)
    return world


@pytest.mark.parametrize("restart_s", [None, 0.1, 1.0])
def test_who_joins_an_isr_without_what_was_acknowledged_is_seen_unless_its_former_life_has_only_just_ended(
    restart_s: float | None,
) -> None:
    joined = BrokerId(1)
    world = acknowledged_without(joined)
    broker, checker = world.brokers[joined], world.checker

    with pytest.raises(Broken, match="without the acknowledged records"):
        checker.joins_with_everything(AT, [joined], 0.0)
    broker.crash(restart_s=None)
    checker.joins_with_everything(AT, [joined], 0.0)  # it is still registered
    if restart_s is None:
        world.expire(broker.session)
    else:
        world.clock.now += restart_s
        broker.start()
    checker.joins_with_everything(AT, [joined], 0.0)  # the write may have been in flight
    world.clock.now += 10.0
    checker.joins_with_everything(AT, [joined], world.clock.now)  # the server lagged until now
    with pytest.raises(Broken, match="without the acknowledged records"):
        checker.joins_with_everything(AT, [joined], 0.0)


def test_nobody_needs_what_was_acknowledged_in_a_topic_that_is_being_deleted() -> None:
    world = acknowledged_without(BrokerId(1))
    world.checker.unwanted[AT.topic] = None

    world.checker.joins_with_everything(AT, [BrokerId(1)], 0.0)


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
    assert AT in checker.lost


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
        checker._nobody_left_early(before, dict(checker.states), AT.topic)


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


def test_a_decision_that_is_cut_where_nothing_has_to_be_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Packing.pieces

    def cutting(packing: Packing, proposal: Proposal, *, is_alone: bool) -> Iterable[Piece]:
        packing._most_writes = 1
        return right(packing, proposal, is_alone=is_alone)

    monkeypatch.setattr(Packing, "pieces", cutting)

    assert "its leader epoch stayed" in broken_first()


def test_a_topic_whose_znodes_go_before_its_logs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicDeletions, "_unconfirmed", lambda *_: {})

    assert "was deleted while broker" in broken_first()


def test_a_topic_deleted_for_a_request_that_was_about_an_earlier_topic_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Topics._queue

    def forgetful(topics: Topics, record: Any, topic: TopicView) -> None:
        mark = topics.marks.get(topic.name)
        if mark is not None:
            topics.marks[topic.name] = DeletionMark(Zxid(topic.czxid + 1), mark.version)
        right(topics, record, topic)

    monkeypatch.setattr(Topics, "_queue", forgetful)
    # Mostly a request is dropped before the next topic exists: here it stays.
    monkeypatch.setattr(deletion_writes, "dropped", lambda *_: None)

    assert "without a request" in broken_first(but="left over in /admin/delete_topics")


def test_a_controller_gives_up_only_its_own_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(0)
    monkeypatch.setattr(world.checker, "is_ours", lambda _: True)
    one, other = world.zookeeper.open_session(), world.zookeeper.open_session()

    world.zookeeper.multi(one, [MakeNode("/controller")])
    world.checker.after_step()
    world.zookeeper.multi(other, [RemoveNode("/controller"), MakeNode("/controller")])
    world.checker.after_step()

    world.zookeeper.multi(one, [RemoveNode("/controller")])
    with pytest.raises(Broken, match="ended the claim of session"):
        world.checker.after_step()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_controller_answers_the_request_that_it_was_shown(is_replaced: bool) -> None:
    world = World(0)
    world.sizes.is_tight = False
    address = LegacyReassignmentAddress()
    world.write_at_once(MakeNode(address.path))
    controller: Any = SimpleNamespace(epoch=ControllerEpoch(1), session=SessionId(0), name="controller 100")
    commit = Commit(CommitId(1), (operation(Delete(address, ZnodeVersion(0))),), ("it is done",))

    world.namesakes.decided(controller, commit)
    if is_replaced:
        world.namesakes.replace(address.path)

    wrong = world.namesakes.committed(controller, commit)
    assert ("another than the one it was shown" in wrong) if wrong is not None else not is_replaced


def test_no_live_replica_is_removed_for_a_dead_target(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = World(0).checker
    one, two = BrokerId(1), BrokerId(2)
    monkeypatch.setattr(Broker, "is_registered", property(lambda broker: broker.broker == two))
    monkeypatch.setattr(Broker, "is_gone", lambda broker, _: broker.broker == one)
    states = {AT: PartitionState(one, LeaderEpoch(0), ControllerEpoch(1), (one,))}
    before = Topic({AT.partition: Assignment((one, two))})
    checker.topics[AT.topic] = Topic({AT.partition: Assignment((two,))})
    checker._target_lives(before, states, AT.topic, SessionId(0))

    checker.topics[AT.topic] = Topic({AT.partition: Assignment((one,))})
    with pytest.raises(Broken, match="none of which lives"):
        checker._target_lives(before, states, AT.topic, SessionId(0))


def test_a_controller_does_not_make_servers_hang_up_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(0)
    monkeypatch.setattr(World, "is_peaceful", True)
    written = protocol.transaction([protocol.SetData("/a", b"much", ZnodeVersion(0))])
    frame = struct.pack(">ii", 1, written.type) + written.serialize()

    for _ in range(HANG_UPS):
        world.sizes.oversized("controller 100", frame)
    world.sizes.oversized("controller 101", frame)

    with pytest.raises(Broken, match="controller 100 made servers hang up 13 times within a minute"):
        world.sizes.oversized("controller 100", frame)


@pytest.mark.parametrize("kind", ["oversized znode", "lower size limit"])
def test_what_a_controller_calls_too_large_is_too_large(kind: str) -> None:
    world = World(0)
    limit = world.zookeeper.frame_limit = world.sizes.believed_bytes - 10
    world.sizes.noticed(Notice(kind, f"writing /a takes a request of {limit + 1} bytes, which are too many"))

    with pytest.raises(Broken, match="this is not too large"):
        world.sizes.noticed(Notice(kind, f"writing /a takes a request of {limit - GUARD_BYTES} bytes"))


@pytest.mark.parametrize("left", [None, "/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state"])
def test_a_broker_may_leave_before_its_controller_has_folded_that_it_leads_a_replicated_partition(
    left: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(0)
    checker, one, two = world.checker, BrokerId(1), BrokerId(2)
    paths = (TopicAddress(AT.topic).path, StateAddress(AT.topic, AT.partition).path)
    world.zookeeper.nodes.update({path: Znode(b"", 1, 0) for path in paths})
    checker.topics[AT.topic] = Topic({AT.partition: Assignment((one, two))})
    checker.states[AT] = PartitionState(one, LeaderEpoch(0), ControllerEpoch(1), (one,))
    world.brokers[one].is_leaving = True
    monkeypatch.setattr(world.ensemble, "shown_in_time_since", lambda _: -100.0)
    controller: Any = SimpleNamespace(
        epoch=checker.current_epoch(),
        session=SessionId(0),
        seen_zxid=world.zookeeper.zxid,
        is_behind_on=lambda path: path == left,
    )

    with nullcontext() if left else pytest.raises(Broken, match="may leave, though it leads orders-0"):
        checker.answers._leads_nothing(controller, ControlledShutdown(one))


def test_a_controller_is_behind_on_what_a_bounded_turn_leaves() -> None:
    world = World(1)
    controller = world.controllers[min(world.controllers)]
    machine = controller.machine = world.new_machine(controller.own_id, ControllerEpoch(1), ClusterState())
    names = [TopicName(f"topic{n}") for n in range(20)]
    assert not controller.is_behind_on(TopicAddress(names[-1]).path)

    machine.turn([Observed((absent(TopicAddress(name), Zxid(9)),)) for name in names], 0.0)

    assert controller.is_behind_on(TopicAddress(names[-1]).path)
    assert not controller.is_behind_on(TopicAddress(names[0]).path)


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
    isr: tuple[int, ...], live: tuple[int, ...], why: str
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

    # The leader's broker restarts: for a moment the partition has no leader, and the move takes a replica off it.
    state.apply(present(BrokerAddress(BrokerId(1)), Registration(()), Stat(Zxid(9), Zxid(9), ZnodeVersion(0))))
    gates.decided(controller, [moving(THIRD)], state)
    world.clock.now += 11.0
    with pytest.raises(Broken, match=why):
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
