"""docs/operations.md, walked on real brokers: a rolling restart without a gap, and ZooKeeper restored from a copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.demo.traffic import Traffic
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.ports import free_ports
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import create_topic, holder
from tests.equipment.guide import Command, Guide, Host

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]
PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
RESTART, RESTORE = "Stopping, restarting, upgrading", "Backing up and restoring ZooKeeper"
LEADS = Command("kafka-zk-controller status --zookeeper zk1:2181/kafka", "/controller: 901, a replica…901…active…")
RELEASE = Command('kafka-zk-controller release --zookeeper zk1:2181/kafka --reason "since the copy"', "Released: …")


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """ZooKeeper below a chroot, and three brokers."""
    try:
        cluster = LocalCluster(ClusterSettings(version="3.9.2", chroot="/kafka"))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


@pytest.fixture
def zk(cluster: LocalCluster) -> Iterator[KazooClient]:
    """A client of its ZooKeeper."""
    with zookeeper_client(cluster.zookeeper_connect) as client:
        yield client


def host(cluster: LocalCluster, directory: Path, number: int) -> Host:
    """The host of a replica, with its configuration."""
    port, http_port = free_ports(2)
    names = {
        "zk1:2181/kafka": cluster.zookeeper_connect,
        "/var/lib/zookeeper": str(cluster.zookeeper.data_dir),
        "9640": str(http_port),
    }
    made = Host(directory, names, {})
    properties = {
        "zookeeper.connect": cluster.zookeeper_connect,
        "zookeeper.session.timeout.ms": 6000,
        "broker.id": number,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "http.port": http_port,
    }
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    (directory / "controller.properties").write_text(text)
    return made


def test_replicas_are_restarted_one_after_the_other_and_one_of_them_always_leads(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    guide = Guide(PAGE)
    again = guide.take(RESTART, "A rolling restart")
    _, start, is_ready = again
    holders: list[int | None] = []
    with ExitStack() as stack:
        hosts = {n: stack.enter_context(host(cluster, tmp_path / str(n), n)) for n in (901, 902, 903)}
        hosts[901].walk([start, LEADS])
        for standby in (902, 903):
            hosts[standby].walk([start, is_ready])

        @zk.DataWatch("/controller")  # type: ignore[untyped-decorator]
        def seen(data: bytes | None, _: object) -> None:
            holders.append(None if data is None else int(json.loads(data)["brokerid"]))

        for standby in (902, 903):
            hosts[standby].walk(again)
        hosts[901].walk(guide.take(RESTART, "Before the leader"))
        hosts[901].walk(again)
        hosts[901].walk(guide.take(RESTART, "At the end"))
        assert holders == [901, 902], "neither was it vacant, nor did a native controller hold it"
        create_topic(zk, "after-the-restart")


def test_zookeeper_is_restored_from_an_older_copy_and_the_cluster_is_as_it_was(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    guide = Guide(PAGE)
    start, leads = guide.take(RESTORE, "Start")
    with host(cluster, tmp_path / "901", 901) as one:
        one.walk([start, leads])
        with zookeeper_client(cluster.zookeeper_connect) as zk:
            create_topic(zk, "before")
            fill(cluster, "before")
            one.walk(guide.take(RESTORE, "Back up"))
            create_topic(zk, "since")
            one.walk([RELEASE])
            assert holder(zk) in cluster.brokers

        one.walk(guide.take(RESTORE, "To restore"))
        for broker in cluster.brokers.values():
            broker.stop()
        cluster.zookeeper.stop()
        one.walk(guide.take(RESTORE, "Put the copy back"))
        cluster.zookeeper.start()
        cluster.start_brokers(cluster.brokers)
        one.walk([start, leads])

        with zookeeper_client(cluster.zookeeper_connect) as zk:  # one that has seen nothing later
            assert sorted(zk.get_children("/brokers/topics")) == ["before"]
            assert not zk.exists("/kafka_zk_controller/released")
            create_topic(zk, "after")
        for topic in ("before", "after"):
            fill(cluster, topic)


def fill(cluster: LocalCluster, topic: str) -> None:
    """Write some records; every replica in sync must have acknowledged them."""
    Traffic(cluster.bootstrap_servers, topic, 1).fill({0: 1000})
