"""Real brokers copy a throttled move at its rate, also after a fail-over; nothing of the throttle is left then."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.demo.traffic import Traffic
from controller.demo.znodes import Znodes
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from tests.cluster.replica import Replica, content, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

PARTITIONS = 8
BYTES = 25_000_000  # in each partition
BYTES_S = 4_000_000
WINDOW_S = 11.0  # over which brokers average a throttle
PRIOR_RATE, PRIOR_LIST = "900000000", "0:1, 77:2"
RATE, REPLICAS = "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
FOLLOWING = {"inter_broker_protocol_version": "auto"}
RECORDS = ("/kafka_zk_controller/throttled_topics", "/kafka_zk_controller/throttled_brokers")


@pytest.fixture(
    params=[pytest.param("2.8.2", marks=pytest.mark.thorough), pytest.param("3.9.1", marks=pytest.mark.thorough)]
)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Three brokers; replicas move from the first to the second."""
    try:
        cluster = LocalCluster(ClusterSettings(version=request.param, broker_ids=(1, 2, 3)))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


def configure(zk: KazooClient, entity: str, config: dict[str, str]) -> None:
    """Change settings as kafka-configs does in ZooKeeper."""
    zk.ensure_path(f"/config/{entity}")
    zk.set(f"/config/{entity}", json.dumps({"version": 1, "config": config}).encode())
    notice = json.dumps({"version": 2, "entity_path": entity}).encode()
    zk.create("/config/changes/config_change_", notice, sequence=True)


def settings(zk: KazooClient, entity: str) -> dict[str, Any]:
    """The settings of a topic or a broker in ZooKeeper."""
    found: dict[str, Any] = content(zk, f"/config/{entity}").get("config", {})
    return found


@pytest.mark.timeout(600)
def test_a_move_is_copied_at_its_rate_under_one_leader_and_the_next_and_leaves_no_throttle(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    name = f"throttled-{time.monotonic_ns()}"
    path, receiver = f"/brokers/topics/{name}", cluster.brokers[2].log_dir

    def copied() -> int:
        return sum(file.stat().st_size for file in receiver.glob(f"{name}-*/*.log"))

    def is_over() -> bool:
        return not content(zk, path).get("adding_replicas")

    with Znodes(cluster.zookeeper_connect) as znodes:
        znodes.create_topic(name, {p: (1,) for p in range(PARTITIONS)})
        wait_until(lambda: all(p.state for p in znodes.partitions(name)), f"{name} is led")
    Traffic(cluster.bootstrap_servers, name, PARTITIONS).fill(dict.fromkeys(range(PARTITIONS), BYTES))
    configure(zk, f"topics/{name}", {"retention.ms": "86400000", REPLICAS: PRIOR_LIST})
    configure(zk, "brokers/2", {RATE: PRIOR_RATE})
    moves = (TopicPartition(TopicName(name), PartitionId(p)) for p in range(PARTITIONS))
    asked = AlterReassignments(tuple(PartitionReassignment(at, (BrokerId(2),)) for at in moves), throttle=BYTES_S)
    with Replica(cluster.zookeeper_connect, tmp_path, 901, **FOLLOWING) as replica:
        replica.await_phase("active", 120.0)
        with Replica(cluster.zookeeper_connect, tmp_path, 902, **FOLLOWING) as successor:
            answered = replica.ask(asked)
            assert [r.error for r in answered.results] == [ErrorCode.NONE] * PARTITIONS, answered
            assert settings(zk, "brokers/2") == {RATE: str(BYTES_S)}
            listed = ",".join(["0:1", "77:2", *(f"{p}:2" for p in range(PARTITIONS))])
            assert settings(zk, f"topics/{name}") == {"retention.ms": "86400000", REPLICAS: listed}
            wait_until(copied, "the first bytes came")
            time.sleep(WINDOW_S)
            first = copied(), time.monotonic()
            successor.await_phase("standby", 120.0)
            replica.process.kill()
            successor.await_phase("active", 120.0)
            time.sleep(max(0.0, first[1] + 2 * WINDOW_S - time.monotonic()))
            seconds, size = time.monotonic() - first[1], copied() - first[0]
            assert not is_over(), f"too short to tell: {size} bytes in {seconds:.1f} s"
            assert 0.8 * BYTES_S < size / seconds < 1.2 * BYTES_S, f"{size} bytes in {seconds:.1f} s"
            assert settings(zk, "brokers/2") == {RATE: str(BYTES_S)}
            wait_until(is_over, "the moves were over", 120.0)
            wait_until(lambda: not any(map(zk.get_children, RECORDS)), "nothing was owed to settings any more")
    print(f"{size / seconds / 1e6:.2f} MB/s over {seconds:.1f} s, {BYTES_S / 1e6:.2f} wanted")  # noqa: T201 (shown with -s)
    assert settings(zk, "brokers/2") == {RATE: PRIOR_RATE}
    assert settings(zk, f"topics/{name}") == {"retention.ms": "86400000", REPLICAS: PRIOR_LIST}
    assert [settings(zk, f"brokers/{broker}") for broker in (1, 3)] == [{}, {}]
