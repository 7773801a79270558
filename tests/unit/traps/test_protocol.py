"""Traps of the protocol for a controller of one's own, reference 12.3: this one does not fall into them."""

from __future__ import annotations

from tests.unit.traps.play import Play, cluster, index, some

MOVE = "ask reassign orders-0 to=3,4"


def test_leader_and_isr_goes_to_replicas_only_and_never_to_the_controller_itself() -> None:
    play = cluster(topics=("topic orders 0=1,100",))

    lines = [line for c in (MOVE, "isr orders-0 1,3,4", "broker 2 bounces") for line in play.do(c)]

    for line in some(lines, "LeaderAndIsr orders-0"):
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


def test_a_broker_that_knows_a_higher_controller_epoch_makes_us_step_down_and_says_so() -> None:
    play = cluster("next refusal LeaderAndIsr STALE_CONTROLLER_EPOCH")

    lines = play.do(MOVE)

    assert some(lines, "notice (refused by broker)", "STALE_CONTROLLER_EPOCH")
    assert some(lines, "step down: broker", "knows a higher controller epoch")


def test_every_list_of_brokers_names_all_that_are_registered() -> None:
    play = cluster()

    for command, live in (("broker 3 dies", "1,2,4,100"), ("broker 3 returns", "1,2,3,4,100")):
        for line in some(play.do(command), "UpdateMetadata brokers="):
            assert line.endswith(f"brokers={live}")


def test_offline_replicas_are_named() -> None:
    lines = cluster().do("broker 2 dies")

    assert all("offline=[2]" in line for line in some(lines, "orders-0", "replicas=["))


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


def test_the_first_thing_every_broker_hears_of_a_new_reign_is_who_lives() -> None:
    lines = Play("brokers 1,2,3", "topic orders 0=1,2").do("elect")

    assert index(lines, "tell 1,2,3  UpdateMetadata brokers=1,2,3,100") == index(lines, "tell")


def test_a_write_that_zookeeper_would_never_take_is_refused_and_not_tried() -> None:
    play = Play("set znode_size_limit=100", "brokers 1,2,3,4", "topic orders 0=1,2", "elect")

    lines = play.do(MOVE)

    assert some(lines, "answer orders-0 INVALID_REPLICA_ASSIGNMENT", "over the 100 that ZooKeeper takes")
    assert not some(lines, "commit")


def test_an_empty_registration_is_not_there_yet() -> None:
    play = cluster()

    lines = play.do("znode /brokers/ids/5")

    assert not some(lines, "connect 5")
