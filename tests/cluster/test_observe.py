"""Does `observe` follow a cluster that another controller leads, with a user of ZooKeeper that may only read?

What it sent to ZooKeeper is read in the server's transaction log.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

from controller.lab.errors import LabError
from controller.lab.zookeeper import ZooKeeperServer
from tests.cluster.replica import Replica, wait_until
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, TopicName
from zk_layout.storage.operations import CLOSE_SESSION, CREATE_SESSION, Row
from zk_layout.storage.txnlog import Records, rows_of
from zk_layout.watched import PERSISTENT, SENSITIVE
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim, ControllerEpochAddress
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

CHROOT = "/observed"
OWNER = ("digest", "kafka:secret")
MINE = make_digest_acl("kafka", "secret", all=True)
READERS = make_acl("world", "anyone", read=True)
NATIVE = BrokerId(1)
EPOCH = ControllerEpoch(7)
ORDERS = TopicName("orders")
STILL_S = 3.0


class Cluster:
    """Brokers 1, 2 and 3, one topic, and a native controller, as znodes that only their owner may write."""

    def __init__(self, server: ZooKeeperServer) -> None:
        self.server = server
        self.connect = server.connect + CHROOT
        with_root = KazooClient(server.connect, auth_data=[OWNER])
        with_root.start()
        with_root.create(CHROOT, acl=[MINE, READERS])
        with_root.stop()
        with_root.close()
        self.zk = KazooClient(self.connect, auth_data=[OWNER])
        self.zk.start()
        for path in PERSISTENT:
            self.make(path)
        self.make("/cluster/id", b'{"version":"1","id":"observed-cluster-00000"}')
        self.make(ControllerEpochAddress().path, str(EPOCH).encode())
        claim = ControllerClaim(NATIVE, is_ours=False, timestamp_ms=0)
        self.make(ControllerAddress().path, catalog.encode(claim), ephemeral=True)
        for broker in (1, 2, 3):
            self.register(broker)
        self.assign(Assignment((BrokerId(1), BrokerId(2))), Assignment((BrokerId(2), BrokerId(3))))
        self.make(PartitionsAddress(ORDERS).path)
        for number in (0, 1):
            self.make(PartitionAddress(ORDERS, PartitionId(number)).path)
        self.state(0, 1, (1, 2))
        self.state(1, 2, (2, 3))

    def make(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
        """Create a znode, and its parents, as brokers with `zookeeper.set.acl` do."""
        acl = [MINE] if path.startswith(SENSITIVE) else [MINE, READERS]
        if not self.zk.exists(path):
            self.zk.create(path, data, acl=acl, ephemeral=ephemeral, makepath=True)
        else:
            self.zk.set(path, data)
        parent = path.rpartition("/")[0]
        if parent and not path.startswith(SENSITIVE):
            self.zk.set_acls(parent, [MINE, READERS])

    def register(self, broker: int) -> None:
        found = Registration((Endpoint("PLAINTEXT", "127.0.0.1", 1),))
        self.make(BrokerAddress(BrokerId(broker)).path, catalog.encode(found), ephemeral=True)

    def assign(self, *assignments: Assignment) -> None:
        found = Topic({PartitionId(number): each for number, each in enumerate(assignments)})
        self.make(TopicAddress(ORDERS).path, catalog.encode(found))

    def state(self, partition: int, leader: int, isr: tuple[int, ...], leader_epoch: int = 0) -> None:
        """Write a state, as the native controller and leaders do."""
        found = PartitionState(BrokerId(leader), LeaderEpoch(leader_epoch), EPOCH, tuple(map(BrokerId, isr)))
        self.make(StateAddress(ORDERS, PartitionId(partition)).path, catalog.encode(found))

    def sessions(self) -> dict[int, list[int]]:
        """The kinds of all transactions in the server's log, by session."""
        found: dict[int, list[int]] = {}
        for row in log_of(self.server):
            _, _, session, _, kind, *_ = row
            found.setdefault(session, []).append(kind)
        return found

    def last_zxid(self) -> int:
        """The server's newest transaction."""
        self.zk.exists("/")
        return int(self.zk.last_zxid)

    def close(self) -> None:
        self.zk.delete("/", recursive=True)
        self.zk.stop()
        self.zk.close()


def log_of(server: ZooKeeperServer) -> list[Row]:
    """Everything in the server's transaction logs."""
    rows: list[Row] = []
    for file in sorted((server.data_dir / "version-2").glob("log.*")):
        records = Records(file.name)
        rows += rows_of(records.feed(file.read_bytes()), file.name, records.damage)
    return rows


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """On a server of its own, so that nobody else moves its zxid."""
    try:
        server = ZooKeeperServer(tmp_path / "zookeeper")
    except LabError as error:
        pytest.skip(str(error))
    with server:
        made = Cluster(server)
        try:
            yield made
        finally:
            made.close()


def moves(observer: Replica) -> list[dict[str, Any]]:
    status, text = observer.get("/reassignments")
    assert status == 200, text
    found: list[dict[str, Any]] = json.loads(text)
    return found


def test_a_cluster_is_followed_by_a_user_that_may_only_read_and_nothing_is_written(
    cluster: Cluster, tmp_path: Path
) -> None:
    """It follows elections, ISR changes and a move, shows them, and leaves no trace but the life of a session."""
    before = cluster.sessions()
    with Replica(cluster.connect, tmp_path, command="observe") as observer:
        observer.await_phase("observing", timeout_s=90)
        seen = observer.leader()
        assert (seen["controller"], seen["controller_epoch"], seen["is_leader"]) == (NATIVE, EPOCH, False)
        assert "no broker" in str(seen["obstacles"]).lower(), seen
        wait_until(lambda: observer.measure("partitions") == 2, "both partitions were seen")
        assert observer.measure("is_observing") == 1
        assert observer.measure("under_replicated_partitions") == observer.measure("offline_partitions") == 0

        cluster.zk.delete(BrokerAddress(BrokerId(2)).path)
        wait_until(lambda: observer.measure("offline_partitions") == 1, "partition 1 was seen without a leader")
        wait_until(lambda: observer.measure("live_brokers") == 2, "a broker was seen to be gone")
        wait_until(lambda: observer.measure("zookeeper_transactions_in_flight") > 0, "it would have elected another")
        quiet = cluster.last_zxid()
        time.sleep(STILL_S)
        assert cluster.last_zxid() == quiet, "the zxid moved though nothing but the observer was there"
        cluster.state(1, 3, (3,), leader_epoch=1)
        wait_until(lambda: observer.measure("offline_partitions") == 0, "the native controller's election was seen")
        compared = "compared_decisions_total"
        wait_until(lambda: observer.measure(compared, outcome="same") == 1, "the election was found to be the same")
        cluster.state(0, 1, (1,))
        wait_until(lambda: observer.measure("under_replicated_partitions") == 2, "an ISR change was seen")

        three, one, two = map(BrokerId, (3, 1, 2))
        moving = Assignment((three, one, two), adding=(three,), removing=(two,))
        cluster.assign(moving, Assignment((two, three)))
        wait_until(lambda: observer.measure("moving_partitions") == 1, "a move was seen")
        (move,) = moves(observer)
        assert (move["topic"], move["partition"], move["adding"], move["removing"]) == (ORDERS, 0, [3], [2])

        assert not any("zookeeper_writes" in line and not line.endswith(" 0.0") for line in samples(observer))
        observer.process.stop()
        assert observer.process.exit_code == 0
    own = {session: kinds for session, kinds in cluster.sessions().items() if session not in before}
    assert list(own.values()) == [[CREATE_SESSION, CLOSE_SESSION]], own


def samples(observer: Replica) -> list[str]:
    return [line for line in observer.get("/metrics")[1].splitlines() if not line.startswith("#")]
