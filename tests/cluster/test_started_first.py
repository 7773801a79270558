"""On a fresh ZooKeeper the controller starts before any broker, and old brokers take it for a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, wait_until

OFFSETS = "/brokers/topics/__consumer_offsets"
OWN_ID = 901


@pytest.fixture
def stopped_2_4() -> Iterator[LocalCluster]:
    """A fresh ZooKeeper, and two brokers of Kafka 2.4.1 that have not been started."""
    overrides = {"offsets.topic.replication.factor": 2, "offsets.topic.num.partitions": 3}
    try:
        cluster = LocalCluster(ClusterSettings(version="2.4.1", broker_ids=(1, 2), overrides=overrides))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    try:
        cluster.zookeeper.start()
        yield cluster
    finally:
        cluster.kill()


def replicas_of_offsets(zk: KazooClient) -> list[list[int]]:
    """The replicas in the topic's znode, without order; empty before it exists."""
    if not zk.exists(OFFSETS):
        return []
    return [sorted(replicas) for replicas in json.loads(zk.get(OFFSETS)[0])["partitions"].values()]


@pytest.mark.timeout(420)
def test_brokers_of_2_4_come_up_after_it_and_get_all_the_replicas_they_asked_for(
    stopped_2_4: LocalCluster, tmp_path: Path
) -> None:
    cluster = stopped_2_4
    with (
        zookeeper_client(cluster.zookeeper_connect) as zk,
        Replica(cluster.zookeeper_connect, tmp_path, OWN_ID, inter_broker_protocol_version="2.4") as replica,
    ):
        replica.await_phase("active")
        cluster.start_brokers([1])

        # A request for a group's coordinator makes the broker create the topic of the groups.
        consume = ("--bootstrap-server", cluster.brokers[1].address, "--topic", "none", "--timeout-ms", "30000")
        cluster.tools.run("kafka-console-consumer", *consume)
        wait_until(lambda: replicas_of_offsets(zk), "the groups' topic was there", 60.0)
        states = [f"{OFFSETS}/partitions/{number}/state" for number in range(3)]
        wait_until(lambda: all(zk.exists(path) for path in states), "it was led", 60.0)
        assert replicas_of_offsets(zk) == [[1, OWN_ID]] * 3
        assert replica.measure("replicas_without_broker") == 3

        cluster.start_brokers([2])

        wait_until(lambda: replicas_of_offsets(zk) == [[1, 2]] * 3, "the second broker has all replicas", 60.0)
