"""A migration to a real KRaft quorum, forth to dual write and back, beside replicas of this controller.

`make nightly` runs it. docs/kraft.md describes what it walks through.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.kraft_quorum import NODE_ID, Quorum
from tests.cluster.replica import Replica, content, create_topic, holder, wait_until
from tests.cluster.test_migration_check import check

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]
PROTOCOLS = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
LONG_S = 120.0


@pytest.fixture(params=["3.9.2", "3.6.2"])
def migrating(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """ZooKeeper and two brokers."""
    settings = ClusterSettings(version=request.param, broker_ids=(1, 2))
    try:
        cluster = LocalCluster(settings)
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


def leader(zk: KazooClient, state: str) -> int:
    """The leader of a partition."""
    return int(content(zk, state).get("leader", -1))


def restart(cluster: LocalCluster, properties: Mapping[str, object]) -> None:
    """Restart the brokers one by one with other properties; those without a value go."""
    for broker in cluster.brokers.values():
        broker.stop()
        changed = {**broker.properties, **properties}
        broker.properties = {key: value for key, value in changed.items() if value is not None}
        broker.start(LONG_S)


class Walk:
    """One cluster on its way to KRaft and back, with one replica of this controller."""

    def __init__(self, cluster: LocalCluster, zk: KazooClient, ours: Replica, directory: Path) -> None:
        self.cluster, self.zk, self.ours = cluster, zk, ours
        self._began = time.monotonic()
        self.state = create_topic(zk, "before")
        self.quorum = Quorum(cluster.version, cluster.zookeeper_connect, zk, directory / "quorum")
        self.enabled = {**self.quorum.settings, **PROTOCOLS}
        self.epoch = 0

    def say(self, what: str) -> None:
        """Note how long it took; shown where the test fails, or with -s."""
        print(f"{time.monotonic() - self._began:6.1f} s  {what}")  # noqa: T201 - the log of the walk

    def sees(self, phase: str) -> None:
        """Wait until the replica names this phase of the migration."""
        wait_until(lambda: self.ours.leader().get("migration") == phase, f"it saw {phase}", LONG_S)

    def goes_forth(self) -> None:
        """A quorum of many elections waits; the brokers join it one by one, and the replica makes way."""
        self.quorum.raise_epoch(8)
        self.sees("waiting")
        assert (self.ours.phase, holder(self.zk)) == ("active", 901)
        self.say("the quorum waits, and this controller leads")

        restart(self.cluster, self.enabled)
        wait_until(lambda: holder(self.zk) == NODE_ID, "KRaft led", LONG_S)
        assert not self.zk.exists("/brokers/ids/901")
        terms = [record for record in self.ours.log() if record["event"].endswith("→ active")]
        assert len(terms) == 1, "while the last broker restarted, it made way too early and claimed again"
        wait_until(lambda: content(self.zk, "/migration")["kraft_metadata_offset"] > 0, "all was copied", LONG_S)
        self.sees("dual write")
        assert (self.ours.process.is_alive, self.ours.leader()["is_ready"]) == (True, False)
        self.say("KRaft leads: dual write")

    def is_checked(self) -> None:
        """The check says where the cluster stands, and that it is too early to finalize."""
        code, found = check(self.cluster)

        assert (code, found["finalizing"]["result"]) == (1, "stop")
        assert found["phase"]["text"].startswith("dual write")
        assert found["controller-epochs"]["result"] == "warning"

    def is_changed_by_kraft(self) -> None:
        """KRaft writes its own epoch into a state, which is above that of ZooKeeper."""
        self.epoch = int(content(self.zk, "/controller")["kraftControllerEpoch"])
        assert self.epoch > int(self.zk.get("/controller_epoch")[0]), "KAFKA-20488 takes a quorum of many elections"
        self.cluster.brokers[leader(self.zk, self.state)].restart()
        wait_until(lambda: content(self.zk, self.state)["controller_epoch"] == self.epoch, "KRaft wrote", LONG_S)
        self.say(f"KRaft has written its epoch {self.epoch} into a state")

    def goes_back(self) -> None:
        """As Kafka's procedure has it: the quorum is gone, two znodes are deleted, and brokers lose the settings."""
        self.zk.delete("/controller")
        self.zk.delete("/migration")
        wait_until(lambda: self.ours.phase == "active", "it came back", LONG_S)
        assert int(self.zk.get("/controller_epoch")[0]) > self.epoch
        self.say("rolled back, and led by this controller")
        restart(self.cluster, dict.fromkeys(self.enabled))
        create_topic(self.zk, "after")
        assert self.ours.leader()["migration"] == "none"
        self.say("the brokers are in ZooKeeper mode again")

    def is_elected_by_a_native_controller(self) -> None:
        """Where KRaft wrote, too."""
        wait_until(lambda: holder(self.zk) in self.cluster.brokers, "a native controller led")
        wait_until(lambda: len(content(self.zk, self.state)["isr"]) > 1, "a second replica was in sync", LONG_S)
        died = leader(self.zk, self.state)
        self.cluster.brokers[died].kill()
        wait_until(lambda: leader(self.zk, self.state) not in (died, -1), "it elected another leader", LONG_S)
        assert content(self.zk, self.state)["controller_epoch"] > self.epoch
        self.say("a native controller elects where KRaft wrote")


def test_forth_to_dual_write_and_back(migrating: LocalCluster, tmp_path: Path) -> None:
    connect = migrating.zookeeper_connect
    with zookeeper_client(connect) as zk:
        with Replica(connect, tmp_path, 901) as ours:
            ours.await_phase("active")
            walk = Walk(migrating, zk, ours, tmp_path)
            with walk.quorum:
                walk.goes_forth()
                walk.is_checked()
                walk.is_changed_by_kraft()
            walk.goes_back()
        walk.is_elected_by_a_native_controller()
