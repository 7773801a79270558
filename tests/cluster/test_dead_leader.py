"""A leader that is killed, or stands still, is replaced while its session lives; one that wakes stands by."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from msgspec import Struct

from controller.lab.asking import controller_named_by
from controller.lab.cluster import LocalCluster
from tests.cluster.replica import OLD_AND_NEW, Replica, create_topic, holder, wait_until

pytestmark = pytest.mark.thorough  # they measure time

SESSION_MS, TIMEOUT_MS = 18000, 1000
SETTINGS = {
    "zookeeper_session_timeout_ms": SESSION_MS,
    "controller_challenge_timeout_ms": TIMEOUT_MS,
    "inter_broker_protocol_version": "auto",
}


class Roles(Struct):
    """Who leads, who stands by, and the controller epoch."""

    leader: Replica
    standby: Replica
    epoch: int


@contextmanager
def two_replicas(cluster: LocalCluster, zk: KazooClient, directory: Path) -> Iterator[Roles]:
    """One replica that leads and shows itself, and one that is ready to lead."""
    with (
        Replica(cluster.zookeeper_connect, directory, 901, **SETTINGS) as leader,
        Replica(
            cluster.zookeeper_connect, directory, 902, **SETTINGS | {"controller_takeover": "when-vacant"}
        ) as standby,
    ):
        leader.await_phase("active")
        standby.await_phase("standby")
        wait_until(lambda: zk.exists("/kafka_zk_controller/replicas/901"), "the leader showed itself")
        yield Roles(leader, standby, epoch_of(zk))


def epoch_of(zk: KazooClient) -> int:
    return int(zk.get("/controller_epoch")[0])


def holders_of(zk: KazooClient) -> list[int | None]:
    """Every later holder of `/controller`."""
    seen: list[int | None] = []

    @zk.DataWatch("/controller")  # type: ignore[untyped-decorator]
    def note(data: bytes | None, _stat: object) -> None:
        seen.append(None if data is None else int(json.loads(data)["brokerid"]))

    return seen


def named_by(cluster: LocalCluster) -> set[int | None]:
    """The controllers that brokers name."""
    return {controller_named_by(broker.address) for broker in cluster.brokers.values()}


@OLD_AND_NEW
def test_a_killed_leader_is_replaced_long_before_its_session_ends(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    with two_replicas(cluster, zk, tmp_path) as roles:
        began = time.monotonic()
        roles.leader.process.kill()

        wait_until(lambda: holder(zk) == 902, "the standby held /controller", SESSION_MS / 1000 - 3)
        claimed_s = time.monotonic() - began
        wait_until(lambda: named_by(cluster) == {902}, "every broker named it", SESSION_MS / 1000)
        named_s = time.monotonic() - began
        roles.standby.await_phase("active")

        assert claimed_s > TIMEOUT_MS / 1000
        assert epoch_of(zk) == roles.epoch + 1
        assert zk.exists("/brokers/ids/901"), "the session of the killed leader lives"
        assert not zk.exists("/kafka_zk_controller/challenge")
        assert roles.standby.measure("challenges_total", outcome="replaced") == 1
        create_topic(zk, f"after-{time.monotonic_ns()}")
        sys.stderr.write(f"SIGKILL → claimed {claimed_s:.2f} s → named by every broker {named_s:.2f} s\n")
    wait_until(lambda: not zk.exists("/brokers/ids/901"), "the id was free for the next test", 2 * SESSION_MS / 1000)


@OLD_AND_NEW
def test_a_leader_that_stands_still_is_replaced_and_stands_by_when_it_goes_on(
    cluster: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    with two_replicas(cluster, zk, tmp_path) as roles:
        leader, standby = roles.leader, roles.standby
        leader.process.signal(signal.SIGSTOP)
        try:
            wait_until(lambda: holder(zk) == 902, "the standby held /controller", SESSION_MS / 1000 - 3)
            standby.await_phase("active")
            holders = holders_of(zk)
        finally:
            leader.process.signal(signal.SIGCONT)
        leader.await_phase("standby")

        def said() -> list[str]:
            return [line["event"] for line in leader.log() if line["event"] == "replaced by 902 after a challenge"]

        wait_until(said, "it said why")
        wait_until(lambda: not zk.exists("/brokers/ids/901"), "it was registered as a broker no more")
        assert len(said()) == 1
        assert leader.measure("challenges_received_total") == leader.measure("replaced_alive_total") == 1
        assert set(holders) == {902}
        assert epoch_of(zk) == roles.epoch + 1
        create_topic(zk, f"after-{time.monotonic_ns()}")
        assert standby.phase == "active"
