"""What becomes of a request whose status cannot be written?"""

from __future__ import annotations

import pytest

from controller.core.messages.events import ReadRefused
from controller.core.progress import status_znodes
from controller.core.progress.duty import LookAfterMoves, RequestProgress
from tests.simulation.zookeeper import SetData
from tests.unit.core.builders import Term, commits, ids, state
from tests.unit.traps.play import Play, some
from zk_layout.facts import Stat, present
from zk_layout.ids import PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

STATUS = "/admin/reassign_partitions_status/1"


def moving(*settings: str) -> tuple[Play, list[str]]:
    """A move has been asked for: what came of that."""
    play = Play(*settings, "brokers 1,2,3", "topic o 0=1,2", "elect")
    return play, play.do("ask reassign o-0 to=1,3")


def test_a_request_whose_status_fits_in_no_znode_is_answered_without_an_id_and_goes_on() -> None:
    play, lines = moving("set znode_size_limit=240")

    assert some(lines, "notice (oversized znode)", STATUS)
    assert some(lines, "answer o-0 NONE") == ["answer o-0 NONE"]
    assert play.data(STATUS) is None

    assert some(play.do("isr o-0 1,2,3"), "o-0 has moved to [1, 3]")
    assert play.data(STATUS) is None


def test_a_status_that_someone_deleted_is_missed_once_and_not_written_again() -> None:
    play, _ = moving()
    play.do(f"remove {STATUS}")

    lines = play.do("isr o-0 1,2,3", "time +60s")

    assert some(lines, "o-0 has moved to [1, 3]")
    assert len(some(lines, "request 1 is finished")) == len(some(lines, "conflicted")) == 1
    assert play.data(STATUS) is None
    assert play.do("ask status 1") == ["answer nothing moves"]


def test_a_status_that_no_one_can_read_is_left_alone_at_the_end() -> None:
    play, _ = moving()
    play.do(f"malformed {STATUS} junk")

    play.do("isr o-0 1,2,3", "time +60s")

    assert play.data(STATUS) == "junk"


def test_an_end_that_was_written_although_the_answer_was_lost_is_not_written_again() -> None:
    play, _ = moving()
    play.theatre.trouble.extend(["", "", "lose-reply"])

    lines = play.do("isr o-0 1,2,3", "time +60s")

    assert some(lines, "unknown", "it was written")
    assert len(some(lines, "request 1 is finished")) == 1


def test_an_end_that_never_left_is_written_again() -> None:
    play, _ = moving()
    play.theatre.trouble.extend(["", "", "lose-request"])

    lines = play.do("isr o-0 1,2,3", "time +60s")

    assert len(some(lines, "request 1 is finished")) == 2
    assert '"finished' in (play.data(STATUS) or "")


def test_only_so_many_finished_statuses_are_kept_however_often_a_client_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_znodes, "MOST_FINISHED", 3)
    play, _ = moving()
    for target in ("1,2", "1,3", "1,2", "1,3"):
        play.do(f"ask reassign o-0 to={target}", "time +10s")

    kept = [n for n in range(1, 6) if play.data(f"/admin/reassign_partitions_status/{n}") is not None]
    assert kept == [2, 3, 4, 5]  # one of them is in progress

    play.do("refuse /admin/reassign_partitions_status/2", "elect", "time +10s", "isr o-0 1,2,3", "time +60s")
    kept = [n for n in range(1, 6) if play.data(f"/admin/reassign_partitions_status/{n}") is not None]
    assert kept == [2, 3, 4, 5]

    play.do("allow /admin/reassign_partitions_status/2", "time +60s")
    kept = [n for n in range(1, 6) if play.data(f"/admin/reassign_partitions_status/{n}") is not None]
    assert kept == [3, 4, 5]

    play.do("elect", "time +10s", "isr o-0 1,2,3", "time +10s")
    kept = [n for n in range(1, 6) if play.data(f"/admin/reassign_partitions_status/{n}") is not None]
    assert kept == [3, 4, 5]


@pytest.mark.parametrize("last", [2**31 - 1, 2**63])
def test_ids_that_someone_made_up_do_not_take_the_next_requests_their_own(last: int) -> None:
    root = "/admin/reassign_partitions_status"
    play = Play("brokers 1,2,3", "topic o 0=1,2")
    zookeeper = play.theatre.zookeeper
    zookeeper.write(play.theatre.world, SetData(root, b'{"version":1,"last_request_id":%d}' % last))
    zookeeper.make_path(f"{root}/{2**31 - 1}")
    play.do("elect")

    lines = play.do("ask reassign o-0 to=1,3")

    assert some(lines, "create", f"{root}/2"), lines
    assert play.data(f"{root}/2") is not None


def test_statuses_that_could_not_be_listed_when_the_term_began_are_gone_on_with_later() -> None:
    play, _ = moving("set status_retention_ms=60000")
    zookeeper, folder = play.theatre.zookeeper, STATUS.rpartition("/")[0]
    play.do("time +10s")
    zookeeper.hidden.add(folder)
    play.do("elect", "time +3s")
    zookeeper.hidden.clear()

    play.do("time +10s", "isr o-0 1,2,3", "time +10s")
    end = play.data(STATUS)
    play.do("time +100s")

    assert '"completed":1' in (end or ""), end
    assert play.data(STATUS) is None


def test_a_finished_status_that_could_not_be_listed_when_the_term_began_is_deleted_in_its_time() -> None:
    play, _ = moving("set status_retention_ms=60000")
    zookeeper, folder = play.theatre.zookeeper, STATUS.rpartition("/")[0]
    play.do("isr o-0 1,2,3", "time +10s")
    zookeeper.hidden.add(folder)
    play.do("elect", "time +3s")
    zookeeper.hidden.clear()

    play.do("time +120s")

    assert play.data(STATUS) is None


TOPICS = ("brokers 1,2,3", "topic o 0=1,2 1=1,2", "topic p 0=1,2", "topic q 0=1,2 1=1,2", "elect")


def test_a_status_larger_than_the_servers_take_is_cut_down_and_no_other_request_waits_for_it() -> None:
    play = Play("set znode_size_limit=1300", *TOPICS)
    play.do("servers take 900")

    lines = play.do("ask reassign o-0 to=1,3 o-1 to=1,3", "ask reassign p-0 to=1,3")

    assert len(some(lines, "answer o-", "NONE")) == 2
    assert len(some(lines, "answer p-0 NONE request")) == 1
    assert some(lines, "request", "by AlterPartitionReassignments: 2 in progress")
    assert len(some(lines, "notice (lower size limit)")) == 1
    assert not some(lines, "notice (refused transaction)")

    lines = play.do("ask reassign q-0 to=1,3 q-1 to=1,3")

    assert len(some(lines, "answer q-", "NONE request")) == 2  # it is known by now what is too large
    assert not some(lines, "unknown")


def test_where_statuses_cannot_be_written_no_answer_waits_for_them() -> None:
    play = Play(*TOPICS)
    play.do("refuse /admin/reassign_partitions_status")

    lines = play.do("ask reassign o-0 to=1,3", "ask reassign p-0 to=1,3", "ask reassign q-0 to=1,3")
    assert some(lines, "answer ") == ["answer o-0 NONE", "answer p-0 NONE", "answer q-0 NONE"]
    lines = play.do("allow /admin/reassign_partitions_status", "time +60s")

    assert not some(lines, "answer ")
    assert len(some(lines, "create /admin/reassign_partitions_status/")) == 3


def test_a_request_ends_with_its_topic_even_if_that_could_not_be_read_when_it_was_deleted() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "elect", "ask reassign orders-0 to=3,1", "broker 2 dies")
    address = TopicAddress(TopicName("orders"))
    play.do("delete topic orders")
    play.theatre._events.append(ReadRefused(address.path, "no permission", address))

    lines = play.do("broker 2 returns", "time +1s")

    assert some(lines, "delete /brokers/topics/orders v")
    assert some(lines, "request 1", "1 deleted")


def test_a_status_that_is_read_before_its_write_is_settled_is_not_taken_for_an_earlier_terms() -> None:
    """Two requests of one id ended the term when both were finished."""
    term = Term("1,2,3")
    duty = RequestProgress(term.shared)
    topic, number = TopicName("o"), PartitionId(0)
    stat = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))
    moving_now = Topic({number: Assignment(ids("1,2"), adding=ids("2"))}, None)
    term.fold(present(TopicAddress(topic), moving_now, stat), present(StateAddress(topic, number), state(1, "1"), stat))
    term.follow(duty)
    term.propose(duty)
    term.now = 60.0
    duty.woke(LookAfterMoves(), term.out())
    (opening,) = commits(term.propose(duty))
    root, status = opening.writes
    facts = [present(w.address, w.value, Stat(Zxid(20), Zxid(20), ZnodeVersion(0))) for w in (status, root)]  # type: ignore[union-attr]

    term.refuse(opening, facts[0])
    term.follow(duty)
    term.read(facts[1])
    term.follow(duty)
    moved = Topic({number: Assignment(ids("1,2"))}, None)
    at = Stat(Zxid(10), Zxid(30), ZnodeVersion(1))
    term.fold(present(TopicAddress(topic), moved, at), present(StateAddress(topic, number), state(1, "1,2", 4), at))
    term.follow(duty)

    assert [len(commit.writes) for commit in commits(term.propose(duty))] == [1]
