"""A client that knows only a standby's address finds the cluster and its controller."""

from __future__ import annotations

from pathlib import Path

from controller.demo.clients import KafkaAdminClient
from controller.demo.replicas import Replica
from controller.demo.waiting import wait_for
from controller.lab.cluster import LocalCluster
from tests.cluster.moves import LedCluster, led


def standby_of(rule: LedCluster) -> Replica:
    (standby,) = (replica for replica in rule.pair.members if replica is not rule.leader)
    return standby


def test_kafkas_tools_create_and_describe_a_topic(cluster_3_9: LocalCluster, tmp_path: Path) -> None:
    with led(cluster_3_9, tmp_path) as rule:
        address = standby_of(rule).address

        def topics(*args: str) -> str:
            result = cluster_3_9.tools.run("kafka-topics", "--bootstrap-server", address, *args, timeout_s=60)
            assert result.exit_code == 0, result.output
            return result.output

        topics("--create", "--topic", "by-standby", "--partitions", "2", "--replication-factor", "2")
        assert "by-standby" in topics("--list").split()
        assert "PartitionCount: 2" in topics("--describe", "--topic", "by-standby")


def test_kafka_python_finds_the_leader(cluster_3_9: LocalCluster, tmp_path: Path) -> None:
    with led(cluster_3_9, tmp_path) as rule:
        admin = KafkaAdminClient(bootstrap_servers=[standby_of(rule).address])
        try:
            assert admin.describe_cluster()["controller_id"] == rule.leader.replica_id
            admin.create_topics({"python-by-standby": {"num_partitions": 1, "replication_factor": 1}})
            wait_for(lambda: "python-by-standby" in admin.list_topics(), "every node that is asked knowing the topic")
        finally:
            admin.close()
