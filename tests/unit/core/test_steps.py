"""In which order are requests about one topic decided, where they cannot be at once?"""

from __future__ import annotations

from controller.core.machine import Machine
from controller.core.messages.effects import Notice, Set, Wake
from controller.core.messages.events import Again, Asked, CallId, Committed, Loaded, Observed, Woke
from controller.core.messages.requests import AlterReassignments, Caller, PartitionReassignment
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from tests.scenarios.reading import held_topic
from tests.unit.core.builders import AT, EPOCH, OWN, commits, ids, registration, state
from tests.unit.traps.play import Play, index, some
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicId, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ID = TopicId("AAECAwQFBgcICQoLDA0ODw")
LEGACY = "/admin/reassign_partitions"


def cluster(*topics: str) -> Play:
    return Play("brokers 1,2,3,4", *(topics or ("topic orders 0=1,2",)), "elect")


def in_one_turn(play: Play, *commands: str) -> list[str]:
    play.theatre.run = lambda: None  # type: ignore[method-assign]  # events gather until time goes on
    play.do(*commands)
    del play.theatre.run
    return play.do("time +1s", "ask metadata")


def target(play: Play, topic: str) -> Replicas:
    return held_topic(play.theatre, topic).partitions[PartitionId(0)].target


def test_requests_that_wait_for_a_change_of_the_isr_are_decided_in_their_order() -> None:
    play = cluster()

    lines = in_one_turn(play, "isr orders-0 1", "ask reassign orders-0 to=3,2", "ask reassign orders-0 to=4,2")

    assert index(lines, "changes the ISR") < index(lines, "asked to move orders-0")
    assert len(some(lines, "answer orders-0 NONE request")) == 2
    assert target(play, "orders") == (4, 2)


def test_requests_that_wait_for_the_legacy_znode_are_decided_in_their_order() -> None:
    play = cluster("topic orders 0=1,2", "topic payments 0=1,2")
    play.do("legacy orders-0=3,2 payments-0=3,2", "hold reply", "ask cancel orders-0")

    assert play.do("ask reassign payments-0 to=4,2", "ask reassign payments-0 to=2,1") == []
    lines = play.do("reply")

    assert len(some(lines, "answer payments-0 NONE request")) == 2
    assert target(play, "payments") == (2, 1)
    assert play.data(LEGACY) is None


def test_a_refused_step_is_decided_again_with_what_was_asked_meanwhile_behind_it() -> None:
    play = cluster()
    play.do("conflict /brokers/topics/orders")

    lines = in_one_turn(play, "ask reassign orders-0 to=3,2", "ask reassign orders-0 to=4,2")

    assert len(some(lines, "conflicted")) == 1
    assert len(some(lines, "answer orders-0 NONE request")) == 2
    assert target(play, "orders") == (4, 2)


def test_a_topic_grows_by_one_request_a_step() -> None:
    play = cluster()

    lines = in_one_turn(play, "ask grow orders partitions=2 1=1,2", "ask grow orders partitions=3 1=3,4 2=3,4")

    assert some(lines, "answer orders NONE")
    assert sorted(held_topic(play.theatre, "orders").partitions) == [0, 1]
    assert some(lines, "answer orders INVALID_REPLICA_ASSIGNMENT")


def test_a_second_change_of_the_isr_is_decided_by_what_the_first_one_left() -> None:
    play = cluster()

    lines = in_one_turn(play, "isr orders-0 1", "isr orders-0 1,2")

    assert len(some(lines, "changes the ISR")) == 1
    assert some(lines, "answer orders-0 NONE leader=1 isr=[1]")
    assert some(lines, "answer orders-0 INVALID_UPDATE_VERSION")


def test_a_leader_that_knows_an_older_state_hears_the_present_one_with_another_leader_epoch() -> None:
    """As after someone has overwritten the state and put it right again; it would not ask before its epoch rises."""
    play = cluster()
    play.do("isr orders-0 1")

    lines = play.do("isr orders-0 1,2 partition_epoch=0")

    assert some(lines, "answer orders-0 INVALID_UPDATE_VERSION")
    assert some(lines, "tell", "LeaderAndIsr orders-0 leader=1 leader_epoch=1 isr=[1]")
    assert some(play.do("isr orders-0 1,2"), "answer orders-0 NONE leader=1 isr=[1, 2]")


def test_who_asks_for_too_much_does_not_keep_a_dead_leader() -> None:
    partitions = {PartitionId(0): Assignment(ids("1,2")), PartitionId(1): Assignment(ids("2,1"))}
    term = Machine(MachineSettings(own_id=OWN, znode_size_limit=240), EPOCH, SeededRandom(b"0"))
    stat = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))
    read = (
        *(registration(broker) for broker in (OWN, *ids("1,2,300000003,300000004"))),
        present(TopicAddress(AT.topic), Topic(partitions, ID), stat),
        present(StateAddress(AT.topic, PartitionId(0)), state(1, "1,2"), stat),
        present(StateAddress(AT.topic, PartitionId(1)), state(2, "2,1"), stat),
    )
    for commit in commits(term.turn([Observed(read), Loaded()], 0.0)):
        term.turn([Committed(commit.commit, Zxid(100 + commit.commit))], 0.0)
    move = AlterReassignments(
        (PartitionReassignment(TopicPartition(AT.topic, PartitionId(1)), ids("300000003,300000004")),)
    )
    dies = Observed((absent(BrokerAddress(BrokerId(1)), Zxid(200)),))

    refused = term.turn([dies, Asked(CallId(1), move, Caller("PLAINTEXT", "127.0.0.1"))], 1.0)

    assert "oversized znode" in [effect.kind for effect in refused if isinstance(effect, Notice)]
    assert Wake(Again(), 1.0) in refused
    writes = [write for commit in commits(term.turn([Woke(Again())], 1.0)) for write in commit.writes]
    assert [w.value.leader for w in writes if isinstance(w, Set) and isinstance(w.value, PartitionState)] == [2, 2]
