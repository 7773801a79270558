"""What do brokers hear of a topic of which only some znodes were read again?"""

from __future__ import annotations

from controller.core.brokers.duty import Brokers
from controller.core.messages.commands import LeaderAndIsr
from controller.core.messages.effects import Create, Effect, Notice, Set, Tell
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged
from controller.core.transactions.proposal import Atom, Proposal, Subject, topic_subject
from controller.core.turn.duty import Duty
from tests.unit.core.builders import AT, Term, commits, ids, registration, state
from zk_layout.catalog import Address
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, Stat, present
from zk_layout.ids import BrokerId, PartitionId, TopicId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions, ReplicaDeletionsAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ID = TopicId("AAECAwQFBgcICQoLDA0ODw")


def topic_fact(topic_id: TopicId | None, version: int) -> Fact:
    value = Topic({PartitionId(0): Assignment(ids("1,2"))}, topic_id)
    return present(TopicAddress(AT.topic), value, Stat(Zxid(10), Zxid(10 + version), ZnodeVersion(version)))


def state_fact(isr: str, version: int) -> Fact:
    stat = Stat(Zxid(10), Zxid(10 + version), ZnodeVersion(version))
    return present(StateAddress(AT.topic, PartitionId(0)), state(1, isr), stat)


def led(effects: list[Effect]) -> list[tuple[int, TopicId | None]]:
    """Who is told LeaderAndIsr, with which topic id."""
    return [
        (tell.broker, view.topic_id)
        for tell in effects
        if isinstance(tell, Tell) and isinstance(tell.command, LeaderAndIsr)
        for view in (*tell.command.partitions, *tell.command.new)
    ]


def test_a_new_topic_id_reaches_the_replicas_though_the_rest_of_the_topic_was_read_later() -> None:
    term = Term("1,2")
    term.fold(topic_fact(None, 0), state_fact("1,2", 0))
    brokers = Brokers(term.shared, term.memory.brokers)
    term.follow(brokers)

    term.fold(topic_fact(ID, 1))
    changes = term.changes()
    changes.withhold(AT.topic, until=term.state.changes)
    out = term.out()
    brokers.amend(changes, out)
    brokers.follow(changes, out)
    brokers.announce(changes, out)
    assert led(out.effects) == []

    term.fold(state_fact("1", 1))  # the leader epoch is the same: only the id makes LeaderAndIsr necessary

    assert led(term.follow(brokers)) == [(1, ID), (2, ID)]


def test_what_the_death_of_a_broker_touches_waits_as_well() -> None:
    term = Term("1,2")
    term.fold(topic_fact(None, 0), state_fact("1,2", 0))
    brokers = Brokers(term.shared, term.memory.brokers)
    term.follow(brokers)

    term.fold(topic_fact(ID, 1))
    changes = term.changes()
    changes.withhold(AT.topic, until=term.state.changes)
    changes.touch(AT.topic, AT.partition, term.cluster.topics[AT.topic].partitions[AT.partition])

    assert changes.partitions == {}
    assert list(term.state.changes.partitions[AT.topic]) == [AT.partition]


def test_a_broker_that_comes_meanwhile_hears_of_the_topic_when_all_of_it_has_been_read() -> None:
    term = Term("1")
    term.fold(topic_fact(ID, 0), state_fact("1,2", 0))
    brokers = Brokers(term.shared, term.memory.brokers)
    term.follow(brokers)
    written = Set(StateAddress(AT.topic, PartitionId(0)), state(1, "1"), ZnodeVersion(0))
    out = term.out()
    proposal = Proposal(Subject("topic", AT.topic), (Atom((written,), ("a smaller ISR",)),))
    term.transactions.send(brokers, (proposal,), out)
    (commit,) = commits(out.effects)
    term.refuse(commit)

    term.state.apply(registration(BrokerId(2)))
    assert led(term.follow(brokers)) == []

    term.read(state_fact("1", 1))
    assert (2, ID) in led(term.follow(brokers))


def test_meanwhile_it_is_sent_everything_else_once_and_not_in_every_turn() -> None:
    term = Term("1")
    other = TopicAddress(TopicName("other"))
    value = Topic({PartitionId(0): Assignment(ids("1,2"))}, None)
    stat = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))
    term.fold(topic_fact(ID, 0), state_fact("1,2", 0), present(other, value, stat))
    term.fold(present(StateAddress(other.topic, PartitionId(0)), state(1, "1,2"), stat))
    brokers = Brokers(term.shared, term.memory.brokers)
    term.follow(brokers)
    written = Set(StateAddress(AT.topic, PartitionId(0)), state(1, "1"), ZnodeVersion(0))
    out = term.out()
    proposal = Proposal(Subject("topic", AT.topic), (Atom((written,), ("a smaller ISR",)),))
    term.transactions.send(brokers, (proposal,), out)
    (commit,) = commits(out.effects)
    term.refuse(commit)

    term.state.apply(registration(BrokerId(2)))
    assert led(term.follow(brokers)) == [(2, None)]
    assert [effect for _ in range(3) for effect in term.follow(brokers) if isinstance(effect, Tell)] == []

    term.read(state_fact("1", 1))
    assert (2, ID) in led(term.follow(brokers))
    assert [effect for effect in term.follow(brokers) if isinstance(effect, Tell)] == []


def test_a_partition_that_a_broker_refuses_is_named_unless_it_has_the_leader_epoch_already() -> None:
    term = Term("1,2")
    term.fold(topic_fact(ID, 0), state_fact("1,2", 0))
    brokers = Brokers(term.shared, term.memory.brokers)
    (tell,) = [t for t in term.follow(brokers) if isinstance(t, Tell) and led([t]) == [(1, ID)]]

    def hear(error: ErrorCode) -> list[Effect]:
        out = term.out()
        brokers.hear(Acknowledged(tell.broker, tell.broker_epoch, tell.command, ErrorCode.NONE, {AT: error}), out)
        return out.effects

    assert hear(ErrorCode.STALE_CONTROLLER_EPOCH) == []
    (notice,) = hear(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert notice == Notice("refused command", "broker 1 refused LeaderAndIsr for orders-0: UNKNOWN_SERVER_ERROR")


def test_a_topic_that_can_be_read_again_is_due_though_nothing_in_it_has_changed() -> None:
    term = Term("1,2")
    term.fold(topic_fact(ID, 0), state_fact("1,2", 0))
    term.changes()
    stat = Stat(Zxid(10), Zxid(11), ZnodeVersion(1))
    term.fold(present(TopicAddress(AT.topic), Malformed("no JSON", 3), stat))
    term.changes()

    term.fold(topic_fact(ID, 2))

    assert list(term.changes().partitions[AT.topic]) == [PartitionId(0)]


def test_what_has_changed_of_it_is_announced_when_all_of_it_has_been_read() -> None:
    term = Term("1,2")
    term.fold(topic_fact(ID, 0), state_fact("1,2", 0))
    term.changes()

    term.fold(state_fact("1", 1))

    assert term.state.take_changes(half_read={AT.topic: None}).partitions == {}
    assert list(term.changes().partitions[AT.topic]) == [PartitionId(0)]


MOVED = Topic({PartitionId(0): Assignment(ids("1,2,3"), adding=ids("3"))}, ID)
TOLD = state(1, "1,2", 4)
TOPIC, STATE = TopicAddress(AT.topic), StateAddress(AT.topic, PartitionId(0))


def moving() -> Term:
    """A move was to begin, and no one knows whether it has."""
    term = Term("1,2,3")
    term.fold(topic_fact(ID, 0), state_fact("1,2", 0))
    writes = (Set(TOPIC, MOVED, ZnodeVersion(0)), Set(STATE, TOLD, ZnodeVersion(0)))
    out = term.out()
    term.transactions.send(Duty(), (Proposal(topic_subject(AT.topic), (Atom(writes, ("a move",)),)),), out)
    term.refuse(*commits(out.effects))
    return term


def seen(address: Address, value: Topic | PartitionState | Malformed, version: int = 1, zxid: int = 20) -> Fact:
    return present(address, value, Stat(Zxid(10), Zxid(zxid), ZnodeVersion(version)))


def pair(term: Term) -> tuple[Assignment, PartitionState | None]:
    assert AT.topic not in term.transactions.half_read_topics
    held = term.cluster.topics[AT.topic].partitions[AT.partition]
    return held.assignment, held.state


def test_a_state_that_may_not_be_read_after_a_lost_answer_is_what_was_written_with_the_replicas_that_show() -> None:
    for is_hidden_first in (True, False):
        term = moving()
        sights = [lambda term=term: term.read(seen(TOPIC, MOVED)), lambda term=term: term.may_not_read(STATE)]
        for sight in reversed(sights) if is_hidden_first else sights:
            sight()

        assert pair(term) == (MOVED.partitions[PartitionId(0)], TOLD)


def test_a_topic_that_no_one_can_read_after_a_lost_answer_has_the_replicas_that_were_written_with_the_state() -> None:
    for is_spoiled_first in (True, False):
        term = moving()
        sights = [seen(STATE, TOLD), seen(TOPIC, Malformed("no JSON", 3), 2, 30)]
        term.read(*(reversed(sights) if is_spoiled_first else sights))

        assert pair(term) == (MOVED.partitions[PartitionId(0)], TOLD)
        assert term.cluster.topics[AT.topic].is_malformed


def test_where_neither_may_be_read_after_a_lost_answer_the_first_that_shows_later_tells_of_both() -> None:
    term = moving()
    term.may_not_read(TOPIC)
    term.may_not_read(STATE)
    assert pair(term) == (Assignment(ids("1,2")), state(1, "1,2"))

    term.read(seen(STATE, TOLD))

    assert pair(term) == (MOVED.partitions[PartitionId(0)], TOLD)


def test_the_account_of_owed_deletions_proves_what_was_written_with_it_to_an_unreadable_topic() -> None:
    term = Term("1,2")
    term.fold(topic_fact(ID, 0), state_fact("1", 0))
    left, owed = Topic({PartitionId(0): Assignment(ids("1"))}, ID), ReplicaDeletions({PartitionId(0): ids("2")}, ID)
    address = ReplicaDeletionsAddress(AT.topic)
    writes = (Set(TOPIC, left, ZnodeVersion(0)), Create(address, owed))
    out = term.out()
    term.transactions.send(Duty(), (Proposal(topic_subject(AT.topic), (Atom(writes, ("a move",)),)),), out)
    term.refuse(*commits(out.effects))

    term.may_not_read(TOPIC)
    term.read(present(address, owed, Stat(Zxid(20), Zxid(20), ZnodeVersion(0))))

    assert pair(term) == (Assignment(ids("1")), state(1, "1"))


def test_what_someone_else_has_written_is_no_proof_that_a_lost_answer_was_a_yes() -> None:
    term = moving()
    other = Topic({PartitionId(0): Assignment(ids("1,2"))}, None)

    term.read(seen(TOPIC, other))
    term.may_not_read(STATE)

    assert pair(term) == (Assignment(ids("1,2")), state(1, "1,2"))
