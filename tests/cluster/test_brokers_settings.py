"""Settings that all brokers share are in force at a controller that does not set them itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.demo.clients import KafkaConsumer, KafkaProducer
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, wait_until

OWN_ID = 901
KEPT = [b"one", b"two", b"three"]


@pytest.fixture
def careful() -> Iterator[LocalCluster]:
    """Two brokers 3.9.1 that forbid deletions of topics, and give new topics two replicas."""
    overrides = {"delete.topic.enable": "false", "default.replication.factor": 2, "num.partitions": 3}
    try:
        cluster = LocalCluster(ClusterSettings(version="3.9.1", broker_ids=(1, 2), overrides=overrides))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


def write(cluster: LocalCluster, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all", max_block_ms=60_000)
    for record in KEPT:
        producer.send(topic, record, partition=0).get(timeout=60)
    producer.close(timeout=10)


def read(cluster: LocalCluster, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=8_000
    )
    records = [message.value for message in consumer]
    consumer.close()
    return records


def topics(cluster: LocalCluster, *arguments: str) -> str:
    """The output of `kafka-topics`."""
    bootstrap = ("--bootstrap-server", cluster.bootstrap_servers)
    return str(cluster.tools.run("kafka-topics", *bootstrap, *arguments).output)


@pytest.mark.timeout(420)
def test_topics_that_no_broker_lets_be_deleted_survive_every_request(careful: LocalCluster, tmp_path: Path) -> None:
    cluster, auto = careful, {"inter.broker.protocol.version": "auto"}
    with zookeeper_client(cluster.zookeeper_connect) as zk:
        topics(cluster, "--create", "--topic", "kept", "--partitions", "1")
        write(cluster, "kept")
        natively = topics(cluster, "--delete", "--topic", "kept")
        assert "Topic deletion is disabled" in natively, natively

        with Replica(cluster.zookeeper_connect, tmp_path, OWN_ID, **auto) as replica:
            replica.await_phase("active")
            (said,) = [r for r in replica.log() if r["event"] == "settings taken from the brokers"]
            assert (said["delete.topic.enable"], said["default.replication.factor"]) == ("false", "2")

            assert "Topic deletion is disabled" in topics(cluster, "--delete", "--topic", "kept")
            zk.create("/admin/delete_topics/kept")
            wait_until(lambda: not zk.exists("/admin/delete_topics/kept"), "the request was dropped")
            topics(cluster, "--create", "--topic", "like-the-brokers")
            assert "PartitionCount: 3\tReplicationFactor: 2" in topics(
                cluster, "--describe", "--topic", "like-the-brokers"
            )

            assert read(cluster, "kept") == KEPT
            assert all("kept-0" in broker.replicas for broker in cluster.brokers.values())


@pytest.mark.timeout(420)
def test_a_roll_of_the_brokers_is_followed_while_the_process_leads(careful: LocalCluster, tmp_path: Path) -> None:
    cluster, auto = careful, {"inter.broker.protocol.version": "auto"}

    def is_refused() -> bool:
        """The tool says that there is no such topic if it asks a broker that has just started."""
        return "Topic deletion is disabled" in topics(cluster, "--delete", "--topic", "goes")

    with (
        zookeeper_client(cluster.zookeeper_connect) as zk,
        Replica(cluster.zookeeper_connect, tmp_path, OWN_ID, **auto) as replica,
    ):
        replica.await_phase("active")
        topics(cluster, "--create", "--topic", "goes", "--partitions", "1")
        for number in (1, 2):
            wait_until(is_refused, "deletion was refused by brokers that know the topic")
            broker = cluster.brokers[number]
            broker.become("3.9.1", delete_topic_enable="true")
            broker.stop(60.0)
            broker.start()

        wait_until(lambda: len(renewals(replica)) == 1, "another term had begun", 60.0)
        replica.await_phase("active")
        topics(cluster, "--delete", "--topic", "goes")
        wait_until(lambda: not zk.exists("/brokers/topics/goes"), "the topic was deleted", 60.0)


def renewals(replica: Replica) -> list[object]:
    return [r for r in replica.log() if "→ renewing" in str(r["event"])]
