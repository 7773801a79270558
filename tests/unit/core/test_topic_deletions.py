"""Who was told to delete which replicas of a topic, who confirmed, and what comes next?"""

from __future__ import annotations

import pytest

from controller.core.messages.commands import ReplicaStop, StopReplica, UpdateMetadata
from controller.core.messages.effects import Delete, Notice, Read, Survey
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, Surveyed
from controller.core.topics.duty import Topics
from tests.unit.core.builders import OWN, commits, ids
from tests.unit.core.deletions import MARKED_AT, NAME, WAITS, Desk, deleted
from tests.unit.traps.play import Play
from zk_layout.codec import Malformed
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import PartitionId, TopicId, ZnodeVersion, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.configs import TopicConfigAddress
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions, ReplicaDeletionsAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress, TopicRemnantAddress


def test_brokers_forget_the_topic_first_and_are_then_sent_the_deletion_of_its_replicas() -> None:
    desk = Desk("1,2,3", "1,2", "2,1")
    desk.mark()

    told = desk.tells()

    assert [(broker, type(command)) for broker, command in told] == [
        (1, UpdateMetadata),
        (2, UpdateMetadata),
        (3, UpdateMetadata),
        (1, StopReplica),
        (2, StopReplica),
    ]
    assert {v.leader for _, c in told if isinstance(c, UpdateMetadata) for v in c.partitions} == {-2}
    assert {s.leader_epoch for _, c in told if isinstance(c, StopReplica) for s in c.stops} == {-2}


def test_what_is_sent_once_is_not_sent_again() -> None:
    desk = Desk("1,2", "1,2")
    desk.mark()
    desk.tells()

    assert desk.tells() == []


def test_the_znodes_go_only_when_every_replica_is_confirmed() -> None:
    desk = Desk("1,2", "1,2", "2,1")
    desk.mark()
    desk.tells()
    desk.read_config()
    assert desk.answer(1, 0, 1) == []
    assert desk.answer(2, 0) == []
    assert desk.step() == WAITS

    assert desk.answer(2, 1) == [NAME]

    assert deleted(desk.step()) == [
        ("/brokers/topics/orders/partitions/0/state", 0),
        ("/brokers/topics/orders/partitions/0", 0),
        ("/brokers/topics/orders/partitions/1/state", 0),
        ("/brokers/topics/orders/partitions/1", 0),
        ("/brokers/topics/orders/partitions", 0),
        ("/brokers/topics/orders", 0),
        ("/admin/delete_topics/orders", 0),
    ]


def test_the_settings_are_looked_up_before_and_go_with_the_topic() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()
    desk.answer(1, 0)
    assert desk.step().effects == [Read((TopicConfigAddress(NAME),))]

    desk.read_config(version=4)

    assert ("/config/topics/orders", 4) in deleted(desk.step())


def test_every_replica_of_a_move_is_deleted_adding_and_removing_ones_too() -> None:
    desk = Desk("1,2,3,4", "1,2")
    desk.assign({0: Assignment(ids("3,4,1,2"), ids("3,4"), ids("1,2"))}, version=1)
    desk.mark()

    assert desk.stops() == {1: [0], 2: [0], 3: [0], 4: [0]}
    assert desk.cluster.moving == {}


def test_our_own_id_hosts_nothing_and_is_not_waited_for() -> None:
    desk = Desk("1", f"1,{OWN}")
    desk.mark()
    desk.tells()
    desk.read_config()
    desk.answer(1, 0)

    assert desk.step().atoms


def test_a_broker_that_is_down_makes_the_topic_wait_and_is_named_once() -> None:
    desk = Desk("1", "1,2")
    desk.mark()
    desk.tells()
    desk.answer(1, 0)

    (notice,) = desk.step().effects

    assert isinstance(notice, Notice)
    assert notice.text == "topic orders cannot be deleted yet: broker 2 is offline and has 1 of its replicas"
    assert desk.step() == WAITS
    assert desk.deletions.figures() == {
        "topics_to_delete": 1,
        "topics_ineligible_to_delete": 1,
        "replicas_to_delete": 1,
        "replicas_ineligible_to_delete": 1,
    }


def test_a_broker_that_restarted_is_sent_everything_again() -> None:
    desk = Desk("1,2", "1,2")
    desk.mark()
    desk.tells()
    desk.answer(2, 0)

    told = desk.tells(2)

    assert [(b, type(c)) for b, c in told] == [(2, UpdateMetadata), (2, StopReplica)]


def test_a_replica_that_could_not_be_deleted_is_asked_for_again_later_and_only_that_one() -> None:
    desk = Desk("1", "1", "1")
    desk.mark()
    desk.tells()
    desk.answer(1, 0, refused=(1,))
    assert desk.deletions.is_refused
    assert desk.deletions.figures()["replicas_ineligible_to_delete"] == 1

    desk.deletions.ask_again()

    assert desk.stops() == {1: [1]}
    assert desk.deletions.figures()["replicas_ineligible_to_delete"] == 0


def test_a_partition_that_is_added_meanwhile_goes_too() -> None:
    desk = Desk("1,2", "1")
    desk.mark()
    desk.tells()
    desk.answer(1, 0)
    desk.read_config()

    desk.assign({0: Assignment(ids("1")), 1: Assignment(ids("2"))}, version=1)

    assert desk.stops() == {2: [1]}
    assert desk.step() == WAITS
    desk.answer(2, 1)
    assert deleted(desk.step())[-2:] == [("/brokers/topics/orders", 1), ("/admin/delete_topics/orders", 0)]


def test_after_a_refused_removal_what_is_there_is_listed_and_exactly_that_deleted() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()
    desk.answer(1, 0)
    desk.read_config()
    desk.deletions.failed(NAME)
    assert desk.step().effects == [Survey(NAME)]
    assert desk.step() == WAITS

    found = (
        (TopicRemnantAddress(NAME, "partitions/0/note"), 3),
        (PartitionAddress(NAME, 0), 1),
        (PartitionsAddress(NAME), 0),
    )
    desk.deletions.surveyed(Surveyed(NAME, found))

    assert deleted(desk.step()) == [
        ("/brokers/topics/orders/partitions/0/note", 3),
        ("/brokers/topics/orders/partitions/0", 1),
        ("/brokers/topics/orders/partitions", 0),
        ("/brokers/topics/orders", 0),
        ("/admin/delete_topics/orders", 0),
    ]


@pytest.mark.parametrize("partitions", [148, 149, 150, 299, 449])
def test_the_request_to_delete_a_topic_goes_with_its_znode_in_one_transaction_once_all_below_is_gone(
    partitions: int,
) -> None:
    desk = Desk("1", *["1"] * partitions)
    sent = desk.removal(partitions)
    every = []
    while sent:
        every += sent
        sent = commits([effect for commit in sent for effect in desk.accept(commit)])

    last = [commit for commit in every if Delete(TopicDeletionAddress(NAME), 0) in commit.writes]
    assert last == every[-1:]
    assert Delete(TopicAddress(NAME), 0) in last[0].writes
    assert sum(len(commit.writes) for commit in every) == 2 * partitions + 3
    assert NAME not in desk.cluster.topics


def test_the_request_to_delete_a_topic_stays_where_something_below_its_znode_is_refused() -> None:
    desk = Desk("1", *["1"] * 200)
    first, second = desk.removal(200)

    assert commits(desk.refuse(first)) == []
    assert commits(desk.accept(second)) == []
    assert commits(desk.read(*(absent(write.address, Zxid(6000)) for write in first.writes))) == []

    assert NAME in desk.cluster.deletion_marks


def test_what_a_topic_owed_that_is_gone_is_forgotten_once_that_is_certain() -> None:
    desk = Desk("1")
    duty = Topics(desk.shared, desk.memory.topics)
    address = ReplicaDeletionsAddress(NAME)
    seen = Stat(Zxid(2000), Zxid(MARKED_AT), ZnodeVersion(3))
    desk.fold(present(address, ReplicaDeletions({PartitionId(0): ids("2")}), seen))
    assert desk.follow(duty) + desk.propose(duty) == [Read((TopicAddress(NAME),))]

    desk.fold(absent(TopicAddress(NAME), Zxid(MARKED_AT)))

    (commit,) = commits(desk.follow(duty) + desk.propose(duty))
    assert commit.writes == (Delete(address, 3),)
    assert commit.why == ("what topic orders owed is forgotten: the topic does not exist",)


def test_what_a_topic_owes_that_is_there_is_not_forgotten() -> None:
    desk = Desk("1")
    duty = Topics(desk.shared, desk.memory.topics)
    seen = Stat(Zxid(2000), Zxid(MARKED_AT), ZnodeVersion(0))
    desk.fold(present(ReplicaDeletionsAddress(NAME), ReplicaDeletions({PartitionId(0): ids("2")}), seen))
    desk.assign({0: Assignment(ids("1"))}, czxid=MARKED_AT - 1)

    assert desk.follow(duty) + desk.propose(duty) == []


@pytest.mark.parametrize("is_topic_first", [True, False])
def test_what_a_former_topic_of_that_name_owed_is_forgotten_also_where_it_could_not_be_read_until_now(
    is_topic_first: bool,
) -> None:
    desk = Desk("1")
    duty = Topics(desk.shared, desk.memory.topics)
    address = ReplicaDeletionsAddress(NAME)
    seen = Stat(Zxid(MARKED_AT - 100), Zxid(MARKED_AT - 50), ZnodeVersion(3))

    owed = present(address, ReplicaDeletions({PartitionId(0): ids("2")}, TopicId("F" * 22)), seen)
    topic = Topic({PartitionId(0): Assignment(ids("1"))}, TopicId("L" * 22))
    there = present(TopicAddress(NAME), topic, Stat(Zxid(MARKED_AT), Zxid(MARKED_AT), ZnodeVersion(0)))
    desk.fold(*((there, owed) if is_topic_first else (owed, there)))

    (commit,) = commits(desk.follow(duty) + desk.propose(duty))
    assert commit.writes == (Delete(address, 3),)
    assert commit.why == ("what topic orders owed is forgotten: it was another topic of that name",)


@pytest.mark.parametrize("path", ["/brokers/topics/orders", "/config/topics/orders", "/admin/delete_topics/orders"])
def test_a_removal_that_is_refused_again_and_again_is_tried_less_often(path: str) -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "config orders retention.ms=1", f"refuse {path}", "elect")

    lines = play.do("delete topic orders", "time +60s")

    assert 4 < sum(line.startswith("refused") for line in lines) < 12
    play.do(f"allow {path}", "time +30s")
    assert play.data("/brokers/topics/orders") is None


def test_a_topic_created_again_is_another_one() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()

    desk.assign({0: Assignment(ids("1"))}, czxid=MARKED_AT + 10)

    assert desk.tells() == []
    assert not desk.cluster.topics[NAME].is_queued_for_deletion
    assert desk.deletions.figures()["topics_to_delete"] == 0


def test_what_brokers_delete_for_a_move_confirms_no_deletion_of_the_topic() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()

    command = StopReplica((ReplicaStop(NAME, 0, 3, True),))

    assert desk.deletions.hear(Acknowledged(1, 1, command, ErrorCode.NONE)) == []


def test_a_topic_whose_znode_cannot_be_read_waits() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()
    desk.answer(1, 0)
    desk.read_config()
    malformed = Stat(Zxid(2000), Zxid(MARKED_AT + 5), ZnodeVersion(3))
    desk.fold(present(TopicAddress(NAME), Malformed("no JSON", 3), malformed))
    assert desk.cluster.topics[NAME].is_malformed

    assert desk.step() == WAITS


def test_a_vanished_broker_counts_as_down() -> None:
    desk = Desk("1,2", "1,2")
    desk.mark()
    desk.tells()
    desk.fold(absent(BrokerAddress(2), Zxid(MARKED_AT + 1)))

    assert desk.deletions.figures()["replicas_ineligible_to_delete"] == 1
