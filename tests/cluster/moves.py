"""How do two replicas lead a test's cluster, with a producer running, and how is a finished move judged?"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from msgspec import Struct

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ReassignmentsAltered
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.demo.move import ReassignTool, first_plan, has_arrived
from controller.demo.pair import Pair
from controller.demo.replicas import Replica
from controller.demo.story import BROKER_PROPERTIES
from controller.demo.traffic import Traffic, TrafficSettings
from controller.demo.waiting import wait_for
from controller.demo.znodes import PartitionSeen, Plan, Znodes
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable, LabError
from controller.lab.kafka_broker import KafkaBroker
from tests.equipment.any_request import ask
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition


class LedCluster(Struct):
    """A cluster led by one of our two replicas."""

    cluster: LocalCluster
    znodes: Znodes
    pair: Pair

    @property
    def leader(self) -> Replica:
        """The replica that holds `/controller`."""
        leader = self.pair.leader
        assert leader is not None, f"/controller: {self.znodes.controller()}"
        return leader

    def topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> Topic:
        """A new topic, two replicas each, all in sync."""
        plan = first_plan(tuple(self.cluster.brokers), partitions)
        self.znodes.create_topic(name, plan, config)
        topic = Topic(self, name, plan)
        topic.await_arrival()
        return topic


class Topic(Struct):
    """One topic of the test, and its former or required replicas."""

    led: LedCluster
    name: str
    plan: Plan
    left_by_natives: dict[int, set[str]] = {}

    @property
    def partitions(self) -> tuple[PartitionSeen, ...]:
        """The partitions in ZooKeeper."""
        return self.led.znodes.partitions(self.name)

    @property
    def tool(self) -> ReassignTool:
        """Run Kafka's own tool for this topic."""
        return ReassignTool.of(self.led.cluster, self.name)

    def traffic(self, settings: TrafficSettings | None = None) -> Traffic:
        """A producer with acks=all and a consumer."""
        return Traffic(self.led.cluster.bootstrap_servers, self.name, len(self.plan), settings)

    def await_arrival(self, timeout_s: float = 60.0) -> None:
        """Wait until each partition has its replicas, all in sync, and nothing moves."""
        try:
            wait_for(
                lambda: has_arrived(self.partitions, self.plan), f"{self.name} at {self.plan}", timeout_s=timeout_s
            )
        except LabError as error:
            error.add_note(f"It is at {self.partitions}; its brokers keep {self._on_disks()}.")
            raise

    def await_exact_disks(self, timeout_s: float = 30.0) -> None:
        """Wait until each broker has exactly its replicas; strays fail."""
        wanted = self._wanted()

        def is_exact() -> bool:
            found, left = self._on_disks(), self.left_by_natives
            return all(found[b] - left.get(b, set()) == wanted[b] - left.get(b, set()) for b in wanted)

        wait_for(is_exact, f"disks with exactly {wanted}", timeout_s=timeout_s)

    def note_what_a_native_left(self, timeout_s: float = 10.0) -> dict[int, set[str]]:
        """Note the strays of a native controller that was replaced while it ended moves, and left no record of them."""
        wanted = self._wanted()
        with suppress(LabError):
            wait_for(lambda: self._on_disks() == wanted, "exact disks", timeout_s=timeout_s)
        found = self._on_disks()
        self.left_by_natives = {b: found[b] - wanted[b] for b in wanted if found[b] - wanted[b]}
        return self.left_by_natives

    def _wanted(self) -> dict[int, set[str]]:
        return {
            broker: {f"{self.name}-{p}" for p, replicas in self.plan.items() if broker in replicas}
            for broker in self.led.cluster.brokers
        }

    def _on_disks(self) -> dict[int, set[str]]:
        names = {f"{self.name}-{p}" for p in self.plan}
        return {broker_id: set(broker.replicas & names) for broker_id, broker in self.led.cluster.brokers.items()}


def submit(leader: Replica, topic: Topic) -> None:
    """Ask the controller for the move, as Kafka's tool does in the end."""
    reassignments = tuple(
        PartitionReassignment(TopicPartition(TopicName(topic.name), PartitionId(p)), tuple(map(BrokerId, replicas)))
        for p, replicas in topic.plan.items()
    )
    answer = ask(leader.address, AlterReassignments(reassignments))
    assert isinstance(answer, ReassignmentsAltered)
    assert answer.error is ErrorCode.NONE, answer
    assert all(result.error is ErrorCode.NONE for result in answer.results), answer


def after_cancelling(before: Plan) -> Plan:
    """The former replicas, in the order in which Kafka's controller leaves them, too: the target's come first.

    `next_plan` replaces the first of two replicas, so the second one was the target's too.
    """
    return {p: (stayed, left) for p, (left, stayed) in before.items()}


def slow_cluster(*, is_smooth: bool = False) -> Iterator[LocalCluster]:
    """For fixtures: three brokers 3.9.1 whose followers fetch in small steps.

    If `smooth`, a throttle holds from the first second on; by default Kafka lets ten seconds' worth pass at once.
    """
    overrides = {**BROKER_PROPERTIES, **({"replication.quota.window.num": 2} if is_smooth else {})}
    try:
        cluster = LocalCluster(ClusterSettings(overrides=overrides))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


@contextmanager
def led(cluster: LocalCluster, directory: Path) -> Iterator[LedCluster]:
    """Two replicas of ours beside a cluster; in the end its native controllers lead again."""
    with Znodes(cluster.zookeeper_connect) as znodes:
        pair = Pair(znodes, cluster.zookeeper_connect, cluster.version, directory)
        ids = [replica.replica_id for replica in pair.members]
        wait_for(lambda: not any(map(znodes.is_registered, ids)), "the end of an earlier pair's sessions")
        try:
            pair.start()
            # A replica that is stopped before it handles signals dies of them.
            wait_for(lambda: all(replica.status() for replica in pair.members), "both of them answering")
            yield LedCluster(cluster, znodes, pair)
            codes = pair.stop()
            assert set(codes.values()) == {0}, f"exit codes {codes}"
        finally:
            pair.end()


def assert_nothing_lost(traffic: Traffic, at_least: int = 1) -> None:
    """Every acknowledged record is there, and every record was acknowledged."""
    found = traffic.read_all()
    assert traffic.trouble is None, traffic.trouble
    assert traffic.refused == {}
    assert len(traffic.acknowledged) >= at_least
    assert traffic.acknowledged - found == set()
    assert traffic.acknowledged - traffic.consumed == set()


@contextmanager
def muted(broker: KafkaBroker) -> Iterator[None]:
    """Pause a broker for a moment, within its session time-out."""
    broker.process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        broker.process.signal(signal.SIGCONT)
