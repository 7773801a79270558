"""Kafka's own tools, and kafka-python, create, enlarge, delete and lead topics under our controller."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import InvalidReplicationFactorError, TopicAlreadyExistsError

from controller.lab.cluster import LocalCluster
from controller.lab.tools import ToolResult
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, wait_until

CONTROLLER = 901


@contextmanager
def leading(cluster: LocalCluster, directory: Path) -> Iterator[Replica]:
    version = "2.4" if cluster.tools.version == "2.4.1" else "3.9"
    settings = {"inter.broker.protocol.version": version, "num.partitions": 2, "default.replication.factor": 2}
    with Replica(cluster.zookeeper_connect, directory, CONTROLLER, **settings) as leader:
        leader.await_phase("active")
        yield leader


def topics(cluster: LocalCluster, *args: str) -> ToolResult:
    return cluster.tools.run("kafka-topics", "--bootstrap-server", cluster.bootstrap_servers, *args)


def described(cluster: LocalCluster, topic: str) -> list[dict[str, Any]]:
    """Leader, replicas and ISR of each partition, as a broker tells the tool."""
    result = topics(cluster, "--describe", "--topic", topic)
    assert result.exit_code == 0, result.output
    rows = re.findall(r"Partition: (\d+)\s+Leader: (\S+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]*)", result.stdout)
    return [
        {
            "partition": int(number),
            "leader": int(leader) if leader.isdigit() else None,
            "replicas": [int(r) for r in replicas.split(",")],
            "isr": sorted(int(r) for r in isr.split(",") if r),
        }
        for number, leader, replicas, isr in rows
    ]


def lives_through_everything(cluster: LocalCluster, leader: Replica, topic: str) -> None:
    """Create, describe, refuse a second one, enlarge, delete, and create again at once."""
    created = topics(
        cluster, "--create", "--topic", topic, "--partitions", "4", "--replication-factor", "3",
        "--config", "retention.ms=4711000",
    )  # fmt: skip
    assert created.exit_code == 0, created.output
    rows = described(cluster, topic)
    assert [row["partition"] for row in rows] == [0, 1, 2, 3]
    assert all(sorted(row["replicas"]) == [1, 2, 3] and row["leader"] == row["replicas"][0] for row in rows)
    assert {row["leader"] for row in rows} == {1, 2, 3}
    assert "retention.ms=4711000" in topics(cluster, "--describe", "--topic", topic).stdout

    again = topics(cluster, "--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1")
    assert again.exit_code != 0
    assert re.search(f"Topic '?{re.escape(topic)}'? already exists", again.output)

    enlarged = topics(cluster, "--alter", "--topic", topic, "--partitions", "7")
    assert enlarged.exit_code == 0, enlarged.output
    more = described(cluster, topic)
    assert more[:4] == rows
    assert len(more) == 7
    assert all(row["leader"] in row["replicas"] and CONTROLLER not in row["replicas"] for row in more)

    deleted = topics(cluster, "--delete", "--topic", topic)
    assert deleted.exit_code == 0, deleted.output
    with zookeeper_client(cluster.zookeeper_connect) as zookeeper:
        assert zookeeper.exists(f"/brokers/topics/{topic}") is None
        assert zookeeper.exists(f"/config/topics/{topic}") is None
        assert zookeeper.exists(f"/admin/delete_topics/{topic}") is None

    reborn = topics(cluster, "--create", "--topic", topic, "--replica-assignment", "3:1,2:3")
    assert reborn.exit_code == 0, reborn.output
    assert [row["replicas"] for row in described(cluster, topic)] == [[3, 1], [2, 3]]
    assert leader.phase == "active"


def leads_again_where_asked(cluster: LocalCluster, topic: str, directory: Path) -> None:
    """After a restart of its preferred leader, kafka-leader-election gives it the lead back."""
    assert topics(cluster, "--create", "--topic", topic, "--replica-assignment", "1:2,2:1").exit_code == 0
    cluster.brokers[1].restart()
    wait_until(lambda: described(cluster, topic)[0]["isr"] == [1, 2], "broker 1 was in sync again", 120)
    assert described(cluster, topic)[0]["leader"] == 2
    wanted = directory / "elections.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": n} for n in (0, 1)]}))

    servers = ("--bootstrap-server", cluster.bootstrap_servers, "--election-type", "preferred")
    elected = cluster.tools.run("kafka-leader-election", *servers, "--path-to-json-file", str(wanted))
    assert elected.exit_code == 0, elected.output
    assert f"{topic}-0" in elected.output
    assert [row["leader"] for row in described(cluster, topic)] == [1, 2]

    everywhere = cluster.tools.run("kafka-leader-election", *servers, "--all-topic-partitions")
    assert everywhere.exit_code == 0, everywhere.output


@pytest.mark.timeout(600)
def test_the_tools_of_kafka_3_9(cluster_3_9: LocalCluster, tmp_path: Path) -> None:
    with leading(cluster_3_9, tmp_path) as leader:
        lives_through_everything(cluster_3_9, leader, "managed.by_tools")
        leads_again_where_asked(cluster_3_9, "led-by-tools", tmp_path)


@pytest.mark.timeout(600)
def test_the_tools_of_kafka_2_4(cluster_2_4: LocalCluster, tmp_path: Path) -> None:
    with leading(cluster_2_4, tmp_path) as leader:
        lives_through_everything(cluster_2_4, leader, "managed.by_tools")
        leads_again_where_asked(cluster_2_4, "led-by-tools", tmp_path)


@pytest.mark.timeout(300)
def test_kafka_python_manages_topics(cluster_3_9: LocalCluster, tmp_path: Path) -> None:
    with leading(cluster_3_9, tmp_path):
        admin = KafkaAdminClient(bootstrap_servers=cluster_3_9.bootstrap_servers)
        admin.create_topics([NewTopic("by-python", 3, 2), NewTopic("by-python-too", 1, 1)])
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic("by-python", 3, 2)])
        with pytest.raises(InvalidReplicationFactorError):
            admin.create_topics([NewTopic("by-python-four", 1, 4)])
        admin.create_partitions({"by-python": NewPartitions(5)})
        assert len(admin.describe_topics(["by-python"])[0]["partitions"]) == 5
        admin.delete_topics(["by-python", "by-python-too"], timeout_ms=60_000)
        assert not {"by-python", "by-python-too"} & set(admin.list_topics())
        admin.close()
