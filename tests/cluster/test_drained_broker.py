"""A broker is drained by a plan, and shut down: nothing is missed while a producer and a consumer run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.demo.clients import KafkaConsumer
from controller.demo.traffic import Traffic
from controller.demo.znodes import Plan, Znodes
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from tests.cluster.replica import Replica, wait_until
from tests.cluster.test_plans import ours

TOPIC, OTHER, OFFSETS = "drained", "beside", "__consumer_offsets"
LEAVING, STAYING = 4, (1, 2, 3)
BEFORE: Plan = {0: (4, 1), 1: (1, 4), 2: (2, 3), 3: (3, 4, 2), 4: (4,), 5: (1, 2)}
BYTES = 1_000_000  # in each partition


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Four brokers."""
    settings = ClusterSettings(broker_ids=(*STAYING, LEAVING), overrides={"offsets.topic.num.partitions": 4})
    try:
        cluster = LocalCluster(settings)
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


def is_led(znodes: Znodes, topic: str) -> bool:
    """Whether every partition has a leader."""
    return all(p.state for p in znodes.partitions(topic))


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_broker_is_drained_by_a_plan_and_leaves(cluster: LocalCluster, zk: KazooClient, tmp_path: Path) -> None:
    file, servers = tmp_path / "drain.json", cluster.bootstrap_servers

    def hosted() -> dict[str, int]:
        """How many replicas of each topic the leaving broker has."""
        partitions = {name: znodes.partitions(name) for name in (TOPIC, OTHER, OFFSETS)}
        return {name: sum(LEAVING in p.assignment.replicas for p in its) for name, its in partitions.items()}

    with Replica(cluster.zookeeper_connect, tmp_path) as leader, Znodes(cluster.zookeeper_connect) as znodes:
        leader.await_phase("active")
        for name, plan in ((TOPIC, BEFORE), (OTHER, {0: (4, 3), 1: (2, 4)})):
            znodes.create_topic(name, plan)
            wait_until(partial(is_led, znodes, name), f"{name} is led")
        with closing(KafkaConsumer(OTHER, bootstrap_servers=servers, group_id="group")) as member:
            wait_until(lambda: member.poll(timeout_ms=100) or member.assignment(), "the group has its topic of offsets")
        traffic = Traffic(servers, TOPIC, len(BEFORE))
        traffic.fill(dict.fromkeys(BEFORE, BYTES))
        before = hosted()
        assert all(before.values()), before
        with traffic:
            code, shown = ours(cluster, "plan", "drain", str(LEAVING), "--plan-file", str(file))
            assert code == 0, shown
            assert f"in {sum(before.values())} replicas of" in shown
            assert "of 3 topics; no plan can do with less" in shown
            code, shown = ours(cluster, "reassign", "--execute", "--reassignment-json-file", str(file), "--progress")
            assert code == 0, shown
            assert hosted() == dict.fromkeys(before, 0)
            code, shown = ours(cluster, "plan", "drain", str(LEAVING))
            assert (code, "nothing has to change" in shown) == (0, True), shown
            leaves = cluster.brokers[LEAVING]
            wait_until(lambda: not leaves.replicas, "its log directory is empty", 60)

            leaves.stop()

            wait_until(lambda: sorted(zk.get_children("/brokers/ids")) == ["1", "2", "3", "901"], "it is away")
            for name in (TOPIC, OTHER, OFFSETS):
                for seen in znodes.partitions(name):
                    assert seen.state is not None
                    assert sorted(seen.state.isr) == sorted(seen.assignment.replicas), (name, seen)
            wait_until(lambda: leader.measure("live_brokers") == len(STAYING), "the controller has noticed")
            assert leader.measure("under_replicated_partitions") == leader.measure("offline_partitions") == 0
            created = cluster.tools.run(
                *("kafka-topics", "--bootstrap-server", cluster.brokers[1].address),
                *("--create", "--topic", "afterwards", "--partitions", "6", "--replication-factor", "3"),
            )
            assert created.exit_code == 0, created.output
        assert traffic.trouble is None, traffic.trouble
        assert traffic.acknowledged <= traffic.read_all()
        assert traffic.refused == {}
        assert {b for p in znodes.partitions("afterwards") for b in p.assignment.replicas} == set(STAYING)
        assert leader.complaints() == []
