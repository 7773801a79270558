"""Brokers are upgraded from 2.4 to 3.9 one after the other while replicas move; no acknowledged record is lost."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from controller.core.stage import Stage
from controller.demo.move import next_plan
from controller.demo.waiting import wait_for
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from tests.cluster.moves import Ruled, Topic, assert_nothing_lost, ruled, submit
from tests.cluster.throttle import throttled
from tests.cluster.walk import BROKER_PROPERTIES, FILLED_BYTES, RATE_BYTES_S

FIRST, *LATER = "2.4.1", "2.8.2", "3.3.2", "3.9.1"
PARTITIONS = 3


@pytest.mark.timeout(900)
def test_a_rolling_upgrade_with_moves_in_progress_loses_nothing(tmp_path: Path) -> None:
    overrides = {**BROKER_PROPERTIES, "inter.broker.protocol.version": "2.4"}
    try:
        cluster = LocalCluster(ClusterSettings(version=FIRST, overrides=overrides))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster, ruled(cluster, tmp_path) as rule:
        topic = rule.topic("orders", PARTITIONS)
        with topic.traffic() as traffic:
            traffic.fill(dict.fromkeys(topic.plan, FILLED_BYTES))
            for version in LATER:
                for broker in cluster.brokers:
                    restart_during_a_move(rule, topic, broker, version)
            for broker in cluster.brokers:
                restart_during_a_move(rule, topic, broker, LATER[-1], inter_broker_protocol_version="3.9")
            raise_ours(rule, "3.9")
            move(rule, topic)
            topic.await_arrival(90)
            topic.await_exact_disks()
        assert_nothing_lost(traffic, at_least=1000)


def restart_during_a_move(rule: Ruled, topic: Topic, broker: int, version: str, **properties: object) -> None:
    """A move begins, and a broker of it is replaced by a newer one; the move comes to its end."""
    began = time.monotonic()
    with throttled(topic, RATE_BYTES_S):
        move(rule, topic)
        rule.cluster.brokers[broker].become(version, **properties)
        rule.cluster.stop_broker(broker)
        assert all(p.stage is Stage.CATCHING_UP for p in topic.partitions)
        rule.cluster.brokers[broker].start()
    topic.await_arrival(90)
    topic.await_exact_disks()
    sys.stdout.write(f"broker {broker} is {version} {properties} after {time.monotonic() - began:.1f} s\n")


def move(rule: Ruled, topic: Topic) -> None:
    """Ask for other brokers for all partitions."""
    topic.plan = next_plan(tuple(rule.cluster.brokers), topic.plan)
    submit(rule.leader, topic)


def raise_ours(rule: Ruled, protocol: str) -> None:
    """As docs/operations.md says: the line in the file, then one replica after the other."""
    leader = rule.leader
    for replica in sorted(rule.pair.members, key=lambda member: member is leader):
        settings = replica.config_file.read_text()
        before = "inter.broker.protocol.version=2.4\n"
        assert before in settings
        replica.config_file.write_text(settings.replace(before, f"inter.broker.protocol.version={protocol}\n"))
        replica.process.stop()
        replica.process.start()
        wait_for(lambda replica=replica: replica.status().get("is_ready"), f"{replica.replica_id} ready")
    wait_for(lambda: rule.pair.leader, "one of ours leading again")
