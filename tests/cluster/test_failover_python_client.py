"""Our controller's own listener serves a client that shares no code with Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.demo.clients import KafkaAdminClient, TopicPartition
from controller.demo.move import next_plan
from controller.demo.waiting import wait_for
from controller.lab.cluster import LocalCluster
from tests.cluster.moves import LedCluster, Topic, after_cancelling, led, muted


@contextmanager
def client(rule: LedCluster) -> Iterator[Any]:
    """kafka-python's admin client, which knows only our leader's address."""
    admin = KafkaAdminClient(bootstrap_servers=[rule.leader.address])
    try:
        yield admin
    finally:
        admin.close()


def partitions_of(admin: Any, topic: Topic) -> dict[int, list[int]]:
    """Partition → replicas, according to the node that is asked."""
    (described,) = admin.describe_topics([topic.name])
    return {p["partition_index"]: p["replica_nodes"] for p in described["partitions"]}


def test_kafka_python_describes_the_cluster_and_its_topics(cluster_3_9: LocalCluster, tmp_path: Path) -> None:
    with led(cluster_3_9, tmp_path) as rule:
        topic = rule.topic("python-describes", 2)
        with client(rule) as admin:
            cluster = admin.describe_cluster()
            wait_for(lambda: topic.name in admin.list_topics(), "every node that is asked knowing the topic")
            described = wait_for(lambda: partitions_of(admin, topic) or None, "its partitions")

            assert cluster["controller_id"] == rule.leader.replica_id
            assert {broker["broker_id"] for broker in cluster["brokers"]} == {1, 2, 3, rule.leader.replica_id}
            assert described == {0: [1, 2], 1: [2, 3]}


def test_kafka_python_moves_lists_and_cancels(cluster_3_9: LocalCluster, tmp_path: Path) -> None:
    with led(cluster_3_9, tmp_path) as rule:
        topic = rule.topic("python-moves", 2)
        first, second = (TopicPartition(topic.name, p) for p in (0, 1))
        target = next_plan(tuple(cluster_3_9.brokers), topic.plan)
        with client(rule) as admin:
            nothing = admin.list_partition_reassignments()
            accepted = admin.alter_partition_reassignments({first: target[0], second: target[1]})
            topic.plan = target
            topic.await_arrival()
            refused = admin.alter_partition_reassignments({first: (77,), second: None})

            assert nothing == {}
            assert accepted == {first: None, second: None}
            assert refused[first].__name__ == "InvalidReplicationAssignmentError"
            assert refused[second].__name__ == "NoReassignmentInProgressError"


def test_kafka_python_sees_and_cancels_a_move_that_cannot_end(cluster_3_9: LocalCluster, tmp_path: Path) -> None:
    with led(cluster_3_9, tmp_path) as rule:
        topic = rule.topic("python-cancels", 1)
        only = TopicPartition(topic.name, 0)
        broker = cluster_3_9.brokers[3]
        with client(rule) as admin:
            nothing = admin.list_partition_reassignments()  # who the controller is, it asks any broker, once
            with muted(broker):
                accepted = admin.alter_partition_reassignments({only: (3, 2)})
                listed = admin.list_partition_reassignments()
                cancelled = admin.alter_partition_reassignments({only: None})

            assert nothing == {}
            assert accepted == {only: None}
            assert listed == {only: {"replicas": [3, 2, 1], "adding_replicas": [3], "removing_replicas": [1]}}
            assert cancelled == {only: None}
        topic.plan = after_cancelling(topic.plan)
        topic.await_arrival()
        topic.await_exact_disks()
