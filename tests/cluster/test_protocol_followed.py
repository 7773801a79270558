"""With `auto` the controller detects the brokers' protocol version, and follows when the last broker is raised."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, holder, wait_until

TOPIC = "/brokers/topics/orders"
OWN_ID = 901


@pytest.fixture
def old_speaking() -> Iterator[LocalCluster]:
    """Two brokers of Kafka 3.9.1 that still speak 2.7."""
    overrides = {"inter.broker.protocol.version": "2.7", "default.replication.factor": 2}
    try:
        cluster = LocalCluster(ClusterSettings(version="3.9.1", broker_ids=(1, 2), overrides=overrides))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


def epoch(zk: KazooClient) -> int:
    """The controller epoch."""
    return int(zk.get("/controller_epoch")[0])


def topic_id(zk: KazooClient) -> str | None:
    """The id of the topic."""
    found: str | None = json.loads(zk.get(TOPIC)[0]).get("topic_id")
    return found


@pytest.mark.timeout(420)
def test_the_term_is_renewed_once_when_the_last_broker_is_raised(old_speaking: LocalCluster, tmp_path: Path) -> None:
    cluster = old_speaking
    settings = {"inter.broker.protocol.version": "auto"}
    with (
        zookeeper_client(cluster.zookeeper_connect) as zk,
        Replica(cluster.zookeeper_connect, tmp_path, OWN_ID, **settings) as replica,
    ):
        replica.await_phase("active")
        zk.create(TOPIC, b'{"version":1,"partitions":{"0":[1,2]}}')
        wait_until(lambda: zk.exists(f"{TOPIC}/partitions/0/state"), "the topic was led")
        first = epoch(zk)

        for number in (1, 2):
            assert (topic_id(zk), epoch(zk)) == (None, first)
            broker = cluster.brokers[number]
            broker.become("3.9.1", inter_broker_protocol_version="3.9")
            broker.stop(60.0)
            broker.start()

        wait_until(lambda: topic_id(zk) is not None, "the topic had an id", 60.0)
        replica.await_phase("active")
        assert (holder(zk), epoch(zk)) == (OWN_ID, first + 1)
        assert not [r for r in replica.log() if "handing back" in str(r["event"])]
        assert len([r for r in replica.log() if "renewing" in str(r["event"])]) == 2  # begins, and ends
