"""How are the words of a command read, and what does ZooKeeper hold?"""

from __future__ import annotations

from tests.scenarios.theatre import Theatre
from zk_layout import catalog
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Topic


def replicas_of(text: str) -> Replicas:
    """`1,2,3`."""
    return tuple(BrokerId(int(r)) for r in text.split(",") if r)


def partition_of(text: str) -> TopicPartition:
    """`orders-0`."""
    topic, _, partition = text.rpartition("-")
    return TopicPartition(TopicName(topic), PartitionId(int(partition)))


def options_of(words: tuple[str, ...]) -> dict[str, str]:
    """Those of the words that are `name=value`."""
    return dict(word.partition("=")[::2] for word in words if "=" in word)


def state_path(at: TopicPartition) -> str:
    """Where the state of a partition is."""
    return f"/brokers/topics/{at.topic}/partitions/{at.partition}/state"


def held_state(theatre: Theatre, at: TopicPartition) -> tuple[PartitionState, int]:
    """The state of a partition as it is written, and its version."""
    node = theatre.zookeeper.nodes[state_path(at)]
    address = catalog.address_of(state_path(at))
    assert address is not None
    value = catalog.decode(address, node.data)
    assert isinstance(value, PartitionState)
    return value, node.version


def held_topic(theatre: Theatre, name: str) -> Topic:
    """A topic as it is written."""
    path = f"/brokers/topics/{name}"
    address = catalog.address_of(path)
    assert address is not None
    value = catalog.decode(address, theatre.zookeeper.nodes[path].data)
    assert isinstance(value, Topic)
    return value
