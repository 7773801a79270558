"""What is recorded of the moves of a request, and for how long?"""

from __future__ import annotations

import json

import pytest

from controller.core.messages.effects import Asking
from controller.core.messages.requests import Caller
from controller.core.progress import recording, status_znodes
from controller.core.progress.recording import Recording, most_bytes
from controller.core.state.topics import TopicIdentity
from controller.core.transactions.sizes import RequestSizes
from tests.unit.traps.play import Play, some
from zk_layout import catalog
from zk_layout.ids import RequestId, TopicPartition, Zxid

RECORDS = "/kafka_zk_controller/move_records"
STATUSES = "/admin/reassign_partitions_status"
ON = "set keeps_move_records=true status_retention_ms=60000"


def playing(*commands: str, topic: str = "topic o 0=1,2 1=1,2 2=1,2 3=1,2") -> Play:
    play = Play(ON, "brokers 1,2,3,4", topic, "elect")
    play.do(*commands)
    return play


def recorded(play: Play, name: str) -> dict[str, dict[str, list[list[int]]]]:
    """The moves in one znode, by topic."""
    data = play.data(f"{RECORDS}/{name}")
    return {} if data is None else {topic: of["moves"] for topic, of in json.loads(data)["topics"].items()}


def test_nothing_is_recorded_unless_the_setting_says_so() -> None:
    play = Play("brokers 1,2,3", "topic o 0=1,2", "elect")

    assert not some(play.do("ask reassign o-0 to=1,3"), RECORDS)


def test_a_target_that_is_asked_for_again_was_not_moved_by_the_second_request() -> None:
    play = playing("ask reassign o-0 to=1,3", "ask reassign o-0 to=1,3")

    assert recorded(play, "1-0") == {"o": {"0": [[1, 3], [1, 2]]}}
    assert play.data(f"{STATUSES}/2") is not None
    assert play.data(f"{RECORDS}/2-0") is None


def test_why_is_kept_with_the_records_and_the_status_and_a_successor_keeps_it() -> None:
    play = playing("ask reassign reason=disks o-0 to=1,3")
    assert json.loads(play.data(f"{RECORDS}/1-0") or "")["reason"] == "disks"

    play.do("elect", "isr o-0 1,2,3", "time +10s")

    status = json.loads(play.data(f"{STATUSES}/1") or "")
    assert (status["reason"], status["counts"]) == ("disks", {"completed": 1})


def test_a_reason_that_may_not_be_recorded_is_refused_and_nothing_moves() -> None:
    play = playing()

    lines = play.do(f"ask reassign reason={'x' * 1001} o-0 to=1,3")

    assert some(lines, "answer INVALID_REQUEST: the reason has 1001 bytes; give at most 1000"), lines
    assert play.data(f"{STATUSES}/1") is None


def test_of_two_requests_in_one_step_each_is_recorded_from_where_the_partition_really_was() -> None:
    play = playing()
    play.do("hold request", "ask reassign o-1 to=1,4", "ask reassign o-0 to=1,3", "ask reassign o-0 to=4,2", "reply")

    assert [recorded(play, f"{n}-0")["o"].get("0") for n in (2, 3)] == [[[4, 2], [1, 2]]] * 2


def test_records_that_do_not_fit_into_one_znode_take_more_and_are_deleted_with_the_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording, "MOST_BYTES", recording.HEADER_BYTES + 210)
    monkeypatch.setattr(recording, "SMALLEST_BYTES", 0)
    play = playing("ask reassign o-0 to=2,1 o-1 to=2,1 o-2 to=2,1 o-3 to=2,1")

    found = [recorded(play, f"1-{part}") for part in range(3)]

    assert [sorted(part.get("o", {})) for part in found] == [["0"], ["1"], ["2"]]
    assert json.loads(play.data(f"{RECORDS}/1-0") or "")["parts"] == 4

    play.do("time +70s")
    assert [play.data(f"{RECORDS}/1-{part}") for part in range(4)] == [None] * 4
    assert play.data(f"{STATUSES}/1") is None


def test_records_that_are_too_large_cost_no_request_its_id() -> None:
    play = Play(f"{ON} znode_size_limit=600", "brokers 1,2,3", "topic o 0=1,2", "elect")
    play.do("servers take 600")

    lines = play.do(f"as {'x' * 250} tool", "ask reassign o-0 to=1,3", "time +60s")

    assert some(lines, "answer o-0 NONE request 1"), lines
    assert some(lines, "notice (missing records)", "too large"), lines
    assert play.data(f"{RECORDS}/1-0") is None


def test_records_that_may_not_be_written_cost_no_request_its_id_and_that_is_said() -> None:
    play = playing(f"refuse {RECORDS}/1-0")

    lines = play.do("ask reassign o-0 to=1,3")

    assert some(lines, "answer o-0 NONE request 1"), lines
    assert some(lines, "notice (missing records)", f"{RECORDS}/1-0"), lines
    assert play.data(f"{RECORDS}/1-0") is None


def test_records_that_were_written_without_a_status_are_deleted_by_the_next_leader() -> None:
    play = Play(f"{ON} writes_a_transaction=1", "brokers 1,2,3", "topic o 0=1,2", "elect")
    play.do("crash after-commit 3", "ask reassign o-0 to=1,3")
    assert '"origin":"AlterPartitionReassignments"' in (play.data(f"{RECORDS}/1-0") or "")
    assert play.data(f"{STATUSES}/1") is None

    lines = play.do("elect", "time +3s")

    assert some(lines, "request 1 has no status"), lines
    assert '"origin":"found under way"' in (play.data(f"{RECORDS}/1-0") or "")
    assert play.data(f"{STATUSES}/1") is not None


def test_records_whose_status_is_refused_are_deleted_and_the_request_gets_another_id() -> None:
    play = Play(f"{ON} writes_a_transaction=1", "brokers 1,2,3", "topic o 0=1,2", "elect")
    play.do(f"refuse {STATUSES}")

    lines = play.do("ask reassign o-0 to=1,3")

    assert some(lines, "answer o-0 NONE") == ["answer o-0 NONE"]
    assert some(lines, "create", f"{RECORDS}/2-0"), lines
    assert not play.theatre.zookeeper.nodes[RECORDS].children

    play.do(f"allow {STATUSES}", "time +40s")
    (name,) = play.theatre.zookeeper.nodes[RECORDS].children
    assert play.data(f"{STATUSES}/{name.partition('-')[0]}") is not None
    assert recorded(play, name) == {"o": {"0": [[1, 3], [1, 2]]}}


def test_records_stay_while_it_is_unknown_which_statuses_there_are() -> None:
    play = playing("ask reassign o-0 to=2,1")
    zookeeper = play.theatre.zookeeper
    zookeeper.hidden.add(STATUSES)

    play.do("elect", "time +5s")

    assert play.data(f"{RECORDS}/1-0") is not None


def test_records_without_a_status_are_deleted_as_soon_as_it_is_known_which_statuses_there_are() -> None:
    play = playing("ask reassign o-0 to=2,1", "ask reassign o-1 to=2,1")
    zookeeper = play.theatre.zookeeper
    del zookeeper.nodes[f"{STATUSES}/1"]
    zookeeper.nodes[STATUSES].children.pop("1")
    zookeeper.hidden.add(STATUSES)
    play.do("elect", "time +5s")
    assert recorded(play, "1-0")

    zookeeper.hidden.clear()
    play.do("time +70s")

    assert play.data(f"{RECORDS}/1-0") is None


def test_of_too_many_recorded_moves_those_of_the_request_that_ended_first_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_znodes, "MOST_RECORDED", 3)
    play = playing("ask reassign o-0 to=2,1 o-1 to=2,1", "time +1s", "ask reassign o-0 to=1,2", "time +1s")
    assert recorded(play, "1-0")

    play.do("ask reassign o-2 to=2,1 o-3 to=2,1", "time +1s")

    assert [bool(recorded(play, f"{n}-0")) for n in (1, 2, 3)] == [False, True, True]
    assert [play.data(f"{STATUSES}/{n}") is not None for n in (1, 2, 3)] == [True] * 3
    play.do("time +70s")
    assert [play.data(f"{STATUSES}/{n}") for n in (1, 2, 3)] == [None] * 3


def test_what_the_last_request_moved_stays_however_much_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_znodes, "MOST_RECORDED", 1)

    play = playing("ask reassign o-0 to=2,1 o-1 to=2,1 o-2 to=2,1", "time +5s")

    assert len(recorded(play, "1-0")["o"]) == 3


def test_a_hundred_thousand_moves_take_less_than_the_znodes_they_are_cut_into() -> None:
    found = Recording(most_bytes(RequestSizes(1_048_575)))
    for number in range(100_000):
        at = TopicPartition(f"a-topic-with-22-letters-{number // 1000}", number % 1000)
        found.add(at, TopicIdentity(Zxid(1 << 40)), (1001, 1002, 1003), (1004, 1005, 1006))

    caller = Caller("PLAINTEXT", "10.0.0.1", "c" * 32_000, "User:" + "ö" * 5_000)
    by = Asking(None, "a client", 1 << 41, caller)
    sizes = [len(catalog.encode(made.value)) for made in found.creations(RequestId(7), by, 1 << 62)]

    assert max(sizes) < recording.MOST_BYTES
    assert sum(sizes) / 100_000 < 65
