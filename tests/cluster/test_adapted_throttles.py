"""Followers that cannot keep up beside a move halve the rate at which real brokers copy it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import LogEndsDescribed
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.demo.traffic import Traffic
from controller.demo.znodes import Znodes
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.runtime import journal
from tests.cluster.replica import Replica, content, wait_until
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(400)]  # over a minute of copying each

RATE = "follower.replication.throttled.rate"
ASKED, LEAST = 2_000_000, 200_000
BYTES = 90_000_000
RECORDS = 100
SETTINGS = {
    "inter_broker_protocol_version": "auto",
    "reassignment_moves_throttle": ASKED,
    "reassignment_moves_throttle_min": LEAST,
}


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Three brokers that take a follower out of the ISR after so many milliseconds, long before a session expires."""
    version, lag_ms = request.param
    brokers = {"replica.lag.time.max.ms": lag_ms, "zookeeper.session.timeout.ms": 30_000}
    try:
        cluster = LocalCluster(ClusterSettings(version=version, broker_ids=(1, 2, 3), overrides=brokers))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


class Move:
    """A throttled move from broker 1 to broker 2; broker 3 follows broker 1 in another topic."""

    def __init__(self, cluster: LocalCluster, zk: KazooClient, replica: Replica) -> None:
        self._zk = zk
        self.replica = replica
        self.moved, self.beside = f"moved-{time.monotonic_ns()}", f"beside-{time.monotonic_ns()}"
        self.followed = TopicPartition(TopicName(self.beside), PartitionId(0))
        with Znodes(cluster.zookeeper_connect) as znodes:
            znodes.create_topic(self.moved, {0: (1,)})
            znodes.create_topic(self.beside, {0: (1, 3)})
            names = (self.moved, self.beside)
            wait_until(lambda: all(p.state for name in names for p in znodes.partitions(name)), "all are led")
        Traffic(cluster.bootstrap_servers, self.moved, 1).fill({0: BYTES})

    def ask(self, target: Replicas | None) -> None:
        """Move, or cancel."""
        at = TopicPartition(TopicName(self.moved), PartitionId(0))
        answered = self.replica.ask(AlterReassignments((PartitionReassignment(at, target),)))
        assert [r.error for r in answered.results] == [ErrorCode.NONE]

    def rate(self) -> int | None:
        """What broker 2 may copy a second."""
        found = content(self._zk, "/config/brokers/2").get("config", {}).get(RATE)
        return None if found is None else int(found)

    def is_over(self) -> bool:
        """Whether nothing is moved any more."""
        return not content(self._zk, f"/brokers/topics/{self.moved}").get("adding_replicas")


@contextmanager
def moving(cluster: LocalCluster, zk: KazooClient, directory: Path, **settings: object) -> Iterator[Move]:
    """A move that copies at the rate asked for; in the end nothing of its throttle is left."""
    with Replica(cluster.zookeeper_connect, directory, 901, **SETTINGS, **settings) as replica:
        replica.await_phase("active", 120.0)
        move = Move(cluster, zk, replica)
        move.ask((BrokerId(2),))
        assert move.rate() == ASKED
        yield move
        wait_until(move.is_over, "it was over", 120.0)
        wait_until(lambda: move.rate() is None, "the rate was as before")


@pytest.mark.parametrize("cluster", [("3.9.1", 3_000)], indirect=True, ids=["3.9.1"])
def test_a_follower_that_leaves_the_isr_halves_the_rate_until_it_is_back(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    with moving(cluster, zk, tmp_path) as move:
        cluster.brokers[3].process.signal(signal.SIGSTOP)
        try:
            Traffic(cluster.bootstrap_servers, move.beside, 1).fill({0: 1_000_000})
            wait_until(lambda: move.rate() == ASKED // 2, "the rate was halved", 30.0)
            assert move.replica.measure("reassignment_throttle_halvings_total") == 1
        finally:
            cluster.brokers[3].process.signal(signal.SIGCONT)
        wait_until(lambda: move.rate() == ASKED, "the rate was as asked for again", 90.0)
        assert move.replica.measure("reassignment_throttle_bytes_per_second", broker="2") == ASKED


@pytest.mark.parametrize("cluster", [("2.4.1", 30_000), ("3.9.1", 30_000)], indirect=True, ids=["2.4.1", "3.9.1"])
def test_leaders_and_followers_say_where_their_logs_end_and_what_keeps_up_is_no_sign(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    directory = tmp_path / "journal"

    def told(broker: int) -> set[int | None]:
        turns = (entry for entry in journal.read(journal.files(directory)) if isinstance(entry, journal.Turn))
        heard = (event for turn in turns for event in turn.events if isinstance(event, LogEndsDescribed))
        of_broker = [event for event in heard if event.broker == broker]
        assert [event.error for event in of_broker if event.error is not None] == []
        return {event.ends.get(move.followed) for event in of_broker}

    with moving(cluster, zk, tmp_path, journal_dir=directory) as move:
        Traffic(cluster.bootstrap_servers, move.beside, 1).fill({0: 100_000}, record_bytes=1_000)
        wait_until(lambda: RECORDS in told(1), "the leader said it", 60.0)
        wait_until(lambda: RECORDS in told(3), "the follower said it", 60.0)
        assert move.rate() == ASKED
        assert move.replica.measure("reassignment_throttle_halvings_total") == 0
        move.ask(None)
