"""Which numbers and names must not be confused?

Each identifier of Kafka and ZooKeeper has a type of its own, so that swapping two does not type-check.
"""

from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
TopicName = NewType("TopicName", str)
PartitionId = NewType("PartitionId", int)
TopicId = NewType("TopicId", str)  # 22 characters of URL-safe base64, as the topic znode stores it
ControllerEpoch = NewType("ControllerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerEpoch = NewType("BrokerEpoch", int)  # czxid of the broker's registration
PartitionEpoch = NewType("PartitionEpoch", int)  # version of the partition's state znode
ZnodeVersion = NewType("ZnodeVersion", int)
Zxid = NewType("Zxid", int)
SessionId = NewType("SessionId", int)
RequestId = NewType("RequestId", int)  # of an accepted reassignment request (KIP-179)

NO_LEADER = BrokerId(-1)
NO_BROKER_EPOCH = BrokerEpoch(-1)
ABSENT = ZnodeVersion(-1)  # of a znode that does not exist

Replicas = tuple[BrokerId, ...]


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as Kafka's tools print it.

    >>> str(TopicPartition(TopicName("orders"), PartitionId(0)))
    'orders-0'
    """

    topic: TopicName
    partition: PartitionId

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
