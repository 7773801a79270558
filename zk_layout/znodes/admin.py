"""What has been requested of the controller through ZooKeeper: the children of `/admin`?

Source: Kafka's ReassignPartitionsZNode, PreferredReplicaElectionZNode, DeleteTopicsTopicZNode; KIP-455
"`/admin/reassign_partitions` znode".
"""

from __future__ import annotations

from itertools import islice
from typing import ClassVar, Final

import msgspec
from msgspec import Struct

from zk_layout.bounds import Brokers, Partition
from zk_layout.codec import encode_json, json_decoder
from zk_layout.ids import TopicName, TopicPartition

DELETE_TOPICS = "/admin/delete_topics"
MOST_REASONS: Final = 20


class LegacyReassignmentAddress(Struct, frozen=True, gc=False):
    """Moves submitted by old tools."""

    path: ClassVar[str] = "/admin/reassign_partitions"


class PreferredElectionAddress(Struct, frozen=True, gc=False):
    """Preferred-leader elections submitted by old tools."""

    path: ClassVar[str] = "/admin/preferred_replica_election"


class TopicDeletionAddress(Struct, frozen=True, gc=False):
    """The request to delete one topic; carries no data."""

    topic: TopicName

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{DELETE_TOPICS}/{self.topic}"


class LegacyMove(Struct, frozen=True):
    """One entry of the legacy znode: a partition's target replicas."""

    topic: TopicName
    partition: Partition
    replicas: Brokers

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition to move."""
        return TopicPartition(self.topic, self.partition)


class LegacyReassignment(Struct, frozen=True):
    """The entries in the order written, and a reason for each unreadable one, up to a limit."""

    moves: tuple[LegacyMove, ...]
    rejected: tuple[str, ...] = ()


class PreferredElection(Struct, frozen=True):
    """The partitions whose preferred replica must lead."""

    partitions: tuple[TopicPartition, ...]


class _Json(Struct):
    partitions: list[msgspec.Raw]


class _PartitionJson(Struct):
    topic: TopicName
    partition: Partition


class _ElectionJson(Struct):
    partitions: tuple[_PartitionJson, ...]


_decoder = json_decoder(_Json)
_move_decoder = msgspec.json.Decoder(LegacyMove, strict=False)  # Kafka reads a number in quotes here, and only here
_election_decoder = json_decoder(_ElectionJson)


def decode_reassignment(data: bytes) -> LegacyReassignment:
    """Every readable entry, so that a bad one does not block the rest.

    >>> decode_reassignment(b'{"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":1,"replicas":[2]}]}')
    LegacyReassignment(moves=(LegacyMove(topic='t', partition=1, replicas=(2,)),), rejected=('entry 0: Object \
missing required field `replicas`',))

    Raises:
        Undecodable: not JSON with a list `partitions`.
    """
    moves, rejected = [], []
    for index, raw in enumerate(_decoder(data).partitions):
        try:
            moves.append(_move_decoder.decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            rejected.append(f"entry {index}: {error}")
    more = len(rejected) - MOST_REASONS
    shown = rejected if more <= 0 else [*islice(rejected, MOST_REASONS), f"{more} more entries that cannot be read"]
    return LegacyReassignment(tuple(moves), tuple(shown))


def encode_reassignment(reassignment: LegacyReassignment) -> bytes:
    """The entries still to be done, as old tools read them."""
    return encode_json(
        {
            "version": 1,
            "partitions": [
                {"topic": m.topic, "partition": m.partition, "replicas": m.replicas} for m in reassignment.moves
            ],
        }
    )


def decode_election(data: bytes) -> PreferredElection:
    """The partitions named.

    Raises:
        Undecodable: not JSON with a list `partitions`.
    """
    json = _election_decoder(data)
    return PreferredElection(tuple(TopicPartition(p.topic, p.partition) for p in json.partitions))


def encode_election(election: PreferredElection) -> bytes:
    """As old tools write it."""
    partitions = [{"topic": p.topic, "partition": p.partition} for p in election.partitions]
    return encode_json({"version": 1, "partitions": partitions})
