"""What is known without reading, once ZooKeeper has accepted a transaction?"""

from __future__ import annotations

from controller.core.messages.effects import Commit, Create, Delete, Set, Write, operation
from controller.core.messages.events import CommitId
from controller.core.transactions.owner import facts_below, facts_of, may_be_deleted_unseen
from controller.core.transactions.proposal import Atom, Proposal
from tests.unit.core.builders import commits, ids
from tests.unit.core.proposals import ZERO, A, Desk, mark
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.configs import Config, TopicConfigAddress
from zk_layout.znodes.delegation_tokens import DelegationTokenChangeAddress, TokenChange
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.reassignments import Reassignment, ReassignmentAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress


def test_what_zookeeper_accepted_is_known_without_reading_it() -> None:
    desk = Desk()
    name = TopicName("orders")
    desk.fold(present(TopicAddress(name), Topic({ZERO: Assignment(ids("1"))}), Stat(Zxid(3), Zxid(4), ZnodeVersion(2))))
    set_to = Topic({ZERO: Assignment(ids("2"))})
    writes = (Set(TopicAddress(name), set_to, ZnodeVersion(2)), Delete(TopicDeletionAddress(name), ZnodeVersion(0)))
    (commit,) = commits(desk.send(Proposal(A, (Atom(writes, ()),))))

    facts = list(facts_of(commit, Zxid(9), lambda _: Zxid(3)))

    assert facts == [
        present(TopicAddress(name), set_to, Stat(Zxid(3), Zxid(9), ZnodeVersion(3))),
        absent(TopicDeletionAddress(name), Zxid(9)),
    ]
    desk.accept(commit)
    assert desk.cluster.topics[name].partitions[ZERO].assignment == Assignment(ids("2"))


def test_what_others_may_delete_before_it_is_listed_is_known_from_the_commit() -> None:
    topic, child = TopicAddress(TopicName("a")), ReassignmentAddress(TopicName("a"), PartitionId(0))
    written: list[Write] = [
        Create(topic, Topic({})),
        Create(TopicConfigAddress(TopicName("a")), Config({})),
        Set(TopicAddress(TopicName("b")), Topic({}), ZnodeVersion(0)),
        Create(TopicDeletionAddress(TopicName("b")), None),
        Create(child, Reassignment(ids("1"))),
        Create(TopicDeletionAddress(TopicName("c")), None, is_sequential=True),
    ]
    commit = Commit(CommitId(1), tuple(map(operation, written)), ())

    assert list(may_be_deleted_unseen(commit)) == [topic, TopicDeletionAddress(TopicName("b")), child]


def test_nothing_can_be_below_a_topic_that_has_just_been_created() -> None:
    desk = Desk()
    create = Create(TopicAddress(TopicName("orders")), Topic({ZERO: Assignment(ids("1"))}))
    (commit,) = commits(desk.send(Proposal(A, (Atom((create,), ()),))))

    desk.accept(commit)

    held = desk.cluster.topics[TopicName("orders")].partitions[ZERO]
    assert (held.state, held.is_state_known) == (None, True)
    assert absent(StateAddress(TopicName("orders"), ZERO), Zxid(9)) in facts_below(commit, Zxid(9))


def test_of_a_sequential_znode_no_one_knows_under_which_name_it_was_created() -> None:
    desk = Desk()
    create = Create(DelegationTokenChangeAddress(), TokenChange("t"), is_sequential=True)
    (commit,) = commits(desk.send(Proposal(A, (Atom((create, mark("a")), ()),))))

    assert list(facts_of(commit, Zxid(9), lambda _: None)) == [
        present(TopicDeletionAddress(TopicName("a")), None, Stat(Zxid(9), Zxid(9), ZnodeVersion(0)))
    ]
