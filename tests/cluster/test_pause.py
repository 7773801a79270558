"""`kafka-zk-controller pause`: the leader goes on leading and begins no move, until `resume`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.lab.cluster import LocalCluster
from tests.cluster.replica import Replica, command, content, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

PAUSED, LEGACY = "/kafka_zk_controller/paused", "/admin/reassign_partitions"


@pytest.fixture
def unpaused(zk: KazooClient) -> Iterator[None]:
    """Nothing is paused or waits at the end."""
    yield
    for path in (PAUSED, LEGACY):
        if zk.exists(path):
            zk.delete(path)


@pytest.mark.usefixtures("unpaused")
def test_a_paused_leader_begins_no_move_replaces_a_dead_leader_and_goes_on_when_told(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    where = ("--zookeeper", cluster_3_9.zookeeper_connect)
    name = f"paused-{time.monotonic_ns()}"
    path = f"/brokers/topics/{name}"

    def replicas(partition: int) -> list[int]:
        return list(content(zk, path).get("partitions", {}).get(str(partition), []))

    def leads(partition: int) -> int:
        return int(content(zk, f"{path}/partitions/{partition}/state").get("leader", -1))

    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 901) as replica:
        replica.await_phase("active")
        zk.create(path, b'{"version":1,"partitions":{"0":[1,2],"1":[1,2]}}')
        wait_until(
            lambda: all(sorted(content(zk, f"{path}/partitions/{n}/state").get("isr", [])) == [1, 2] for n in (0, 1)),
            "both partitions had leaders",
        )

        code, report, complaints = command("pause", *where, "--reason", "new disks")

        assert (code, report["is_known"], report["controller"]) == (0, True, 901), complaints
        assert replica.leader()["is_paused"]
        assert "new disks" in replica.leader()["paused_by"]
        wait_until(lambda: replica.measure("paused_timestamp_seconds") > 1_700_000_000, "the metric said since when")
        assert [c for c in replica.complaints() if c["event"].startswith("moves are paused")]
        code, _, complaints = command("switchover", "--to", "902", *where)
        assert (code, "moves are paused by" in complaints, "new disks" in complaints) == (1, True, True), complaints
        move = {"topic": name, "partition": 0, "replicas": [3, 2]}
        zk.create(LEGACY, json.dumps({"version": 1, "partitions": [move]}).encode())
        at = TopicPartition(TopicName(name), PartitionId(1))
        answer = replica.ask(AlterReassignments((PartitionReassignment(at, (BrokerId(3), BrokerId(2))),)))
        (refused,) = answer.results
        assert refused.error is ErrorCode.POLICY_VIOLATION
        assert "new disks" in refused.message
        assert "kafka-zk-controller resume" in refused.message

        cluster_3_9.brokers[1].kill()
        wait_until(lambda: (leads(0), leads(1)) == (2, 2), "the dead broker's partitions had another leader")

        assert (replicas(0), replicas(1)) == ([1, 2], [1, 2])
        assert content(zk, LEGACY)["partitions"] == [move]

        code, report, complaints = command("resume", *where)

        assert (code, report["is_known"], report["paused"]) == (0, True, None), complaints
        wait_until(lambda: replicas(0) == [3, 2], "the move that waited had been made")
        assert not replica.leader()["is_paused"]
        assert replicas(1) == [1, 2]
