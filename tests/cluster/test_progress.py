"""Real brokers report a throttled move's progress: predictions come true, and the figures survive a fail-over."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from msgspec import Struct

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, ListReassignments, PartitionReassignment
from controller.demo.traffic import Traffic
from controller.demo.znodes import Znodes
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.reassign.client_properties import ClientSettings
from controller.reassign.cluster import Cluster, Edge, Move, PartitionState
from controller.reassign.kafka_cluster import KafkaCluster
from controller.reassign.lagging import NONE, lags
from controller.reassign.plans import Replica as KafkaReplica
from tests.cluster.moves import muted
from tests.cluster.replica import Replica, wait_until
from zk_layout.ids import BrokerId, PartitionId, RequestId, TopicName, TopicPartition

STATUSES = "/admin/reassign_partitions_status"
# Followers fetch in small steps, and the quota covers two seconds only: a throttle is smooth at once.
SMOOTH = {
    "log.segment.delete.delay.ms": 1000,
    "replica.fetch.max.bytes": 64 * 1024,
    "replica.fetch.response.max.bytes": 256 * 1024,
    "replication.quota.window.num": 2,
}
BYTES = 20_000_000
BYTES_S = 2_000_000
RECORDS = BYTES // 16_000
RETENTION_MS = 6_000
LEGACY = "/admin/reassign_partitions"


@pytest.fixture(scope="module", params=["3.9.1", pytest.param("2.8.2", marks=pytest.mark.thorough), "2.4.1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Two brokers; replicas move from the first to the second."""
    try:
        cluster = LocalCluster(ClusterSettings(version=request.param, broker_ids=(1, 2), overrides=SMOOTH))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


class Moving:
    """A topic of one partition on broker 1, filled, which must move to broker 2 under a throttle."""

    def __init__(self, cluster: LocalCluster, zk: KazooClient, name: str) -> None:
        self._zookeeper = zk
        self.name = name
        self.at = TopicPartition(TopicName(name), PartitionId(0))
        with Znodes(cluster.zookeeper_connect) as znodes:
            znodes.create_topic(name, {0: (1,)})
            wait_until(lambda: [p.state for p in znodes.partitions(name)] != [None], f"{name} is led")
        Traffic(cluster.bootstrap_servers, name, 1).fill({0: BYTES})

    def throttle(self, bytes_s: int | None) -> None:
        """Set a throttle like kafka-configs in ZooKeeper."""
        ends = ("leader", "follower")
        rates = {} if bytes_s is None else {f"{end}.replication.throttled.rate": str(bytes_s) for end in ends}
        replicas = {f"{end}.replication.throttled.replicas": "*" for end in ends}
        self._configure(f"topics/{self.name}", replicas)
        for broker in (1, 2):
            self._configure(f"brokers/{broker}", rates)

    def _configure(self, entity: str, config: dict[str, str]) -> None:
        data = json.dumps({"version": 1, "config": config}).encode()
        self._zookeeper.ensure_path(f"/config/{entity}")
        self._zookeeper.set(f"/config/{entity}", data)
        notice = json.dumps({"version": 2, "entity_path": entity}).encode()
        self._zookeeper.create("/config/changes/config_change_", notice, sequence=True)


def ask(replica: Replica, at: TopicPartition, *brokers: int) -> RequestId:
    """Request a move; return the request's id."""
    target = tuple(BrokerId(b) for b in brokers) or None
    altered = replica.ask(AlterReassignments((PartitionReassignment(at, target),)))
    assert [r.error for r in altered.results] == [ErrorCode.NONE], altered
    assert altered.request_id is not None
    return RequestId(altered.request_id)


def moves(replica: Replica) -> list[dict[str, Any]]:
    """The moves in progress, over HTTP."""
    status, text = replica.get("/reassignments")
    assert status == 200, text
    found: list[dict[str, Any]] = json.loads(text)
    return found


def status_of(replica: Replica, request: int) -> dict[str, Any]:
    """A request's status, over HTTP; empty if unknown."""
    status, text = replica.get(f"/reassignments/requests/{request}")
    return json.loads(text) if status == 200 else {}


def znode_of(zk: KazooClient, request: int) -> dict[str, Any]:
    """A request's status in ZooKeeper."""
    found: dict[str, Any] = json.loads(zk.get(f"{STATUSES}/{request}")[0])
    return found


def move_by_znode(zk: KazooClient, at: TopicPartition, *brokers: int) -> None:
    """Request a move of whatever controller leads."""
    moves = [{"topic": at.topic, "partition": at.partition, "replicas": list(brokers)}]
    zk.create(LEGACY, json.dumps({"version": 1, "partitions": moves}).encode())


class Course(Struct):
    """The figures shown during a move.

    Units:
        Times are in monotonic seconds.
    """

    began: float
    ended: float
    seen: list[tuple[float, dict[str, Any]]]

    @property
    def half_way(self) -> tuple[float, float]:
        """The time at which half was copied, and the predicted remaining seconds then."""
        for at, progress in self.seen:
            for replica in progress["replicas"]:
                if replica["remaining_seconds"] and 2 * replica["copied_bytes"] >= replica["total_bytes"]:
                    return at, replica["remaining_seconds"]
        raise AssertionError(f"never half way: {self.seen}")

    def text(self, version: str) -> str:
        """The figures for a person."""
        at, remaining = self.half_way
        off, whole, rest = abs(at + remaining - self.ended), self.ended - self.began, self.ended - at
        return (
            f"{version}: {BYTES / 1e6:.0f} MB at {BYTES_S / 1e6:.1f} MB/s took {whole:.1f} s; half way after "
            f"{at - self.began:.1f} s, {remaining:.1f} s were said to remain and {rest:.1f} s did: "
            f"{off / whole:.0%} of the whole, {off / rest:.0%} of the rest"
        )


def follow(replica: Replica, began: float) -> Course:
    """Observe the only move until it ends."""
    seen = []
    while found := moves(replica):
        (move,) = found
        seen.append((time.monotonic(), move["progress"]))
        assert time.monotonic() - began < 200
        time.sleep(0.2)
    return Course(began, time.monotonic(), seen)


@pytest.mark.timeout(300)
def test_the_end_predicted_half_way_is_near_the_real_one(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    protocol = cluster.version.rpartition(".")[0]
    with Replica(cluster.zookeeper_connect, tmp_path, inter_broker_protocol_version=protocol) as replica:
        replica.await_phase("active")
        moving = Moving(cluster, zk, "predicted")
        moving.throttle(BYTES_S)
        began = time.monotonic()
        request = ask(replica, moving.at, 2)
        by_wire = replica.ask(ListReassignments((moving.at,), request))

        course = follow(replica, began)

        with capsys.disabled():
            print(f"\n{course.text(cluster.version)}")  # noqa: T201 - figures to be read
        at, remaining = course.half_way
        assert abs(at + remaining - course.ended) <= 0.25 * (course.ended - began)
        assert {progress["request_id"] for _, progress in course.seen} == {request}
        copied = [r["copied_bytes"] for _, p in course.seen for r in p["replicas"] if r["copied_bytes"] is not None]
        assert copied == sorted(copied)
        assert any("MB behind at" in str(progress["waits_for"]) for _, progress in course.seen)
        assert by_wire.controller.startswith("kafka-zk-controller")
        assert (by_wire.moves[0].progress.request_id, by_wire.request_status.request_id) == (request, request)
        wait_until(lambda: status_of(replica, request)["finished_ms"], "the request was done")
        done = status_of(replica, request)
        assert done["counts"] == {"completed": 1}
        assert done["copied_bytes"] == done["total_bytes"] >= BYTES
        wait_until(lambda: znode_of(zk, request) == done, "the znode says the same")
        assert zk.get(f"{STATUSES}/{request}")[1].version <= 4, "it was written rarely"
        wait_until(lambda: replica.measure("open_reassignment_requests") == 0, "the measures are at rest")
        assert replica.measure("reassignment_remaining_bytes", broker="2") == 0
        assert replica.complaints() == []


@pytest.mark.timeout(300)
def test_brokers_tell_exactly_what_a_replica_that_is_not_in_sync_lacks(cluster: LocalCluster, zk: KazooClient) -> None:
    """Kafka's own controller leads."""
    moving = Moving(cluster, zk, "lags")
    leader, receiver = (KafkaReplica(BrokerId(b), moving.at.topic, moving.at.partition) for b in (1, 2))
    moving.throttle(100_000)
    seen: Cluster = KafkaCluster(cluster.bootstrap_servers, ClientSettings())
    with closing(seen):
        starts, ends = (seen.offsets([leader, receiver], edge) for edge in (Edge.START, Edge.END))
        assert (starts, ends) == ({leader: 0}, {leader: RECORDS})
        move_by_znode(zk, moving.at, 2)
        wait_until(lambda: receiver in seen.offsets([receiver], Edge.END), "the receiver has a log", 120)
        wait_until(lambda: seen.offsets([receiver], Edge.END)[receiver] > 0, "it copies", 120)

        moves = {moving.at: Move((BrokerId(2), BrokerId(1)), (BrokerId(2),), (BrokerId(1),))}
        state = {moving.at: seen.topics([moving.at.topic])[moving.at.topic][moving.at.partition]}
        lag = lags(seen, moves, state)[receiver]
        sizes = seen.directories([leader, receiver])
        assert state[moving.at].isr == (1,)
        assert lag.whole == RECORDS
        whole, held = (sizes[replica].size_bytes for replica in (leader, receiver))
        assert whole is not None
        assert held is not None
        # All records are as large, nothing was compacted or deleted; little was copied between the two questions.
        assert whole - lag.bytes_of(whole) == pytest.approx(held, abs=BYTES / 10)
        assert held < whole / 2

        moving.throttle(None)
        wait_until(lambda: seen.offsets([receiver], Edge.END).get(receiver) == RECORDS, "it has everything", 120)
        wait_until(lambda: not zk.exists(LEGACY), "the move has ended")
        assert lags(seen, moves, {moving.at: PartitionState((BrokerId(2),), (BrokerId(2),), BrokerId(2))}) == {
            receiver: NONE
        }
        assert seen.offsets([KafkaReplica(BrokerId(1), TopicName("nowhere"), PartitionId(0))], Edge.END) == {}

        with muted(cluster.brokers[2]):
            assert seen.offsets([receiver], Edge.END) == {}, "it does not answer"
            again = time.monotonic()
            assert seen.offsets([receiver], Edge.END) == {}
            assert time.monotonic() - again < 1.0, "it is not waited for at each look"


@pytest.fixture
def foreign(zk: KazooClient) -> Iterator[int]:
    """Two foreign znodes among the statuses; one has a number."""
    zk.ensure_path(STATUSES)
    number = max(map(int, zk.get_children(STATUSES)), default=0) + 5
    names = (str(number), "somebody")
    for name in names:
        zk.create(f"{STATUSES}/{name}", b"not ours")
    yield number
    for name in names:
        zk.delete(f"{STATUSES}/{name}")


@pytest.mark.timeout(300)
def test_ids_and_statuses_survive_the_death_of_the_controller_and_are_deleted_in_time(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path, foreign: int
) -> None:
    settings = {
        "inter_broker_protocol_version": cluster.version.rpartition(".")[0],
        "reassign_partitions_status_min_retention_ms": RETENTION_MS,
    }
    connect = cluster.zookeeper_connect
    first, second = (Replica(connect, tmp_path, number, **settings) for number in (901, 902))
    with ExitStack() as both:
        both.enter_context(first).await_phase("active")
        both.enter_context(second).await_phase("standby")
        moving = Moving(cluster, zk, "survives")
        moving.throttle(200_000)
        request = ask(first, moving.at, 2)
        assert request == foreign + 1
        wait_until(lambda: moves(first)[0]["progress"]["replicas"][0]["bytes_per_second"], "it copies")
        (topic,) = znode_of(zk, request)["topics"]
        assert (topic["topic"], topic["partitions"][0]["replicas"]) == ("survives", [2])
        assert second.get("/reassignments")[0] == 503

        first.process.kill()
        second.await_phase("active")
        (progress,) = [move["progress"] for move in moves(second)]
        assert (progress["request_id"], progress["stage"]) == (request, "catching up")
        assert progress["since_ms"] == topic["partitions"][0]["progress"]["since_ms"]
        assert second.measure("notices_total", kind="malformed znode") == 1
        assert second.measure("notices_total", kind="unknown znode") == 1

        moving.throttle(None)
        wait_until(lambda: not moves(second), "it has moved", 120)
        wait_until(lambda: znode_of(zk, request)["finished_ms"], "that was written")
        assert znode_of(zk, request)["counts"] == {"completed": 1}
        again = ask(second, moving.at, 2)
        assert again == request + 1
        second.process.kill()
    with Replica(connect, tmp_path, 903, **settings) as third:
        third.await_phase("active")
        wait_until(
            lambda: set(zk.get_children(STATUSES)) == {str(foreign), "somebody"},
            "the statuses of the other terms were deleted, and only those",
            60,
        )
        assert ask(third, moving.at, 2) == again + 1
