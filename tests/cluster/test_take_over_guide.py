"""docs/take-over.md, walked on real brokers: its own commands, and what it says that they show."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.demo.traffic import Traffic
from controller.demo.znodes import Znodes
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.ports import free_ports
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import content, holder, wait_until
from tests.equipment.guide import Guide, Host

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]
PAGE = Path(__file__).parents[2] / "docs" / "take-over.md"
OBSERVE, MOVE, STAND_BY, LEAD = "1. Observe", "2. Move replicas", "3. Stand by", "4. Lead"
OURS = "/kafka_zk_controller"
SLOWLY = {"50000000": "1000"}


@pytest.fixture(params=["2.8.2", "3.9.2"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """ZooKeeper below a chroot, three brokers, and a topic with records."""
    settings = ClusterSettings(version=request.param, chroot="/kafka")
    try:
        cluster = LocalCluster(settings)
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        with Znodes(cluster.zookeeper_connect) as znodes:
            znodes.create_topic("orders", {0: (1, 2), 1: (2, 3)})
            wait_until(lambda: all(p.state for p in znodes.partitions("orders")), "leaders of orders")
        Traffic(cluster.bootstrap_servers, "orders", 2).fill({0: 3_000_000, 1: 3_000_000})
        yield cluster


def host(cluster: LocalCluster, directory: Path, **more: str) -> Host:
    """A host of the guide, with what stands on this machine for the names in the page."""
    port, http_port = free_ports(2)
    names = {
        "zk1:2181/kafka": cluster.zookeeper_connect,
        "kafka-1:9092": cluster.brokers[1].address,
        "controller-1.example": "127.0.0.1",
        "controller-2.example": "127.0.0.1",
        "9095": str(port),
        "9640": str(http_port),
        **more,
    }
    return Host(directory, names, {"KAFKA_ZK_CONTROLLER_HTTP_PORT": str(http_port)})


class Walk:
    """The guide, on a cluster."""

    def __init__(self, guide: Guide, cluster: LocalCluster, zk: KazooClient, first: Host, second: Host) -> None:
        self.guide, self.cluster, self.zk, self.first, self.second = guide, cluster, zk, first, second

    def does(self, step: str, *labels: str) -> None:
        """Run the blocks of a step."""
        for label in labels:
            self.first.walk(self.guide.take(step, label))

    def observes(self) -> None:
        """Nothing is left behind, and the native controller has not noticed."""
        before = self.zk.get("/controller")
        self.does(OBSERVE, "Do", "Proof", "Back")
        assert self.zk.get("/controller") == before
        assert not self.zk.exists(OURS)

    def moves(self, slowly: Host) -> None:
        """First so slowly that there is time to cancel it, then to its end, and back."""
        slowly.walk(self.guide.take(MOVE, "Do"))
        assert content(self.zk, "/brokers/topics/orders")["adding_replicas"] == {"0": [3]}
        slowly.walk(self.guide.take(MOVE, "Back, while it moves"))
        assert content(self.zk, "/brokers/topics/orders")["partitions"]["0"] == [1, 2]
        self.does(MOVE, "Do", "Proof")
        assert content(self.zk, "/brokers/topics/orders")["partitions"]["0"] == [1, 3]
        self.does(MOVE, "Back, when it has moved")
        assert content(self.zk, "/brokers/topics/orders")["partitions"]["0"] == [1, 2]

    def stands_by(self) -> None:
        """It leaves the native controller alone, and leads when no other is there to claim."""
        before = self.zk.get("/controller")
        self.does(STAND_BY, "Do", "Proof")
        assert self.zk.get("/controller") == before
        brokers = self.cluster.brokers.values()
        for broker in brokers:  # so that none is faster
            broker.process.signal(signal.SIGSTOP)
        try:
            self.zk.delete("/controller")
            wait_until(lambda: holder(self.zk) == 901, "it led")
        finally:
            for broker in brokers:
                broker.process.signal(signal.SIGCONT)
        self.does(STAND_BY, "Proof, once it leads", "Back")
        assert holder(self.zk) in self.cluster.brokers

    def leads(self) -> None:
        """It takes over, a second replica stands by and leads in turn; then both go, in both ways."""
        self.does(LEAD, "Do", "Proof")
        assert content(self.zk, "/brokers/topics/orders")["partitions"]["0"] == [1, 3]
        self.second.walk(self.guide.take(LEAD, "On a second host"))
        assert holder(self.zk) == 902
        self.does(LEAD, "Back, while the replicas run")
        for_good = self.guide.take(LEAD, "Back, for good, on each host")
        self.first.walk(for_good)
        self.second.walk(for_good)
        self.does(LEAD, "Proof of the way back")


def test_the_guide_is_walked_to_its_end_and_back(cluster: LocalCluster, tmp_path: Path) -> None:
    guide = Guide(PAGE)
    with ExitStack() as stack:
        zk = stack.enter_context(zookeeper_client(cluster.zookeeper_connect))
        first, second = (stack.enter_context(host(cluster, tmp_path / name)) for name in ("first", "second"))
        slowly = stack.enter_context(host(cluster, tmp_path / "slowly", **SLOWLY))
        walk = Walk(guide, cluster, zk, first, second)
        walk.observes()
        walk.moves(slowly)
        walk.stands_by()
        walk.leads()
        assert guide.left == set(), "every command of the page was run"
        topic = content(zk, "/brokers/topics/orders")
        assert json.dumps(topic["partitions"]) == '{"0": [1, 3], "1": [2, 3]}'
