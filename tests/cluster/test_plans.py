"""A plan for a real cluster: Kafka's own tool executes its file, and ours executes exactly what was shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from controller.demo.traffic import Traffic
from controller.demo.waiting import wait_for
from controller.demo.znodes import Plan, Znodes
from controller.lab.cluster import LocalCluster

TOPIC = "planned"
BEFORE: Plan = {0: (1, 2), 1: (2, 3), 2: (3, 1), 3: (3, 2)}
BYTES = 2_000_000


def ours(cluster: LocalCluster, *arguments: str) -> tuple[int, str]:
    """Run a command of ours; both streams together."""
    command = [sys.executable, "-m", "controller", *arguments, "--bootstrap-server", cluster.bootstrap_servers]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    return run.returncode, run.stdout


def replicas(znodes: Znodes) -> dict[int, tuple[int, ...]]:
    return {p.partition: tuple(p.assignment.replicas) for p in znodes.partitions(TOPIC)}


def targets(file: Path) -> dict[int, tuple[int, ...]]:
    return {p["partition"]: tuple(p["replicas"]) for p in json.loads(file.read_bytes())["partitions"]}


@pytest.mark.timeout(300)
def test_a_drain_is_executed_by_kafkas_tool_and_another_plan_by_ours(cluster_3_9: LocalCluster, tmp_path: Path) -> None:
    drained, grown = tmp_path / "drain.json", tmp_path / "grow.json"
    with Znodes(cluster_3_9.zookeeper_connect) as znodes:
        znodes.create_topic(TOPIC, BEFORE)
        wait_for(lambda: all(p.state for p in znodes.partitions(TOPIC)), "leaders")
        Traffic(cluster_3_9.bootstrap_servers, TOPIC, len(BEFORE)).fill(dict.fromkeys(BEFORE, BYTES))

        code, shown = ours(cluster_3_9, "plan", "drain", "3", "--topic", TOPIC, "--plan-file", str(drained))
        assert code == 0, shown
        assert "in 3 replicas of 3 partitions of 1 topic; no plan can do with less" in shown
        said = cluster_3_9.tools.run(
            *("kafka-reassign-partitions", "--bootstrap-server", cluster_3_9.bootstrap_servers),
            *("--execute", "--reassignment-json-file", str(drained)),
        )
        assert said.exit_code == 0, said.output
        wait_for(lambda: replicas(znodes) == {0: BEFORE[0]} | targets(drained), "the drain")
        assert not any(3 in its for its in replicas(znodes).values())

        code, shown = ours(
            cluster_3_9,
            *("plan", "replication-factor", "--replication-factor", "3", "--topic", TOPIC),
            *("--plan-file", str(grown)),
        )
        assert code == 0, shown
        execute = ("reassign", "--execute", "--reassignment-json-file", str(grown))
        code, shown = ours(cluster_3_9, *execute, "--progress")
        assert code == 0, shown
        assert replicas(znodes) == targets(grown)
        assert all(sorted(its) == [1, 2, 3] for its in replicas(znodes).values())

        code, shown = ours(cluster_3_9, *execute)
        assert code == 1
        assert f"{TOPIC}-0: it has the replicas of the plan already" in shown
