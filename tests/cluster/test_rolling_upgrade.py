"""Brokers are upgraded from 2.4 to 3.9 one after the other while replicas move; no acknowledged record is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from controller.core.stage import Stage
from controller.demo.move import next_plan
from controller.demo.replicas import Replica
from controller.demo.traffic import TrafficSettings
from controller.demo.waiting import wait_for
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.moves import LedCluster, Topic, assert_nothing_lost, led, submit
from tests.cluster.throttle import newcomers_throttled
from tests.cluster.version_results import UPGRADE, writing_down
from tests.cluster.walk import (
    BROKER_PROPERTIES,
    FILLED_BYTES,
    RATE_BYTES_S,
    SETTLES_WITHIN_S,
    STOPS_WITHIN_S,
    isr_requests,
)
from zk_layout.ids import TopicName

FIRST, *LATER = "2.4.1", "2.8.2", "3.3.2", "3.9.1"
OLD, NEW = "2.4", "3.9"
PARTITIONS = 3
NOTIFIES_WITHIN_S = 12.0
IBP = "inter.broker.protocol.version"


@pytest.mark.versions
@pytest.mark.timeout(1200)
def test_a_rolling_upgrade_with_moves_in_progress_loses_nothing(tmp_path: Path) -> None:
    try:
        cluster = LocalCluster(ClusterSettings(version=FIRST, overrides={**BROKER_PROPERTIES, IBP: OLD}))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster, led(cluster, tmp_path) as rule, writing_down(UPGRADE) as walked:
        topic = rule.topic("orders", PARTITIONS)
        with topic.traffic(TrafficSettings(rate=100)) as traffic:
            traffic.fill(dict.fromkeys(topic.plan, FILLED_BYTES))
            before = FIRST
            for version in LATER:
                for broker in cluster.brokers:
                    restart_during_a_move(topic, broker, version)
                walked.steps[f"{before} → {version}"] = f"each broker restarted during a move, {IBP} still {OLD}"
                before = version
            walked.steps[f"{IBP} {OLD} → {NEW}"] = raise_the_brokers(topic)
            assert topic_id(rule) is None
            raise_ours(rule)
            assert topic_id(rule) is not None
            walked.steps["the same of our replicas"] = "one after the other; topics have ids from then on"
            choose(topic)
            submit(rule.leader, topic)
            topic.await_arrival(SETTLES_WITHIN_S)
            topic.await_exact_disks()
            wait_for(partial(is_on_every_disk, topic), "the topic's id beside every replica")
            walked.steps["afterwards"] = "another move; brokers keep the topic's id"
        assert_nothing_lost(traffic, at_least=1000)
        walked.steps["no record lost"] = f"{len(traffic.acknowledged):,} acknowledged records, all there"


def restart_during_a_move(topic: Topic, broker: int, version: str, **properties: object) -> None:
    """Start a move, and replace one of its brokers by a newer one; the move finishes."""
    began = time.monotonic()
    cluster = topic.led.cluster
    choose(topic)
    with newcomers_throttled(topic, RATE_BYTES_S):
        submit(topic.led.leader, topic)
        cluster.brokers[broker].become(version, **properties)
        cluster.brokers[broker].stop(STOPS_WITHIN_S)
        assert all(p.stage is Stage.CATCHING_UP for p in topic.partitions)
        cluster.brokers[broker].start()
    topic.await_arrival(SETTLES_WITHIN_S)
    topic.await_exact_disks()
    print(f"broker {broker} is {version} {properties}: {time.monotonic() - began:.1f} s")  # noqa: T201


def choose(topic: Topic) -> None:
    """Choose other brokers for all partitions."""
    topic.plan = next_plan(tuple(topic.led.cluster.brokers), topic.plan)


def raise_the_brokers(topic: Topic) -> str:
    """Raise the brokers: meanwhile some ask our controller, which has the old version, the others write znodes."""
    rule = topic.led
    first, *rest = rule.cluster.brokers
    requests, notifications = isr_requests(rule.leader), notified(rule)
    restart_during_a_move(topic, first, LATER[-1], inter_broker_protocol_version=NEW)
    for broker in rest:
        if broker == rest[-1]:
            move_until(topic, lambda: isr_requests(rule.leader) > requests and notified(rule) > notifications)
        restart_during_a_move(topic, broker, LATER[-1], inter_broker_protocol_version=NEW)
    return "each broker restarted during a move; until the last one some used AlterPartition, others notifications"


def move_until(topic: Topic, is_so: Callable[[], bool], at_most: int = 6) -> None:
    """Move partitions until the condition holds: which broker leads and changes an ISR is chance.

    An old leader notifies of an ISR change at least five seconds after its last one.
    """
    for _ in range(at_most):
        deadline = time.monotonic() + NOTIFIES_WITHIN_S
        while time.monotonic() < deadline:
            if is_so():
                return
            time.sleep(0.5)
        choose(topic)
        submit(topic.led.leader, topic)
        topic.await_arrival(SETTLES_WITHIN_S)
    assert is_so()


def raise_ours(rule: LedCluster) -> None:
    """Raise our version as in docs/operations.md: change the file, restart the replicas in turn, the leader last."""
    leader = rule.leader
    for replica in sorted(rule.pair.members, key=lambda member: member is leader):
        settings = replica.config_file.read_text()
        assert f"{IBP}={OLD}\n" in settings
        replica.config_file.write_text(settings.replace(f"{IBP}={OLD}\n", f"{IBP}={NEW}\n"))
        replica.process.stop()
        replica.process.start()
        wait_for(partial(is_ready, replica), f"{replica.replica_id} ready")
    wait_for(lambda: any(replica.is_leading for replica in rule.pair.members), "one of ours leading")


def is_ready(replica: Replica) -> bool:
    """Whether it leads, or stands by and knows the leader."""
    return replica.status().get("is_ready") is True


def notified(rule: LedCluster) -> int:
    """The number of ISR notifications so far."""
    with zookeeper_client(rule.cluster.zookeeper_connect) as client:
        return int(client.exists("/isr_change_notification").cversion)


def topic_id(rule: LedCluster) -> str | None:
    """The id of the moving topic."""
    return rule.znodes.topics()[TopicName("orders")].topic_id


def is_on_every_disk(topic: Topic) -> bool:
    """Whether each replica's folder names the topic's id."""
    wanted = f"topic_id: {topic_id(topic.led)}"
    folders = [
        topic.led.cluster.brokers[broker].log_dir / f"{topic.name}-{p}"
        for p, replicas in topic.plan.items()
        for broker in replicas
    ]
    metadata = [folder / "partition.metadata" for folder in folders]
    return all(file.exists() and wanted in file.read_text() for file in metadata)
