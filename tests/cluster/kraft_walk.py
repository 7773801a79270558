"""How does a cluster of two brokers, with a replica of ours and a producer, walk to KRaft?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from controller.connections.broker import Broken
from controller.core.messages.replies import ClusterDescription, PartitionMetadata
from controller.core.messages.requests import DescribeCluster
from controller.demo.traffic import Traffic, TrafficSettings
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.kafka_broker import KafkaBroker
from controller.lab.ports import free_ports
from controller.lab.zookeeper import zookeeper_client
from tests.cluster import kept
from tests.cluster.kept import LONG_S, Kept, Row
from tests.cluster.kraft_quorum import NODE_ID, PROTOCOLS, Quorum
from tests.cluster.replica import Replica, content, holder, wait_until
from tests.cluster.test_migration_check import check
from tests.cluster.test_producer_ids import last_id
from tests.equipment.any_request import ask
from tests.equipment.guide import Guide, Host

PAGE = Path(__file__).parents[2] / "docs" / "kraft.md"
FORTH = "Step by step"
PARTITIONS = 4
IN_ZOOKEEPER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
IN_KRAFT = {**IN_ZOOKEEPER, "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
TOKENS = {"delegation.token.secret.key": "tokens-s3cret"}
BROKERS = {
    **IN_ZOOKEEPER,
    **TOKENS,
    **PROTOCOLS,
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.login.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}
NO_ZOOKEEPER = (
    "broker.id",
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.session.timeout.ms",
    "zookeeper.metadata.migration.enable",
)

Properties = Mapping[str, object]


class Walk:
    """One cluster on its way to KRaft, with one replica of this controller and an idempotent producer."""

    def __init__(self, cluster: LocalCluster, zk: KazooClient, ours: Replica, quorum: Quorum, what: Kept) -> None:
        self.cluster, self.zk, self.ours, self.quorum, self.kept = cluster, zk, ours, quorum, what
        settings = TrafficSettings(rate=50, is_idempotent=True)
        self.traffic = Traffic(cluster.bootstrap_servers, "orders", PARTITIONS, settings)
        self.guide = Guide(PAGE)
        self.host: Host
        self.blocks: list[int] = []
        self.born = ""
        self._began = time.monotonic()

    def say(self, what: str) -> None:
        """Note how long it took: in `walk.txt` beside the page's directory; shown where the test fails, or with -s."""
        line = f"{time.monotonic() - self._began:6.1f} s  {what}"
        print(line)  # noqa: T201 - the log of the walk
        with self.host.directory.with_name("walk.txt").open("a") as log:
            log.write(f"{line}\n")

    def does(self, label: str, chapter: str = FORTH) -> None:
        """Run the page's commands of a step."""
        self.host.walk(self.guide.take(chapter, label))

    def sees(self, phase: str) -> None:
        """Wait until the replica names this phase of the migration."""
        wait_until(lambda: self.ours.leader().get("migration") == phase, f"it saw {phase}", LONG_S)

    def goes_forth(self, elections: int = 1) -> None:
        """A quorum of so many elections waits; the brokers join it one by one, and the replica makes way."""
        self.does("Before")
        self.kept.logs_in()
        self.takes_producer_ids("in ZooKeeper mode")
        self.kept.run("kafka-topics", "--create", "--topic", "doomed", "--partitions", "2", "--replication-factor", "2")
        self.quorum.raise_epoch(elections)
        self.sees("waiting")
        assert (self.ours.phase, holder(self.zk)) == ("active", 901)
        self.does("Once the quorum has started")
        self.say("the quorum waits, and this controller leads")

        self.restart(lambda _: self.quorum.settings)
        wait_until(lambda: holder(self.zk) == NODE_ID, "KRaft led", LONG_S)
        assert not self.zk.exists("/brokers/ids/901")
        terms = [record for record in self.ours.log() if record["event"].endswith("→ active")]
        assert len(terms) == 1, "while the last broker restarted, it made way too early and claimed again"
        wait_until(lambda: content(self.zk, "/migration")["kraft_metadata_offset"] > 0, "all was copied", LONG_S)
        self.sees("dual write")
        assert (self.ours.process.is_alive, self.ours.leader()["is_ready"]) == (True, False)
        self.does("Once the last broker is back")
        self.say("KRaft leads: dual write")

    def takes_producer_ids(self, when: str) -> None:
        """Every broker hands out a new one, from a block that ZooKeeper knows."""
        self.kept.takes_producer_ids(when)
        wait_until(lambda: last_id(self.zk) >= max(self.kept.producer_ids), "ZooKeeper knew of the block", LONG_S)
        self.blocks.append(last_id(self.zk))

    def awaits_topics(self) -> None:
        """In dual write: KRaft has written that one topic was born and another has died."""
        wait_until(lambda: content(self.zk, "/brokers/topics/young"), "KRaft wrote the topic to ZooKeeper", LONG_S)
        wait_until(lambda: not self.zk.exists("/brokers/topics/doomed"), "KRaft deleted it in ZooKeeper", LONG_S)
        self.born = str(content(self.zk, "/brokers/topics/young")["topic_id"])

    def is_too_early_to_finalize(self) -> dict[str, dict[str, Any]]:
        """In dual write the check says so; returns what it found."""
        code, found = check(self.cluster)
        assert (code, found["finalizing"]["result"]) == (1, "stop"), "it is too early to finalize"
        assert found["phase"]["text"].startswith("dual write")
        return found

    def works_as_before(self) -> None:
        """The topic of dual write is the same; users log in; topics can be created and deleted."""
        young = self.kept.run("kafka-topics", "--describe", "--topic", "young")
        assert f"TopicId: {self.born}\t" in young, "the topic that was born in dual write is the same"
        assert not self.is_on_a_disk("doomed")
        self.kept.logs_in()
        self.kept.run("kafka-topics", "--create", "--topic", "late", "--partitions", "2", "--replication-factor", "2")
        self.kept.run("kafka-topics", "--delete", "--topic", "late")

    def has_kept_everything(self, *when: str) -> list[Row]:
        """Compare what the page's commands have kept in these directories, and read every record back."""
        self.traffic.stop()
        assert self.traffic.trouble is None, self.traffic.trouble
        acknowledged, found = self.traffic.acknowledged, self.traffic.read_all()
        assert len(acknowledged) >= 200
        ids = ", ".join(map(str, self.kept.producer_ids))
        rows = [
            *kept.compared(*(self.host.directory / name for name in when)),
            Row(
                "records that were acknowledged on the way; found at the end",
                (f"{len(acknowledged):,}", *[""] * (len(when) - 2), f"{len(acknowledged & found):,}"),
                is_kept=acknowledged <= found,
            ),
        ]
        self.say(f"what was kept\n\n{kept.table(rows, *when)}\n")
        self.say(f"producer ids in the order in which they were handed out: {ids}")
        self.say(f"the last id that ZooKeeper knew of each time: {', '.join(map(str, self.blocks))}")
        return rows

    def restart(self, wanted: Callable[[int], Properties], *drop: str) -> None:
        """Restart the brokers one by one with other properties, each when all replicas are in sync."""
        for number in self.cluster.brokers:
            self.restart_one(number, wanted(number), *drop)
        self.await_in_sync()

    def restart_one(self, number: int, wanted: Properties, *drop: str) -> None:
        """Restart a broker with other properties once all replicas are in sync; after a crash, start it."""
        broker = self.cluster.brokers[number]
        if broker.process.is_alive:
            self.await_in_sync()
            broker.stop(LONG_S)
        broker.properties = {key: value for key, value in {**broker.properties, **wanted}.items() if key not in drop}
        start(broker)

    def await_in_sync(self) -> None:
        """Wait until every broker names every replica in sync."""
        wait_until(
            lambda: all(self._is_in_sync(broker) for broker in self.cluster.brokers.values()), "all in sync", LONG_S
        )

    def _is_in_sync(self, broker: KafkaBroker) -> bool:
        partitions = self.partitions(broker)
        return bool(partitions) and all(p.leader >= 0 and set(p.isr) == set(p.replicas) for p in partitions)

    def partitions(self, broker: KafkaBroker) -> list[PartitionMetadata]:
        """All partitions, as a broker tells clients; none while it does not answer."""
        try:
            seen = ask(broker.address, DescribeCluster(None))
        except Broken:
            return []
        assert isinstance(seen, ClusterDescription)
        return [p for topic in seen.topics for p in topic.partitions]

    def is_on_a_disk(self, topic: str) -> bool:
        return any(name.startswith(f"{topic}-") for b in self.cluster.brokers.values() for name in b.replicas)


def start(broker: KafkaBroker) -> None:
    """Start a broker in either mode."""
    if "process.roles" not in broker.properties:
        broker.start(LONG_S)
        return
    broker.spawn()
    await_start_in_kraft(broker)


def await_start_in_kraft(broker: KafkaBroker) -> None:
    """Wait until a broker in KRaft mode takes part."""
    started = b"Transition from STARTING to STARTED"
    broker.process.wait_until(lambda: started in broker.process.output_since_start(), LONG_S, waiting_for="it started")


@contextmanager
def walking(version: str, directory: Path) -> Iterator[Walk]:
    """A cluster with everything that has to be kept, led by a replica of ours; the producer runs."""
    try:
        cluster = LocalCluster(ClusterSettings(version=version, broker_ids=(1, 2), overrides=BROKERS))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    logins = dict(zip(cluster.brokers, free_ports(2), strict=True))
    for number, broker in cluster.brokers.items():
        both = f"PLAINTEXT://127.0.0.1:{broker.port},LOGIN://127.0.0.1:{logins[number]}"
        broker.properties.update({"listeners": both, "advertised.listeners": both})
    login_address = f"127.0.0.1:{logins[1]}"
    names = {
        "zk1:2181/kafka": cluster.zookeeper_connect,
        "kafka-1:9092": cluster.brokers[1].address,
        "kafka-1:9093": login_address,
    }
    protocol = ".".join(version.split(".")[:2])
    with ExitStack() as stack:
        stack.enter_context(cluster)
        zk = stack.enter_context(zookeeper_client(cluster.zookeeper_connect))
        ours = stack.enter_context(
            Replica(
                cluster.zookeeper_connect, directory, 901,
                inter_broker_protocol_version=protocol, new_cluster=False, **IN_ZOOKEEPER,
            )
        )  # fmt: skip
        ours.await_phase("active", LONG_S)
        host = stack.enter_context(Host(directory / "host", names, kept.commands(cluster, directory / "scripts")))
        what = Kept(cluster, login_address, host.directory / "alice.properties")
        what.plant()
        quorum = Quorum(version, cluster.zookeeper_connect, zk, directory / "quorum", {**IN_KRAFT, **TOKENS})
        stack.callback(quorum.kill)
        walk = Walk(cluster, zk, ours, quorum, what)
        walk.host = host
        walk.await_in_sync()
        with walk.traffic:
            yield walk
