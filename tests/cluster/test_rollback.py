"""The moves of a request are taken back on real brokers, but not a partition that has moved on since.

With the commands of docs/reassign.md.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.lab.cluster import LocalCluster
from tests.cluster.replica import Replica, content, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

PAGE = Path(__file__).parents[2] / "docs" / "reassign.md"
SHOW, EXECUTE = (line for line in PAGE.read_text().splitlines() if line.startswith("kafka-zk-controller rollback "))
PLAN_OF_PAGE = "1f0c5a6b7d8e9f00"


def rollback(
    cluster: LocalCluster, line: str, request: int, *options: str, plan_hash: str = ""
) -> tuple[int, dict[str, Any]]:
    """Run a command of the page on this cluster and request; its exit code and its document."""
    real = {"7": str(request), "zk1:2181/kafka": cluster.zookeeper_connect, PLAN_OF_PAGE: plan_hash}
    words = [real.get(word, word) for word in shlex.split(line)[1:]]
    command = [sys.executable, "-m", "controller", *words, "--output", "json", *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout)


def ended(log: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """What the log of moves says, by request and partition."""
    lines = map(json.loads, log.read_text().splitlines())
    return {(line["request"], line["partition"]): line for line in lines if line["event"] == "move ended"}


def test_a_request_is_rolled_back_as_far_as_nothing_has_changed_since(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    name = f"rolled-back-{time.monotonic_ns()}"

    def replicas() -> dict[str, list[int]]:
        topic = content(zk, f"/brokers/topics/{name}")
        return {} if topic.get("adding_replicas") or topic.get("removing_replicas") else topic["partitions"]

    def move(replica: Replica, targets: dict[int, tuple[int, ...]], reason: str | None = None) -> int:
        wanted = tuple(
            PartitionReassignment(TopicPartition(TopicName(name), PartitionId(p)), tuple(map(BrokerId, to)))
            for p, to in targets.items()
        )
        reply = replica.ask(AlterReassignments(wanted, reason=reason))
        assert {result.error for result in reply.results} == {ErrorCode.NONE}
        assert reply.request_id is not None
        return int(reply.request_id)

    log = tmp_path / "moves.log"
    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 901, **{"log.moves.file": log}) as replica:
        replica.await_phase("active")
        zk.create(f"/brokers/topics/{name}", b'{"version":1,"partitions":{"0":[1,2],"1":[2,3],"2":[3,1]}}')
        states = [f"/brokers/topics/{name}/partitions/{p}/state" for p in range(3)]
        wait_until(lambda: all(len(content(zk, s).get("isr", [])) == 2 for s in states), "all replicas were in sync")
        moved = move(replica, {0: (3, 2), 1: (1, 2), 2: (1, 3)}, reason="spread by José")
        wait_until(lambda: replicas() == {"0": [3, 2], "1": [1, 2], "2": [1, 3]}, "the partitions had moved")
        move(replica, {1: (2, 1)})
        wait_until(lambda: replicas().get("1") == [2, 1], "one partition had moved on")

        code, shown = rollback(cluster_3_9, SHOW, moved)

        assert code == 1
        assert {f"{b['partition']} {b['how']} {b['receivers']}" for b in shown["back"]} == {
            "0 copying [1]",
            "2 at_once []",
        }
        assert shown["left"] == {f"{name}-1": f"it has the replicas 2,1 now, not 1,2 as request {moved} left it"}
        assert shown["request"]["principal"] == "User:ANONYMOUS"
        assert shown["request"]["reason"] == "spread by José"
        code, refused = rollback(cluster_3_9, EXECUTE, moved, plan_hash=shown["hash"])
        assert (code, refused["error"].partition(":")[0]) == (1, "nothing was done")

        before = zk.exists("/config/brokers/1")
        partly = ("--partial", "--throttle", "50000000")
        code, done = rollback(cluster_3_9, EXECUTE, moved, *partly, plan_hash=shown["hash"])

        assert done["request_id"] > moved
        _, again = rollback(cluster_3_9, SHOW, done["request_id"])
        assert again["request"]["reason"] == "disks of rack b"
        after = zk.exists("/config/brokers/1")
        assert after is not None
        assert before is None or after.mzxid > before.mzxid, "broker 1 had no rate meanwhile"
        wait_until(lambda: replicas() == {"0": [1, 2], "1": [2, 1], "2": [3, 1]}, "two partitions were back")
        assert_the_log_tells(log, moved, done["request_id"])


def assert_the_log_tells(log: Path, moved: int, back: int) -> None:
    """Both requests' moves are in the log of moves, with who asked, and why."""
    told = {(moved, 0), (moved, 1), (moved, 2), (back, 0), (back, 2)}
    wait_until(lambda: told <= ended(log).keys(), "the log of moves had them all")
    first, second = ended(log)[moved, 0], ended(log)[back, 0]
    assert (first["before"], first["after"], first["reason"]) == ([1, 2], [3, 2], "spread by José")
    assert (second["before"], second["after"], second["reason"]) == ([3, 2], [1, 2], "disks of rack b")
    assert (first["principal"], first["outcome"]) == ("User:ANONYMOUS", "completed")
    assert first["copying_s"] > 0
