"""Kafka's own controller after a migration was rolled back: it elects nowhere that KRaft wrote, until ours has led.

KRaft's epoch is planted here, as KAFKA-20488 finds it; no quorum runs.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from kazoo.client import KazooClient

from controller.lab.cluster import LocalCluster
from tests.cluster.replica import Replica, content, create_topic, holder, wait_until

OF_THE_QUORUM = 1_000_000
NO_BROKER = 9


class Rolled:
    """A topic of two replicas whose leader is gone."""

    def __init__(self, cluster: LocalCluster, zk: KazooClient) -> None:
        self.cluster, self.zk = cluster, zk
        self.name = f"rolled-back-{time.monotonic_ns()}"
        self.path = create_topic(zk, self.name)
        wait_until(lambda: self.leader in (1, 2), "the new topic had a leader")

    @property
    def leader(self) -> int | None:
        """Its leader, as ZooKeeper has it."""
        found = content(self.zk, self.path).get("leader")
        return None if found is None else int(found)

    def lose_leader(self, **written: int) -> None:
        """Write into the state that a broker leads which does not run, and have another native controller elected."""
        self.zk.set(self.path, json.dumps({**content(self.zk, self.path), "leader": NO_BROKER, **written}).encode())
        self.zk.delete("/controller")
        wait_until(lambda: holder(self.zk) in self.cluster.brokers, "a broker was elected")

    def refusals(self) -> int:
        """How often brokers have aborted an election of it."""
        line = f"Aborted leader election for partition {self.name}-0"
        return sum(broker.process.log_file.read_text().count(line) for broker in self.cluster.brokers.values())


def test_kafkas_own_controller_elects_again_once_ours_has_led(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    topic = Rolled(cluster_3_9, zk)
    topic.lose_leader(controller_epoch=OF_THE_QUORUM)
    wait_until(topic.refusals, "the native controller aborted the election")
    assert topic.leader == NO_BROKER

    with Replica(cluster_3_9.zookeeper_connect, tmp_path, 901) as ours:
        ours.await_phase("active")
        wait_until(lambda: topic.leader in (1, 2), "ours elected a leader")
        assert int(zk.get("/controller_epoch")[0]) > OF_THE_QUORUM
        assert ours.complaints() == []
    wait_until(lambda: holder(zk) in cluster_3_9.brokers, "a broker took over")
    refusals = topic.refusals()

    topic.lose_leader()

    wait_until(lambda: topic.leader in (1, 2), "the native controller elected a leader")
    assert topic.refusals() == refusals
