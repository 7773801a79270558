"""The checker notices a faulty controller: each of these spoils a correct one a little."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.core.messages.commands import LeaderAndIsr, StopReplica, UpdateMetadata
from controller.core.messages.effects import Answer, Commit, Delete, Effect, Notice, Set, Tell, Write, operation
from controller.core.messages.events import CommitId, Observed
from controller.core.messages.requests import ControlledShutdown
from controller.core.state.cluster import ClusterState
from controller.core.state.topic_facts import Topics
from controller.core.state.topics import DeletionMark, TopicView
from controller.core.topics import deletion_writes
from controller.core.topics.deletion import DURING_DELETE, TopicDeletions
from controller.core.transactions.packing import Packing, Piece
from controller.core.transactions.proposal import Proposal
from controller.zk import protocol
from tests.simulation.broken import Broken
from tests.simulation.brokers import Broker
from tests.simulation.sizes import GUARD_BYTES, HANG_UPS
from tests.simulation.spoiled import AT, broken_by, broken_first, writing
from tests.simulation.world import World
from tests.simulation.zookeeper import MakeNode, RemoveNode, Znode
from zk_layout.facts import absent
from zk_layout.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    SessionId,
    TopicName,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.admin import (
    LegacyReassignmentAddress,
)
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress


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
    checker.departures.target_lives(before, states, AT.topic, SessionId(0))

    checker.topics[AT.topic] = Topic({AT.partition: Assignment((one,))})
    with pytest.raises(Broken, match="none of which lives"):
        checker.departures.target_lives(before, states, AT.topic, SessionId(0))


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
