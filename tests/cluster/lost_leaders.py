"""Which faults hit a leader in a test on real servers, and how long was the cluster without a decision?

The standby is warm and challenges. The leader reaches ZooKeeper, and is reached, through links that can be cut.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Self

from kazoo.client import KazooClient
from msgspec import Struct

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ReassignmentsAltered
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.demo.move import first_plan, has_arrived, next_plan
from controller.demo.znodes import Plan, Znodes
from controller.lab.cluster import LocalCluster
from controller.lab.ports import free_port
from tests.chaos.ledger import Judgement
from tests.chaos.load import Load, LoadSettings
from tests.chaos.proxy import Link, Mode, Proxies
from tests.cluster.replica import Replica, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

SESSION_MS, TIMEOUT_MS = 18_000, 1_000
PARTITIONS = 3
_PROBE_EVERY_S = 0.2
_LONG_S = 90.0
_STATE = "/brokers/topics/{}/partitions/0/state"


class Fault(Enum):
    """What happens to the leader."""

    KILLED = "SIGKILL"
    FROZEN = "SIGSTOP"
    CUT_OFF = "cut off from everybody"
    CUT_FROM_ZOOKEEPER = "cut off from ZooKeeper"
    UNREACHABLE = "cannot be reached by the standby and brokers"
    RESTARTED = "planned restart"

    @property
    def is_survived(self) -> bool:
        """Whether the leader must stay: it decides, and ZooKeeper hears it."""
        return self is Fault.UNREACHABLE


class Outcome(Struct, frozen=True):
    """What one fault of a leader cost.

    Units:
        Seconds. `claimed_s` is from the fault to the successor's claim, None if the leader stayed; `undecided_s` the
        longest wait of a new topic for its first leader, both by ZooKeeper's clock; `silent_s` the longest time in
        which a partition acknowledged nothing.
    """

    version: str
    fault: Fault
    claimed_s: float | None
    undecided_s: float
    silent_s: float
    judged: Judgement


class Probe:
    """Creates a topic again and again: how long does each wait for its leader?"""

    def __init__(self, zk: KazooClient, name: str) -> None:
        self._zk = zk
        self._name = name
        self._topics: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._create, name="probe", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def longest_s(self) -> float:
        """The longest wait, by ZooKeeper's clock; waits for those that still wait."""
        for topic in self._topics:
            wait_until(partial(self._zk.exists, _STATE.format(topic)), f"{topic} had a leader", _LONG_S)
        return max(self._waited_s(topic) for topic in self._topics)

    def _waited_s(self, topic: str) -> float:
        led, made = (self._zk.exists(path) for path in (_STATE.format(topic), f"/brokers/topics/{topic}"))
        return float(led.ctime - made.ctime) / 1000

    def _create(self) -> None:
        while not self._is_over.is_set():
            topic = f"{self._name}-{len(self._topics)}"
            self._zk.create(f"/brokers/topics/{topic}", b'{"version":1,"partitions":{"0":[1,2]}}')
            self._topics.append(topic)
            self._is_over.wait(_PROBE_EVERY_S)


class Pair(Struct):
    """A leader whose connections can be cut, a warm standby, and records that are written all the time."""

    cluster: LocalCluster
    zk: KazooClient
    znodes: Znodes
    leader: Replica
    standby: Replica
    proxies: Proxies
    to_zookeeper: Link
    to_leader: Link
    load: Load
    plan: Plan

    @property
    def epoch(self) -> int:
        """The controller epoch."""
        return int(self.znodes.controller_epoch())

    @property
    def topics(self) -> tuple[str, str]:
        """The topics that the producers write to."""
        return self.load.settings.plain_topic, self.load.settings.idempotent_topic

    def strike(self, fault: Fault) -> None:
        """Let it happen."""
        match fault:
            case Fault.KILLED:
                self.leader.process.kill()
            case Fault.FROZEN:
                self.leader.process.signal(SIGSTOP)
            case Fault.RESTARTED:
                self.leader.process.stop()
                self.leader.process.start()
            case Fault.CUT_OFF | Fault.CUT_FROM_ZOOKEEPER | Fault.UNREACHABLE:
                for link in self._cut_by(fault):
                    self.proxies.become(link, Mode.HALF_OPEN)

    def mend(self, fault: Fault) -> None:
        """Let the leader come back, if it can."""
        if fault is Fault.FROZEN:
            self.leader.process.signal(SIGCONT)
        for link in self._cut_by(fault):
            self.proxies.become(link, Mode.CUT)  # what came through the old connections is lost
            self.proxies.become(link, Mode.OPEN)

    def move(self) -> None:
        """Have every partition that is written to moved; returns when the leader has accepted that."""
        self.plan = next_plan(tuple(self.cluster.brokers), self.plan)
        moves = tuple(
            PartitionReassignment(TopicPartition(TopicName(topic), PartitionId(p)), tuple(map(BrokerId, replicas)))
            for topic in self.topics
            for p, replicas in self.plan.items()
        )
        answer = self.leader.ask(AlterReassignments(moves))
        assert isinstance(answer, ReassignmentsAltered)
        assert all(result.error is ErrorCode.NONE for result in answer.results), answer

    def await_arrival(self) -> None:
        """Wait until the partitions that are written to are where they should be, all in sync."""
        for topic in self.topics:
            wait_until(partial(self._has_arrived, topic), f"{topic} moved", _LONG_S)

    def _has_arrived(self, topic: str) -> bool:
        return has_arrived(self.znodes.partitions(topic), self.plan)

    def _cut_by(self, fault: Fault) -> tuple[Link, ...]:
        match fault:
            case Fault.CUT_OFF:
                return self.to_zookeeper, self.to_leader
            case Fault.CUT_FROM_ZOOKEEPER:
                return (self.to_zookeeper,)
            case Fault.UNREACHABLE:
                return (self.to_leader,)
        return ()


@contextmanager
def led_by_a_pair(cluster: LocalCluster, zk: KazooClient, directory: Path) -> Iterator[Pair]:
    """Lead the cluster with a replica whose connections can be cut, and have another one stand by."""
    names = f"plain-{time.monotonic_ns()}", f"idempotent-{time.monotonic_ns()}"
    proxies, port = Proxies(), free_port()
    to_zookeeper = proxies.link("the leader to ZooKeeper", cluster.zookeeper.port)
    to_leader = proxies.link("to the leader", port)
    settings = {
        "zookeeper_session_timeout_ms": SESSION_MS,
        "controller_challenge_timeout_ms": TIMEOUT_MS,
        "controller_standby_warm": "true",
        "inter_broker_protocol_version": "auto",
    }
    addresses = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised_listeners": f"PLAINTEXT://127.0.0.1:{to_leader.port}",
    }
    reached = f"127.0.0.1:{to_zookeeper.port}{cluster.settings.chroot}"
    leader = Replica(reached, directory, 901, **settings, **addresses)
    leader.port = port
    standby = Replica(cluster.zookeeper_connect, directory, 902, controller_takeover="when-vacant", **settings)
    try:
        with Znodes(cluster.zookeeper_connect) as znodes, leader:
            leader.await_phase("active", _LONG_S)
            load = Load(cluster.bootstrap_servers.split(","), LoadSettings(200, PARTITIONS, *names))
            pair = Pair(cluster, zk, znodes, leader, standby, proxies, to_zookeeper, to_leader, load, {})
            pair.plan = first_plan(tuple(cluster.brokers), PARTITIONS)
            for topic in pair.topics:
                znodes.create_topic(topic, pair.plan)
            pair.await_arrival()
            with standby:
                standby.await_phase("standby", _LONG_S)
                wait_until(lambda: standby.measure("standby_partitions") > 0, "the standby was warm", _LONG_S)
                wait_until(lambda: zk.exists("/kafka_zk_controller/replicas/901"), "the leader showed itself")
                yield pair
    finally:
        proxies.stop()


def successor_of(zk: KazooClient, former: int) -> float | None:
    """When another one than the former leader claimed `/controller`, in seconds of the wall clock."""
    found = zk.retry(zk.get, "/controller") if zk.exists("/controller") else None
    return None if found is None or json.loads(found[0])["brokerid"] == former else found[1].ctime / 1000
