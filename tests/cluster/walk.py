"""Which steps does every broker version go through under our controller?

Each step fails if something is wrong, and returns a sentence that says what was run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from controller.core.stage import Stage
from controller.demo.clients import KafkaConsumer, KafkaProducer
from controller.demo.move import first_plan, has_arrived, next_plan
from controller.demo.pair import Pair
from controller.demo.replicas import Replica
from controller.demo.traffic import Traffic, TrafficSettings
from controller.demo.waiting import wait_for
from controller.demo.znodes import PartitionSeen, Znodes
from controller.lab.asking import controller_named_by
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.wire.versions import parse_protocol
from tests.cluster.moves import LedCluster, Topic, assert_nothing_lost, submit
from tests.cluster.throttle import newcomers_throttled
from tests.cluster.topic_creation import ask_for
from zk_layout.ids import TopicId, TopicName

# The oldest and one of the newest.
OFTEN = ("2.4.1", "3.9.1")
VERSIONS = (
    "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.9.1", "3.9.2",
)  # fmt: skip
"""The versions between which the protocol of controllers and brokers changed."""

BY_TOOL = TopicName("by-tool")
PARTITIONS = 4
FILLED_BYTES = 800_000  # in each partition: several batches, since the first comes whole whatever the throttle
RATE_BYTES_S = 1_000  # a move would take many minutes
STOPS_WITHIN_S = 120.0
SETTLES_WITHIN_S = 150.0
PERMITTED = ("Controlled shutdown request returned successfully", "Controlled shutdown succeeded")
BROKER_PROPERTIES = {
    "auto.create.topics.enable": "true",
    "num.partitions": 2,
    "default.replication.factor": 2,
    "log.segment.delete.delay.ms": 500,
    "replica.fetch.max.bytes": 16 * 1024,
    "replica.fetch.response.max.bytes": 64 * 1024,
    "zookeeper.session.timeout.ms": 15_000,
}


class Walk(Struct):
    """A cluster of one version, with a producer and a consumer at work on the topic `orders`."""

    led: LedCluster
    orders: Topic
    traffic: Traffic
    facts: dict[str, str]
    topic_ids: Mapping[TopicName, TopicId | None] = {}

    @property
    def cluster(self) -> LocalCluster:
        """The brokers and ZooKeeper."""
        return self.led.cluster

    @property
    def znodes(self) -> Znodes:
        """The cluster's znodes."""
        return self.led.znodes

    @property
    def has_topic_ids(self) -> bool:
        """Whether topics of this version have ids."""
        return parse_protocol(self.cluster.version).has_topic_ids

    def run(self, tool: str, *args: str) -> str:
        """Run Kafka's own tool of this version, which finds our controller by itself; return the command."""
        result = self.cluster.tools.run(tool, "--bootstrap-server", self.cluster.bootstrap_servers, *args)
        assert result.exit_code == 0, result.output
        assert "Exception" not in result.output, result.output
        return f"`{' '.join((tool, *args))}`"

    def topic(self, name: str, partitions: int) -> Topic:
        """A topic created elsewhere, once all its partitions are led by real brokers and in sync."""
        seen = wait_for(lambda: self._complete(name, partitions), f"{name} with {partitions} partitions in sync")
        return Topic(self.led, name, seen)

    def on_disks(self, topic: str) -> set[str]:
        """The replicas of a topic on brokers' disks."""
        kept = {name for broker in self.cluster.brokers.values() for name in broker.replicas}
        return {name for name in kept if name.rpartition("-")[0] == topic}

    def is_balanced(self) -> bool:
        """Whether every partition of `orders` is led by its first replica."""
        return all(p.state is not None and p.state.leader == p.assignment.replicas[0] for p in self.orders.partitions)

    def settle(self) -> None:
        """Wait until `orders` has its target replicas, all in sync and nothing moving."""
        self.orders.await_arrival(SETTLES_WITHIN_S)

    def wanted(self) -> None:
        """Choose other brokers for all of `orders`."""
        self.orders.plan = next_plan(tuple(self.cluster.brokers), self.orders.plan)

    def is_moving(self) -> bool:
        """Whether every partition of `orders` is catching up."""
        return all(p.stage is Stage.CATCHING_UP for p in self.orders.partitions)

    def _complete(self, name: str, partitions: int) -> dict[int, tuple[int, ...]] | None:
        seen = self.znodes.partitions(name)
        plan = {int(p.partition): tuple(map(int, p.assignment.replicas)) for p in seen}
        return plan if len(seen) == partitions and has_arrived(seen, plan) else None


@contextmanager
def walking(version: str, directory: Path) -> Iterator[Walk]:
    """A cluster led by its native controller, and two replicas of ours, not started yet."""
    overrides = {**BROKER_PROPERTIES, "inter.broker.protocol.version": ".".join(version.split(".")[:2])}
    try:
        cluster = LocalCluster(ClusterSettings(version=version, overrides=overrides), directory=directory / "servers")
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster, Znodes(cluster.zookeeper_connect) as znodes:
        pair = Pair(znodes, cluster.zookeeper_connect, version, directory)
        try:
            orders = Topic(LedCluster(cluster, znodes, pair), "orders", first_plan(tuple(cluster.brokers), PARTITIONS))
            znodes.create_topic(orders.name, orders.plan)
            orders.await_arrival()
            traffic = orders.traffic(TrafficSettings(rate=100))
            traffic.fill(dict.fromkeys(orders.plan, FILLED_BYTES))
            with traffic:
                yield Walk(orders.led, orders, traffic, _facts(version))
        finally:
            pair.end()
    shutil.rmtree(cluster.directory)  # kept after a failure, for its logs


def _facts(version: str) -> dict[str, str]:
    protocol = parse_protocol(version)
    return {
        "inter.broker.protocol.version": str(protocol),
        "LeaderAndIsr, StopReplica, UpdateMetadata": (
            f"{protocol.leader_and_isr}, {protocol.stop_replica}, {protocol.update_metadata}"
        ),
        "topic ids": "yes" if protocol.has_topic_ids else "no",
    }


def take_over(walk: Walk) -> str:
    """The native controller has a move under way; ours replaces it, and finishes the move."""
    native, epoch = walk.znodes.controller(), walk.znodes.controller_epoch()
    assert native is not None
    assert not native.is_ours
    walk.wanted()
    with newcomers_throttled(walk.orders, RATE_BYTES_S):
        walk.znodes.submit_legacy_move(walk.orders.name, walk.orders.plan)
        wait_for(walk.is_moving, "the native controller moving the topic")
        change = walk.led.pair.start()
        assert walk.znodes.controller_epoch() > epoch
        assert walk.is_moving()
    walk.settle()
    walk.orders.await_exact_disks()
    _every_broker_names(walk, change.leader.replica_id)
    _every_standby_is_ready(walk)
    _leaders_change_isrs_as_their_version_does(walk, change.leader)
    walk.topic_ids = {name: topic.topic_id for name, topic in walk.znodes.topics().items()}
    assert all((topic_id is not None) is walk.has_topic_ids for topic_id in walk.topic_ids.values())
    return "replaced the native controller during its move of 4 partitions, and finished that move"


def bounce(walk: Walk) -> str:
    """A broker is killed: its partitions are led by others; it returns, and is in sync again."""
    walk.cluster.brokers[1].kill()
    wait_for(lambda: all(_without(p, 1) for p in walk.orders.partitions), "no partition led by broker 1")
    walk.cluster.brokers[1].restart()
    walk.settle()
    return "SIGKILL of a broker, restart on its data"


def _without(seen: PartitionSeen, broker: int) -> bool:
    state = seen.state
    return state is not None and state.leader != broker and broker not in state.isr


def controlled_shutdown(walk: Walk) -> str:
    """A broker requests a controlled shutdown, and gets it."""
    led = [p for p in walk.orders.partitions if p.state is not None and p.state.leader == 2]
    assert led, "broker 2 leads nothing: the step would show nothing"
    walk.cluster.brokers[2].stop(STOPS_WITHIN_S)
    log = walk.cluster.brokers[2].process.output_since_start().decode()
    assert all(_without(p, 2) for p in walk.orders.partitions)
    walk.cluster.brokers[2].start()
    walk.settle()
    assert any(text in log for text in PERMITTED), log[-3000:]
    return "SIGTERM of a broker: its request was permitted, its partitions handed over"


def creation(walk: Walk) -> str:
    """Kafka's own tool creates a topic, which gets leaders and, where its version has them, an id."""
    ran = walk.run("kafka-topics", "--create", "--topic", BY_TOOL, "--partitions", "2", "--replication-factor", "2")
    assert walk.topic(BY_TOOL, 2).plan.keys() == {0, 1}
    assert (walk.znodes.topics()[BY_TOOL].topic_id is not None) is walk.has_topic_ids
    return ran


def expansion(walk: Walk) -> str:
    """Kafka's own tool adds partitions; those that were there stay as they are."""
    before = walk.topic(BY_TOOL, 2).plan
    ran = walk.run("kafka-topics", "--alter", "--topic", BY_TOOL, "--partitions", "4")
    after = walk.topic(BY_TOOL, 4).plan
    assert before.items() <= after.items()
    return ran


def clients(walk: Walk) -> str:
    """An idempotent producer and a consumer group that know only our leader's address work."""
    address = walk.led.leader.address
    producer = KafkaProducer(bootstrap_servers=address, acks="all", enable_idempotence=True, max_block_ms=60_000)
    sent = [producer.send(BY_TOOL, f"record {number}".encode()) for number in range(20)]
    places = {(record.partition, record.offset) for record in (future.get(timeout=60) for future in sent)}
    producer.close(timeout=10)
    consumer = KafkaConsumer(
        BY_TOOL, bootstrap_servers=address, group_id="walkers", auto_offset_reset="earliest", enable_auto_commit=False
    )
    found: set[tuple[int, int]] = set()
    wait_for(lambda: places <= _read_more(consumer, found), "every record read by the group")
    consumer.commit()
    consumer.close()
    return "20 records through an idempotent producer, read and committed by a consumer group"


def deletion(walk: Walk) -> str:
    """Kafka's own tool deletes a topic: nothing of it is left in ZooKeeper or on a disk."""
    ran = walk.run("kafka-topics", "--delete", "--topic", BY_TOOL)
    wait_for(lambda: BY_TOOL not in walk.znodes.topics(), "the topic gone from ZooKeeper")
    wait_for(lambda: not walk.on_disks(BY_TOOL), "the topic gone from the disks")
    for path in ("/admin/delete_topics", "/config/topics"):
        assert BY_TOOL not in walk.znodes.children(path)
    return ran


def preferred_election(walk: Walk) -> str:
    """Kafka's own tool makes the preferred replicas lead again that lost leadership in earlier steps."""
    walk.settle()
    assert not walk.is_balanced(), "every leader is the preferred one: the step would show nothing"
    ran = walk.run("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
    wait_for(walk.is_balanced, "the preferred replicas leading")
    walk.settle()
    return ran


def auto_creation(walk: Walk) -> str:
    """A broker creates a topic because a client asks about it."""
    names = [f"by-broker-{number}" for number in range(3)]
    for name in names:
        wait_for(partial(ask_for, walk.cluster.brokers[1], name, walk.znodes), f"{name} created")
    placed = {broker for name in names for replicas in walk.topic(name, 2).plan.values() for broker in replicas}
    assert placed <= set(walk.cluster.brokers)
    return "3 topics created by a broker that was asked about them"


def move_with_fail_over(walk: Walk) -> str:
    """The leading replica is killed during a move; the other finishes it."""
    walk.wanted()
    leader, epoch = walk.led.leader, walk.znodes.controller_epoch()
    walk.orders.tool.plan(walk.orders.name, walk.orders.plan)
    with newcomers_throttled(walk.orders, RATE_BYTES_S):
        ran = walk.orders.tool.execute()
        assert ran.exit_code == 0, ran.output
        wait_for(walk.is_moving, "our controller moving the topic")
        killed_at = walk.led.pair.kill(leader)
        change = walk.led.pair.wait_for_leader(killed_at, other_than=leader)
        assert walk.is_moving()
    walk.settle()
    walk.orders.await_exact_disks()
    assert walk.znodes.controller_epoch() > epoch
    assert change.leader is not leader
    leader.process.start()
    _every_standby_is_ready(walk)
    return f"`{' '.join(walk.orders.tool.command('--execute')[:2])}`, SIGKILL of our leader during the move"


def hand_back(walk: Walk) -> str:
    """`release` gives the cluster to a native controller, which finishes our move, and creates a topic."""
    walk.wanted()
    with newcomers_throttled(walk.orders, RATE_BYTES_S):
        submit(walk.led.leader, walk.orders)
        release(walk)
        native = walk.znodes.controller()
        assert native is not None
        assert not native.is_ours
        assert walk.is_moving()
    walk.settle()
    walk.orders.await_exact_disks()
    _every_broker_names(walk, native.broker)
    wait_for(partial(ask_for, walk.cluster.brokers[1], "afterwards", walk.znodes), "a topic created")
    walk.topic("afterwards", 2)
    return "`kafka-zk-controller release` during a move of 4 partitions"


def taking_back(walk: Walk) -> str:
    """Ours lead again, keep every topic's id, move replicas, and stop cleanly."""
    release(walk, "--undo")
    _every_standby_is_ready(walk)
    walk.wanted()
    submit(walk.led.leader, walk.orders)
    walk.settle()
    kept = {name: topic.topic_id for name, topic in walk.znodes.topics().items() if name in walk.topic_ids}
    assert kept == walk.topic_ids
    codes = walk.led.pair.stop()
    assert set(codes.values()) == {0}, codes
    return "`kafka-zk-controller release --undo`, a move of 4 partitions, SIGTERM of both replicas"


def release(walk: Walk, *options: str) -> None:
    """Run the command."""
    argv = (sys.executable, "-m", "controller", "release", "--zookeeper", walk.cluster.zookeeper_connect, *options)
    run = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def nothing_lost(walk: Walk) -> str:
    """Every acknowledged record is there."""
    walk.traffic.stop()
    assert_nothing_lost(walk.traffic, at_least=200)
    walk.facts["records acknowledged"] = f"{len(walk.traffic.acknowledged):,}"
    return "a new consumer reads every record that was acknowledged (`acks=all`)"


Step = Callable[[Walk], str]
STEPS: Mapping[str, Step] = {
    "take-over": take_over,
    "broker bounce": bounce,
    "controlled shutdown": controlled_shutdown,
    "preferred election": preferred_election,
    "topic creation by tool": creation,
    "topic creation by a broker": auto_creation,
    "clients": clients,
    "topic expansion": expansion,
    "topic deletion": deletion,
    "reassignment with a fail-over": move_with_fail_over,
    "hand-back": hand_back,
    "taking it back": taking_back,
    "no record lost": nothing_lost,
}


def _every_broker_names(walk: Walk, controller: int) -> None:
    for broker in walk.cluster.brokers.values():
        what = f"broker {broker.broker_id} naming {controller} as the controller"
        wait_for(partial(_names, broker.address, controller), what)


def _names(address: str, controller: int) -> bool:
    return controller_named_by(address) == controller


def _leaders_change_isrs_as_their_version_does(walk: Walk, leader: Replica) -> None:
    asks = parse_protocol(walk.cluster.version).leaders_use_alter_partition
    assert (isr_requests(leader) > 0) is asks
    walk.facts["ISR changes"] = "AlterPartition" if asks else "state znode"


def _every_standby_is_ready(walk: Walk) -> None:
    members: list[Replica] = list(walk.led.pair.members)
    wait_for(lambda: all(replica.status().get("is_ready") for replica in members), "both replicas ready")


def isr_requests(leader: Replica) -> float:
    """The number of AlterPartition requests that this controller got."""
    return leader.figures().get("requests_total{api=AlterPartition (56),listener=PLAINTEXT}", 0)


def _read_more(consumer: Any, found: set[tuple[int, int]]) -> set[tuple[int, int]]:
    for records in consumer.poll(timeout_ms=500).values():
        found.update((record.partition, record.offset) for record in records)
    return found
