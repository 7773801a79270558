"""A znode that ZooKeeper does not let us read costs what depends on it: which, and is everything else done?"""

from __future__ import annotations

import pytest

from controller.zk.answers import Refused
from tests.scenarios.theatre import OWN_ID
from tests.unit.traps.play import Play, some

TOPIC = "/brokers/topics/sick"
STATE = f"{TOPIC}/partitions/0/state"
ISR_CHANGES = "/isr_change_notification"
ZNODES = [
    TOPIC,
    STATE,
    "/brokers/ids/4",
    f"/brokers/ids/{OWN_ID}",
    "/config/topics/sick",
    "/config/brokers/<default>",
    "/feature",
    "/latest_producer_id_block",
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
    "/admin/delete_topics/sick",
    "/admin/reassign_partitions_status",
    "/kafka_zk_controller/replica_deletions/sick",
    f"{ISR_CHANGES}/isr_change_0000000000",
    "/log_dir_event_notification/log_dir_event_0000000000",
    "/config/changes/config_change_0000000000",
    "/delegation_token/tokens/a",
    "/admin/reassignments",
    "/admin/reassignments/sick-0",
]
FOLDERS = [
    "/admin/delete_topics",
    "/admin/reassign_partitions_status",
    "/kafka_zk_controller/replica_deletions",
    ISR_CHANGES,
    "/log_dir_event_notification",
    "/config/changes",
    "/admin/reassignments",
    "/delegation_token/tokens",
]


def played(*hidden: str) -> tuple[Play, list[str]]:
    """Two topics, and a controller that may not read some znodes."""
    play = Play(
        "set keeps_reassignment_znodes=true token_expiry_check_s=60",
        "brokers 1,2,3,4",
        "topic sick 0=1,2 1=2,1",
        "topic sound 0=1,2",
    )
    for path in {*hidden} - {f"/brokers/ids/{OWN_ID}"}:
        play.theatre.zookeeper.make_path(path)
    play.theatre.zookeeper.hidden.update(hidden)
    return play, play.do("elect", "time +3600s")


@pytest.mark.parametrize("path", dict.fromkeys((*ZNODES, *FOLDERS)))
def test_a_healthy_topic_is_led_beside_a_znode_that_may_not_be_read(path: str) -> None:
    play, lines = played(path)

    assert len(some(lines, "notice (unreadable znode)", path)) == (path != "/config/topics/sick"), lines
    assert some(play.do("broker 1 dies"), "sound-0 leader=2")
    assert not some(play.do("time +600s"), "step down")


@pytest.mark.parametrize("path", dict.fromkeys((*ZNODES, *FOLDERS)))
def test_what_loses_its_right_while_somebody_leads_costs_no_term(path: str) -> None:
    play, _ = played()
    zookeeper = play.theatre.zookeeper
    zookeeper.make_path(path)
    zookeeper.hidden.add(path)

    play.do("topic another 0=2,1", "broker 4 bounces", "ask reassign sick-0 to=2,3", "notify sick-0", "time +600s")

    assert some(play.do("broker 1 dies"), "sound-0 leader=2")
    assert play.theatre.machine is not None


def test_the_other_partitions_of_a_topic_are_led_beside_a_state_that_may_not_be_read() -> None:
    play, _ = played(STATE)

    assert some(play.do("broker 2 dies"), "sick-1 leader=1")


def test_a_state_is_cared_for_as_soon_as_it_may_be_read() -> None:
    play, _ = played(STATE)
    play.do("broker 1 dies")
    play.theatre.zookeeper.hidden.clear()

    assert some(play.do("time +60s"), "sick-0 leader=2")
    assert play.theatre.machine is not None
    assert play.theatre.machine.quarantined() == ()


def test_a_topic_appears_as_soon_as_it_may_be_read() -> None:
    play, lines = played(TOPIC)
    assert not some(lines, "sick")[1:]
    play.theatre.zookeeper.hidden.clear()

    assert some(play.do("time +60s"), "LeaderAndIsr", "sick-0")


def test_a_partition_without_a_leader_gets_one_as_soon_as_its_replicas_may_be_read() -> None:
    play = Play("brokers 1,2", "elect", "create topic late 0=3")
    play.theatre.zookeeper.hidden.add("/brokers/topics/late")
    play.do('znode /brokers/topics/late {"version":1,"partitions":{"0":[3]}}')

    assert not some(play.do("broker 3 returns", "time +60s"), "late/partitions/0/state")
    play.theatre.zookeeper.hidden.clear()
    assert some(play.do("time +60s"), "create /brokers/topics/late/partitions/0/state", "leader=3 ")


def test_a_folder_is_listed_as_soon_as_it_may_be() -> None:
    play, _ = played("/admin/delete_topics")
    play.do("delete topic sick")
    play.theatre.zookeeper.hidden.clear()

    assert some(play.do("time +60s"), "topic sick is deleted")


def test_nobody_leads_a_topic_whose_deletion_may_have_begun() -> None:
    play, lines = played("/admin/delete_topics/sick")

    assert not some(lines, "LeaderAndIsr", "sick"), lines
    assert not some(lines, "StopReplica", "sick"), lines

    play.theatre.zookeeper.hidden.clear()
    lines = play.do("time +60s")
    assert some(lines, "StopReplica", "sick-0")
    assert some(lines, "topic sick is deleted")


def test_a_topic_is_led_once_its_deletion_is_seen_to_have_meant_another() -> None:
    play = Play("brokers 1,2", "delete topic sick", "topic sick 0=1,2")
    play.theatre.zookeeper.hidden.add("/admin/delete_topics/sick")
    assert not some(play.do("elect", "time +60s"), "LeaderAndIsr", "sick")

    play.theatre.zookeeper.hidden.clear()
    lines = play.do("time +60s")

    assert some(lines, "topic sick is not deleted: the request is older than this topic")
    assert some(lines, "LeaderAndIsr", "sick-0")


def test_a_malformed_state_that_was_mended_is_found_though_nobody_watches_it() -> None:
    play, _ = played()
    data = play.data(STATE)
    assert data is not None
    play.do(f"malformed {STATE}", "elect", "broker 1 dies")
    play.theatre.zookeeper.nodes[STATE].data = data.encode()
    play.theatre.zookeeper.nodes[STATE].mzxid = play.theatre.zookeeper.zxid

    assert some(play.do("time +60s"), "sick-0 leader=2")


def test_settings_that_may_not_be_read_allow_no_unclean_election() -> None:
    play = Play("set unclean_election=true", "brokers 1,2", "topic sick 0=1,2", "topic sound 0=1,2")
    play.do("state sick-0 leader=1 isr=1", "state sound-0 leader=1 isr=1")
    play.theatre.zookeeper.make_path("/config/topics/sick")
    play.theatre.zookeeper.hidden.add("/config/topics/sick")

    lines = play.do("elect", "broker 1 dies", "time +60s")

    assert some(lines, "sound-0 leader=2")
    assert not some(lines, "sick-0 leader=2")


@pytest.mark.parametrize("path", ["/brokers/ids", "/brokers/topics"])
def test_nobody_leads_who_does_not_see_all_brokers_and_topics(path: str) -> None:
    with pytest.raises(Refused, match=f"no permission: {path}"):
        played(path)


@pytest.mark.parametrize("path", ["/brokers/ids", "/brokers/topics"])
def test_whoever_leads_goes_on_with_the_brokers_and_topics_seen(path: str) -> None:
    play, _ = played()
    play.theatre.zookeeper.hidden.add(path)

    lines = play.do("topic another 0=2,1", "broker 1 dies")

    assert some(lines, "notice (unreadable znode)", path)
    assert some(lines, "sound-0 leader=2")
    play.theatre.zookeeper.hidden.clear()
    lines = play.do("broker 1 returns", "time +60s")
    assert some(lines, "LeaderAndIsr", "sound-0")
    assert some(play.do("broker 2 bounces"), "another-0")


def test_names_by_the_thousand_are_not_told_by_the_thousand() -> None:
    play = Play("brokers 1,2", "topic sound 0=1,2")
    for number in range(500):
        play.theatre.zookeeper.make_path(f"/brokers/topics/a b{number}")
    play.theatre.zookeeper.make_path("/isr_change_notification/" + "n" * 999_300)

    lines = play.do("elect", "time +60s")

    told = play.theatre.strangers
    assert some(lines, "LeaderAndIsr sound-0")
    assert max(map(len, [*lines, *told])) < 500
    assert len(told) == 101


@pytest.mark.parametrize("data", ["{not json", ""])
@pytest.mark.parametrize("broker", [1, OWN_ID])
def test_what_somebody_writes_into_a_registration_takes_no_broker_away(broker: int, data: str) -> None:
    play, _ = played()

    lines = play.do(f"znode /brokers/ids/{broker} {data}", "time +60s")

    assert some(lines, "notice (malformed znode)", f"/brokers/ids/{broker}")
    assert not some(lines, "leader=2")
    assert not some(lines, "step down")


def hiding_a_leader(*more: str) -> tuple[Play, list[str]]:
    """A controller that may not read where the only broker in sync is, but sees that it is registered."""
    play = Play(
        "set unclean_election=true", "brokers 1,2", "topic orders 0=1,2", "state orders-0 leader=1 isr=1", *more
    )
    play.theatre.zookeeper.hidden.add("/brokers/ids/1")
    return play, play.do("elect")


@pytest.mark.parametrize(
    "request_of_it",
    [
        "ask reassign orders-0 to=2,3",
        "ask cancel orders-0",
        "ask grow orders partitions=3",
        "ask delete orders",
    ],
)
def test_no_client_hears_that_a_topic_does_not_exist_which_may_not_be_read(request_of_it: str) -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2")
    play.theatre.zookeeper.hidden.add("/brokers/topics/orders")

    lines = play.do("elect", request_of_it)

    assert some(lines, "answer orders", "UNKNOWN_SERVER_ERROR: /brokers/topics/orders cannot be read; restore")


def test_a_leader_changes_its_isr_once_its_topic_may_be_read() -> None:
    """It would ask for nothing more in this leader epoch if it heard that the topic does not exist."""
    play = Play("brokers 1,2,3", "topic orders 0=1,2", "state orders-0 leader=1 isr=1")
    play.theatre.zookeeper.hidden.add("/brokers/topics/orders")
    assert some(play.do("elect", "isr orders-0 1,2", "time +2s"), "answer nothing: the leader asks again")

    play.theatre.zookeeper.hidden.clear()
    lines = play.do("time +60s", "isr orders-0 1,2")

    assert some(lines, "leader 1 of orders-0 changes the ISR [1] to [1, 2]")


def test_who_is_registered_unreadably_leads_on_where_nobody_else_is_in_sync() -> None:
    _, began = hiding_a_leader()

    assert not some(began, "commit"), began


def test_that_such_a_leader_has_gone_is_seen_all_the_same() -> None:
    play, _ = hiding_a_leader()

    told = play.do("broker 1 dies", "time +1s")

    assert some(told, "no in-sync replica of orders-0 is online", "2"), told


def test_such_a_leader_is_told_everything_once_it_can_be() -> None:
    play, _ = hiding_a_leader()
    play.theatre.zookeeper.hidden.clear()

    told = play.do("time +60s")

    assert some(told, "tell", "1", "LeaderAndIsr orders-0 leader=1"), told


def test_a_move_takes_nothing_away_from_such_a_leader() -> None:
    play, _ = hiding_a_leader()

    told = play.do("ask reassign orders-0 to=2")

    assert some(told, "set /brokers/topics/orders/partitions/0/state", "leader=1"), told
    assert not some(told, "leader=-1"), told


def hiding_a_follower() -> Play:
    """The leader has died; a controller may not read where the other replica in sync is, but sees it registered."""
    play = Play(
        "set unclean_election=true",
        "brokers 1,3",
        "topic orders 0=1,2,3",
        "state orders-0 leader=2 isr=1,2",
        'znode /config/topics/orders {"version":1,"config":{}}',
    )
    play.theatre.zookeeper.hidden.add("/brokers/ids/1")
    return play


def test_a_replica_in_sync_that_is_registered_unreadably_keeps_others_from_being_elected_uncleanly() -> None:
    play = hiding_a_follower()

    began = play.do("elect", "time +60s")

    assert some(began, "no in-sync replica of [1, 2] is online", "orders-0")
    assert not some(began, "records may be lost"), began


def test_it_leads_once_it_can_be_talked_to() -> None:
    play = hiding_a_follower()
    play.do("elect")
    play.theatre.zookeeper.hidden.clear()

    assert some(play.do("time +60s"), "1 is the first online in-sync replica")


def test_once_it_has_gone_too_others_are_elected() -> None:
    play = hiding_a_follower()
    play.do("elect")

    told = play.do("broker 1 dies", "time +1s")

    assert some(told, "no in-sync replica of orders-0 is online", "3"), told


def test_where_the_settings_may_not_be_read_nobody_is_elected_uncleanly_and_nobody_dead_leads_on() -> None:
    play = Play("set unclean_election=true", "brokers 1,2", "topic orders 0=1,2", "state orders-0 leader=1 isr=1")
    play.do("config orders retention.ms=1", "elect")
    play.theatre.zookeeper.hidden.add("/config/topics/orders")

    told = play.do("broker 1 dies")
    assert some(told, "set /brokers/topics/orders/partitions/0/state", "leader=-1 isr=[1]"), told

    play.theatre.zookeeper.hidden.clear()
    assert some(play.do("time +60s"), "unclean.leader.election.enable allows 2")
