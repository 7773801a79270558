"""Kafka's known bugs of the controller, reference 12.1: none of them happens here. Each test names its ticket."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import msgspec

from controller.core.messages.commands import LeaderAndIsr, ReplicaStop, StopReplica
from controller.core.messages.effects import Commit
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, Observed
from tests.unit.traps.play import Play, cluster, index, some
from zk_layout.ids import BrokerId, LeaderEpoch, PartitionId, TopicName

MOVE = "ask reassign orders-0 to=3,4"
LEGACY = "/admin/reassign_partitions"
STATE = "/brokers/topics/orders/partitions/0/state"


def test_kafka_2729_each_state_a_controller_writes_reaches_the_leader_with_a_higher_leader_epoch() -> None:
    play = cluster()
    epochs = [0]
    for command in (MOVE, "isr orders-0 1,2,3,4", "broker 3 dies", "ask reassign orders-0 to=4,2"):
        lines = play.do(command)
        for i in [i for i, line in enumerate(lines) if line.startswith(f"set {STATE}")]:
            if "changes the ISR" in lines[i - 1]:
                continue  # the leader asked for that one itself
            epoch = int(lines[i].split("leader_epoch=")[1].split()[0])
            told = lines[i + index(lines[i:], "LeaderAndIsr orders-0")]
            assert epoch == epochs[-1] + 1
            assert f"leader_epoch={epoch} " in told
            epochs.append(epoch)
    assert len(epochs) > 4


def test_kafka_9038_partitions_added_during_a_move_and_the_move_itself_both_stay() -> None:
    play = cluster(MOVE)

    play.do("add partition orders 1=2,3", "isr orders-0 1,2,3")
    held = json.loads(play.data("/brokers/topics/orders") or "")

    assert held["partitions"] == {"0": [3, 4, 1, 2], "1": [2, 3]}
    assert held["adding_replicas"] == {"0": [3, 4]}


def test_kafka_9089_one_partition_that_cannot_be_moved_does_not_hold_up_the_others_of_its_request() -> None:
    play = cluster(topics=("topic orders 0=1,2 1=1,2",))
    play.do(f"malformed {STATE}")

    lines = play.do("ask reassign orders-0 to=3,4 orders-1 to=3,4")

    assert some(lines, "answer orders-0 UNKNOWN_SERVER_ERROR", "is malformed")
    assert some(lines, "answer orders-1 NONE")


def test_kafka_9212_metadata_never_carries_an_older_leader_epoch_than_the_leader_was_told() -> None:
    play = cluster()
    told = 0
    for command in (MOVE, "isr orders-0 1,2,3,4", "broker 1 dies", "broker 3 bounces"):
        for line in play.do(command):
            if "tell" in line and "leader_epoch=" in line:
                epoch = int(line.split("leader_epoch=")[1].split()[0])
                assert epoch >= told, line
                told = epoch
    assert told > 1


def test_kafka_9198_and_9235_a_new_leader_is_published_before_the_old_one_is_stopped() -> None:
    lines = cluster(MOVE).do("isr orders-0 1,2,3,4")

    stop = index(lines, "tell 1,2  StopReplica orders-0")
    assert index(lines, "tell 3,4  LeaderAndIsr orders-0 leader=3") < stop
    assert index(lines[: stop + 1], "tell 1,2,3,4  UpdateMetadata orders-0") < stop


def test_kafka_9478_an_entry_whose_move_went_elsewhere_does_not_stay_in_the_legacy_znode() -> None:
    play = cluster("legacy orders-0=3,4", topics=("topic orders 0=1,2 1=1,2",))

    play.do("ask reassign orders-0 to=4,3")
    assert play.data(LEGACY) is None

    twice = '{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[2,1]},'
    play.do(f'malformed {LEGACY} {twice}{{"topic":"orders","partition":1,"replicas":[1,2]}}]}}')
    assert play.data(LEGACY) is None


def test_kafka_9498_a_change_event_without_a_change_does_nothing() -> None:
    play = cluster()
    machine = play.theatre.machine
    assert machine is not None
    again = play.seen("/brokers/topics/orders")

    assert machine.turn([Observed((again,)), Observed((again,))], 1.0) == []


def test_kafka_9539_a_late_confirmation_of_an_older_leader_epoch_settles_nothing() -> None:
    play = cluster("broker 3 hangs", MOVE, "ask cancel orders-0", MOVE, "ask cancel orders-0")
    machine = play.theatre.machine
    assert machine is not None
    stop = ReplicaStop(TopicName("orders"), PartitionId(0), LeaderEpoch(2), True)
    broker = BrokerId(3)

    late = Acknowledged(broker, play.theatre.epoch_of(broker), StopReplica((stop,)), ErrorCode.NONE)

    assert machine.turn([late], 1.0) == []
    assert "3" in (play.data("/kafka_zk_controller/replica_deletions/orders") or "")


def test_kafka_9672_a_dead_broker_leaves_the_isr_in_the_write_that_takes_it_out_of_the_replicas() -> None:
    lines = cluster("ask reassign orders-0 to=1,3").do("isr orders-0 1,2,3", "broker 2 dies")

    handed_over = lines[index(lines, "target [1, 3] of orders-0 in sync") + 1]
    assert "isr=[1, 3]" in handed_over
    assert not some(lines, "no longer a replica")


def test_kafka_9866_and_10149_what_is_not_in_sync_is_not_preferred_and_a_move_stops_only_its_own() -> None:
    play = Play(
        "set rebalance_every_s=30 imbalance_percentage=1",
        "brokers 1,2,3,4",
        "topic orders 0=1,2 1=1,2 2=1,2",
        "state orders-1 leader=2",
        "state orders-2 leader=2 isr=2",
        "elect",
    )
    play.do("ask reassign orders-0 to=3,4")

    lines = play.do("time +31s")

    assert some(lines, "preferred", "orders-1")
    assert not some(lines, "preferred", "orders-2")
    assert not some(lines, "preferred", "orders-0")


def test_kafka_9946_an_answer_to_a_stop_that_deletes_nothing_confirms_no_deletion() -> None:
    play = cluster("broker 1 hangs", "broker 2 hangs", MOVE, "isr orders-0 1,2,3,4")
    machine = play.theatre.machine
    assert machine is not None
    asked = [t for t in play.theatre.sent if isinstance(t.command, StopReplica)]
    assert {t.broker for t in asked} == {1, 2}

    def answered(*, is_deletion: bool) -> list[Acknowledged]:
        return [
            Acknowledged(
                t.broker,
                t.broker_epoch,
                StopReplica(tuple(msgspec.structs.replace(s, is_deletion=is_deletion) for s in t.command.stops)),
                ErrorCode.NONE,
            )
            for t in asked
            if isinstance(t.command, StopReplica)
        ]

    assert machine.turn(answered(is_deletion=False), 1.0) == []
    assert any(isinstance(e, Commit) for e in machine.turn(answered(is_deletion=True), 2.0))


def test_kafka_10040_and_13572_the_imbalance_is_what_a_slow_count_says_and_never_negative() -> None:
    play = cluster(topics=("topic orders 0=1,2 1=2,1 2=1,2",))
    for command in (
        "broker 1 dies",
        "ask reassign orders-0 to=3,2 orders-2 to=2",
        "broker 1 returns",
        "isr orders-0 2,3",
        "remove /brokers/topics/orders/partitions/1/state",
        "broker 3 bounces",
    ):
        play.do(command)
        slow = [
            (name, number)
            for name, topic in play.state().topics.views.items()
            for number, held in topic.partitions.items()
            if held.state is not None
            and held.state.leader != held.assignment.replicas[0]
            and not (
                held.assignment.replicas[0] in held.assignment.adding
                and held.assignment.replicas[0] not in held.state.isr
            )
        ]
        assert play.figures()["preferred_replica_imbalance"] == len(slow)


def test_kafka_10314_an_added_replica_hears_that_it_is_new_in_the_very_first_command() -> None:
    lines = cluster().do(MOVE)

    assert some(lines, "LeaderAndIsr orders-0")[0].endswith("new on 3,4")


def test_kafka_10371_a_replica_of_both_targets_is_not_removed_and_added_again() -> None:
    play = cluster("broker 4 hangs", MOVE, brokers="1,2,3,4,5")

    lines = play.do("ask reassign orders-0 to=3,5")
    owed = json.loads(play.data("/kafka_zk_controller/replica_deletions/orders") or "")
    assert owed["replicas"] == {"0": [4]}

    assert some(lines, "tell 4  StopReplica orders-0")
    assert not some(lines, "tell 3", "StopReplica")

    lines = play.do("ask reassign orders-0 to=3,5")  # once more: nobody is told anything
    assert some(lines, "answer orders-0 NONE")
    assert not some(lines, "tell")
    assert not some(lines, "/brokers/topics/orders")


def test_kafka_10521_only_old_leaders_cost_a_watch_of_each_moving_state() -> None:
    watched = [
        [address.path for read in watching.theatre.reads if read.watch for address in read.addresses]
        for watching in (
            cluster(MOVE),
            Play("set leaders_write_isr=true", "brokers 1,2,3,4", "topic orders 0=1,2", "elect", MOVE),
        )
    ]

    assert watched == [[], [STATE]]


def test_kafka_10794_electing_twice_as_many_leaders_takes_twice_as_many_calls() -> None:
    def calls_of_electing(partitions: int) -> int:
        topic = " ".join(f"{p}=1,2" for p in range(partitions))
        play = cluster(topics=(f"topic orders {topic}",))
        return _calls(lambda: play.do("broker 1 dies"))

    assert calls_of_electing(400) < 2.6 * calls_of_electing(200)


def _calls(act: Callable[[], object]) -> int:
    count = 0

    def called(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def test_kafka_12835_13132_and_13102_a_topic_id_reaches_brokers_although_the_leader_epoch_is_the_same() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2 id=none")

    play.do("elect")

    topic_id = json.loads(play.data("/brokers/topics/orders") or "")["topic_id"]
    last = {t.broker: t.command for t in play.theatre.sent if isinstance(t.command, LeaderAndIsr)}
    assert set(last) == {1, 2}
    for command in last.values():
        assert [(v.topic_id, v.leader_epoch) for v in (*command.partitions, *command.new)] == [(topic_id, 0)]


def test_kafka_13225_a_broker_that_hosts_nothing_is_taken_from_every_list_when_it_dies() -> None:
    lines = cluster().do("broker 4 dies")

    assert lines == ["disconnect 4", "tell 1,2,3  UpdateMetadata brokers=1,2,3,100"]


def test_kafka_13972_a_cancelled_replica_is_stopped_with_an_epoch_it_has_not_heard_yet() -> None:
    play = cluster()
    known = max(int(line.split("leader_epoch=")[1].split()[0]) for line in some(play.do(MOVE), "tell", "leader_epoch"))

    stops = some(play.do("ask cancel orders-0"), "StopReplica orders-0")

    assert stops == [f"tell 3,4  StopReplica orders-0 leader_epoch={known + 1} delete"]


def test_kafka_14140_no_dead_or_leaving_broker_enters_the_isr() -> None:
    play = cluster("ask reassign orders-0 to=1,2,3,4", "broker 3 dies", "shutdown 4")

    for isr in ("1,2,3", "1,2,4"):
        lines = play.do(f"isr orders-0 {isr}")
        assert some(lines, "answer orders-0 NONE leader=1 isr=[1, 2]"), lines
        assert not some(lines, "commit")


def test_kafka_14144_an_isr_change_that_was_applied_is_granted_again() -> None:
    play = cluster(MOVE, "isr orders-0 1,2,3")

    lines = play.do("isr orders-0 1,2,3 partition_epoch=1")

    assert lines == ["answer orders-0 NONE leader=1 isr=[1, 2, 3] v2"]


def test_kafka_14154_a_leader_that_knows_more_is_sent_to_the_newer_controller() -> None:
    play = cluster(MOVE)

    newer_epoch = play.do("isr orders-0 1,2,3 leader_epoch=2")
    newer_znode = play.do("isr orders-0 1,2,3 partition_epoch=9")

    assert some(newer_epoch, "answer orders-0 NOT_CONTROLLER")
    assert some(newer_znode, "answer orders-0 NOT_CONTROLLER")


def test_kafka_9839_a_broker_that_refuses_everything_is_told_everything_again() -> None:
    play = cluster()
    lines = play.do("next refusal LeaderAndIsr STALE_BROKER_EPOCH", "broker 2 bounces")
    assert some(lines, "notice (", "broker", "refused")

    again = play.do("time +1s")

    refused = lines[index(lines, "refused LeaderAndIsr as a whole")].split("broker ")[1].split()[0]
    assert refused == "1"
    assert some(again, "tell 1,2  LeaderAndIsr orders-0")  # 2 as well: it may not have known its leader to live
    assert some(again, "tell 1  UpdateMetadata orders-0")


def test_a_broker_that_refuses_again_and_again_is_told_less_and_less_often() -> None:
    play = cluster()
    play.do("next refusal LeaderAndIsr UNKNOWN_SERVER_ERROR", "broker 2 bounces")

    waited_s = []
    for _ in range(6):
        play.do("next refusal LeaderAndIsr UNKNOWN_SERVER_ERROR")
        waited_s.append(next(s for s in range(1, 60) if some(play.do("time +1s"), "refused LeaderAndIsr as a whole")))

    assert waited_s == sorted(waited_s)
    assert waited_s[-1] > 5


def test_kafka_9189_the_controller_lists_itself_to_brokers_and_in_zookeeper() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2")

    lines = play.do("elect")

    assert all("100" in line.split("brokers=")[1].split(",") for line in some(lines, "brokers="))
    assert some(lines, "brokers=1,2,100")
    assert play.data("/brokers/ids/100") is not None
