"""Which replicas left an assignment before their broker confirmed that it deleted them?

A znode of our own, one a topic: `/kafka_zk_controller/replica_deletions/<topic>`. Kafka forgets such replicas, and
their logs stay on disk (KAFKA-13972, and every removal from a broker that is down).
"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.bounds import Brokers, Id, Partition
from zk_layout.codec import encode_json, json_decoder
from zk_layout.ids import TopicName

ROOT = "/kafka_zk_controller/replica_deletions"


class ReplicaDeletionsAddress(Struct, frozen=True, gc=False):
    """The unconfirmed deletions of one topic."""

    topic: TopicName

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{ROOT}/{self.topic}"


class ReplicaDeletions(Struct, frozen=True):
    """By partition, the brokers that still have to delete their replica; the id tells a re-created topic apart."""

    replicas: dict[Partition, Brokers]
    topic_id: Id | None = None


decode = json_decoder(ReplicaDeletions)
"""The unconfirmed deletions."""


def encode(deletions: ReplicaDeletions) -> bytes:
    """The unconfirmed deletions."""
    return encode_json({"version": 1, "topic_id": deletions.topic_id, "replicas": deletions.replicas})
