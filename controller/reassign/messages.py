"""Which Kafka messages does the tool send, with what our controller adds to them?

kafka-python keeps unknown tagged fields as bytes when reading, and cannot write any. The additions of
kafka-zk-controller stand at the end of a request, where Kafka's own controllers skip them. One of them is always there,
so that our controller adds to its answer what this tool reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from struct import pack
from typing import Any, TypeVar

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeConfigsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest

from controller.reassign.cluster import Added, Edge, Kind
from controller.reassign.plans import Replica
from controller.wire.cursor import Malformed
from controller.wire.mode import mode_field
from controller.wire.tagged import (
    ADDITIONS,
    REQUEST_ID,
    give_up_field,
    reason_field,
    request_id_field,
    throttle_field,
    weights_field,
    with_tagged,
)
from zk_layout.ids import BrokerId, PartitionId, Replicas, RequestId, TopicName, TopicPartition

_NONE = 0
_DEBUGGING_CONSUMER = -2
"""The replica id of one that reads from any replica, beyond what all in-sync replicas have."""

T = TypeVar("T")


class TaggedAlter(AlterPartitionReassignmentsRequest, init=False):  # type: ignore[misc, call-arg]  # untyped library
    """AlterPartitionReassignments with tagged fields of ours."""

    __slots__ = ("own_tags",)

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> bytes:
        """The message with the fields in `own_tags`."""
        return _with_own(super().encode(version=version, header=header), self.own_tags, framed=framed)


class TaggedList(ListPartitionReassignmentsRequest, init=False):  # type: ignore[misc, call-arg]  # untyped library
    """ListPartitionReassignments with tagged fields of ours."""

    __slots__ = ("own_tags",)

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> bytes:
        """The message with the fields in `own_tags`."""
        return _with_own(super().encode(version=version, header=header), self.own_tags, framed=framed)


def _with_own(message: bytes, fields: Mapping[int, bytes], *, framed: bool) -> bytes:
    whole = with_tagged(message, fields)
    return pack(">i", len(whole)) + whole if framed else whole


def added_fields(added: Added, partitions: Iterable[TopicPartition], mode: str = "") -> dict[int, bytes]:
    """What a request to start moves or to cancel them says beyond Kafka's schema."""
    fields = mode_field(mode) | throttle_field(added.throttle) | reason_field(added.reason)
    weights = tuple(added.weights.get(at, 0) for at in sorted(partitions))
    return fields | give_up_field(added.give_up_ms) | weights_field(weights)


def alter_request(
    targets: Mapping[TopicPartition, Replicas | None], timeout_ms: int, fields: Mapping[int, bytes]
) -> TaggedAlter:
    """The request to start moves or, where there are no replicas, to cancel them; `fields` are what is added."""
    topics: dict[TopicName, list[Any]] = {}
    for at, replicas in sorted(targets.items(), key=lambda entry: entry[0]):
        partition = AlterPartitionReassignmentsRequest.ReassignableTopic.ReassignablePartition(
            partition_index=at.partition, replicas=None if replicas is None else list(replicas)
        )
        topics.setdefault(at.topic, []).append(partition)
    request = TaggedAlter(
        timeout_ms=timeout_ms,
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
        max_version=0,
    )
    request.own_tags = {ADDITIONS: b"", **fields}
    return request


def list_request(
    partitions: Mapping[TopicName, list[int]] | None, timeout_ms: int, request_id: int | None
) -> TaggedList:
    """The request for the moves of all partitions or of these; with a request's id its status too."""
    kind = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    topics = None
    if partitions is not None:
        topics = [kind(name=topic, partition_indexes=list(indexes)) for topic, indexes in partitions.items()]
    request = TaggedList(timeout_ms=timeout_ms, topics=topics, max_version=0)
    request.own_tags = {ADDITIONS: b""} | request_id_field(None if request_id is None else RequestId(request_id))
    return request


def settings_request(broker: BrokerId, keys: list[str] | None = None) -> DescribeConfigsRequest:
    """The request for these settings of a broker, or for all."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=Kind.BROKER.value, resource_name=str(broker), configuration_keys=keys
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)


def offsets_request(replicas: Collection[Replica], edge: Edge) -> ListOffsetsRequest:
    """The request to the broker of these replicas for the ends of its own logs, or their starts."""
    topics: dict[TopicName, list[Any]] = {}
    for replica in replicas:
        partition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=replica.partition, timestamp=edge.value
        )
        topics.setdefault(replica.topic, []).append(partition)
    return ListOffsetsRequest(
        replica_id=_DEBUGGING_CONSUMER,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=its) for topic, its in topics.items()],
        max_version=1,
    )


def offsets_of(broker: BrokerId, answer: Any) -> dict[Replica, int]:
    """The offsets that this broker tells; without those that it refuses or does not know."""
    return {
        Replica(broker, TopicName(topic.name), PartitionId(p.partition_index)): p.offset
        for topic in answer.topics
        for p in topic.partitions
        if p.error_code == _NONE and p.offset >= 0
    }


def fields_of(message: Any) -> dict[int, bytes]:
    """The tagged fields unknown to kafka-python, by number."""
    return {int(name[1:]): data for name, data in (message.unknown_tags or {}).items()}


def understood(decode: Callable[[Mapping[int, bytes]], T | None], message: Any) -> T | None:
    """Decode what our controller adds to a message; None for the additions of another release of it."""
    try:
        return decode(fields_of(message))
    except Malformed:
        return None


def request_id_of(message: Any) -> int | None:
    """The id under which a request was accepted."""
    data = fields_of(message).get(REQUEST_ID)
    return None if data is None else int.from_bytes(data, "big", signed=True)
