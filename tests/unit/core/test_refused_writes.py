"""What ZooKeeper refuses to write for good keeps no one waiting for anything else."""

from __future__ import annotations

import pytest

from controller.core.state.cluster import ClusterState
from tests.unit.traps.play import Play, cluster, some
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress

STATE = "/brokers/topics/orders/partitions/0/state"
ASKS_AGAIN = "nothing: the leader asks again"


def refusing(*commands: str) -> Play:
    """Two topics, and a state that may not be written any more."""
    return cluster(
        f"refuse {STATE}", *commands, topics=("topic orders 0=1,2,3 1=1,2,3", "topic other 0=1,2,3"), brokers="1,2,3"
    )


def test_a_leader_hears_soon_that_its_isr_cannot_be_written() -> None:
    """A broker has one AlterPartition under way: without an answer, none of its partitions gets another ISR."""
    play = refusing()

    told = play.do("isr orders-0 1,2", "time +2s")

    assert some(told, "answer", ASKS_AGAIN), told


@pytest.mark.parametrize(("by", "answer"), [("", ASKS_AGAIN), (" by=id-of-orders__________", "UNKNOWN_SERVER_ERROR")])
def test_only_leaders_that_know_what_to_do_with_an_error_hear_of_it(by: str, answer: str) -> None:
    """Those before 3.1 ask for no ISR any more in their leader epoch; what is left out they ask for again."""
    play = refusing()

    assert some(play.do(f"isr orders-0 1,2{by}", "time +2s"), "answer", answer)


def test_a_leader_that_asks_again_is_neither_kept_waiting_nor_answered_in_a_loop() -> None:
    play = refusing("isr orders-0 1,2", "time +2s")

    at_once = play.do("isr orders-0 1,2")
    later = play.do("time +2s")

    assert not some(at_once, "answer"), at_once
    assert len(some(later, "answer", ASKS_AGAIN)) == 1, later


def test_others_of_its_topic_get_their_isr_meanwhile() -> None:
    play = refusing("isr orders-0 1,2", "time +2s", "isr orders-0 1,2")

    told = play.do("isr orders-1 1,2", "isr other-0 1,2")

    assert len(some(told, "answer", "NONE")) == 2, told


def test_an_isr_is_written_once_that_is_allowed() -> None:
    play = refusing("isr orders-0 1,2", "time +2s", f"allow {STATE}", "time +60s")

    told = play.do("isr orders-0 1,2")

    assert some(told, "answer orders-0 NONE"), told


def test_it_is_named_once_however_often_a_leader_asks_and_tried_less_and_less_often() -> None:
    play = refusing()

    told = play.do(*["isr orders-0 1,2", "time +2s"] * 60)

    assert len(some(told, "notice (set aside)")) == 1, some(told, "notice")
    assert len(some(told, "refused #")) < 20, len(some(told, "refused #"))
    assert play.figures()["set_aside"] == 1


def test_it_is_forgotten_when_no_one_asks_any_more() -> None:
    play = refusing("isr orders-0 1,2", "time +2s", "time +200s")

    assert play.figures()["set_aside"] == 0


@pytest.mark.parametrize(("by", "answer"), [("", ASKS_AGAIN), (" by=AAECAwQFBgcICQoLDA0ODw", "UNKNOWN_SERVER_ERROR")])
def test_a_leader_of_a_topic_that_cannot_be_read_may_ask_again(by: str, answer: str) -> None:
    """A leader whose partition is reported as unknown changes no ISR before its leader epoch rises."""
    play = cluster(topics=("topic orders 0=1,2,3",), brokers="1,2,3")
    play.do("malformed /brokers/topics/orders {", "elect")

    at_once = play.do(f"isr orders-0 1,2{by}")
    told = play.do("time +2s")

    assert not some(at_once, "answer"), at_once
    assert some(told, "answer", answer), told


def test_what_could_not_be_written_for_a_while_is_elected_before_the_requests_that_have_waited_with_it() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=2,1", "state orders-0 leader=1 isr=1,2", "elect")
    play.do(f"refuse {STATE}", "ask reassign orders-0 to=2", "broker 2 dies", "time +2s", "ask reassign orders-0 to=2")

    lines = play.do(f"allow {STATE}", "time +60s")

    assert some(lines, "set", "leader=1 isr=[1] leader_epoch=1")
    assert not some(lines, "set", "isr=[1, 2]")


def test_a_move_that_is_written_is_not_asked_for_again_where_the_rest_of_the_decision_was_refused() -> None:
    """It would come after the later request that has replaced it."""
    play = Play("set writes_a_transaction=1", "brokers 1,2,3", "topic orders 0=1 1=1 2=1", "elect")
    play.do("hold reply", "ask reassign orders-2 to=2,1", "refuse /brokers/topics/orders/partitions/1/state")
    play.do("ask reassign orders-0 to=2,3", "ask reassign orders-1 to=2", "ask reassign orders-0 to=3,2")

    lines = play.do("reply")

    assert some(lines, "refused", "/brokers/topics/orders/partitions/1/state")
    assert len(some(lines, "answer orders-0 NONE")) == 2
    assert [len(some(lines, f"asked to move orders-0 to [{to}]")) for to in ("2, 3", "3, 2")] == [1, 1]


FOR_AN_HOUR = "timeout_ms=3600000"
DELETION = (f"ask delete orders {FOR_AN_HOUR}", "/admin/delete_topics/orders", "answer orders NONE")
CREATION = (f"ask create new partitions=1 replicas=1 {FOR_AN_HOUR}", "/brokers/topics/new", "answer new NONE")
BESIDE = [
    (*DELETION, "isr orders-0 1,2", "answer orders-0 NONE"),
    (*DELETION, "ask grow orders partitions=3", "answer orders NONE"),
    (*DELETION, "ask reassign orders-0 to=1,2", "answer orders-0 NONE"),
    (*CREATION, "ask reassign new-0 to=1,2", "answer new-0 UNKNOWN_TOPIC_OR_PARTITION"),
    (*CREATION, "ask grow new partitions=3", "answer new UNKNOWN_TOPIC_OR_PARTITION"),
]


def refused(asked: str, path: str) -> tuple[Play, list[str]]:
    """A topic exists; it may not be deleted, or another not be created, and a client waits for that."""
    play = cluster(f"refuse {path}", topics=("topic orders 0=1,2,3 1=1,2,3",), brokers="1,2,3")
    return play, play.do(asked, *["time +0.5s"] * 20)


@pytest.mark.parametrize(("asked", "path", "answer"), [DELETION, CREATION])
def test_a_topic_that_may_not_be_created_or_deleted_is_tried_less_and_less_often(
    asked: str, path: str, answer: str
) -> None:
    """Reading again what was refused shows nothing new, at a later zxid."""
    play, lines = refused(asked, path)

    assert len(some(lines, "refused #")) < 10, lines
    assert play.figures()["set_aside"] == 1
    assert some(play.do(f"allow {path}", "time +60s"), answer)
    assert play.figures()["set_aside"] == 0


@pytest.mark.parametrize(("asked", "path", "answer", "other", "other_answer"), BESIDE)
def test_other_requests_are_decided_meanwhile_and_do_not_have_it_tried_more_often(
    asked: str, path: str, answer: str, other: str, other_answer: str
) -> None:
    play, _ = refused(asked, path)

    lines = play.do(*[other, "time +0.1s"] * 50)

    assert some(lines, other_answer), lines
    assert len(some(lines, "refused #")) < 10, lines
    assert some(play.do(f"allow {path}", "time +60s"), answer)


@pytest.mark.parametrize(("asked", "path", "answer"), [DELETION, CREATION])
def test_the_same_request_waits_with_it(asked: str, path: str, answer: str) -> None:
    play, _ = refused(asked, path)

    lines = play.do(*[asked, "time +0.1s"] * 20)

    assert len(some(lines, "refused #")) < 5, lines
    assert some(play.do(f"allow {path}", "time +60s"), answer)


def test_no_more_is_tried_once_the_client_waits_no_more() -> None:
    play, _ = refused("ask delete orders timeout_ms=5000", DELETION[1])

    lines = play.do("time +200s")

    assert not some(lines, "refused #"), lines
    assert play.figures()["set_aside"] == 0


def test_a_deletion_request_that_is_read_again_is_news_only_if_it_has_changed() -> None:
    """The read after a refused write shows the same at a later zxid."""
    state, mark = ClusterState(), TopicDeletionAddress(TopicName("orders"))
    news = []
    for fact in (
        absent(mark, Zxid(2)),
        present(mark, None, Stat(Zxid(3), Zxid(3), ZnodeVersion(0))),
        present(mark, None, Stat(Zxid(5), Zxid(5), ZnodeVersion(0))),
        absent(mark, Zxid(7)),
        absent(mark, Zxid(8)),
    ):
        state.apply(fact)
        news.append(bool(state.take_changes().marks))

    assert news == [False, True, True, True, False]
