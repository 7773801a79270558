"""Which requests to delete a topic are followed, which are dropped, and which can be taken back?"""

from __future__ import annotations

import pytest

from controller.core.brokers.duty import Brokers
from controller.core.messages.effects import Commit, Delete, Read
from controller.core.topics.duty import Topics
from tests.unit.core.builders import commits, ids
from tests.unit.core.deletions import MARKED_AT, NAME, Desk
from tests.unit.traps.play import Play, some
from zk_layout.facts import absent
from zk_layout.ids import PartitionId, TopicPartition, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.topics import Assignment, TopicAddress


def test_a_move_goes_on_where_the_request_to_delete_its_topic_is_taken_back() -> None:
    desk = Desk("1,2,3", "1,2")
    desk.assign({0: Assignment(ids("3,1,2"), ids("3"), ids("1"))}, version=1)
    desk.mark()

    desk.fold(absent(TopicDeletionAddress(NAME), Zxid(MARKED_AT + 1)))

    assert desk.cluster.moving == {NAME: {PartitionId(0): None}}


def test_a_request_for_a_topic_that_is_not_there_is_dropped_once_that_is_certain() -> None:
    desk = Desk("1")
    duty = Topics(desk.shared, desk.memory.topics)
    desk.mark()
    assert desk.follow(duty) + desk.propose(duty) == [Read((TopicAddress(NAME),))]

    desk.fold(absent(TopicAddress(NAME), Zxid(MARKED_AT)))

    (commit,) = commits(desk.follow(duty) + desk.propose(duty))
    assert commit.writes == (Delete(TopicDeletionAddress(NAME), 0, MARKED_AT),)
    assert commit.why == ("topic orders is not deleted: the topic does not exist",)


def test_a_request_that_is_older_than_its_topic_deletes_nothing() -> None:
    desk = Desk("1")
    duty = Topics(desk.shared, desk.memory.topics)
    desk.mark()
    desk.assign({0: Assignment(ids("1"))}, czxid=MARKED_AT + 1)

    (commit,) = desk.follow(duty) + desk.propose(duty)
    assert isinstance(commit, Commit)
    assert commit.writes == (Delete(TopicDeletionAddress(NAME), 0, MARKED_AT),)


def test_that_a_request_older_than_its_topic_is_dropped_is_told() -> None:
    """A tool that copies znodes creates them in an order of its own: then a request is lost, and someone has to ask
    again."""
    play = Play(
        "brokers 1,2",
        "znode /admin/delete_topics/orders",
        "topic orders 0=1",
        "state orders-0 leader=1 isr=1",
    )

    lines = play.do("elect")

    assert some(lines, "outdated topic deletion", "topic orders is not deleted", "request it again")
    assert play.data("/admin/delete_topics/orders") is None
    assert play.data("/brokers/topics/orders") is not None


def test_where_topics_may_not_be_deleted_the_request_is_dropped() -> None:
    desk = Desk("1", "1", deletes_topics=False)
    duty = Topics(desk.shared, desk.memory.topics)
    desk.mark()

    (commit,) = desk.follow(duty) + desk.propose(duty)
    assert isinstance(commit, Commit)
    assert commit.why == ("topic orders is not deleted: delete.topic.enable is false",)


def test_while_no_one_knows_whether_topics_may_be_deleted_requests_wait_and_the_topic_is_led() -> None:
    play = Play("set deletes_topics=null", "brokers 1,2", "topic orders 0=1,2", "delete topic orders", "elect")

    assert some(play.do("broker 1 dies"), "set /brokers/topics/orders/partitions/0/state", "leader=2")
    assert some(play.do("ask delete orders"), "answer", "NOT_CONTROLLER")
    assert play.data("/admin/delete_topics/orders") is not None

    play.do("broker 1 returns", "set deletes_topics=true", "elect")
    assert play.data("/brokers/topics/orders") is None


@pytest.mark.parametrize("allowed", ["null", "true"])
def test_requests_that_are_for_nothing_are_dropped_whether_topics_may_be_deleted_or_not(allowed: str) -> None:
    play = Play(f"set deletes_topics={allowed}", "brokers 1,2", "delete topic orders", "topic orders 0=1,2")
    play.do("delete topic nothing", "elect")

    assert play.data("/admin/delete_topics/nothing") is None
    assert play.data("/admin/delete_topics/orders") is None
    assert play.data("/brokers/topics/orders") is not None


def test_a_request_that_cannot_be_dropped_holds_nothing_up() -> None:
    path = "/admin/delete_topics/orders"
    play = Play("brokers 1,2", "delete topic orders", "topic orders 0=1,2", f"refuse {path}", "elect")

    assert some(play.do("broker 1 dies"), "set /brokers/topics/orders/partitions/0/state", "leader=2")
    assert not some(play.do("ask delete orders"), "answer")

    lines = play.do("time +5s", f"allow {path}", "time +60s", "broker 1 returns")
    assert some(lines, "answer orders NONE")
    assert play.data("/brokers/topics/orders") is None


def test_a_request_for_an_unknown_topic_that_cannot_be_dropped_keeps_no_one_from_creating_it() -> None:
    path = "/admin/delete_topics/orders"
    play = Play("brokers 1,2", f"refuse {path}", "elect", "delete topic orders")

    assert some(play.do("ask create orders 0=1,2"), "answer orders NONE")


def test_a_deletion_that_has_begun_cannot_be_withdrawn() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "elect", "broker 2 hangs", "delete topic orders")

    lines = play.do("refuse /admin/delete_topics/orders", "remove /admin/delete_topics/orders", "broker 1 bounces")
    assert some(lines, "notice (withdrawn topic deletion)")
    assert not some(lines, "set /brokers/topics/orders")
    assert not some(lines, "LeaderAndIsr orders-0")

    lines = play.do("allow /admin/delete_topics/orders", "broker 2 goes-on", "time +60s")
    assert some(lines, "topic orders is deleted")
    assert play.data("/brokers/topics/orders") is None


def test_a_deletion_that_no_one_has_heard_of_can_be_withdrawn() -> None:
    play = Play("brokers 1", "topic orders 0=2", "state orders-0 leader=-1 isr=2", "elect", "delete topic orders")

    lines = play.do("remove /admin/delete_topics/orders", "broker 2 returns")
    assert not some(lines, "notice")
    assert some(lines, "set /brokers/topics/orders/partitions/0/state", "leader=2")


def test_a_topic_that_lives_on_after_all_is_announced_to_its_brokers_again() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()

    desk.fold(absent(TopicDeletionAddress(NAME), Zxid(MARKED_AT + 1)))

    changes = desk.changes()
    Brokers(desk.shared, desk.memory.brokers).follow(changes, desk.out())
    desk.deletions.follow(changes)
    assert list(desk.memory.brokers.unannounced) == [TopicPartition(NAME, PartitionId(0))]
    assert desk.tells() == []
