"""On real brokers, a move begins only where disks have room, as those from 3.3 on tell it; older ones are unknown."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.demo.traffic import Traffic
from controller.lab.cluster import LocalCluster
from tests.cluster.replica import Replica, content, create_topic, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("heard_signals")]

TARGET = tuple(map(BrokerId, (3, 2)))
ALMOST_ALL = 99  # no disk that is in use has so much left


def reread(replica: Replica, **changed: object) -> None:
    """The operator changes or adds these, and sends SIGHUP."""
    written = dict(line.split("=", 1) for line in replica.config.read_text().splitlines())
    written |= {key.replace("_", "."): str(value) for key, value in changed.items()}
    replica.config.write_text("".join(f"{key}={value}\n" for key, value in written.items()))
    replica.process.signal(signal.SIGHUP)


def move(replica: Replica, name: str) -> None:
    at = TopicPartition(TopicName(name), PartitionId(0))
    answered = replica.ask(AlterReassignments((PartitionReassignment(at, TARGET),)))
    assert [result.error for result in answered.results] == [ErrorCode.NONE]


def is_moved(zk: KazooClient, name: str) -> bool:
    found: list[int] = content(zk, f"/brokers/topics/{name}")["partitions"]["0"]
    return found == [*TARGET]


def filled_topic(cluster: LocalCluster, zk: KazooClient) -> str:
    name = f"moved-{time.monotonic_ns()}"
    create_topic(zk, name)
    Traffic(cluster.bootstrap_servers, name, 1).fill({0: 100_000})
    return name


def held_up(replica: Replica) -> str:
    return " ".join(replica.leader().get("held_up", ()))


def test_a_move_waits_until_so_much_of_a_disk_would_be_left(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"reassignment_moves_wait_for_disks_percent": ALMOST_ALL}
    with Replica(cluster.zookeeper_connect, tmp_path, **settings) as replica:
        replica.await_phase("active")
        name = filled_topic(cluster, zk)

        move(replica, name)

        wait_until(lambda: "broker 3 has" in held_up(replica), "it was said what the move waits for")
        assert "99 % are to stay" in held_up(replica)
        assert b"waiting moves do not begin: broker 3 has" in replica.process.output_since_start()
        assert (replica.measure("waiting_moves_disks"), replica.measure("brokers_without_room")) == (1, 1)
        assert replica.measure("brokers_with_unknown_room") == 0
        assert not is_moved(zk, name)

        reread(replica, reassignment_moves_wait_for_disks_percent=1)

        wait_until(lambda: is_moved(zk, name), "it had moved")
        wait_until(lambda: held_up(replica) == "", "nothing was held up any more")


@pytest.mark.parametrize("cluster", ["2_4"], indirect=True)
def test_of_an_old_broker_it_is_not_known_and_moves_wait_or_begin_as_the_setting_says(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    version = cluster.settings.version.rpartition(".")[0]
    settings: dict[str, Any] = {
        "reassignment_moves_wait_for_disks_percent": 1,
        "inter_broker_protocol_version": version,
    }
    with Replica(cluster.zookeeper_connect, tmp_path, **settings) as replica:
        replica.await_phase("active")
        name = filled_topic(cluster, zk)

        move(replica, name)

        unknown = "how much room broker 3 has on its disks is not known (it knows no version 4 of DescribeLogDirs"
        wait_until(lambda: unknown in held_up(replica), "it was said that it is not known")
        assert replica.measure("brokers_with_unknown_room") == 1
        assert not is_moved(zk, name)

        reread(replica, reassignment_moves_wait_for_disks_unknown="begin")

        wait_until(lambda: is_moved(zk, name), "it had moved")
        wait_until(lambda: held_up(replica) == "", "nothing was held up any more")
        said = b"moves begin nevertheless, as the settings say: how much room broker 3"
        assert said in replica.process.output_since_start()
