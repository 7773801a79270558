"""`kafka-zk-controller release`: a native controller leads until it is undone, however many of our replicas run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from controller.lab.cluster import LocalCluster
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, command, create_topic, holder, wait_until

RELEASED = "/kafka_zk_controller/released"


@pytest.fixture
def released(zk: KazooClient) -> Iterator[None]:
    """Undo the release at the end."""
    yield
    if zk.exists(RELEASED):
        zk.delete(RELEASED)


def release(*options: str) -> tuple[int, dict[str, Any], str]:
    """Run the command; return its exit code, output and errors."""
    return command("release", *options)


@pytest.mark.usefixtures("released")
def test_a_released_cluster_is_ruled_by_a_broker_until_it_is_taken_back(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    where = ("--zookeeper", cluster_3_9.zookeeper_connect)
    with (
        Replica(cluster_3_9.zookeeper_connect, tmp_path, 901) as first,
        Replica(cluster_3_9.zookeeper_connect, tmp_path, 902) as second,
    ):
        wait_until(lambda: "active" in (first.phase, second.phase), "one of them led")

        code, report, complaints = release(*where, "--reason", "the hosts are upgraded")

        assert (code, report["is_done"], report["is_ours"]) == (0, True, False), complaints
        assert report["controller"] in cluster_3_9.brokers
        assert report["released"]["reason"] == "the hosts are upgraded"
        for replica in (first, second):
            replica.await_phase("standby")
            assert not zk.exists(f"/brokers/ids/{replica.broker_id}")
            assert replica.complaints() == [c for c in replica.complaints() if "released" in c["event"]]
        create_topic(zk, f"released-{time.monotonic_ns()}")
        time.sleep(1)
        assert holder(zk) in cluster_3_9.brokers
        assert (first.phase, second.phase) == ("standby", "standby")
        with Replica(cluster_3_9.zookeeper_connect, tmp_path, 903) as newcomer:
            newcomer.await_phase("standby")
            assert newcomer.leader()["reason"] == "the cluster is released to native controllers"
            assert release(*where)[1]["controller"] == holder(zk), "asked again it says how things stand"

        code, report, complaints = release(*where, "--undo")

        assert (code, report["is_done"], report["is_ours"]) == (0, True, True), complaints
        assert report["controller"] in (901, 902)
        create_topic(zk, f"taken-back-{time.monotonic_ns()}")


def test_a_cluster_without_brokers_is_not_released_to_nobody(cluster_3_9: LocalCluster) -> None:
    connect = f"{cluster_3_9.zookeeper_connect}/no-cluster-here"
    code, _, complaints = release("--zookeeper", connect)

    assert code == 1
    assert complaints.startswith(
        f"error: no Kafka cluster is at {connect}: the chroot does not exist; a cluster is at /"
    )

    with zookeeper_client(cluster_3_9.zookeeper_connect) as zookeeper:
        zookeeper.ensure_path("/no-cluster-here/brokers/ids")
        code, _, complaints = release("--zookeeper", connect)
        zookeeper.delete("/no-cluster-here", recursive=True)

    assert code == 1
    assert complaints == "error: no broker is registered that could take over the cluster: start one, or use --force\n"


def test_without_a_zookeeper_it_says_so_and_where_it_looked() -> None:
    assert release()[0] == 2
    code, _, complaints = release("--zookeeper", "127.0.0.1:1", "--timeout", "1")

    assert code == 3
    assert "127.0.0.1:1" in complaints
