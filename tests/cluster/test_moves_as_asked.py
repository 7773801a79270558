"""On real brokers, of moves that wait a file says which begins first, and an option of `reassign` how long they wait.

With the entry of docs/reassign.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.lab.cluster import LocalCluster
from tests.cluster.replica import Replica, content, wait_until
from zk_layout.ids import PartitionId, TopicName, TopicPartition

PAGE = Path(__file__).parents[2] / "docs" / "reassign.md"
(ENTRY,) = (line for line in PAGE.read_text().splitlines() if '"weight"' in line)
STATUSES = "/admin/reassign_partitions_status"
NOWHERE = 77  # no broker has this id: a move there never ends by itself
ONE_BY_WEIGHT = {"reassignment_moves_at_once": 1, "reassignment_moves_order": "weight"}


def execute(cluster: LocalCluster, plan: Path, *options: str) -> dict[str, Any]:
    """Run the tool; its document."""
    words = (
        "reassign",
        "--bootstrap-server",
        cluster.bootstrap_servers,
        "--execute",
        "--reassignment-json-file",
        str(plan),
    )
    command = [sys.executable, "-m", "controller", *words, "--additional", "--output", "json", *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def entry_for(topic: str, weight: int) -> dict[str, Any]:
    """That of the page, for another topic and weight."""
    (entry,) = json.loads(ENTRY)["partitions"]
    return {**entry, "topic": topic, "weight": weight}


@pytest.mark.thorough
def test_a_move_of_a_higher_weight_begins_first_and_one_gives_up_when_its_own_request_says(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    stuck, light, heavy, hasty = (f"{kind}-{time.monotonic_ns()}" for kind in ("stuck", "light", "heavy", "hasty"))

    def topic(name: str) -> dict[str, Any]:
        return content(zk, f"/brokers/topics/{name}")

    def is_in_sync(name: str) -> bool:
        return sorted(content(zk, f"/brokers/topics/{name}/partitions/0/state").get("isr", [])) == [1, 2]

    def written(name: str, *moves: tuple[str, int]) -> Path:
        plan = tmp_path / f"{name}.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [entry_for(*move) for move in moves]}))
        return plan

    def end(replica: Replica) -> None:
        wanted = PartitionReassignment(TopicPartition(TopicName(stuck), PartitionId(0)), None)
        (result,) = replica.ask(AlterReassignments((wanted,))).results
        assert result.error is ErrorCode.NONE, result

    for name in (stuck, light, heavy, hasty):
        zk.create(f"/brokers/topics/{name}", b'{"version":1,"partitions":{"0":[1,2]}}')
    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 901) as replica:
        replica.await_phase("active")
        wait_until(lambda: all(map(is_in_sync, (stuck, light, heavy, hasty))), "all partitions had leaders")
        nowhere = {"topic": stuck, "partition": 0, "replicas": [1, 2, NOWHERE]}
        zk.create("/admin/reassign_partitions", json.dumps({"version": 1, "partitions": [nowhere]}).encode())
        wait_until(lambda: bool(topic(stuck).get("adding_replicas")), "without limits a move began that cannot end")
    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 902, **ONE_BY_WEIGHT) as replica:
        replica.await_phase("active")
        asked = execute(cluster_3_9, written("weighed", (light, 0), (heavy, 10)), "--give-up-after", "1h")
        short = execute(cluster_3_9, written("hasty", (hasty, 99)), "--give-up-after", "1s")

        wait_until(
            lambda: content(zk, f"{STATUSES}/{short['request_id']}")["counts"] == {"gave up": 1}, "one had given up"
        )
        assert content(zk, f"{STATUSES}/{asked['request_id']}")["give_up_ms"] == 3_600_000
    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 903, **ONE_BY_WEIGHT) as replica:
        replica.await_phase("active")
        end(replica)

        wait_until(lambda: all(topic(name)["partitions"]["0"] == [3, 2] for name in (light, heavy)), "both had moved")
        ends = {name: zk.exists(f"/brokers/topics/{name}").last_modified_transaction_id for name in (light, heavy)}
        assert ends[heavy] < ends[light]
        assert topic(hasty)["partitions"]["0"] == [1, 2]
