"""Which cluster do the clients use, who leads it, and what does it hold?"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from controller.demo.clients import ConfigResource, ConfigResourceType, KafkaAdminClient, KafkaProducer, TopicPartition
from controller.demo.replicas import Replica, ReplicaSettings, total
from controller.demo.story import BROKER_PROPERTIES
from controller.demo.waiting import wait_for
from controller.demo.znodes import Znodes
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.jars import Progress

OURS, NATIVE = "ours", "native"
BROKERS, CONTROLLER = "brokers", "controller"
BOOTSTRAPS = (BROKERS, CONTROLLER)
OWN_ID = 901
MOVE_FROM, MOVE_TO = (1, 2), (3, 2)

_THROTTLE_BYTES_S = 1000
_MOVING_RECORDS, _RECORD_BYTES = 300, 1000
_OVERRIDES = {**BROKER_PROPERTIES, "auto.leader.rebalance.enable": "false"}


class Stage(Struct):
    """A real cluster, under one controller at a time."""

    cluster: LocalCluster
    znodes: Znodes
    ours: Replica | None = None

    def bootstrap(self, which: str) -> str:
        """The address of a broker that does not lead (which lists the others), or of the controller."""
        leader = self.leader()
        if which == CONTROLLER:
            return self.ours.address if self.ours else self.cluster.brokers[leader].address
        return ",".join(broker.address for number, broker in self.cluster.brokers.items() if number != leader)

    def leader(self) -> int:
        """The holder of `/controller`."""
        return int(wait_for(self.znodes.controller, "a holder of /controller").broker)

    def prepare(self, prefix: str) -> None:
        """Create the topics of one run that exist before the client starts.

        One has data, and its new replicas are throttled, so that a move of it takes minutes; the other is led by a
        replica that is not the preferred one.
        """
        moving, electing = f"{prefix}-moving", f"{prefix}-electing"
        self.znodes.create_topic(moving, {0: MOVE_FROM}, {"follower.replication.throttled.replicas": f"0:{MOVE_TO[0]}"})
        self.znodes.create_topic(electing, {0: (1, 2)})
        self._await_in_sync(moving, electing)
        producer = KafkaProducer(bootstrap_servers=self._addresses, acks="all")
        try:
            for _ in range(_MOVING_RECORDS):
                producer.send(moving, bytes(_RECORD_BYTES), partition=0)
            producer.flush()
        finally:
            producer.close()
        with self._admin() as admin:
            admin.alter_partition_reassignments({TopicPartition(electing, 0): [2, 1]})
        wait_for(lambda: self._replicas(electing) == (2, 1), "the other order of replicas")

    def throttle(self) -> None:
        """Set every broker's rate, which applies only to topics that name their throttled replicas."""
        rate = {"follower.replication.throttled.rate": str(_THROTTLE_BYTES_S)}
        brokers = [ConfigResource(ConfigResourceType.BROKER, str(number), rate) for number in self.cluster.brokers]
        with self._admin() as admin:
            admin.alter_configs(brokers, raise_on_unknown=False)

    @property
    def _addresses(self) -> list[str]:
        return self.cluster.bootstrap_servers.split(",")

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        admin = KafkaAdminClient(bootstrap_servers=self._addresses)
        try:
            yield admin
        finally:
            admin.close()

    def _await_in_sync(self, *topics: str) -> None:
        def are_in_sync() -> bool:
            states = [seen.state for topic in topics for seen in self.znodes.partitions(topic)]
            return len(states) == len(topics) and all(state is not None and len(state.isr) == 2 for state in states)

        wait_for(are_in_sync, "topics with all replicas in sync")

    def _replicas(self, topic: str) -> tuple[int, ...]:
        (seen,) = self.znodes.partitions(topic)
        return tuple(seen.assignment.replicas)


@contextmanager
def stage(kafka: str, progress: Progress) -> Iterator[Stage]:
    """ZooKeeper and brokers 1, 2, 3, under a native controller at first."""
    settings = ClusterSettings(version=kafka, overrides=_OVERRIDES)
    with LocalCluster(settings, progress=progress) as cluster, Znodes(cluster.zookeeper_connect) as znodes:
        made = Stage(cluster, znodes)
        made.throttle()
        yield made


@contextmanager
def led_by_ours(stage: Stage, directory: Path) -> Iterator[None]:
    """Our controller leads during the `with`."""
    more = {"auto.leader.rebalance.enable": "false"}
    settings = ReplicaSettings(OWN_ID, stage.cluster.zookeeper_connect, stage.cluster.version, more)
    replica = Replica(settings, directory)
    replica.process.start()
    try:
        replica.process.wait_until(
            lambda: total(replica.figures(), "broker_command_seconds_count") > 0, 60, waiting_for="a broker obeyed it"
        )
        stage.ours = replica
        yield
    finally:
        stage.ours = None
        replica.process.stop()


def answers(host: str, port: int) -> bool:
    """Whether a process listens there."""
    try:
        with socket.create_connection((host, port), timeout=5):
            return True
    except OSError:
        return False
