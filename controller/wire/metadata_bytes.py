"""Which bytes describe the cluster to a client?

Tools ask for all topics at once, so the partitions of a Metadata answer are packed here and not by kio. The property
tests prove that both give the same bytes.

Source: Kafka's MetadataResponse.json.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from controller.core.messages.replies import ClusterDescription, Node, PartitionMetadata, TopicMetadata
from controller.wire.apis import ApiKey, is_flexible
from controller.wire.operation_bits import operation_bits
from controller.wire.packing import Packing
from controller.wire.partition_bytes import MOST_SMALL
from controller.wire.schema import topic_id_bytes

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

_INT32 = struct.Struct(">i")
_ERROR = struct.Struct(">h")
_NUMBERS = struct.Struct(">hii")
_UNTHROTTLED = bytes(4)


@lru_cache(maxsize=1024)
def _compact_partition(replicas: int, isr: int, offline: int) -> struct.Struct:
    return struct.Struct(f">hiiiB{replicas}iB{isr}iB{offline}iB")


class MetadataEncoder:
    """Encodes Metadata answers in one version."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._packing = Packing(is_flexible=is_flexible(ApiKey.METADATA, version))

    def encode(self, description: ClusterDescription) -> bytes:
        """The answer without its header."""
        topics = self.topics(description.topics)
        return b"".join((self.head(description, len(description.topics)), *topics, self.tail(description)))

    def head(self, description: ClusterDescription, topic_count: int) -> bytes:
        """An answer up to its topics, of which `topic_count` follow."""
        packing, version = self._packing, self._version
        pieces = [_UNTHROTTLED] if version >= 3 else []
        pieces.append(packing.array(len(description.nodes)))
        pieces += map(self._node, description.nodes)
        if version >= 2:
            pieces.append(packing.nullable_string(description.cluster_id))
        if version >= 1:
            pieces.append(_INT32.pack(description.controller))
        pieces.append(packing.array(topic_count))
        return b"".join(pieces)

    def topics(self, topics: Iterable[TopicMetadata]) -> Iterator[bytes]:
        """The topics of an answer, in pieces produced one by one."""
        return chain.from_iterable(map(self._topic, topics))

    def tail(self, description: ClusterDescription) -> bytes:
        """What follows the topics."""
        bits = _INT32.pack(operation_bits(description.operations)) if 8 <= self._version <= 10 else b""
        return bits + self._packing.no_tags

    def _node(self, node: Node) -> bytes:
        packing = self._packing
        rack = packing.nullable_string(node.rack) if self._version >= 1 else b""
        return _INT32.pack(node.broker) + packing.string(node.host) + _INT32.pack(node.port) + rack + packing.no_tags

    def _topic(self, topic: TopicMetadata) -> Iterator[bytes]:
        packing, version = self._packing, self._version
        yield _ERROR.pack(topic.error)
        # Only the last version can omit the name of a topic requested by id.
        yield packing.nullable_string(topic.name if version >= 12 else topic.name or "")
        if version >= 10:
            yield topic_id_bytes(topic.topic_id)
        if version >= 1:
            yield b"\1" if topic.name in INTERNAL_TOPICS else b"\0"
        yield packing.array(len(topic.partitions))
        yield from map(self._compact if packing.is_flexible else self._field_by_field, topic.partitions)
        if version >= 8:
            yield _INT32.pack(operation_bits(topic.operations))
        yield packing.no_tags

    def _compact(self, partition: PartitionMetadata) -> bytes:
        replicas, isr, offline = partition.replicas, partition.isr, partition.offline
        lengths = len(replicas), len(isr), len(offline)
        if max(lengths) >= MOST_SMALL:
            return self._field_by_field(partition)
        return _compact_partition(*lengths).pack(
            partition.error,
            partition.partition,
            partition.leader,
            partition.leader_epoch,
            lengths[0] + 1,
            *replicas,
            lengths[1] + 1,
            *isr,
            lengths[2] + 1,
            *offline,
            0,
        )

    def _field_by_field(self, partition: PartitionMetadata) -> bytes:
        packing, version = self._packing, self._version
        return b"".join(
            (
                _NUMBERS.pack(partition.error, partition.partition, partition.leader),
                _INT32.pack(partition.leader_epoch) if version >= 7 else b"",
                packing.int32s(partition.replicas),
                packing.int32s(partition.isr),
                packing.int32s(partition.offline) if version >= 5 else b"",
                packing.no_tags,
            )
        )
