"""Kafka's own tool sets, shows and deletes SCRAM users while our controller leads; quotas of the same user stay."""

from __future__ import annotations

import json
from pathlib import Path

from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import FeatureUpdate, UpdateFeatures
from controller.lab.cluster import LocalCluster
from tests.cluster.replica import Replica


def users(cluster: LocalCluster, *args: str) -> str:
    result = cluster.tools.run(
        "kafka-configs", "--bootstrap-server", cluster.bootstrap_servers, "--entity-type", "users", *args
    )
    return result.output


def test_scram_users_are_changed_by_kafkas_tool(cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path) -> None:
    ann = ("--entity-name", "CN=ann/1")
    with Replica(cluster_3_9.zookeeper_connect, tmp_path) as leader:
        leader.await_phase("active")
        quota = users(cluster_3_9, *ann, "--alter", "--add-config", "producer_byte_rate=1000")
        assert "Completed updating config" in quota
        changed = users(cluster_3_9, *ann, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=x]")
        assert "Completed updating config" in changed
        assert "SCRAM-SHA-256=iterations=8192" in users(cluster_3_9, *ann, "--describe")
        kept = json.loads(zk.get("/config/users/CN%3Dann%2F1")[0])["config"]
        assert float(kept["producer_byte_rate"]) == 1000
        assert kept["SCRAM-SHA-256"].startswith("salt=")

        again = users(cluster_3_9, *ann, "--alter", "--add-config", "SCRAM-SHA-512=[iterations=9000,password=y]")
        assert "Completed updating config" in again
        few = users(cluster_3_9, *ann, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=100,password=z]")
        assert "iterations" in few.lower()
        assert "Completed" not in few
        gone = users(cluster_3_9, *ann, "--alter", "--delete-config", "SCRAM-SHA-256")
        assert "Completed updating config" in gone
        shown = users(cluster_3_9, *ann, "--describe")
        assert "SCRAM-SHA-512=iterations=9000" in shown
        assert "SCRAM-SHA-256" not in shown
        assert "producer_byte_rate=1000" in shown
        assert "SCRAM-SHA-256" not in json.loads(zk.get("/config/users/CN%3Dann%2F1")[0])["config"]

        answer = leader.ask(UpdateFeatures((FeatureUpdate("group.version", 1, 1),)), version=1)
        assert [(r.feature, r.error) for r in answer.results] == [("group.version", ErrorCode.INVALID_REQUEST)]
        assert not leader.complaints()
