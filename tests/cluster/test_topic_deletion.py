"""Real brokers: topics are deleted through dead brokers, moves, fail-overs and changes of ruler, and come again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.demo.clients import KafkaConsumer, KafkaProducer
from controller.lab.cluster import LocalCluster
from tests.cluster.replica import OLD_AND_NEW, Replica, holder, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

pytestmark = OLD_AND_NEW
LONG_S = 120.0


def replica(cluster: LocalCluster, directory: Path, broker_id: int = 901) -> Replica:
    version = cluster.version.rpartition(".")[0]
    return Replica(cluster.zookeeper_connect, directory, broker_id, inter_broker_protocol_version=version)


def create(zk: KazooClient, name: str, assignment: dict[str, list[int]]) -> None:
    """As old tools do, and wait until it is led and its brokers have made their logs."""
    zk.create(f"/brokers/topics/{name}", json.dumps({"version": 1, "partitions": assignment}).encode())
    states = [f"/brokers/topics/{name}/partitions/{number}/state" for number in assignment]
    wait_until(lambda: all(map(zk.exists, states)), f"{name} was led", LONG_S)


def write(cluster: LocalCluster, name: str, *records: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all", max_block_ms=60_000)
    for record in records:
        producer.send(name, record).get(timeout=60)
    producer.close(timeout=10)


def read(cluster: LocalCluster, name: str) -> list[bytes]:
    consumer = KafkaConsumer(
        name, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=8_000
    )
    records = [message.value for message in consumer]
    consumer.close()
    return records


def ask_for_deletion(cluster: LocalCluster, zk: KazooClient, name: str) -> None:
    """As the tool of 2.4 does it without any broker; later ones have no such option, but the znode is the same."""
    if cluster.version.startswith("2.4"):
        told = cluster.tools.run("kafka-topics", "--zookeeper", cluster.zookeeper_connect, "--delete", "--topic", name)
        assert "is marked for deletion" in told.output, told.output
    else:
        zk.create(f"/admin/delete_topics/{name}")


def on_disk(cluster: LocalCluster, name: str, *brokers: int) -> list[str]:
    """The folders of a topic that these brokers, or all, have."""
    found = [cluster.brokers[broker].replicas for broker in brokers or cluster.brokers]
    return sorted(folder for folders in found for folder in folders if folder.rpartition("-")[0] == name)


def left_of(zk: KazooClient, name: str) -> list[str]:
    """What ZooKeeper still has of a topic."""
    parents = (
        "/brokers/topics",
        "/config/topics",
        "/admin/delete_topics",
        "/kafka_zk_controller/replica_deletions",
    )
    return [parent for parent in parents if zk.exists(f"{parent}/{name}")]


def await_gone(cluster: LocalCluster, zk: KazooClient, name: str) -> None:
    """Nothing of the topic is left anywhere."""
    wait_until(lambda: not left_of(zk, name), f"ZooKeeper had nothing of {name}", LONG_S)
    assert on_disk(cluster, name) == []


@pytest.mark.timeout(400)
def test_a_topic_that_moves_is_deleted_through_a_dead_broker_and_a_killed_controller_and_can_be_created_again(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    name = f"deleted-{cluster.version}"
    with replica(cluster, tmp_path, 901) as first:
        first.await_phase("active")
        with replica(cluster, tmp_path, 902) as second:
            second.await_phase("standby")
            create(zk, name, {"0": [1, 2], "1": [2, 3], "2": [3, 1]})
            zk.create(f"/config/topics/{name}", b'{"version":1,"config":{"retention.ms":"600000"}}')
            write(cluster, name, *(b"of the first topic" for _ in range(30)))

            path = f"/brokers/topics/{name}"
            cluster.brokers[3].kill()
            at = TopicPartition(TopicName(name), PartitionId(0))
            wanted = PartitionReassignment(at, (BrokerId(3), BrokerId(2)))
            first.ask(AlterReassignments((wanted,)))  # while the registration of broker 3 lives on
            wait_until(lambda: not zk.exists("/brokers/ids/3"), "broker 3 was missed", LONG_S)
            wait_until(lambda: first.measure("moving_partitions") == 1, "the move was under way", LONG_S)

            zk.create(f"{path}/somebody-elses")
            ask_for_deletion(cluster, zk, name)
            wait_until(lambda: not on_disk(cluster, name, 1, 2), "live brokers had deleted it", LONG_S)
            wait_until(lambda: first.measure("topics_ineligible_to_delete") == 1, "it waited", LONG_S)
            assert first.measure("moving_partitions") == 0
            assert zk.exists(path)

            first.process.kill()
            second.await_phase("active", LONG_S)
            wait_until(lambda: second.measure("topics_ineligible_to_delete") == 1, "it still waited", LONG_S)
            assert on_disk(cluster, name, 3)

            cluster.brokers[3].restart()
            await_gone(cluster, zk, name)
            wait_until(lambda: second.measure("topics_to_delete") == 0, "nothing was to be deleted", LONG_S)

            create(zk, name, {"0": [3, 2]})
            write(cluster, name, b"of the second topic")
            assert read(cluster, name) == [b"of the second topic"]
            assert on_disk(cluster, name) == [f"{name}-0", f"{name}-0"]


@pytest.mark.timeout(400)
def test_what_a_native_controller_left_half_deleted_we_finish_and_the_reverse(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    ours, natives = f"ours-to-finish-{cluster.version}", f"natives-to-finish-{cluster.version}"
    for name in (ours, natives):
        create(zk, name, {"0": [1, 3], "1": [3, 2]})
        write(cluster, name, *(b"record" for _ in range(20)))
    wait_until(lambda: len(on_disk(cluster, ours)) == 4 == len(on_disk(cluster, natives)), "all had logs", LONG_S)

    cluster.brokers[3].kill()
    wait_until(lambda: not zk.exists("/brokers/ids/3"), "broker 3 was missed", LONG_S)
    # A native controller begins no deletion that it finds at its election while a replica is offline.
    wait_until(lambda: holder(zk) in (1, 2), "another broker ruled, if broker 3 had", LONG_S)
    create(zk, f"{ours}-shows-that-it-works", {"0": [1, 2]})
    ask_for_deletion(cluster, zk, ours)
    wait_until(lambda: not on_disk(cluster, ours, 1, 2), "Kafka's controller had begun", LONG_S)
    with replica(cluster, tmp_path) as leader:
        leader.await_phase("active")
        cluster.brokers[3].restart()
        await_gone(cluster, zk, ours)

        cluster.brokers[3].kill()
        wait_until(lambda: not zk.exists("/brokers/ids/3"), "broker 3 was missed", LONG_S)
        ask_for_deletion(cluster, zk, natives)
        wait_until(lambda: not on_disk(cluster, natives, 1, 2), "ours had begun", LONG_S)

    cluster.brokers[3].restart()
    await_gone(cluster, zk, natives)
