"""What do Kafka's own tools, and kafka-python, make of moves that wait? docs/tools.md has it as a table."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient
from kazoo.client import KazooClient
from msgspec import Struct

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.demo.traffic import Traffic
from controller.demo.znodes import Plan, Znodes
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.tools import KafkaTools, ToolResult
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, content, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

Targets = Mapping[int, Sequence[int]]

BEFORE: Plan = dict.fromkeys(range(4), (1, 2))
PLAN: Plan = {0: (3, 2), 1: (3, 2), 2: (3, 2), 3: (1, 2, 3)}
"""Partition 0 moves; the others wait, the last of which only gets one replica more."""
BYTES = 20_000_000
BYTES_S = 20_000  # the first move would take a quarter of an hour
RATE, LIST = "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
RUNNING = {"leader": {"0:1", "0:2"}, "follower": {"0:3"}}
RUNNING_BY_2_6 = {"leader": {"0:1", "0:2", "0:3"}, "follower": set()}
"""What a tool throttles of the move that has begun; 2.6 takes the new replica for an old one."""


def is_led(znodes: Znodes, topic: str) -> bool:
    """Whether every partition has a leader."""
    return all(p.state for p in znodes.partitions(topic))


class Held(Struct):
    """A topic of which one partition moves, slowly, and three wait."""

    cluster: LocalCluster
    zk: KazooClient
    leader: Replica
    name: str
    other: str

    def ask(self, plan: Targets) -> None:
        """Request moves."""
        moves = (
            PartitionReassignment(TopicPartition(TopicName(self.name), PartitionId(p)), tuple(map(BrokerId, to)))
            for p, to in plan.items()
        )
        altered = self.leader.ask(AlterReassignments(tuple(moves)))
        assert {result.error for result in altered.results} == {ErrorCode.NONE}, altered

    def waiting(self) -> set[int]:
        """The partitions whose moves wait, from the znodes that record them."""
        folder = "/kafka_zk_controller/waiting_moves"
        found: set[int] = set()
        for child in self.zk.get_children(folder):
            if child.rpartition("-")[0] == self.name:
                found |= {int(p) for p in content(self.zk, f"{folder}/{child}")["moves"]}
        return found

    def file(self, directory: Path, topic: str, plan: Targets) -> str:
        """A file for Kafka's tool."""
        path = directory / f"{topic}-{''.join(map(str, plan))}.json"
        partitions = [{"topic": topic, "partition": p, "replicas": list(to)} for p, to in plan.items()]
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return str(path)

    def configure(self, entity: str, config: Mapping[str, str]) -> None:
        """Change settings as kafka-configs does in ZooKeeper."""
        self.zk.ensure_path(f"/config/{entity}")
        self.zk.set(f"/config/{entity}", json.dumps({"version": 1, "config": dict(config)}).encode())
        notice = json.dumps({"version": 2, "entity_path": entity}).encode()
        self.zk.create("/config/changes/config_change_", notice, sequence=True)

    def settings(self, entity: str) -> dict[str, str]:
        """The settings of a topic or a broker in ZooKeeper."""
        return dict(content(self.zk, f"/config/{entity}").get("config", {}))

    def replicas(self) -> dict[int, tuple[int, ...]]:
        """Where the partitions are."""
        found = content(self.zk, f"/brokers/topics/{self.name}")
        return {int(p): tuple(to) for p, to in found["partitions"].items()}


@contextmanager
def held(cluster: LocalCluster, zk: KazooClient, directory: Path) -> Iterator[Held]:
    """Our controller lets one move copy at a time, and one copies; at the end all of them are made."""
    name = f"held-{time.monotonic_ns()}"
    with Replica(cluster.zookeeper_connect, directory, reassignment_moves_at_once=1) as leader:
        leader.await_phase("active")
        found = Held(cluster, zk, leader, name, f"other-{name}")
        with Znodes(cluster.zookeeper_connect) as znodes:
            for topic, plan in ((name, BEFORE), (found.other, {0: (1, 2)})):
                znodes.create_topic(topic, plan)
                wait_until(partial(is_led, znodes, topic), f"{topic} is led")
        Traffic(cluster.bootstrap_servers, name, 1).fill({0: BYTES})
        found.configure(f"topics/{name}", {LIST: "0:3"})
        found.configure("brokers/3", {RATE: str(BYTES_S)})
        time.sleep(2)
        found.ask(PLAN)
        wait_until(lambda: found.waiting() == {1, 2, 3}, "three moves wait")
        yield found
        for entity in (f"topics/{name}", f"topics/{found.other}", *(f"brokers/{b}" for b in cluster.brokers)):
            found.configure(entity, {})  # the tools throttle leaders, too
        wait_until(lambda: found.replicas() == PLAN, "all moves are made", 120)


@pytest.fixture(scope="module")
def fetching_little() -> Iterator[LocalCluster]:
    """Three brokers whose followers fetch in small steps, so that a throttle holds a move up for long."""
    steps = {"replica.fetch.max.bytes": 64 * 1024, "replica.fetch.response.max.bytes": 256 * 1024}
    try:
        cluster = LocalCluster(ClusterSettings(overrides=steps))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["2.6.3", "2.8.2", "3.3.2", "3.9.1"])
def test_kafkas_tools(fetching_little: LocalCluster, tmp_path: Path, version: str) -> None:
    cluster, tools = fetching_little, KafkaTools(version)

    def run(tool: str, *arguments: str) -> ToolResult:
        return tools.run(tool, "--bootstrap-server", cluster.bootstrap_servers, *arguments)

    with zookeeper_client(cluster.zookeeper_connect) as zk, held(cluster, zk, tmp_path) as it:

        def reassign(action: str, topic: str, plan: Targets, *more: str) -> ToolResult:
            file = it.file(tmp_path, topic, plan)
            return run("kafka-reassign-partitions", action, *more, "--reassignment-json-file", file)

        listed = run("kafka-reassign-partitions", "--list")
        assert listed.exit_code == 0, listed.output
        assert listed.stdout.strip().splitlines() == [
            "Current partition reassignments:",
            f"{it.name}-0: replicas: 3,2,1. adding: 3. removing: 1.",
            f"{it.name}-1: replicas: 1,2. adding: 3. removing: 1.",
            f"{it.name}-2: replicas: 1,2. adding: 3. removing: 1.",
            f"{it.name}-3: replicas: 1,2. adding: 3.",
        ]

        verified = reassign("--verify", it.name, PLAN)
        assert verified.exit_code == 0, verified.output
        assert verified.stdout.strip().splitlines()[1:] == [
            f"Reassignment of partition {it.name}-{p} is still in progress." for p in PLAN
        ]
        assert it.settings(f"topics/{it.name}")[LIST] == "0:3", "it keeps throttles while anything is listed"

        another = reassign("--execute", it.other, {0: (3, 2)})
        assert another.exit_code == 1
        assert "Cannot execute because there is an existing partition assignment." in another.output

        added = reassign("--execute", it.other, {0: (3, 2)}, "--additional", "--throttle", str(BYTES_S))
        assert added.exit_code == 0, added.output
        assert f"Successfully started partition reassignment for {it.other}-0" in added.stdout
        lists = {
            side: set(it.settings(f"topics/{it.name}")[f"{side}.replication.throttled.replicas"].split(","))
            for side in ("leader", "follower")
        }
        running = RUNNING_BY_2_6 if version.startswith("2.6") else RUNNING
        assert lists["leader"] == running["leader"] | {"1:1", "1:2", "2:1", "2:2", "3:1", "3:2"}
        assert lists["follower"] == running["follower"] | {"1:3", "2:3", "3:3"}

        described = run("kafka-topics", "--describe", "--topic", it.name)
        rows = re.findall(r"Partition: (\d+)\s+Leader: 1\s+Replicas: (\S+)\s+Isr: \S+(.*)", described.stdout)
        assert [
            (number, replicas, re.findall(r"(Adding|Removing) Replicas: (\d*)", more))
            for number, replicas, more in rows
        ] == [
            ("0", "3,2,1", [("Adding", "3"), ("Removing", "1")]),
            ("1", "1,2", [("Adding", "3"), ("Removing", "1")]),
            ("2", "1,2", [("Adding", "3"), ("Removing", "1")]),
            ("3", "1,2", [("Adding", "3"), ("Removing", "")]),
        ]
        missing = run("kafka-topics", "--describe", "--under-replicated-partitions")
        assert (missing.exit_code, missing.stdout.strip()) == (0, "")

        moved = reassign("--cancel", it.name, {1: (3, 2)}, "--preserve-throttles")
        assert moved.exit_code == 0, moved.output
        assert f"Successfully cancelled partition reassignment for: {it.name}-1" in moved.stdout
        grown = reassign("--cancel", it.name, {3: (1, 2, 3)}, "--preserve-throttles")
        assert grown.exit_code == 0, grown.output
        overlooks = version.startswith("3.9")  # as it overlooks running moves that only add replicas
        assert ("Successfully cancelled" in grown.stdout) is not overlooks, grown.output
        assert it.waiting() == ({2, 3} if overlooks else {2})
        assert it.replicas() == {0: (3, 2, 1), 1: (1, 2), 2: (1, 2), 3: (1, 2)}

        it.ask({p: to for p, to in PLAN.items() if p not in (0, *it.waiting())})


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_kafka_python(cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path) -> None:
    with (
        held(cluster_3_9, zk, tmp_path) as it,
        closing(KafkaAdminClient(bootstrap_servers=cluster_3_9.bootstrap_servers)) as admin,
    ):
        found = admin.list_partition_reassignments()
        assert {
            at.partition: (tuple(move["replicas"]), tuple(move["adding_replicas"]), tuple(move["removing_replicas"]))
            for at, move in found.items()
        } == {
            0: ((3, 2, 1), (3,), (1,)),
            1: ((1, 2), (3,), (1,)),
            2: ((1, 2), (3,), (1,)),
            3: ((1, 2), (3,), ()),
        }
        waits = KafkaPartition(it.name, 1)
        assert admin.alter_partition_reassignments({waits: None}) == {waits: None}
        assert it.waiting() == {2, 3}
        assert admin.alter_partition_reassignments({waits: [3, 2]}) == {waits: None}
        wait_until(lambda: it.waiting() == {1, 2, 3}, "it waits again")
