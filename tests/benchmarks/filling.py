"""How is a cluster with very many partitions written to ZooKeeper quickly? In big transactions, many in flight."""

from __future__ import annotations

import base64
import hashlib
import time
from collections import deque
from collections.abc import Iterable, Iterator

from kazoo.client import KazooClient
from kazoo.interfaces import IAsyncResult
from msgspec import Struct

from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, Replicas, TopicId, TopicName
from zk_layout.znodes import partition_state, topics
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

CREATES_PER_TRANSACTION = 400
TRANSACTIONS_IN_FLIGHT = 20
FIRST_EPOCH = 1

_PERSISTENT = (
    "/admin/delete_topics",
    "/brokers/ids",
    "/brokers/seqid",
    "/brokers/topics",
    "/cluster",
    "/config/brokers",
    "/config/changes",
    "/config/clients",
    "/config/ips",
    "/config/topics",
    "/config/users",
    "/consumers",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
)


class Shape(Struct, frozen=True):
    """The numbers of topics, partitions, replicas and brokers (numbered from 0)."""

    topics: int
    partitions_per_topic: int
    brokers: int = 10
    replication: int = 3

    @property
    def partitions(self) -> int:
        """All of them."""
        return self.topics * self.partitions_per_topic

    @property
    def names(self) -> list[TopicName]:
        """The topics."""
        return [TopicName(f"topic-{number:05}") for number in range(self.topics)]

    def replicas(self, partition: int, shift: int = 0) -> Replicas:
        """The replicas of a partition; a shift by at least the replication factor moves all of them."""
        return tuple(BrokerId((partition + shift + nth) % self.brokers) for nth in range(self.replication))


def fill(zookeeper: KazooClient, shape: Shape) -> float:
    """Write the znodes of topics that Kafka created long ago; return the seconds it took."""
    began = time.monotonic()
    for path in _PERSISTENT:
        zookeeper.ensure_path(path)
    zookeeper.create("/cluster/id", b'{"version":"1","id":"benchmark-cluster-id00"}')
    zookeeper.create("/controller_epoch", str(FIRST_EPOCH).encode())
    in_flight: deque[IAsyncResult] = deque()
    transaction, size = zookeeper.transaction(), 0
    for path, data in _znodes(shape):
        transaction.create(path, data)
        size += 1 + len(data) // 1024
        if size >= CREATES_PER_TRANSACTION:
            in_flight.append(transaction.commit_async())
            transaction, size = zookeeper.transaction(), 0
        if len(in_flight) > TRANSACTIONS_IN_FLIGHT:
            _finish(in_flight.popleft())
    in_flight.append(transaction.commit_async())
    for pending in in_flight:
        _finish(pending)
    return time.monotonic() - began


def _finish(pending: IAsyncResult) -> None:
    refused = [result for result in pending.get(timeout=120) if isinstance(result, Exception)]
    if refused:
        raise refused[0]


def _znodes(shape: Shape) -> Iterator[tuple[str, bytes]]:
    for name in shape.names:
        yield from _topic_znodes(shape, name)


def _topic_znodes(shape: Shape, name: TopicName) -> Iterable[tuple[str, bytes]]:
    numbers = [PartitionId(number) for number in range(shape.partitions_per_topic)]
    yield f"/config/topics/{name}", b'{"version":1,"config":{}}'
    assignments = {number: Assignment(shape.replicas(number)) for number in numbers}
    yield TopicAddress(name).path, topics.encode(Topic(assignments, topic_id(name)))
    yield PartitionsAddress(name).path, b""
    for number in numbers:
        replicas = shape.replicas(number)
        state = PartitionState(replicas[0], LeaderEpoch(0), ControllerEpoch(FIRST_EPOCH), replicas)
        yield PartitionAddress(name, number).path, b""
        yield StateAddress(name, number).path, partition_state.encode(state)


def topic_id(name: TopicName) -> TopicId:
    """An id that follows from the name."""
    return TopicId(base64.urlsafe_b64encode(hashlib.md5(name.encode()).digest()).decode().rstrip("="))
