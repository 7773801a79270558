"""Traps of the protocol for a controller of one's own, reference 12.3: this one does not fall into them."""

from __future__ import annotations

import json

from controller.core.messages.commands import LeaderAndIsr, UpdateMetadata
from tests.unit.traps.play import Play, cluster, index, some
from zk_layout.ids import BrokerId
from zk_layout.znodes.controller import ControllerClaim, decode_claim, encode_claim

MOVE = "ask reassign orders-0 to=3,4"


def test_leader_and_isr_goes_to_replicas_only_and_never_to_the_controller_itself() -> None:
    play = cluster(topics=("topic orders 0=1,100",))

    lines = [line for c in (MOVE, "isr orders-0 1,3,4", "broker 2 bounces") for line in play.do(c)]

    told_of = some(lines, "LeaderAndIsr orders-0")
    assert len(told_of) > 1
    for line in told_of:
        told = {int(b) for b in line.split("tell ")[1].split()[0].split(",")}
        replicas = {int(r) for r in line.split("replicas=[")[1].split("]")[0].split(",")}
        assert told <= replicas - {100}, line


def test_a_fresh_broker_hears_who_lives_before_it_hears_whom_to_follow() -> None:
    play = cluster("broker 2 dies")

    lines = play.do("broker 2 returns")

    alive = index(lines, "tell 1,2,3,4  UpdateMetadata brokers=1,2,3,4,100")
    assert alive < index(lines, "tell 2  LeaderAndIsr orders-0")


def test_topic_ids_in_znodes_are_kept_although_old_brokers_are_not_sent_any() -> None:
    play = Play("set assigns_topic_ids=false", "brokers 1,2,3", "topic orders 0=1,2", "elect")

    play.do("ask reassign orders-0 to=1,3")

    assert '"topic_id":"id-of-orders__________"' in (play.data("/brokers/topics/orders") or "").replace(" ", "")


def test_one_broker_that_knows_a_higher_controller_epoch_does_not_end_the_term() -> None:
    play = cluster("know epoch 1 7")

    assert some(play.do("broker 2 bounces"), "LeaderAndIsr orders-0")

    lines = play.do("elect", "time +60s")
    assert len(some(lines, "notice (refused command) broker 1", "STALE_CONTROLLER_EPOCH")) == 1
    assert len(some(lines, "notice (higher controller epoch) broker 1 knows a higher controller epoch than 2")) == 1
    assert len(some(lines, "tell 1", "LeaderAndIsr orders-0")) > 2
    assert not some(lines, "step down")

    lines = play.do("broker 1 bounces", "time +60s")
    assert some(lines, "tell 1", "LeaderAndIsr orders-0")
    assert not some(lines, "notice")


def test_most_brokers_with_a_higher_controller_epoch_end_the_term() -> None:
    play = Play("brokers 1,2,3", "topic orders 0=1,2,3")

    lines = play.do("know epoch 1,3 7", "elect")

    assert some(lines, "notice (higher controller epoch) broker 1")
    assert lines[-1] == "step down: most brokers know a higher controller epoch: 1, 3"


def test_every_list_of_brokers_names_all_that_are_registered() -> None:
    play = cluster()

    for command, live in (
        ("broker 3 dies", {1, 2, 4, 100}),
        (MOVE.replace("3,4", "1,4"), {1, 2, 4, 100}),
        ("broker 3 returns", {1, 2, 3, 4, 100}),
    ):
        play.do(command)
        lists = [t.command.brokers for t in play.theatre.sent if isinstance(t.command, UpdateMetadata)]
        assert lists
        assert all({b.broker for b in brokers} == live for brokers in lists)


def test_offline_replicas_are_named() -> None:
    play = cluster()
    play.do("broker 2 dies")

    views = [v for t in play.theatre.sent if isinstance(t.command, UpdateMetadata) for v in t.command.partitions]
    assert views
    assert all(view.offline == (2,) for view in views)


def test_a_leaderless_partition_keeps_its_epoch_and_one_without_state_is_not_told() -> None:
    play = cluster("broker 1 dies")

    lines = play.do("broker 2 dies")
    assert some(lines, "UpdateMetadata orders-0 leader=-1 leader_epoch=2")

    lines = play.do("create topic empty 0=1,2")
    assert not some(lines, "UpdateMetadata empty-0")


def test_a_leader_epoch_rises_from_what_zookeeper_holds() -> None:
    play = cluster()
    play.do("state orders-0 leader=1 isr=1,2 leader_epoch=41", "notify orders-0")

    lines = play.do(MOVE)

    assert some(lines, "set /brokers/topics/orders/partitions/0/state", "leader_epoch=42")


def test_the_first_thing_every_broker_hears_of_a_new_term_is_who_lives() -> None:
    lines = Play("brokers 1,2,3", "topic orders 0=1,2").do("elect")

    assert index(lines, "tell 1,2,3  UpdateMetadata brokers=1,2,3,100") == index(lines, "tell")


def test_a_write_that_zookeeper_would_never_take_is_refused_and_not_tried() -> None:
    play = Play("set znode_size_limit=100", "brokers 1,2,3,4", "topic orders 0=1,2", "elect")

    lines = play.do(MOVE)

    assert some(lines, "answer orders-0 INVALID_REPLICA_ASSIGNMENT", "limit of 100")
    assert not some(lines, "commit")


def test_an_empty_registration_is_not_there_yet() -> None:
    play = cluster()
    registration = (play.data("/brokers/ids/4") or "").replace("host4", "host5")

    assert play.do("znode /brokers/ids/5") == []
    lines = play.do(f"znode /brokers/ids/5 {registration}")

    assert index(lines, "connect 5") < index(lines, "tell 1,2,3,4,5  UpdateMetadata brokers=1,2,3,4,5,100")


def test_what_a_topic_left_behind_is_deleted_whatever_leader_epoch_the_broker_knows() -> None:
    play = cluster(MOVE, "isr orders-0 1,2,3,4", topics=("topic orders 0=1,2 id=first-life-of-topic___",))

    lines = play.do("broker 4 hangs", "delete topic orders")
    assert some(lines, "tell 3,4  StopReplica orders-0 leader_epoch=-2 delete")
    assert not some(lines, "delete /brokers/topics/orders")
    assert some(play.do("broker 4 goes-on", "broker 4 bounces"), "delete /brokers/topics/orders v")

    lines = play.do("create topic orders 0=3,4 id=second-life-of-topic__")
    assert some(lines, "create /brokers/topics/orders/partitions/0/state", "leader=3 isr=[3, 4] leader_epoch=0")
    told = [t.command for t in play.theatre.sent if isinstance(t.command, LeaderAndIsr)]
    assert {view.topic_id for command in told for view in command.new} == {"second-life-of-topic__"}


def test_the_controller_that_clients_are_told_of_is_a_broker_they_are_told_of() -> None:
    lines = cluster().do("ask metadata")

    described = some(lines, "answer controller=")[0].split()
    assert described[1].removeprefix("controller=") in described[2].removeprefix("brokers=").split(",")


def test_time_stamps_in_znodes_decide_nothing() -> None:
    play = cluster()
    registration = json.loads(play.data("/brokers/ids/4") or "")
    ours = decode_claim(encode_claim(ControllerClaim(BrokerId(100), is_ours=True)))

    for timestamp in ("0", "-1", "99999999999999999999", "yesterday"):
        registration["timestamp"] = timestamp
        assert play.do(f"znode /brokers/ids/4 {json.dumps(registration)}") == []
        claim = decode_claim(json.dumps({"version": 1, "brokerid": 7, "timestamp": timestamp}).encode())
        assert (claim.broker, claim.is_ours) == (7, False)
    assert (ours.broker, ours.is_ours) == (100, True)


def test_the_claim_has_what_brokers_of_every_version_read() -> None:
    claim = json.loads(encode_claim(ControllerClaim(BrokerId(100), is_ours=True, timestamp_ms=1_700_000_000_000)))

    assert isinstance(claim["version"], int)
    assert claim["brokerid"] == 100
    assert claim["timestamp"] == "1700000000000"
