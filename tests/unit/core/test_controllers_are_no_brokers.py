"""Replicas of this controller are registered like brokers: what if someone takes them for such?"""

from __future__ import annotations

import json

import pytest

from controller.core.messages.commands import UpdateMetadata
from tests.unit.traps.play import Play, some
from zk_layout.ids import BrokerId

CLICKS = "/brokers/topics/clicks"
CHILD = "/admin/reassignments/clicks-0"


def replicas(play: Play, topic: str = "clicks") -> dict[str, list[int]]:
    held: dict[str, list[int]] = json.loads(play.data(f"/brokers/topics/{topic}") or "{}")["partitions"]
    return held


def state(play: Play, at: str = "clicks-0") -> tuple[int, list[int]]:
    topic, _, number = at.rpartition("-")
    held = json.loads(play.data(f"/brokers/topics/{topic}/partitions/{number}/state") or "{}")
    return held["leader"], held["isr"]


def test_another_replica_of_ours_gets_no_replicas_and_hears_nothing() -> None:
    play = Play("brokers 1,2", "controllers 101", "elect")

    lines = play.do("ask create clicks partitions=4 replicas=2", "ask create more 0=1,101")

    assert all(sorted(of) == [1, 2] for of in replicas(play).values())
    assert some(lines, "answer more INVALID_REPLICA_ASSIGNMENT")
    assert not [tell for tell in play.theatre.sent if tell.broker == 101]
    assert play.figures()["live_brokers"] == 2
    told = [tell.command for tell in play.theatre.sent if isinstance(tell.command, UpdateMetadata)]
    assert {node.broker for command in told for node in command.brokers} == {1, 2, 100}


def test_no_one_connects_to_it_or_shows_it_to_clients() -> None:
    play = Play("brokers 1")
    lines = play.do("elect", "controllers 101", "ask metadata")

    assert not some(lines, "connect 101")
    assert not some(lines, "connect 1,101")
    assert not some(lines, "101")
    assert not play.do("broker 101 dies")


def test_a_move_to_it_is_refused_and_it_may_not_ask_to_leave() -> None:
    play = Play("brokers 1,2", "controllers 101", "topic clicks 0=1", "elect")

    assert some(play.do("ask reassign clicks-0 to=101"), "INVALID_REPLICA_ASSIGNMENT")
    assert some(play.do("shutdown 101"), "UNKNOWN_SERVER_ERROR")


def test_what_was_placed_on_it_moves_to_a_broker() -> None:
    play = Play("brokers 1,2", "controllers 101", "topic clicks 0=1,101", "state clicks-0 leader=1 isr=1", "elect")

    play.do("isr clicks-0 1,2", "time +10s")

    assert replicas(play) == {"0": [1, 2]}


def test_a_move_that_a_native_controller_began_to_it_ends_at_a_broker_that_was_to_leave() -> None:
    """All other brokers are among the replicas already: without this the move would never end."""
    moving = '{"version":2,"partitions":{"0":[101,2,1]},"adding_replicas":{"0":[101,2]},"removing_replicas":{"0":[1]}}'
    play = Play("brokers 1,2", "controllers 101", "topic clicks 0=1", f"znode {CLICKS} {moving}", "elect")

    play.do("isr clicks-0 1,2 leader_epoch=1", "time +10s")

    assert replicas(play) == {"0": [1, 2]}


def adding(play: Play) -> dict[str, list[int]]:
    held: dict[str, list[int]] = json.loads(play.data(CLICKS) or "{}")["adding_replicas"]
    return held


@pytest.mark.parametrize("isr", ["1", "1,101"], ids=["never there", "a broker that died"])
def test_what_was_placed_on_an_id_before_a_controller_got_it_moves_to_a_broker(isr: str) -> None:
    play = Play("brokers 1,2", "topic clicks 0=1,101", f"state clicks-0 leader=1 isr={isr}", "elect")
    assert replicas(play) == {"0": [1, 101]}

    play.do("controllers 101")

    assert (replicas(play), adding(play)) == ({"0": [1, 2, 101]}, {"0": [2]})


def test_a_broker_whose_id_a_controller_gets_at_once_leads_no_longer() -> None:
    play = Play("brokers 1,101", "topic clicks 0=101,1", "state clicks-0 leader=101 isr=101,1", "elect")
    theatre, broker = play.theatre, BrokerId(101)

    theatre.zookeeper.close_session(theatre.brokers.pop(broker))
    theatre.register(broker, is_ours=True)
    lines = play.do("time +10s")

    assert state(play) == (1, [1])
    assert [line for line in lines if "connect 101" in line] == ["disconnect 101"]
    told = [tell.command for tell in theatre.sent if isinstance(tell.command, UpdateMetadata)]
    assert {node.broker for node in told[-1].brokers} == {1, 100}


@pytest.mark.parametrize(("away", "back"), [("broker 2 dies", "broker 2 returns"), ("shutdown 2", "broker 2 bounces")])
def test_such_a_move_gets_a_broker_also_while_another_of_its_new_replicas_is_away(away: str, back: str) -> None:
    """The move has begun, and that replica was live then."""
    moving = '{"version":2,"partitions":{"0":[101,2,1]},"adding_replicas":{"0":[101,2]},"removing_replicas":{"0":[1]}}'
    play = Play("brokers 1,2", "topic clicks 0=1", f"znode {CLICKS} {moving}", "elect")
    assert adding(play) == {"0": [101, 2]}

    play.do(away, "controllers 101")
    assert (replicas(play), adding(play)) == ({"0": [1, 2]}, {"0": [2]})

    play.do(back, "isr clicks-0 1,2", "time +10s")
    assert (replicas(play), adding(play)) == ({"0": [1, 2]}, {})


LEAVING = '{"version":2,"partitions":{"0":[1,2,101]},"adding_replicas":{"0":[2]},"removing_replicas":{"0":[101]}}'


@pytest.mark.parametrize(
    "request_text",
    ["ask reassign clicks-0 to=101,2", "legacy clicks-0=101,2", f'znode {CHILD} {{"version":1,"assignment":[101,2]}}'],
)
def test_a_move_back_to_it_is_refused_while_it_is_being_removed(request_text: str) -> None:
    """If it were taken, a broker would replace the controller at once, and the request would be found undone again."""
    setting = "set keeps_reassignment_znodes=true"
    play = Play(setting, "brokers 1,2", "controllers 101", "topic clicks 0=1", f"znode {CLICKS} {LEAVING}", "elect")

    lines = play.do(request_text, "time +10s")

    assert not some(lines, "asked to move clicks-0")
    assert some(lines, "brokers that are not alive. Replica list: [101")
    assert play.data("/admin/reassign_partitions") is None


def test_a_partition_whose_only_replica_is_on_it_gets_a_broker() -> None:
    play = Play("brokers 1,2", "controllers 101", "topic clicks 0=101")

    lines = play.do("elect")

    assert state(play) == (2, [2]) or state(play) == (1, [1])
    assert replicas(play)["0"] == state(play)[1]
    assert some(lines, "notice (replica on controller)", "clicks-0")


def test_so_does_one_whose_only_replica_is_on_the_leading_one() -> None:
    play = Play("brokers 1", "topic clicks 0=100", "elect")

    assert state(play) == (1, [1])
    assert replicas(play) == {"0": [1]}


def test_it_gets_one_as_soon_as_there_is_one() -> None:
    play = Play("topic clicks 0=100", "elect")

    play.do("brokers 3")

    assert state(play) == (3, [3])


def test_the_only_other_replica_has_all_there_is() -> None:
    play = Play("brokers 2", "topic clicks 0=100,1", "state clicks-0 leader=100 isr=100", "elect")
    assert state(play) == (-1, [1])

    play.do("brokers 1")

    assert state(play) == (1, [1])


def test_of_several_others_only_an_unclean_election_can_choose() -> None:
    play = Play("brokers 1,2,3", "topic clicks 0=100,1,2", "state clicks-0 leader=100 isr=100", "elect")
    assert state(play)[0] == -1

    play.do("ask elect unclean clicks-0")

    assert state(play)[0] in (1, 2)


def test_a_topic_gets_all_the_replicas_it_was_to_have_as_soon_as_there_is_a_broker() -> None:
    play = Play("brokers 1,2", "elect")

    lines = play.do("create topic clicks 0=1,2,100 1=100,1,2")

    assert state(play) == (1, [1, 2])
    assert state(play, "clicks-1") == (1, [1, 2])
    assert some(lines, "notice (missing replicas)", "clicks-0 lacks 1 of 3")
    assert play.figures()["replicas_without_broker"] == 2

    play.do("brokers 3", "isr clicks-0 1,2,3", "isr clicks-1 1,2,3", "time +10s")

    assert replicas(play) == {"0": [1, 2, 3], "1": [3, 1, 2]}
    assert play.figures()["replicas_without_broker"] == 0


def test_also_in_the_term_of_another_controller() -> None:
    play = Play("brokers 1", "elect", "create topic clicks 0=1,100", "elect 101")
    assert play.figures()["replicas_without_broker"] == 1

    play.do("brokers 2")

    assert replicas(play) == {"0": [1, 2, 100]}
    play.do("elect 102")  # also in the middle of the move
    play.do("isr clicks-0 1,2", "time +10s")
    assert replicas(play) == {"0": [1, 2]}
    assert play.figures()["unconfirmed_replica_deletions"] == 0


def test_what_a_native_controller_places_on_one_that_has_just_died_gets_a_broker() -> None:
    play = Play("brokers 1,2", "elect", "time +5s", "topic clicks 0=1,100", "topic views 0=1,100", "elect 101")

    play.do("isr clicks-0 1,2", "delete topic views")

    assert replicas(play) == {"0": [1, 2]}
    assert play.data("/brokers/topics/views") is None


def test_an_id_that_a_broker_takes_is_struck_from_the_record() -> None:
    path = "/kafka_zk_controller/controller_ids"
    play = Play("brokers 1,2", "elect", "time +5s", "elect 101", "time +5s")
    assert play.data(path) == '{"version":1,"ids":[100,101]}'

    play.do("brokers 100")

    assert play.data(path) == '{"version":1,"ids":[101]}'


def test_an_id_that_was_ours_and_is_a_brokers_now_counts_as_a_broker() -> None:
    play = Play("brokers 1", "elect", "create topic clicks 0=1,100", "elect 101")

    play.do("brokers 100", "isr clicks-0 1,100")

    assert state(play) == (1, [1, 100])
    assert replicas(play) == {"0": [1, 100]}


def test_what_a_later_broker_of_such_an_id_may_hold_is_not_given_up() -> None:
    play = Play("brokers 1", "elect", "create topic clicks 0=1,100", "elect 101", "elect 102")
    play.do("state clicks-0 leader=100 isr=100", "elect 101", "time +10s")

    assert state(play) == (-1, [100])


def test_a_topic_on_nothing_but_the_controller_waits_for_a_broker() -> None:
    play = Play("elect", "create topic clicks 0=100")
    assert play.data(f"{CLICKS}/partitions/0/state") is None

    play.do("brokers 1")

    assert state(play) == (1, [1])


def test_a_broker_may_get_the_id_of_a_controller_that_was_there_a_moment_ago() -> None:
    play = Play("brokers 1", "elect", "controllers 101", "broker 101 dies")

    lines = play.do("brokers 101", "ask create clicks 0=101")

    assert some(lines, "connect 101")
    assert state(play) == (101, [101])


def test_several_ids_of_controllers_are_replaced_at_once() -> None:
    play = Play("brokers 1,2", "controllers 101", "elect")

    lines = play.do("create topic clicks 0=100,101")

    assert some(lines, "[100, 101] are controllers and host nothing")
    assert sorted(replicas(play)["0"]) == [1, 2]
