"""Which replicas are brokers asked to delete, and which never?"""

from __future__ import annotations

import pytest

from controller.core.announcing.sending import send
from controller.core.messages.commands import ReplicaStop, StopReplica, UpdateMetadata
from controller.core.messages.effects import Notice, Tell
from controller.core.topics.deletion import DURING_DELETE
from tests.unit.core.builders import AT, Term, ids, state
from tests.unit.core.test_foreign_writes import topic_of
from tests.unit.traps.play import Play, index, some
from zk_layout.facts import Fact, Stat, present
from zk_layout.ids import BrokerId, LeaderEpoch, TopicId, ZnodeVersion, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.replica_deletions import ROOT, ReplicaDeletions, ReplicaDeletionsAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

FORMER, LATTER = TopicId("F" * 22), TopicId("L" * 22)
OWED = "/kafka_zk_controller/replica_deletions/orders"


def stat(czxid: int, mzxid: int | None = None) -> Stat:
    return Stat(Zxid(czxid), Zxid(czxid if mzxid is None else mzxid), ZnodeVersion(0))


def topic(assignment: Assignment, czxid: int = 10, topic_id: TopicId | None = None) -> Fact:
    return present(TopicAddress(AT.topic), Topic({AT.partition: assignment}, topic_id), stat(czxid))


def known(assignment: Assignment, leads: PartitionState | None, *more: Fact) -> Term:
    term = Term("1,2,3")
    term.fold(topic(assignment), *more)
    if leads is not None:
        term.fold(present(StateAddress(AT.topic, AT.partition), leads, stat(11)))
    return term


def told(term: Term, broker: int, *stops: ReplicaStop) -> tuple[list[ReplicaStop], list[str]]:
    """The commands that a broker is sent for this one, and the kinds of notices."""
    out = term.out()
    send(BrokerId(broker), StopReplica(stops), term.cluster, term.memory.brokers, out)
    commands = [e.command for e in out.effects if isinstance(e, Tell)]
    heard = [stop for command in commands if isinstance(command, StopReplica) for stop in command.stops]
    return heard, [e.kind for e in out.effects if isinstance(e, Notice)]


def stop(*, is_deletion: bool = True, leader_epoch: int = 3) -> ReplicaStop:
    return ReplicaStop(AT.topic, AT.partition, LeaderEpoch(leader_epoch), is_deletion)


MOVING = Assignment(ids("3,1"), adding=ids("3"), removing=ids("1"))


@pytest.mark.parametrize(
    ("assignment", "leads", "broker"),
    [
        pytest.param(MOVING, state(1, "1"), 1, id="the leader"),
        pytest.param(MOVING, state(-1, "1"), 1, id="in sync without a leader"),
        pytest.param(MOVING, state(3, "3,1"), 1, id="in sync behind a new leader"),
        pytest.param(MOVING, state(2, "2"), 1, id="leaving before the hand-over"),
        pytest.param(MOVING, state(-1, ""), 1, id="leaving, and no one in sync"),
        pytest.param(MOVING, state(3, "3"), 3, id="the target"),
        pytest.param(Assignment(ids("1,2")), state(1, "1"), 2, id="a replica that is behind"),
        pytest.param(Assignment(ids("1,2")), state(-1, ""), 3, id="no replica, and no one in sync"),
        pytest.param(Assignment(ids("1,2")), state(1, "1,3"), 3, id="no replica, but in sync"),
        pytest.param(Assignment(ids("1,2")), None, 3, id="of which no state is known"),
    ],
)
def test_no_broker_is_ever_sent_the_deletion_of_a_replica_that_is(
    assignment: Assignment, leads: PartitionState | None, broker: int
) -> None:
    term = known(assignment, leads)

    assert told(term, broker, stop()) == ([], ["withheld replica deletion"])
    assert term.cluster.may_have_records(BrokerId(broker), AT)


@pytest.mark.parametrize(
    ("assignment", "leads", "broker"),
    [
        pytest.param(MOVING, state(3, "3"), 1, id="has been handed over"),
        pytest.param(MOVING, state(-1, "3"), 1, id="has been handed over to a leader that is gone"),
        pytest.param(Assignment(ids("1,2")), state(1, "1"), 3, id="is assigned elsewhere"),
    ],
)
def test_a_broker_deletes_its_replica_of_a_partition_that(
    assignment: Assignment, leads: PartitionState, broker: int
) -> None:
    term = known(assignment, leads)

    assert told(term, broker, stop()) == ([stop()], [])
    assert term.cluster.may_have_records(BrokerId(broker), AT) is (broker not in assignment.replicas)


def test_a_leader_deletes_its_replica_with_its_whole_topic_only() -> None:
    deletion = stop(leader_epoch=DURING_DELETE)
    mark = present(TopicDeletionAddress(AT.topic), None, stat(20))

    assert told(known(Assignment(ids("1,2")), state(1, "1,2"), mark), 1, deletion) == ([deletion], [])
    assert told(known(Assignment(ids("1,2")), state(1, "1,2")), 1, deletion)[0] == []
    assert told(Term("1"), 1, deletion)[0] == []


CUT = ("set writes_a_transaction=1", "set leaders_write_isr=true assigns_topic_ids=false has_leader_recovery=false")


@pytest.mark.parametrize("has_crashed", [False, True])
def test_who_joins_the_isr_between_the_parts_of_the_decision_that_drops_it_keeps_its_log_until_it_has_left_it(
    *, has_crashed: bool
) -> None:
    play = Play(*CUT, "brokers 1,2,3", "topic orders 0=2 id=none", "elect", "ask reassign orders-0 to=2,3,1")
    drop, join = "ask reassign orders-0 to=2,1", "leader writes orders-0 2,3"
    parted = ("crash after-commit 1", drop, join, "elect 101") if has_crashed else ("hold reply", drop, join, "reply")

    lines = play.do(*parted, "time +60s")

    assert index(lines, "set", "isr=[2] leader_epoch=2") < index(lines, "tell 3", "StopReplica", "leader_epoch=2")
    assert len(some(lines, "tell 3", "StopReplica")) == 1
    assert play.data(OWED) is None
    assert '"partitions":{"0":[2,1]}' in (play.data("/brokers/topics/orders") or "")


def test_what_is_withheld_keeps_nothing_else_back() -> None:
    term = known(Assignment(ids("1,2")), state(1, "1,2"))
    other = stop(is_deletion=False)

    assert told(term, 1, other, stop())[0] == [other]


def test_commands_of_other_kinds_pass() -> None:
    out = (term := Term("1")).out()

    send(BrokerId(1), UpdateMetadata((), ()), term.cluster, term.memory.brokers, out)

    assert len(out.sent) == 1


@pytest.mark.parametrize(
    ("written_for", "there_now"),
    [
        pytest.param(None, None, id="without ids"),
        pytest.param(FORMER, None, id="that had an id"),
        pytest.param(None, LATTER, id="that had no id"),
        pytest.param(FORMER, LATTER, id="with another id"),
    ],
)
def test_no_one_owes_deletions_of_an_earlier_topic(written_for: TopicId | None, there_now: TopicId | None) -> None:
    term = Term("1,2,3")
    owed = ReplicaDeletions({AT.partition: ids("3")}, written_for)

    term.fold(
        topic(Assignment(ids("1,2")), 10, FORMER if written_for else None),
        present(ReplicaDeletionsAddress(AT.topic), owed, stat(12, 14)),
        topic(Assignment(ids("1,2")), 20, there_now),
    )

    assert term.cluster.topics[AT.topic].deletions == {}
    assert not term.cluster.owing.get(BrokerId(3))


def test_a_topic_owes_what_was_written_for_its_id_though_a_copy_of_the_tree_created_it_later() -> None:
    """A tool that copies znodes to another ensemble need not create them in the order in which they came to be."""
    term = Term("1,2,3")

    term.fold(
        present(ReplicaDeletionsAddress(AT.topic), ReplicaDeletions({AT.partition: ids("3")}, FORMER), stat(12)),
        topic(Assignment(ids("1,2")), 20, FORMER),
    )

    assert term.cluster.topics[AT.topic].deletions == {AT.partition: ids("3")}
    assert term.cluster.owing.get(BrokerId(3))


def test_a_deletion_owed_from_before_is_forgotten_where_the_replica_is_wanted_again() -> None:
    """Kafka's own controller has led in between: it has moved the partition back, and begins to move it away."""
    play = Play(
        "brokers 1,2,3",
        "topic orders 0=1 id=none",
        f'znode {OWED} {{"version":1,"topic_id":null,"replicas":{{"0":[1]}}}}',
        'znode /brokers/topics/orders {"version":3,"partitions":{"0":[3,1]},'
        '"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}',
        "state orders-0 leader=1 isr=1 leader_epoch=4",
    )

    lines = play.do("set assigns_topic_ids=false", "elect")

    assert not some(lines, "StopReplica")
    assert play.data(OWED) is None
    assert some(play.do("isr orders-0 1,3"), "tell 1  StopReplica orders-0", "delete")


def test_no_topic_is_deleted_while_it_cannot_be_read_which_brokers_have_former_replicas() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "broker 2 dies", "ask reassign orders-0 to=1")
    owed = play.data(OWED)

    lines = play.do(f"malformed {OWED}", "elect 101", "delete topic orders", "time +60s")

    assert some(lines, "notice (delayed topic deletion)", OWED)
    assert not some(lines, "topic orders is deleted")

    play.do(f"znode {OWED} {owed}", "time +60s")
    lines = play.do("broker 2 returns", "time +60s")

    assert some(lines, "tell 2  StopReplica orders-0", "delete")
    assert some(lines, "topic orders is deleted")


def deleted_unseen(*more: str, hidden: str) -> tuple[Play, list[str]]:
    """A broker that is away still has a former replica; the next controller may not read which."""
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "broker 2 dies", "ask reassign orders-0 to=1", *more)
    play.theatre.zookeeper.hidden.add(hidden)
    return play, play.do("elect 101", "delete topic orders", "time +60s")


@pytest.mark.parametrize("hidden", [OWED, ROOT])
def test_a_topic_stays_while_it_is_unknown_who_has_former_replicas(hidden: str) -> None:
    play, lines = deleted_unseen(hidden=hidden)

    assert some(lines, "notice (delayed topic deletion)", hidden)
    assert not some(lines, "topic orders is deleted")

    play.theatre.zookeeper.hidden.clear()
    assert not some(play.do("time +60s"), "topic orders is deleted")
    lines = play.do("broker 2 returns", "time +60s")

    assert some(lines, "tell 2  StopReplica orders-0", "delete")
    assert some(lines, "topic orders is deleted")


@pytest.mark.parametrize("hidden", [OWED, ROOT])
def test_a_topic_goes_as_soon_as_nothing_is_known_to_be_left(hidden: str) -> None:
    play, lines = deleted_unseen("broker 2 returns", hidden=hidden)
    assert play.data(OWED) is None
    assert bool(some(lines, "topic orders is deleted")) == (hidden == OWED)

    play.theatre.zookeeper.hidden.clear()
    lines += play.do("time +60s")

    assert some(lines, "topic orders is deleted")


@pytest.mark.parametrize("how", ["hidden", "malformed"])
def test_a_topic_goes_once_an_unreadable_account_is_removed(how: str) -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", f"malformed {OWED}")
    play.theatre.zookeeper.hidden.update({OWED} if how == "hidden" else ())
    assert not some(play.do("elect", "delete topic orders", "time +60s"), "topic orders is deleted")

    play.theatre.zookeeper.hidden.clear()
    lines = play.do(f"remove {OWED}", "time +60s")

    assert some(lines, "topic orders is deleted"), lines


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_replica_that_leaves_is_owed_wherever_a_decision_is_cut(parts: int) -> None:
    """ZooKeeper takes so little that a topic and what it owes travel one after the other, and the controller dies."""
    play = Play("brokers 1,2,3", "topic orders 0=1", "elect", "ask reassign orders-0 to=1,2", "broker 2 hangs")
    play.theatre.settings["znode_size_limit"] = 300
    play.do("elect", "time +1s", f"crash after-commit {parts}", "ask cancel orders-0")

    lines = play.do("elect", "ask cancel orders-0", "time +1s", "broker 2 goes-on", "broker 2 bounces", "time +60s")

    assert topic_of(play)["partitions"] == {"0": [1]}
    assert some(lines, "tell 2  StopReplica orders-0", "delete")
    assert play.data(OWED) is None


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_what_is_owed_is_forgotten_only_once_the_topic_lists_it_again(parts: int) -> None:
    """The same decision owes something else, and is cut; the controller dies."""
    play = Play("brokers 1,2,3", "topic orders 0=1,2 1=1,3", "elect", "broker 2 hangs", "ask reassign orders-0 to=1")
    play.theatre.settings["znode_size_limit"] = 330
    play.do("elect", "time +1s", f"crash after-commit {parts}", "ask reassign orders-0 to=1,2 orders-1 to=1")

    owed, listed = play.data(OWED), topic_of(play)["partitions"]
    lines = play.do("elect", "time +60s")

    assert listed["0"] == [1, 2] or (owed is not None and '"0":[2]' in owed)
    assert listed["1"] == [1, 3] or some(lines, "tell 3  StopReplica orders-1", "delete")
