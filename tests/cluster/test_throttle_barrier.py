"""A throttled move begins when its broker shows the new rate, or after a fixed time where it shows none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kazoo.client import KazooClient

from controller.core.messages.effects import Commit
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import BrokerConfigDescribed
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.lab.cluster import LocalCluster
from controller.runtime import journal
from tests.cluster.replica import Replica, content, create_topic, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.throttles import BROKERS, FOLLOWER_RATE, TOPICS

RATE = 5_000_000

_T = TypeVar("_T")


def seen(directory: Path, kind: type[_T], of: Callable[[journal.Turn], tuple[object, ...]]) -> list[tuple[float, _T]]:
    """The events or effects of a kind in a journal, with their times."""
    turns = (entry for entry in journal.read(journal.files(directory)) if isinstance(entry, journal.Turn))
    return [(turn.now, item) for turn in turns for item in of(turn) if isinstance(item, kind)]


def test_what_the_legacy_znode_asks_for_begins_when_its_rate_is_in_force(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    name, directory = f"asked-{time.monotonic_ns()}", tmp_path / "journal"
    path = f"/brokers/topics/{name}"
    entry = {"topic": name, "partition": 0, "replicas": [3, 2]}
    settings: dict[str, Any] = {
        "inter_broker_protocol_version": "auto",
        "journal_dir": directory,
        "reassignment_moves_throttle": RATE,
    }
    with Replica(cluster_3_9.zookeeper_connect, tmp_path, **settings) as replica:
        replica.await_phase("active", 120.0)
        create_topic(zk, name)

        zk.create("/admin/reassign_partitions", json.dumps({"version": 1, "partitions": [entry]}).encode())

        wait_until(lambda: content(zk, path).get("partitions") == {"0": [3, 2]}, "it moved")
        wait_until(lambda: not zk.exists("/admin/reassign_partitions"), "the entry was done")
        wait_until(lambda: not zk.get_children(TOPICS) + zk.get_children(BROKERS), "nothing was owed any more")
        shown = seen(directory, BrokerConfigDescribed, lambda turn: turn.events)
        commits = seen(directory, Commit, lambda turn: turn.effects)
    in_force = [at for at, event in shown if event.values == {FOLLOWER_RATE: str(RATE)}]
    begun = [at for at, commit in commits if any("asked to move" in why and name in why for why in commit.why)]
    assert in_force
    assert begun[0] >= in_force[0]


@pytest.mark.parametrize("cluster", ["3_9", pytest.param("2_4", marks=pytest.mark.thorough)], indirect=True)
def test_a_broker_says_when_its_rate_is_in_force(cluster: LocalCluster, zk: KazooClient, tmp_path: Path) -> None:
    name, directory = f"held-{time.monotonic_ns()}", tmp_path / "journal"
    at = TopicPartition(TopicName(name), PartitionId(0))
    asked = AlterReassignments((PartitionReassignment(at, (BrokerId(3), BrokerId(2))),), throttle=RATE)
    is_old = cluster.settings.version.startswith("2.")
    settings: dict[str, Any] = {"inter_broker_protocol_version": "auto", "journal_dir": directory}
    with Replica(cluster.zookeeper_connect, tmp_path, **settings) as replica:
        replica.await_phase("active", 120.0)
        create_topic(zk, name)

        began = time.monotonic()
        answered = replica.ask(asked)

        assert [result.error for result in answered.results] == [ErrorCode.NONE]
        if is_old:
            assert time.monotonic() - began > 5.0
        wait_until(lambda: content(zk, f"/brokers/topics/{name}").get("partitions") == {"0": [3, 2]}, "it moved")
        wait_until(lambda: not zk.get_children(TOPICS) + zk.get_children(BROKERS), "nothing was owed any more")
        assert content(zk, "/config/brokers/3").get("config") == {}
        shown = [event for _, event in seen(directory, BrokerConfigDescribed, lambda turn: turn.events)]
    assert {event.broker for event in shown} == {3}
    assert [event.error for event in shown if event.error is not None] == []
    expected = {} if is_old else {FOLLOWER_RATE: str(RATE)}
    assert shown[-1].values == expected, shown
