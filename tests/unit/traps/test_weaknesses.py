"""Weaknesses of Kafka's algorithm without a ticket, reference 12.2, by number: none of them is here."""

from __future__ import annotations

import json

from controller.core.messages.commands import LeaderAndIsr
from controller.core.messages.effects import StepDown, Wake
from controller.core.messages.events import Asked, CallId, CommitId, Fenced
from controller.core.messages.requests import AlterReassignments, Caller, PartitionReassignment
from tests.unit.traps.play import Play, cluster, index, some
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

MOVE = "ask reassign orders-0 to=3,4"
TOPIC = "/brokers/topics/orders"
STATE = "/brokers/topics/orders/partitions/0/state"


def replicas(play: Play, partition: str = "0") -> list[int]:
    """What the topic znode says."""
    held: list[int] = json.loads(play.data(TOPIC) or "")["partitions"][partition]
    return held


def test_weakness_1_a_move_whose_target_cannot_lead_yet_stops_nobody() -> None:
    play = cluster(MOVE, "broker 3 dies", "broker 4 dies")

    lines = play.do("leader writes orders-0 1,2,3,4", "notify orders-0")

    assert not some(lines, "StopReplica")
    assert not some(lines, "leader=-1")
    assert replicas(play) == [3, 4, 1, 2]


def test_weakness_2_neither_a_cancel_nor_a_new_target_stops_the_only_in_sync_copies() -> None:
    play = cluster(MOVE, "isr orders-0 1,2,3", "broker 1 dies", "broker 2 dies", "isr orders-0 3")

    for ask in ("ask cancel orders-0", "ask reassign orders-0 to=4"):
        lines = play.do(ask)
        assert some(lines, "INVALID_REPLICA_ASSIGNMENT", "the only in-sync replicas [3]")
        assert not some(lines, "StopReplica")


def test_weakness_3_legacy_entries_that_can_never_be_done_are_refused() -> None:
    play = cluster(topics=("topic orders 0=1,2 1=1,2 2=1,2",))

    lines = play.do("legacy orders-0= orders-1=3,3 orders-2=100")  # 100 is the controller

    assert len(some(lines, "notice (", "legacy reassignment", "refused and removed")) == 3
    assert not some(lines, f"set {TOPIC}")


def test_weakness_4_a_move_whose_last_write_fails_is_ended_by_the_next_try() -> None:
    play = cluster(MOVE, "refuse /brokers/topics/orders")

    play.do("isr orders-0 1,2,3,4")
    assert replicas(play) == [3, 4, 1, 2]
    play.do("allow /brokers/topics/orders", "time +60s")

    assert replicas(play) == [3, 4]


def test_weakness_5_the_topic_znode_is_never_overwritten_blindly() -> None:
    play = cluster("conflict /brokers/topics/orders")

    lines = play.do(MOVE)

    assert some(lines, "conflicted #1")
    assert some(lines, f"set {TOPIC} v1")
    assert some(lines, "answer orders-0 NONE")


def test_weakness_6_a_dead_addressee_is_told_to_delete_its_replica_when_it_returns_whoever_rules_then() -> None:
    play = cluster(MOVE, "broker 2 dies", "isr orders-0 1,3,4", "elect")

    assert some(play.do("broker 2 returns"), "tell 2  StopReplica orders-0", "delete")


def test_weakness_7_a_move_that_ends_lets_no_deletion_go_on_while_another_of_the_topic_has_live_copies() -> None:
    play = cluster(topics=("topic orders 0=1,2 1=1,2",))
    play.do("ask reassign orders-0 to=3,2 orders-1 to=4,2", "broker 4 hangs")

    lines = play.do("isr orders-0 1,2,3", "delete topic orders")
    assert not some(lines, "delete /brokers/topics/orders")
    assert replicas(play, "1") == [4, 2, 1]

    lines = play.do("broker 4 goes-on", "broker 4 bounces")
    assert index(lines, "tell 4  StopReplica orders-1 leader_epoch=-2 delete") < index(lines, f"delete {TOPIC} v")


def test_weakness_8_and_9_a_broker_that_comes_back_raises_no_epoch_of_a_move_that_waits_for_it() -> None:
    play = cluster(MOVE, "broker 4 dies", topics=("topic orders 0=1,2 1=1,4",))

    lines = play.do("broker 4 returns")

    assert not some(lines, "commit")
    assert some(lines, "tell 4  LeaderAndIsr orders-0")
    raised = some(play.do("elect"), "  leader=") + some(play.do("time +60s"), "leader_epoch=")
    # Once a term: for the move, of which its leader may not have heard, and for a replica that may have lost its log
    # while no controller looked.
    assert len(raised) == 2


def test_weakness_10_cancelling_under_an_added_leader_elects_another_one_in_the_same_write() -> None:
    play = cluster("ask reassign orders-0 to=1,3,4", "isr orders-0 1,2,3", "broker 1 dies", "broker 2 dies")
    play.do("broker 2 returns", "isr orders-0 3,2", "broker 1 returns")

    lines = play.do("ask cancel orders-0")

    assert some(lines, f"set {STATE}", "leader=2 isr=[2]")
    assert not some(lines, "leader=-1")


def test_weakness_11_after_a_fail_over_an_added_replica_is_not_new_for_its_log_may_be_in_an_offline_directory() -> None:
    play = cluster(MOVE)

    lines = play.do("elect", "broker 3 bounces")

    assert some(lines, "LeaderAndIsr orders-0", "adding=[3, 4]")
    assert not some(lines, "new on")


def test_weakness_12_a_target_that_is_not_in_sync_is_not_preferred_while_it_is_added() -> None:
    play = Play("set rebalance_every_s=30 imbalance_percentage=1", "brokers 1,2,3,4", "topic orders 0=1,2", "elect")
    play.do(MOVE, "isr orders-0 1,2,4")

    for attempt in ("prefer orders-0", "ask elect preferred orders-0", "time +61s"):
        lines = play.do(attempt)
        assert not some(lines, f"set {STATE}"), attempt
    assert play.figures()["preferred_replica_imbalance"] == 0

    assert some(play.do("isr orders-0 1,2,4,3"), f"set {STATE}", "leader=3")


def test_weakness_13_a_replica_wanted_again_is_never_stopped_by_an_old_command() -> None:
    play = cluster(MOVE, "broker 3 hangs", "ask cancel orders-0", "ask reassign orders-0 to=3,1")

    lines = play.do("broker 3 goes-on", "broker 3 bounces", "time +60s")

    assert not some(lines, "tell 3  StopReplica")
    assert replicas(play)[0] == 3


def test_weakness_14_only_a_shutdown_that_was_granted_excludes_and_only_for_that_life_and_term() -> None:
    play = Play("set shutdown_redundancy=2", "brokers 1,2,3", "topic orders 0=1,2,3", "state orders-0 isr=1,2", "elect")
    stale = play.theatre.epoch_of(BrokerId(3)) - 1

    play.do("shutdown 2", f"shutdown 3 broker_epoch={stale}")  # refused: too few others are in sync
    assert some(play.do("isr orders-0 1,2,3"), "answer orders-0 NONE")

    play.do("shutdown 2")
    assert some(play.do("isr orders-0 1,3,2"), "answer orders-0 NONE leader=1 isr=[1, 3]")  # as it is
    play.do("broker 2 bounces")
    assert some(play.do("isr orders-0 1,3,2"), "answer orders-0 NONE")
    play.do("shutdown 3", "elect")
    assert some(play.do("isr orders-0 1,2,3"), "answer orders-0 NONE")


def test_weakness_15_a_shrink_refused_for_another_dead_member_is_granted_as_soon_as_that_one_has_left() -> None:
    play = cluster(f"refuse {STATE}", topics=("topic orders 0=1,2,3,4",))
    play.do("broker 2 dies")

    assert some(play.do("isr orders-0 1,2,4"), "answer orders-0 NONE leader=1 isr=[1, 2, 3, 4]")  # as it is
    lines = play.do(f"allow {STATE}", "time +60s")
    assert some(lines, f"set {STATE}", "isr=[1, 3, 4]")  # the controller itself takes the dead one out
    assert some(play.do("isr orders-0 1,4"), "answer orders-0 NONE", "isr=[1, 4]")


def test_weakness_16_a_topic_created_again_between_two_looks_is_another_topic() -> None:
    play = cluster(MOVE, "broker 2 dies", "isr orders-0 1,3,4", topics=("topic orders 0=1,2 1=1,2",))
    owed = "/kafka_zk_controller/replica_deletions/orders"
    assert play.data(owed) is not None

    zookeeper = play.theatre.zookeeper
    for path in [p for p in zookeeper.nodes if p.startswith(TOPIC)]:
        zookeeper.nodes.pop(path)  # nobody was watching
    lines = play.do("create topic orders 0=3,1 id=another-id-of-orders__")

    assert some(lines, f"create {STATE}", "leader=3 isr=[3, 1] leader_epoch=0")
    assert all("UpdateMetadata orders-1 leader=-2" in line for line in some(lines, "orders-1"))
    told = [t.command for t in play.theatre.sent if isinstance(t.command, LeaderAndIsr)]
    views = [view for command in told for view in (*command.partitions, *command.new)]
    assert {(view.partition, view.topic_id) for view in views} == {(0, "another-id-of-orders__")}
    assert play.figures()["partitions"] == 1
    assert play.do("ask list") == ["answer nothing moves"]


def test_weakness_17_a_bounce_without_a_visible_gap_is_seen_by_its_czxid() -> None:
    play = cluster()
    before = play.theatre.epoch_of(next(iter(play.theatre.brokers)))

    lines = play.do("broker 1 bounces")

    assert some(lines, "leader 1 of orders-0 is offline; 2 is the first online in-sync replica")
    assert some(lines, "connect 1")
    assert play.theatre.epoch_of(next(b for b in play.theatre.brokers if b == 1)) > before


def test_weakness_18_nothing_is_written_any_more_once_one_write_was_fenced() -> None:
    play = cluster(topics=("topic orders 0=1,2 1=1,2", "topic payments 0=1,2"))
    play.theatre.zookeeper.nodes["/controller_epoch"].version += 1

    lines = play.do("ask reassign orders-0 to=3,4 payments-0 to=3,4")

    fenced = index(lines, "fenced")
    assert some(lines[fenced:], "step down")
    assert not some(lines[fenced:], "committed")
    assert replicas(play) == [1, 2]


def test_weakness_18_what_comes_together_with_the_news_or_after_it_is_not_handled_any_more() -> None:
    play = cluster(topics=("topic orders 0=1,2", "topic payments 0=1,2"))
    machine = play.theatre.machine
    assert machine is not None
    at = TopicPartition(TopicName("payments"), PartitionId(0))
    wanted = AlterReassignments((PartitionReassignment(at, (BrokerId(3), BrokerId(4))),))
    asked = [Asked(CallId(n), wanted, Caller("PLAINTEXT", "127.0.0.1")) for n in (98, 99)]

    effects = machine.turn([Fenced(CommitId(1)), asked[0]], 1.0)

    assert [type(effect) for effect in effects if not isinstance(effect, Wake)] == [StepDown]
    assert machine.turn([asked[1]], 2.0) == []
