"""On real brokers, moves that wait begin by what they copy, as the leaders of their partitions say."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.demo.traffic import Traffic
from controller.lab.cluster import LocalCluster
from tests.cluster.replica import OLD_AND_NEW, Replica, content, create_topic, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

TARGET = tuple(map(BrokerId, (3, 2)))
BYTES = {"middle": 600_000, "large": 3_000_000, "small": 2_000}


@OLD_AND_NEW
@pytest.mark.thorough
@pytest.mark.parametrize("order", ["small", "large"])
def test_moves_begin_by_the_bytes_that_they_copy(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path, order: str
) -> None:
    names = {kind: f"{kind}-{time.monotonic_ns()}" for kind in BYTES}
    settings: dict[str, Any] = {"reassignment_moves_at_once": 1, "reassignment_moves_order": order}
    version = cluster.settings.version.rpartition(".")[0]

    def assignment(kind: str) -> list[int]:
        found: list[int] = content(zk, f"/brokers/topics/{names[kind]}")["partitions"]["0"]
        return found

    def moved_at(kind: str) -> int:
        stat = zk.exists(f"/brokers/topics/{names[kind]}")
        return int(stat.last_modified_transaction_id)

    with Replica(cluster.zookeeper_connect, tmp_path, inter_broker_protocol_version=version, **settings) as replica:
        replica.await_phase("active")
        for kind, count in BYTES.items():
            create_topic(zk, names[kind])
            Traffic(cluster.bootstrap_servers, names[kind], 1).fill({0: count})
        moves = (PartitionReassignment(TopicPartition(TopicName(n), PartitionId(0)), TARGET) for n in names.values())

        answered = replica.ask(AlterReassignments(tuple(moves)))

        assert {result.error for result in answered.results} == {ErrorCode.NONE}
        wait_until(lambda: all(assignment(kind) == [*TARGET] for kind in names), "all had moved")
        by_size = sorted(BYTES, key=lambda kind: BYTES[kind], reverse=order == "large")
        assert sorted(names, key=moved_at) == by_size
        assert replica.measure("waiting_moves_without_size") == 0
        assert b"it has waited, and copies 2." in replica.process.output_since_start()
