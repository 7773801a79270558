"""Is a request's throttle in force before its moves begin, and gone when they are over, whatever happens meanwhile?"""

from __future__ import annotations

import json

import pytest

from controller.core.state.throttles import ThrottleZnodes
from tests.unit.traps.play import Play, some
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import BrokerId, ZnodeVersion, Zxid
from zk_layout.znodes.configs import BrokerConfigAddress, Config
from zk_layout.znodes.throttles import BROKERS, FOLLOWER_RATE, FOLLOWER_REPLICAS, TOPICS

CLUSTER = ("brokers 1,2,3,4", "topic orders 0=1,2 1=1,2")
MOVE = "ask reassign throttle=5000000 orders-0 to=3,2"
OVER = ("isr orders-0 1,2,3", "time +5s")


def throttled(*before: str, ask: str = MOVE) -> Play:
    """A move whose throttle is in force, and that has begun."""
    play = Play(*CLUSTER, *before, "elect")
    play.do(ask, "time +5s")
    return play


def settings(play: Play, entity: str) -> dict[str, str]:
    """The settings of `topics/orders` or `brokers/3`; none without a znode."""
    data = play.data(f"/config/{entity}")
    found: dict[str, str] = {} if data is None else json.loads(data)["config"]
    return found


def records(play: Play) -> list[str]:
    """The records of what is owed to settings."""
    return sorted(path for path in play.theatre.zookeeper.nodes if path.startswith((f"{TOPICS}/", f"{BROKERS}/")))


def is_moving(play: Play) -> bool:
    """Whether the move of orders-0 has begun, and is not over."""
    return '"adding_replicas":{}' not in str(play.data("/brokers/topics/orders"))


def assert_nothing_is_left(play: Play) -> None:
    """Nothing is throttled any more, nor to be restored."""
    assert records(play) == []
    for entity in ("topics/orders", "brokers/3", "brokers/4"):
        assert not {FOLLOWER_RATE, FOLLOWER_REPLICAS} & settings(play, entity).keys()


@pytest.mark.parametrize("before", ["", "7000000"])
def test_a_move_begins_as_soon_as_its_brokers_show_their_new_rate(before: str) -> None:
    play = Play(*CLUSTER, f"shown 3 {before}".strip(), "elect")

    play.do(MOVE, "time +2s")
    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "0:3"}
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "5000000"}
    assert not is_moving(play)

    said = play.do("shown 3 written", "time +0.2s")
    assert is_moving(play)
    assert some(said, "answer orders-0 NONE")
    play.do(*OVER)
    assert_nothing_is_left(play)


def test_brokers_read_their_rates_after_all_lists() -> None:
    play = Play(*CLUSTER, "topic users 0=1,2", "shown 3", "shown 4", "elect")

    play.do("ask reassign throttle=5 orders-0 to=3,4 users-0 to=3,2")

    changes = sorted(path for path in play.theatre.zookeeper.nodes if path.startswith("/config/changes/"))
    entities = [json.loads(str(play.data(path)))["entity_path"] for path in changes]
    assert sorted(entities[:2]) == ["topics/orders", "topics/users"]
    assert sorted(entities[2:]) == ["brokers/3", "brokers/4"]


@pytest.mark.parametrize(
    ("before", "waits_s", "is_said"),
    [
        (("shown 3 7",), 15, True),  # overloaded, and surely of a version that would show it
        (("set assigns_topic_ids=false", "shown 3"), 5, False),  # perhaps older than 2.8
        (("broker 3 hangs",), 5, False),
    ],
)
def test_no_broker_is_waited_for_for_good(before: tuple[str, ...], waits_s: int, *, is_said: bool) -> None:
    play = Play(*CLUSTER, *before, "elect")

    said = play.do(MOVE, f"time +{waits_s - 1}s")
    assert not is_moving(play)

    said = play.do("time +1s")
    assert is_moving(play)
    text = "(unseen throttle) broker 3 has not shown its new rate of 5000000 bytes/s within 15 s"
    assert bool(some(said, text)) is is_said


def test_a_broker_that_dies_is_not_waited_for() -> None:
    play = Play(*CLUSTER, "shown 3 7", "shown 4 7", "elect")
    play.do("ask reassign throttle=5 orders-0 to=3,2 orders-1 to=4,2", "shown 4 written", "time +2s")

    said = play.do("broker 3 dies", "time +1s")

    assert some(said, "answer orders-0 INVALID_REPLICA_ASSIGNMENT")
    assert some(said, "answer orders-1 NONE")


def test_a_broker_whose_rate_is_the_same_cannot_show_that_it_has_read_a_list() -> None:
    play = throttled()

    play.do("ask reassign throttle=5000000 orders-1 to=3,2", "time +4.8s")
    assert '"1":[]' not in str(play.data("/brokers/topics/orders"))
    assert '"adding_replicas":{"0":[3]}' in str(play.data("/brokers/topics/orders"))

    play.do("time +0.2s")
    assert '"1":[3]' in str(play.data("/brokers/topics/orders"))


def test_what_another_request_writes_meanwhile_shows_as_well_that_lists_are_read() -> None:
    play = Play(*CLUSTER, "shown 3 7", "elect")
    play.do(MOVE, "time +1s", "ask reassign throttle=4000000 orders-1 to=3,2", "time +1s")
    assert not is_moving(play)

    said = play.do("shown 3 written", "time +1s")

    assert some(said, "answer orders-0 NONE")
    assert some(said, "answer orders-1 NONE")


def test_without_a_throttle_no_settings_are_read_or_written() -> None:
    play = Play(*CLUSTER, "elect")

    play.do("ask reassign orders-0 to=3,2")

    assert is_moving(play)
    assert not any("/config/" in a.path for read in play.theatre.reads for a in read.addresses)
    assert play.data("/config/topics/orders") is None


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        ("ask reassign throttle=0 orders-0 to=3,2", "throttle 0 is no rate"),
        ("ask reassign throttle=-5 orders-0 to=3,2", "throttle -5 is no rate"),
    ],
)
def test_what_is_no_rate_is_refused(ask: str, says: str) -> None:
    play = Play(*CLUSTER, "elect")

    assert some(play.do(ask), says)
    assert not is_moving(play)


def test_what_receives_nothing_needs_no_throttle_and_does_not_wait() -> None:
    play = Play(*CLUSTER, "elect")

    play.do("ask reassign throttle=5000000 orders-0 to=2,1 nowhere-0 to=3,2")

    assert json.loads(str(play.data("/brokers/topics/orders")))["partitions"]["0"] == [2, 1]
    assert records(play) == []


def test_a_refused_move_is_not_throttled_for_long() -> None:
    play = Play(*CLUSTER, "elect")

    said = play.do("ask reassign throttle=5000000 orders-0 to=3,77", "time +5s")

    assert some(said, "INVALID_REPLICA_ASSIGNMENT")
    assert_nothing_is_left(play)
    assert settings(play, "brokers/77") == {}


@pytest.mark.parametrize(
    "ending",
    [
        ("isr orders-0 1,2,3",),
        ("ask cancel orders-0",),
        ("ask reassign orders-0 to=1,2",),
        ("delete topic orders",),
        ("elect 101", "isr orders-0 1,2,3"),
    ],
)
def test_however_a_move_ends_its_throttle_does(ending: tuple[str, ...]) -> None:
    play = throttled()

    play.do(*ending, "time +20s")

    assert_nothing_is_left(play)


def test_a_redirected_move_is_throttled_where_it_goes_now() -> None:
    play = throttled()

    play.do("ask reassign throttle=7000000 orders-0 to=4,2", "time +5s")

    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "0:4"}
    assert settings(play, "brokers/4") == {FOLLOWER_RATE: "7000000"}
    assert settings(play, "brokers/3") == {}


@pytest.mark.parametrize("rate", ["2000000", "9000000"])
def test_the_same_move_asked_for_again_changes_its_rate(rate: str) -> None:
    play = throttled()

    play.do(f"ask reassign throttle={rate} orders-0 to=3,2", "time +10s")

    assert settings(play, "brokers/3") == {FOLLOWER_RATE: rate}
    play.do(*OVER)
    assert_nothing_is_left(play)


def test_of_several_moves_into_a_broker_the_lowest_rate_counts_until_it_is_over() -> None:
    play = throttled()

    play.do("ask reassign throttle=2000000 orders-1 to=3,2", "time +4s")
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "2000000"}
    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "0:3,1:3"}

    play.do("isr orders-1 1,2,3", "time +12s")
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "5000000"}
    play.do(*OVER)
    assert_nothing_is_left(play)


@pytest.mark.parametrize(
    ("later", "replicas", "answers"),
    [
        ("ask cancel orders-0", [1, 2], ("INVALID_REQUEST", "NONE")),
        ("ask reassign orders-0 to=4,2", [4, 2, 1], ("INVALID_REQUEST", "NONE")),
        ("ask reassign throttle=5 orders-0 to=4,2", [4, 2, 1], ("NONE", "NONE")),
        ("ask reassign orders-0 to=3,2", [3, 2, 1], ("NONE", "NONE")),
        ("ask reassign orders-0 to=77", [3, 2, 1], ("NONE", "INVALID_REPLICA_ASSIGNMENT")),
    ],
)
def test_a_later_request_is_not_overruled_by_one_that_waits_for_its_throttle(
    later: str, replicas: list[int], answers: tuple[str, str]
) -> None:
    play = Play(*CLUSTER, "shown 3 7", "shown 4 7", "elect")
    play.do(MOVE, "time +1s")

    said = play.do(later, "time +1s", "shown 3 written", "time +1s", "shown 4 written", "time +1s")

    assert json.loads(str(play.data("/brokers/topics/orders")))["partitions"]["0"] == replicas
    answered = sorted(line.split()[2].rstrip(":") for line in some(said, "answer orders-0"))
    assert answered == sorted(answers)
    play.do(f"isr orders-0 {','.join(map(str, sorted(replicas)))}", "time +20s")
    assert_nothing_is_left(play)


def test_of_two_requests_that_wait_for_their_throttles_the_later_one_counts() -> None:
    play = Play(*CLUSTER, "shown 3 7", "shown 4 7", "elect")

    said = play.do(MOVE, "ask reassign throttle=5 orders-0 to=4,2", "shown 4 written", "time +1s")
    assert some(said, "answer orders-0 NONE")
    said = play.do("shown 3 written", "time +1s")

    assert some(said, "answer orders-0 INVALID_REQUEST: a later request has overruled this one")
    assert json.loads(str(play.data("/brokers/topics/orders")))["partitions"]["0"] == [4, 2, 1]


# ---- the setting for moves without a throttle of their own ------------------------------------------------------

BY_SETTING = ("set moves_throttle=5000000", *CLUSTER)


def test_a_request_without_a_throttle_gets_that_of_the_settings() -> None:
    play = Play(*BY_SETTING, "shown 3", "elect")

    play.do("ask reassign orders-0 to=3,2", "time +1s")
    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "0:3"}
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "5000000"}
    assert not is_moving(play)

    play.do("shown 3 written", "time +1s")
    assert is_moving(play)
    play.do(*OVER)
    assert_nothing_is_left(play)


def test_a_throttle_of_its_own_counts_and_is_kept_when_asked_again_without() -> None:
    play = Play(*BY_SETTING, "elect")
    play.do("ask reassign throttle=9000000 orders-0 to=3,2")

    said = play.do("ask reassign orders-0 to=3,2")

    assert some(said, "answer orders-0 NONE")
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "9000000"}


ENTRY = "legacy orders-0=3,2"
CHILDREN = "set keeps_reassignment_znodes=true"
CHILD = 'znode /admin/reassignments/orders-0 {"version":1,"assignment":[3,2]}'


def held(ask: str = ENTRY, *before: str) -> Play:
    """A move that a znode asks for, and whose broker does not show its rate yet."""
    return Play(*BY_SETTING, *before, "shown 3 7", "shown 4 7", "elect", ask, "time +2s")


@pytest.mark.parametrize("ask", [ENTRY, CHILD])
def test_a_move_that_a_znode_asks_for_begins_once_its_throttle_is_in_force(ask: str) -> None:
    play = held(ask, CHILDREN)

    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "0:3"}
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "5000000"}
    assert not is_moving(play)
    assert some(play.do("ask list"), "answer orders-0 replicas=[1, 2] adding=[3]")

    play.do("shown 3 written", "time +1s")
    assert is_moving(play)
    play.do(*OVER)
    assert_nothing_is_left(play)


def test_a_move_that_a_znode_asks_for_waits_for_no_broker_for_good() -> None:
    play = held()

    play.do("time +12s")
    assert not is_moving(play)
    said = play.do("time +1s")

    assert is_moving(play)
    assert some(said, "(unseen throttle) broker 3 has not shown its new rate of 5000000 bytes/s within 15 s")


def test_to_a_broker_that_is_down_an_entry_begins_at_once() -> None:
    play = Play(*BY_SETTING, "shown 3 7", "elect", "broker 3 dies")

    play.do(ENTRY, "time +1s")

    assert is_moving(play)
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "5000000"}


def test_all_entries_get_their_throttle_together() -> None:
    play = held("legacy orders-0=3,2 orders-1=4,2 users-0=3,2", "topic users 0=1,2")
    assert version_of(play) == 0

    play.do("shown 3 written", "shown 4 written", "time +1s")

    assert play.data("/admin/reassign_partitions") is not None
    for name in ("orders", "users"):
        assert '"adding_replicas":{"0":[3]' in str(play.data(f"/brokers/topics/{name}"))
    play.do("isr orders-0 1,2,3", "isr orders-1 1,2,4", "isr users-0 1,2,3", "time +5s")
    assert_nothing_is_left(play)
    assert play.data("/admin/reassign_partitions") is None


@pytest.mark.parametrize(
    ("ask", "ending"),
    [
        (ENTRY, "ask cancel orders-0"),
        (ENTRY, "ask reassign orders-0 to=1,2"),
        (ENTRY, "delete topic orders"),
        (CHILD, "remove /admin/reassignments/orders-0"),
    ],
)
def test_what_is_not_asked_for_any_more_does_not_begin_and_leaves_no_throttle(ask: str, ending: str) -> None:
    play = held(ask, CHILDREN)

    play.do(ending, "time +20s")

    assert "3" not in str(play.data("/brokers/topics/orders")).partition('"partitions"')[2]
    assert_nothing_is_left(play)


def test_a_child_that_asks_for_something_else_is_throttled_there() -> None:
    play = held(CHILD, CHILDREN)

    play.do(CHILD.replace("3", "4"), "shown 3 written", "time +2s")
    assert not is_moving(play)
    play.do("shown 4 written", "time +2s")

    assert '"adding_replicas":{"0":[4]}' in str(play.data("/brokers/topics/orders"))
    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "0:4"}
    assert settings(play, "brokers/3") == {}


@pytest.mark.parametrize(
    ("ask", "ending"),
    [(CHILD, ("broker 3 dies",)), (ENTRY, ("elect 101", "remove /admin/reassign_partitions"))],
)
def test_what_is_refused_or_removed_before_it_begins_leaves_no_throttle(ask: str, ending: tuple[str, ...]) -> None:
    play = held(ask, CHILDREN)

    play.do(*ending, "time +20s")

    assert not is_moving(play)
    assert_nothing_is_left(play)


def test_a_child_that_waits_for_its_throttle_overrules_an_older_entry() -> None:
    play = held(ENTRY, CHILDREN)

    play.do(CHILD.replace("3", "4"), "time +1s")
    assert play.data("/admin/reassign_partitions") is None
    play.do("shown 3 written", "shown 4 written", "time +2s")

    assert '"adding_replicas":{"0":[4]}' in str(play.data("/brokers/topics/orders"))
    play.do("isr orders-0 1,2,4", "time +5s")
    assert_nothing_is_left(play)


def test_what_is_asked_for_again_after_it_was_taken_back_waits_again() -> None:
    play = held(CHILD, CHILDREN)

    play.do("remove /admin/reassignments/orders-0", "time +20s", CHILD, "time +2s")
    assert not is_moving(play)
    play.do("shown 3 written", "time +2s")

    assert is_moving(play)


def test_a_successor_does_not_know_what_is_in_force_and_waits_again() -> None:
    play = held()

    play.do("elect 101", "time +4s")
    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "0:3"}
    assert not is_moving(play)
    play.do("time +1s")

    assert is_moving(play)


@pytest.mark.parametrize("path", ["/config/topics/orders", "/config/brokers/3"])
def test_an_entry_whose_throttle_cannot_be_set_begins_without(path: str) -> None:
    play = Play(*BY_SETTING, f"refuse {path}", "elect")

    said = play.do(ENTRY, "time +60s")

    assert some(said, "(unthrottled moves) what znodes ask to move for", "begins without a throttle", path)
    assert is_moving(play)
    play.do(f"allow {path}", "isr orders-0 1,2,3", "time +60s")
    assert_nothing_is_left(play)


def test_an_entry_that_waits_for_room_stays_listed() -> None:
    play = Play("set moves_at_once=1", *BY_SETTING, "elect")

    play.do("legacy orders-0=3,2 orders-1=4,2", "time +10s", "elect 101", "time +10s")
    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "0:3,1:4"}
    play.do("isr orders-0 1,2,3", "time +20s")

    assert '"adding_replicas":{"1":[4]}' in str(play.data("/brokers/topics/orders"))
    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "1:4"}


def test_without_the_setting_a_znode_is_obeyed_at_once() -> None:
    play = Play(*CLUSTER, "elect")

    play.do(ENTRY)

    assert is_moving(play)


def test_a_second_move_of_a_topic_by_a_znode_joins_its_list() -> None:
    play = Play(*BY_SETTING, "elect")
    play.do("ask reassign throttle=2000000 orders-0 to=3,2", "time +1s")

    play.do("legacy orders-1=4,2", "time +2s")

    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "0:3,1:4"}
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "2000000"}
    assert settings(play, "brokers/4") == {FOLLOWER_RATE: "5000000"}


@pytest.mark.parametrize("then", ["elect 101", "isr orders-0 1,2,3", "isr orders-1 1"])
def test_what_someone_takes_out_of_the_list_is_not_put_back(then: str) -> None:
    play = Play(*BY_SETTING, "elect")
    play.do("legacy orders-0=3,2 orders-1=4,2", "config orders retention.ms=5")

    play.do(then, "time +5s")

    assert settings(play, "topics/orders") == {"retention.ms": "5"}


def test_what_moves_when_the_setting_comes_goes_on_as_it_is() -> None:
    play = Play(*CLUSTER, "elect")
    play.do("legacy orders-0=3,2", "adjust moves_throttle=5000000", "isr orders-0 2,1", "time +5s")
    assert records(play) == []

    play.do("ask reassign orders-1 to=4,2", "time +5s")

    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "1:4"}
    assert settings(play, "brokers/4") == {FOLLOWER_RATE: "5000000"}


def rate_of(play: Play) -> int:
    """The rate of broker 3."""
    return int(settings(play, "brokers/3")[FOLLOWER_RATE])


def version_of(play: Play) -> int:
    """How often the settings of broker 3 have been changed."""
    return play.theatre.zookeeper.nodes["/config/brokers/3"].version


def test_a_rate_goes_up_in_ten_steps_of_a_second_each_and_down_at_once() -> None:
    play = throttled(ask="ask reassign throttle=2000000 orders-0 to=3,2")
    before = version_of(play)

    play.do("ask reassign throttle=12000000 orders-0 to=3,2")
    seen = [rate_of(play)]
    for _ in range(11):
        play.do("time +1s")
        seen.append(rate_of(play))

    assert seen == [*range(3_000_000, 12_000_001, 1_000_000), 12_000_000, 12_000_000]
    assert version_of(play) == before + 10
    play.do("ask reassign throttle=1000000 orders-0 to=3,2")
    assert rate_of(play) == 1_000_000
    play.do("time +20s")
    assert version_of(play) == before + 11


def test_a_rate_that_goes_up_is_changed_meanwhile() -> None:
    play = throttled(ask="ask reassign throttle=2000000 orders-0 to=3,2")
    play.do("ask reassign throttle=12000000 orders-0 to=3,2", "time +2s")
    assert rate_of(play) == 5_000_000

    play.do("ask reassign throttle=25000000 orders-0 to=3,2", "time +1s")
    assert rate_of(play) == 7_000_000
    play.do("ask reassign throttle=4000000 orders-0 to=3,2")
    assert rate_of(play) == 4_000_000
    play.do(f"config 3 {FOLLOWER_RATE}=7", "ask reassign throttle=9000000 orders-1 to=4,2", "time +20s")
    assert rate_of(play) == 7


def test_a_successor_goes_on_from_the_rate_that_it_finds() -> None:
    play = throttled(ask="ask reassign throttle=2000000 orders-0 to=3,2")
    play.do("ask reassign throttle=12000000 orders-0 to=3,2", "time +3s")
    assert rate_of(play) == 6_000_000

    play.do("elect 101")
    seen = [rate_of(play)]
    for _ in range(10):
        play.do("time +1s")
        seen.append(rate_of(play))

    assert seen == [*range(6_600_000, 12_000_001, 600_000), 12_000_000]
    play.do(*OVER)
    assert_nothing_is_left(play)


def test_a_rate_rises_no_higher_than_one_that_was_there_before() -> None:
    play = throttled(f"config 3 {FOLLOWER_RATE}=3000000", ask="ask reassign throttle=2000000 orders-0 to=3,2")

    play.do("ask reassign throttle=12000000 orders-0 to=3,2", "time +5s")
    assert rate_of(play) == 3_000_000
    before = version_of(play)
    play.do("time +60s")

    assert version_of(play) == before


@pytest.mark.parametrize("prior", ["", "*", "0:1", "0:3", "7:1,8:2", "7:1,junk,8:2"])
def test_a_list_that_was_there_is_restored_to_the_letter(prior: str) -> None:
    play = throttled(f"config orders {FOLLOWER_REPLICAS}={prior} retention.ms=5")
    kept = {FOLLOWER_REPLICAS: prior, "retention.ms": "5"}

    during = {"": "0:3", "*": "*", "0:1": "0:1,0:3", "0:3": "0:3"}.get(prior, "7:1,8:2,0:3")
    assert settings(play, "topics/orders") == {**kept, FOLLOWER_REPLICAS: during}
    play.do(*OVER)

    assert settings(play, "topics/orders") == kept
    assert records(play) == []


@pytest.mark.parametrize(
    ("prior", "during"),
    [("9000000", "5000000"), ("300", "300"), ("none", "5000000"), ("-1", "5000000")],
)
def test_a_rate_that_was_there_is_restored_and_a_lower_one_counts(prior: str, during: str) -> None:
    play = throttled(f"config 3 {FOLLOWER_RATE}={prior} log.cleaner.threads=2")

    assert settings(play, "brokers/3")[FOLLOWER_RATE] == during
    play.do(*OVER)

    assert settings(play, "brokers/3") == {FOLLOWER_RATE: prior, "log.cleaner.threads": "2"}
    assert records(play) == []


def test_a_rate_that_someone_else_changes_is_theirs_until_the_next_request() -> None:
    play = throttled()

    play.do(f"config 3 {FOLLOWER_RATE}=7")
    said = play.do("ask reassign throttle=5000000 orders-1 to=4,2", "time +4s")
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "7"}
    said = play.do("ask reassign throttle=4 orders-1 to=3,2", "time +4s")
    assert some(said, "someone else has changed the rate in /config/brokers/3: it is left as it is now")
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "4"}

    play.do("isr orders-1 1,2,3", *OVER)
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "7"}
    assert records(play) == []


def test_a_rate_does_not_rise_from_one_that_someone_else_has_changed_since() -> None:
    play = throttled(f"config 3 {FOLLOWER_RATE}=7")

    play.do(f"config 3 {FOLLOWER_RATE}=9000000", "ask reassign throttle=5000000 orders-1 to=3,2", "time +0.5s")

    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "5000000"}


@pytest.mark.parametrize("theirs", ["*", "77:1", "0:3,77:1", "77:1,0:3"])
def test_of_a_list_that_someone_else_changes_only_ours_is_taken_out(theirs: str) -> None:
    play = throttled(f"config orders {FOLLOWER_REPLICAS}=5:1")

    said = play.do(f"config orders {FOLLOWER_REPLICAS}={theirs}", *OVER)

    assert some(said, "someone else has changed the list of throttled replicas in /config/topics/orders")
    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: theirs.replace("0:3,", "").replace(",0:3", "")}
    assert records(play) == []


def test_a_throttle_that_someone_removes_is_not_put_back() -> None:
    play = throttled()

    play.do("config orders retention.ms=5", "config 3 log.cleaner.threads=2", "elect 101", "time +5s", *OVER)

    assert settings(play, "topics/orders") == {"retention.ms": "5"}
    assert settings(play, "brokers/3") == {"log.cleaner.threads": "2"}
    assert records(play) == []


@pytest.mark.parametrize("path", ["/config/topics/orders", "/config/brokers/3"])
def test_without_the_right_to_write_settings_nothing_moves(path: str) -> None:
    play = Play(*CLUSTER, f"refuse {path}", "elect")

    said = play.do(MOVE, "time +60s")

    assert some(said, f"nothing was moved, because the throttle cannot be set: ZooKeeper refuses to write {path}")
    assert not is_moving(play)
    play.do(f"allow {path}", "time +60s")
    assert_nothing_is_left(play)


@pytest.mark.parametrize("path", ["/config/topics/orders", "/config/brokers/3"])
def test_settings_that_cannot_be_read_are_not_overwritten(path: str) -> None:
    play = Play(*CLUSTER, f"malformed {path}", "elect")

    said = play.do(MOVE, "time +5s")

    assert some(said, f"nothing was moved, because the throttle cannot be set: {path} cannot be read")
    assert play.data(path) == "{not json"
    assert not is_moving(play)


@pytest.mark.parametrize("path", [f"{TOPICS}/orders", f"{BROKERS}/3"])
def test_a_malformed_record_is_left_alone_and_named(path: str) -> None:
    play = Play(*CLUSTER, f"malformed {path}", "elect")

    said = play.do(MOVE, "time +5s")

    assert some(said, f"nothing was moved, because the throttle cannot be set: {path} is malformed; repair it first")
    assert play.data(path) == "{not json"


@pytest.mark.parametrize("commits", range(1, 8))
@pytest.mark.parametrize("prior", [None, "9000000"])
def test_a_crash_after_any_commit_loses_nothing_that_is_owed(commits: int, prior: str | None) -> None:
    before = () if prior is None else (f"config 3 {FOLLOWER_RATE}={prior}", f"config orders {FOLLOWER_REPLICAS}=7:1")
    play = Play(*CLUSTER, *before, "elect")

    play.do(f"crash after-commit {commits}", MOVE, "time +4s", "isr orders-0 1,2,3", "time +5s")
    play.do("elect 101", "isr orders-0 1,2,3", "time +20s")

    assert records(play) == []
    assert settings(play, "brokers/3").get(FOLLOWER_RATE) == prior
    assert settings(play, "topics/orders").get(FOLLOWER_REPLICAS) == (None if prior is None else "7:1")


@pytest.mark.parametrize("what", ["lose reply", "lose request"])
def test_a_lost_answer_is_made_good(what: str) -> None:
    play = Play(*CLUSTER, f"config 3 {FOLLOWER_RATE}=9000000", "elect")

    play.do(what, MOVE, "time +5s")
    assert is_moving(play)
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "5000000"}
    play.do(what, *OVER)

    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "9000000"}
    assert records(play) == []


def test_a_request_out_of_time_leaves_no_throttle() -> None:
    play = Play(*CLUSTER, "hold request", "elect")

    play.do(MOVE, "time +61s")
    said = play.do("reply", "time +5s")

    assert not is_moving(play)
    assert said is not None
    assert_nothing_is_left(play)


def test_a_replica_that_waits_to_be_added_stays_listed_across_terms() -> None:
    play = Play("set moves_at_once=1", *CLUSTER, "elect")
    play.do("ask reassign throttle=5000000 orders-0 to=3,2 orders-1 to=4,2", "time +4s", "elect 101", "time +5s")
    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "0:3,1:4"}

    play.do(*OVER)
    assert settings(play, "topics/orders") == {FOLLOWER_REPLICAS: "1:4"}
    assert settings(play, "brokers/3") == {}
    play.do("isr orders-1 1,2,4", "time +5s")
    assert_nothing_is_left(play)


def test_a_successor_keeps_the_rate_while_another_write_about_the_topic_is_in_flight() -> None:
    play = throttled()

    play.do("hold request", "elect 101", "time +5s")

    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "5000000"}
    play.do("reply", "time +5s")
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "5000000"}
    play.do(*OVER)
    assert_nothing_is_left(play)


def test_a_successor_knows_all_lists_before_it_takes_any_rate_away() -> None:
    topics = [f"topic of{n} 0=1,2" for n in range(130)]
    play = Play(CLUSTER[0], *topics, "elect")
    play.do("ask reassign throttle=5000000 " + " ".join(f"of{n}-0 to=3,2" for n in range(130)), "time +4s")
    assert settings(play, "brokers/3") == {FOLLOWER_RATE: "5000000"}
    version = play.theatre.zookeeper.nodes["/config/brokers/3"].version

    play.do("elect 101", "time +5s")

    assert play.theatre.zookeeper.nodes["/config/brokers/3"].version == version


@pytest.mark.parametrize("is_removed", [True, False])
def test_settings_that_were_read_before_ours_were_written_do_not_pass_for_what_there_is(*, is_removed: bool) -> None:
    znodes, address = ThrottleZnodes(), BrokerConfigAddress(BrokerId(5))
    read = present(address, Config({FOLLOWER_RATE: "9"}), Stat(Zxid(1), Zxid(1), ZnodeVersion(0)))
    ours = present(address, Config({FOLLOWER_RATE: "5"}), Stat(Zxid(1), Zxid(7), ZnodeVersion(1)))
    written = absent(address, Zxid(7)) if is_removed else ours
    znodes.want(address)
    znodes.apply_settings(address, read)
    assert znodes.settings(address) == read

    znodes.forget(address)
    znodes.apply_settings(address, written)
    znodes.want(address)
    znodes.apply_settings(address, read)  # the answer to a second read that was sent before

    assert znodes.settings(address) is None
    znodes.apply_settings(address, written)
    assert znodes.settings(address) == written
