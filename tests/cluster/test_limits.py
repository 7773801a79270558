"""Moves beyond a limit wait, outlive the leader that accepted them, and begin when there is room."""

from __future__ import annotations

import json
import time
from pathlib import Path

from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, ListReassignments, PartitionReassignment
from controller.lab.cluster import LocalCluster
from metrics.replay.commands.jobs import Job, run
from metrics.replay.engine.engines import Local
from tests.cluster.replica import Replica, content, wait_until
from tests.replay.any_files import rows_of
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition

LEGACY, WAITING = "/admin/reassign_partitions", "/kafka_zk_controller/waiting_moves"
NOWHERE = 77  # no broker has this id: a move there never ends by itself
LIMITS = {"reassignment_moves_at_once": 1}


def test_a_move_waits_for_room_under_one_leader_and_the_next_and_is_made_then(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    stuck, name = (f"{kind}-{time.monotonic_ns()}" for kind in ("stuck", "limited"))
    at, other = (TopicPartition(TopicName(topic), PartitionId(0)) for topic in (name, stuck))
    part = f"{WAITING}/{name}-0"

    def moving(topic: str) -> bool:
        return bool(content(zk, f"/brokers/topics/{topic}").get("adding_replicas"))

    def is_in_sync(topic: str) -> bool:
        return sorted(content(zk, f"/brokers/topics/{topic}/partitions/0/state").get("isr", [])) == [1, 2]

    def ask(replica: Replica, where: TopicPartition, to: Replicas | None) -> None:
        (result,) = replica.ask(AlterReassignments((PartitionReassignment(where, to),))).results
        assert result.error is ErrorCode.NONE, result

    def listed(replica: Replica) -> dict[TopicPartition, tuple[Replicas, Replicas, Replicas]]:
        moves = replica.ask(ListReassignments(None)).moves
        return {move.topic_partition: (move.replicas, move.adding, move.removing) for move in moves}

    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 901) as replica:
        replica.await_phase("active")
        for topic in (stuck, name):
            zk.create(f"/brokers/topics/{topic}", b'{"version":1,"partitions":{"0":[1,2]}}')
        wait_until(lambda: is_in_sync(stuck) and is_in_sync(name), "both partitions had leaders")
        entry = {"topic": stuck, "partition": 0, "replicas": [1, 2, NOWHERE]}
        zk.create(LEGACY, json.dumps({"version": 1, "partitions": [entry]}).encode())
        wait_until(lambda: moving(stuck), "without limits a move began that cannot end")

    waits = {at: ((1, 2), (3,), (1,)), other: ((1, 2, NOWHERE), (NOWHERE,), ())}
    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 902, **LIMITS) as replica:
        replica.await_phase("active")
        ask(replica, at, (BrokerId(3), BrokerId(2)))
        assert zk.exists(part)
        assert listed(replica) == waits
        wait_until(lambda: replica.measure("waiting_moves_cluster") == 1, "the metric counted the move that waits")
    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 903, **LIMITS) as replica:
        replica.await_phase("active")
        assert listed(replica) == waits
        assert not moving(name)

        ask(replica, other, None)

        wait_until(
            lambda: content(zk, f"/brokers/topics/{name}")["partitions"]["0"] == [3, 2], "the move had been made"
        )
        assert not zk.exists(part)
        wait_until(lambda: not zk.exists(LEGACY), "the entry of the cancelled move was gone")
    assert_replay_shows_it(cluster_3_9, name, tmp_path / "replay")


def assert_replay_shows_it(cluster: LocalCluster, topic: str, out: Path) -> None:
    """ZooKeeper's own files tell that the move waited, and its ledger says nothing else."""
    run(Local(), Job((str(cluster.zookeeper.data_dir),), str(out), tables=("audit", "requested_moves")))
    (move,) = [row for row in rows_of(str(out), "requested_moves") if row["topic"] == topic]
    judged = [row for row in rows_of(str(out), "audit") if row["topic"] == topic]

    assert (move["former_replicas"], move["to_replicas"]) == ([1, 2], [3, 2])
    assert (move["has_waited"], move["log_outcome"]) == (True, "finished")
    assert move["queued_zxid"] <= move["accepted_zxid"] < move["begun_zxid"] < move["ended_zxid"]
    assert judged
    assert not [row for row in judged if row["rule"] == "ledger"]
