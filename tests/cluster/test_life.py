"""A leader ends at once when it is stopped, and by itself when its session has expired. It writes nothing later."""

from __future__ import annotations

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ReassignmentsAltered
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.lab.cluster import LocalCluster
from tests.cluster.replica import Replica, holder, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

LONG_SESSION_MS = 30_000
AT_ONCE_S = 15.0  # on a busy machine; half the session


def leaves_at_once(leader: Replica, zk: KazooClient) -> None:
    """Stopped, it exits cleanly and both its znodes are gone, long before its session could expire."""
    began = time.monotonic()
    leader.process.signal(signal.SIGTERM)
    wait_until(lambda: not leader.process.is_alive, "it ended", AT_ONCE_S)
    assert leader.process.exit_code == 0
    assert not zk.exists(f"/brokers/ids/{leader.broker_id}")
    assert holder(zk) != leader.broker_id
    wait_until(lambda: holder(zk) is not None, "there was a new controller", AT_ONCE_S)
    assert time.monotonic() - began < LONG_SESSION_MS / 1000 / 2
    assert leader.complaints() == []


def create_topic(zk: KazooClient, name: str, *brokers: int) -> TopicPartition:
    data = {"version": 1, "partitions": {"0": brokers}}
    zk.create(f"/brokers/topics/{name}", json.dumps(data).encode())
    wait_until(lambda: zk.exists(f"/brokers/topics/{name}/partitions/0/state"), f"{name} had a leader")
    return TopicPartition(TopicName(name), PartitionId(0))


def replicas(zk: KazooClient, at: TopicPartition) -> list[int]:
    found: list[int] = json.loads(zk.get(f"/brokers/topics/{at.topic}")[0])["partitions"]["0"]
    return found


def move(at: TopicPartition, *brokers: int) -> AlterReassignments:
    return AlterReassignments((PartitionReassignment(at, tuple(map(BrokerId, brokers))),))


def test_a_leader_told_to_stop_hands_over_to_the_other_replica(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    session = {"zookeeper.session.timeout.ms": LONG_SESSION_MS}
    with (
        Replica(cluster_3_9.zookeeper_connect, tmp_path, 901, **session) as first,
        Replica(cluster_3_9.zookeeper_connect, tmp_path, 902, **session) as second,
    ):
        wait_until(lambda: "active" in (first.phase, second.phase), "one of them led")
        leader, other = (first, second) if first.phase == "active" else (second, first)
        other.await_phase("standby")
        epoch = leader.leader()["controller_epoch"]
        at = create_topic(zk, f"handed-over-{epoch}", 1, 2)
        assert leader.ask(move(at, 3, 1)).results[0].error is ErrorCode.NONE

        leaves_at_once(leader, zk)

        other.await_phase("active")
        assert other.leader()["controller_epoch"] > epoch
        wait_until(lambda: replicas(zk, at) == [3, 1], "the move was finished by the other")


def test_the_only_replica_told_to_stop_hands_the_cluster_back_to_a_broker(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    session = {"zookeeper.session.timeout.ms": LONG_SESSION_MS}
    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 901, **session) as leader:
        leader.await_phase("active")

        leaves_at_once(leader, zk)

    assert holder(zk) in cluster_3_9.brokers
    at = create_topic(zk, f"handed-back-{time.monotonic_ns()}", 1, 2)
    assert json.loads(zk.get(f"/brokers/topics/{at.topic}/partitions/0/state")[0])["leader"] == 1


def test_with_takeover_when_vacant_a_native_controller_is_left_alone(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    wait_until(lambda: holder(zk) in cluster_3_9.brokers, "a broker led")
    before = zk.get("/controller")
    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 901, controller_takeover="when-vacant") as replica:
        replica.await_phase("standby")
        time.sleep(1)
        assert zk.get("/controller") == before
        assert not zk.exists("/brokers/ids/901")
        status = replica.leader()
        assert (status["controller"], status["is_leader"], status["is_ready"]) == (holder(zk), False, True)


def test_a_leader_that_slept_through_its_session_stands_by_and_writes_nothing(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    """A request that arrives while it is paused waits in its socket, and is the first thing it reads afterwards."""
    session = {"zookeeper.session.timeout.ms": 2000}
    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 901, **session) as first:
        first.await_phase("active")
        at = create_topic(zk, f"slept-{time.monotonic_ns()}", 1, 2)
        with (
            Replica(cluster_3_9.zookeeper_connect, tmp_path, 902, **session) as second,
            ThreadPoolExecutor(max_workers=1) as early_bird,
        ):
            second.await_phase("standby")
            first.process.signal(signal.SIGSTOP)
            asked = early_bird.submit(first.ask, move(at, 3, 1), timeout_s=60)
            second.await_phase("active")
            assert not zk.exists("/brokers/ids/901")
            before = everything(zk, at)

            first.process.signal(signal.SIGCONT)

            answer = asked.result()
            assert isinstance(answer, ReassignmentsAltered)
            assert {answer.error, *(result.error for result in answer.results)} == {ErrorCode.NOT_CONTROLLER}
            first.await_phase("standby")
            wait_until(lambda: first.leader()["controller"] == 902, "it saw who leads")
            assert first.measure("terms_ended_total") == first.measure("elections_won_total") == 1
            assert [r["event"] for r in first.complaints() if "→" in r["event"]] == ["active → standby"]
            time.sleep(1)
            assert everything(zk, at) == before
            assert second.phase == "active"


def everything(zk: KazooClient, at: TopicPartition) -> dict[str, bytes]:
    """The controller's znodes and one topic's."""
    base = f"/brokers/topics/{at.topic}"
    paths = ("/controller", "/controller_epoch", base, f"{base}/partitions/0/state")
    return {path: zk.get(path)[0] for path in paths}
