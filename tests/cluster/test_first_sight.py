"""Partitions that have long existed can be read only in mid-term: is every acknowledged record there, and every move?

A log directory of a broker is offline meanwhile: whoever takes such a partition for new has it make an empty log beside
the one that is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from msgspec import Struct

from controller.demo.move import has_arrived
from controller.demo.traffic import Traffic
from controller.demo.znodes import Plan, Znodes
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable, LabError
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, holder, wait_until
from zk_layout import catalog
from zk_layout.ids import BrokerId, PartitionId, TopicName
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

VERSIONS = ["3.9.1", *(pytest.param(version, marks=pytest.mark.thorough) for version in ("2.8.2", "2.4.1"))]
ONE, TWO, THREE = map(BrokerId, (1, 2, 3))
PLAN: Plan = {0: (1, 2), 1: (1, 2), 2: (2, 1), 3: (1, 2)}
TOPIC_HIDDEN, STATES_HIDDEN, MOVING = map(TopicName, ("topic-hidden", "states-hidden", "moving"))
MOVE = Assignment((TWO, THREE, ONE), adding=(THREE,), removing=(ONE,))
RECORD_BYTES, RECORDS = 1_000, 160  # in each partition
WITHIN_S = 90.0
UNREADABLE = b'{"version":'


class Stage(Struct):
    """A cluster whose brokers have two log directories each, and what was acknowledged of its topics."""

    cluster: LocalCluster
    znodes: Znodes
    zk: KazooClient
    traffic: dict[TopicName, Traffic]
    directory: Path

    def replica(self, broker_id: int) -> Replica:
        """A controller of ours, for brokers of this version."""
        protocol = self.cluster.settings.overrides["inter.broker.protocol.version"]
        connect = self.cluster.zookeeper_connect
        return Replica(connect, self.directory, broker_id, inter_broker_protocol_version=protocol)

    def await_at(self, topic: TopicName, plan: Plan) -> None:
        """Wait until each partition has its replicas, all in sync, and nothing moves."""
        wait_until(lambda: has_arrived(self.znodes.partitions(topic), plan), f"{topic} at {plan}", WITHIN_S)

    def await_led(self, topic: TopicName) -> None:
        """Wait until each partition is led by a broker that has a log of it in a directory that works."""
        wait_until(lambda: self._is_led(topic), f"{topic} was led", WITHIN_S)

    def _is_led(self, topic: TopicName) -> bool:
        states = [(seen.partition, seen.state) for seen in self.znodes.partitions(topic)]
        return bool(states) and all(s and self._has_log(int(s.leader), f"{topic}-{p}") for p, s in states)

    def _has_log(self, broker: int, replica: str) -> bool:
        led = self.cluster.brokers.get(broker)
        return led is not None and any((folder / replica).is_dir() for folder in (led.log_dir, led.data_dir / "more"))

    def has_lost(self, topic: TopicName) -> str:
        """What is missing of a topic; empty if nothing is. A new leader shows all once its followers have fetched."""
        with suppress(LabError):
            wait_until(lambda: not self._missing(topic), f"all of {topic}")
        lost, count = self._missing(topic), len(self.traffic[topic].acknowledged)
        return f"{len(lost)} of {count} acknowledged records of {topic} are gone" if lost else ""

    def _missing(self, topic: TopicName) -> set[int]:
        traffic = self.traffic[topic]
        return traffic.acknowledged - traffic.read_all()


@contextmanager
def set_up(version: str, directory: Path) -> Iterator[Stage]:
    """Three topics, full of acknowledged records."""
    overrides = {"inter.broker.protocol.version": ".".join(version.split(".")[:2])}
    try:
        cluster = LocalCluster(ClusterSettings(version=version, overrides=overrides), directory=directory / "servers")
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    for broker in cluster.brokers.values():
        broker.properties["log.dirs"] = f"{broker.log_dir},{broker.data_dir / 'more'}"
    with cluster, Znodes(cluster.zookeeper_connect) as znodes, zookeeper_client(cluster.zookeeper_connect) as zk:
        stage = Stage(cluster, znodes, zk, {}, directory)
        for topic in (TOPIC_HIDDEN, STATES_HIDDEN, MOVING):
            znodes.create_topic(topic, PLAN)
            stage.await_at(topic, PLAN)
            traffic = stage.traffic[topic] = Traffic(cluster.bootstrap_servers, topic, len(PLAN))
            traffic.fill(dict.fromkeys(PLAN, RECORDS * RECORD_BYTES), RECORD_BYTES)
            assert len(traffic.acknowledged) == len(PLAN) * RECORDS, traffic.refused
        yield stage


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_that_can_be_read_only_later_keep_every_record_and_go_on_moving(
    version: str, tmp_path: Path
) -> None:
    with set_up(version, tmp_path) as stage:
        cluster, zk = stage.cluster, stage.zk
        for broker in cluster.brokers:
            cluster.brokers[broker].kill()
        failed = cluster.brokers[1].log_dir
        kept = failed.rename(failed.with_name("kept"))
        failed.write_text("no directory, as far as the broker can see")
        for topic in (TOPIC_HIDDEN, STATES_HIDDEN):
            led = [number for number, replicas in PLAN.items() if replicas[0] == 1]
            assert any((kept / f"{topic}-{number}").is_dir() for number in led), (
                "nothing that broker 1 leads has failed"
            )
        hidden = [TopicAddress(TOPIC_HIDDEN).path]
        hidden += [StateAddress(STATES_HIDDEN, PartitionId(number)).path for number in PLAN]
        held = {path: zk.get(path)[0] for path in hidden}
        for path in hidden:
            zk.set(path, UNREADABLE)
        wait_until(lambda: not zk.get_children("/brokers/ids"), "nobody thought that a broker lived")

        with stage.replica(901) as first:
            first.await_phase("active")
            cluster.start_brokers([2, 3])  # before broker 1, which could not lead all of what is its
            stage.await_led(MOVING)
            cluster.start_brokers([1])
            for path, data in held.items():
                zk.set(path, data)
            for topic in (TOPIC_HIDDEN, STATES_HIDDEN):
                stage.await_led(topic)
                assert not stage.has_lost(topic)

            cluster.brokers[1].kill()
            failed.unlink()
            kept.rename(failed)
            cluster.start_brokers([1])
            for topic in stage.traffic:
                stage.await_at(topic, PLAN)
                assert not stage.has_lost(topic)

            with stage.replica(902) as second:
                second.await_phase("standby")
                moving = stage.znodes.topics()[MOVING]
                zk.set(TopicAddress(MOVING).path, UNREADABLE)
                first.process.kill()
                wait_until(lambda: holder(zk) == 902, "902 had the cluster")
                second.await_phase("active")
                epoch = stage.znodes.controller_epoch()
                zk.set(
                    TopicAddress(MOVING).path,
                    catalog.encode(Topic(dict.fromkeys(moving.partitions, MOVE), moving.topic_id)),
                )
                stage.await_at(MOVING, dict.fromkeys(PLAN, (2, 3)))
                assert stage.znodes.controller_epoch() == epoch
                for topic in stage.traffic:
                    assert not stage.has_lost(topic)
