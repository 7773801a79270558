"""What do real brokers do by themselves under our controller: create topics, leave, crash and return?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from controller.demo.clients import KafkaProducer
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.kafka_broker import KafkaBroker
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import OLD_AND_NEW, Replica, content, wait_until
from tests.cluster.topic_creation import ask_about

pytestmark = OLD_AND_NEW
BROKERS = {1, 2, 3}
PERMITTED = ("Controlled shutdown request returned successfully", "Controlled shutdown succeeded")


@pytest.fixture
def leader(cluster: LocalCluster, tmp_path: Path) -> Iterator[Replica]:
    version = "3.9" if cluster.version.startswith("3.9") else "2.4"
    with Replica(cluster.zookeeper_connect, tmp_path, inter_broker_protocol_version=version) as replica:
        replica.await_phase("active")
        yield replica


def topic(zk: KazooClient, name: str) -> dict[str, list[int]]:
    """The replicas of each partition."""
    partitions: dict[str, list[int]] = json.loads(zk.get(f"/brokers/topics/{name}")[0])["partitions"]
    return partitions


def state(zk: KazooClient, name: str, partition: int = 0) -> dict[str, Any]:
    """The state of one partition; empty if there is none yet."""
    return content(zk, f"/brokers/topics/{name}/partitions/{partition}/state")


def create(zk: KazooClient, name: str, *replicas: int) -> None:
    """Create a topic like old tools, and wait for a leader."""
    zk.create(f"/brokers/topics/{name}", json.dumps({"version": 1, "partitions": {"0": replicas}}).encode())
    wait_until(lambda: state(zk, name).get("leader") == replicas[0], f"{name} was led")


def ask_until_created(broker: KafkaBroker, name: str, zk: KazooClient) -> None:
    """Ask until the topic exists: brokers refuse to create one until they know enough others."""

    def is_created() -> bool:
        ask_about(broker, name)
        return zk.exists(f"/brokers/topics/{name}") is not None

    wait_until(is_created, f"{name} was created")


@pytest.fixture
def creative(cluster: LocalCluster) -> Iterator[LocalCluster]:
    """A separate cluster, whose brokers create topics by themselves."""
    overrides = {"auto.create.topics.enable": "true", "num.partitions": 4, "default.replication.factor": 2}
    with LocalCluster(ClusterSettings(version=cluster.version, overrides=overrides)) as made:
        yield made


def test_topics_that_brokers_create_themselves_never_stay_on_the_controller(
    creative: LocalCluster, tmp_path: Path
) -> None:
    names = [f"created-by-brokers-{number}" for number in range(6)]
    version = "3.9" if creative.version.startswith("3.9") else "2.4"
    with (
        zookeeper_client(creative.zookeeper_connect) as zk,
        Replica(creative.zookeeper_connect, tmp_path, inter_broker_protocol_version=version) as leader,
    ):
        leader.await_phase("active")
        producer = KafkaProducer(bootstrap_servers=creative.bootstrap_servers, acks="all", max_block_ms=30_000)
        for name in names:
            ask_until_created(creative.brokers[1], name, zk)
            assert producer.send(name, b"a record").get(timeout=30).topic == name
        producer.close(timeout=5)

        placed = [replicas for name in names for replicas in topic(zk, name).values()]
        wait_until(lambda: leader.measure("offline_partitions") == 0, "every partition was led")
        rewritten = [name for name in names if zk.exists(f"/brokers/topics/{name}").version > 0]

    assert len(placed) == 4 * len(names)
    assert all(set(replicas) <= BROKERS and len(replicas) == 2 for replicas in placed)
    assert rewritten, "brokers placed no replica on the controller: the test has shown nothing"


def test_a_topic_written_onto_the_controllers_id_gets_a_real_broker_before_its_first_election(
    leader: Replica, zk: KazooClient, cluster: LocalCluster
) -> None:
    name = f"on-the-controller-{cluster.version}"
    written = {"version": 1, "partitions": {"0": [leader.broker_id, 1], "1": [leader.broker_id]}}
    zk.create(f"/brokers/topics/{name}", json.dumps(written).encode())

    wait_until(lambda: all(state(zk, name, p) for p in (0, 1)), "both partitions were led")
    assert {len(replicas) for replicas in topic(zk, name).values()} == {1, 2}
    assert all(set(replicas) <= BROKERS for replicas in topic(zk, name).values())
    assert state(zk, name)["leader_epoch"] == 0


def test_a_broker_that_shuts_down_hands_its_partitions_over_first(
    cluster: LocalCluster, leader: Replica, zk: KazooClient
) -> None:
    name = f"handed-over-{cluster.version}"
    create(zk, name, 2, 3)

    cluster.brokers[2].stop()
    after, log = state(zk, name), cluster.brokers[2].process.log_file.read_text()
    cluster.brokers[2].start()

    assert (after["leader"], after["isr"]) == (3, [3])
    assert any(text in log for text in PERMITTED), log[-3000:]
    wait_until(lambda: sorted(state(zk, name)["isr"]) == [2, 3], "broker 2 was in sync again", 60)
    assert leader.phase == "active"


def test_a_broker_that_is_killed_loses_its_partitions_and_catches_up_when_it_is_back(
    cluster: LocalCluster, leader: Replica, zk: KazooClient
) -> None:
    name = f"survived-{cluster.version}"
    create(zk, name, 1, 2)

    cluster.brokers[1].kill()
    wait_until(lambda: state(zk, name)["leader"] == 2, "broker 2 led", 60)
    cluster.brokers[1].restart()

    wait_until(lambda: sorted(state(zk, name)["isr"]) == [1, 2], "broker 1 was in sync again", 60)
    wait_until(lambda: leader.measure("offline_partitions") == 0, "no partition was offline", 60)
