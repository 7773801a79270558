"""Which bytes ask a controller for an ISR change, a move or its id, and what did it answer?

The opposite of `controller.wire.requests` and `replies`, for simulated brokers and the demo. The requests that only
tests and benchmarks send are in `tests/equipment`.

Source: Kafka's *Request.json and *Response.json schemas.
"""

from __future__ import annotations

import datetime
from itertools import groupby
from typing import Any

from controller.core.messages.replies import IsrResult, PartitionResult, PartitionsAltered, ReassignmentsAltered
from controller.core.messages.requests import AlterPartition, AlterReassignments, IsrProposal
from controller.wire.apis import ApiKey
from controller.wire.cursor import Cursor, Malformed
from controller.wire.frames import RequestHeader, encode_request_header, framed, response_cursor
from controller.wire.schema import MessageSchema, encode_entity, request_schema, topic_uuid
from zk_layout.ids import BrokerId, LeaderEpoch, PartitionEpoch, PartitionId, TopicId, TopicName, TopicPartition


def encode_request(header: RequestHeader, request: AlterPartition | AlterReassignments) -> bytes:
    """A request in the version its header names, with its size."""
    schema = request_schema(header.api_key, header.api_version)
    if isinstance(request, AlterPartition):
        entity = alter_partition_entity(schema, header.api_version, request)
    else:
        entity = alter_reassignments_entity(schema, request)
    return framed(encode_request_header(header), encode_entity(entity))


def decode_reply(header: RequestHeader, frame: bytes) -> PartitionsAltered | ReassignmentsAltered:
    """Decode the answer to the request with this header; `frame` is without its size.

    Raises:
        Malformed: not a response to it.
    """
    cursor = answer_cursor(header, frame)
    decode = partitions_altered if header.api_key == ApiKey.ALTER_PARTITION else reassignments_altered
    reply = decode(cursor, header.api_version)
    cursor.tags()
    cursor.finish()
    return reply


def encode_metadata(header: RequestHeader) -> bytes:
    """Ask for brokers and controller, and no topics."""
    schema = request_schema(header.api_key, header.api_version)
    entity = schema.make("MetadataRequest", topics=(), allow_auto_topic_creation=False)
    return framed(encode_request_header(header), encode_entity(entity))


def decode_controller(header: RequestHeader, frame: bytes) -> BrokerId:
    """The controller's id in a response to Metadata from version 3 on, -1 for none; `frame` is without its size.

    Raises:
        Malformed: not a response to the request with this header.
    """
    cursor = answer_cursor(header, frame)
    cursor.int32("throttle_time_ms")
    for _ in cursor.structs("brokers", 10):
        cursor.int32("node_id")
        cursor.string("host")
        cursor.int32("port")
        cursor.nullable_string("rack")
    cursor.nullable_string("cluster_id")
    return BrokerId(cursor.int32("controller_id"))


def answer_cursor(header: RequestHeader, frame: bytes) -> Cursor:
    """A cursor at the body of a response.

    Raises:
        Malformed: it answers another request.
    """
    correlation_id, cursor = response_cursor(header.api_key, header.api_version, frame)
    if correlation_id != header.correlation_id:
        raise Malformed(f"the response has correlation id {correlation_id}, the request {header.correlation_id}")
    return cursor


def alter_reassignments_entity(schema: MessageSchema, request: AlterReassignments) -> Any:
    """The body of AlterPartitionReassignments."""
    topics = tuple(
        schema.make(
            "ReassignableTopic",
            name=topic,
            partitions=tuple(
                schema.make(
                    "ReassignablePartition",
                    partition_index=wanted.topic_partition.partition,
                    replicas=wanted.replicas,
                )
                for wanted in reassignments
            ),
        )
        for topic, reassignments in groupby(request.reassignments, lambda wanted: wanted.topic_partition.topic)
    )
    return schema.make(
        "AlterPartitionReassignmentsRequest", timeout=datetime.timedelta(milliseconds=request.timeout_ms), topics=topics
    )


def alter_partition_entity(schema: MessageSchema, version: int, request: AlterPartition) -> Any:
    """The body of AlterPartition."""
    topics = tuple(
        schema.make(
            "TopicData",
            topic_name=topic.name,
            topic_id=topic_uuid(topic.topic_id),
            partitions=tuple(_proposal_entity(schema, version, proposal) for proposal in proposals),
        )
        for topic, proposals in groupby(request.proposals, lambda proposal: proposal.topic)
    )
    return schema.make(
        "AlterPartitionRequest", broker_id=request.broker, broker_epoch=request.broker_epoch, topics=topics
    )


def _proposal_entity(schema: MessageSchema, version: int, proposal: IsrProposal) -> Any:
    members: tuple[Any, ...] = ()
    if version >= 3:
        epochs = proposal.broker_epochs or (-1,) * len(proposal.isr)
        members = tuple(
            schema.make("BrokerState", broker_id=broker, broker_epoch=epoch)
            for broker, epoch in zip(proposal.isr, epochs, strict=True)
        )
    return schema.make(
        "PartitionData",
        partition_index=proposal.partition,
        leader_epoch=proposal.leader_epoch,
        new_isr=proposal.isr,
        new_isr_with_epochs=members,
        leader_recovery_state=proposal.leader_recovery_state,
        partition_epoch=proposal.partition_epoch,
    )


def reassignments_altered(cursor: Cursor, _version: int) -> ReassignmentsAltered:
    """The body of its response, up to the tagged fields."""
    cursor.int32("throttle_time_ms")
    error, message = cursor.error(), cursor.nullable_string("error_message")
    results: list[PartitionResult] = []
    for _ in cursor.structs("responses", 3):
        topic = cursor.topic_name()
        for _ in cursor.structs("partitions", 8):
            partition = TopicPartition(topic, PartitionId(cursor.int32("partition_index")))
            results.append(PartitionResult(partition, cursor.error(), cursor.nullable_string("error_message")))
    return ReassignmentsAltered(tuple(results), error, message)


def partitions_altered(cursor: Cursor, version: int) -> PartitionsAltered:
    """The body of its response, up to the tagged fields."""
    cursor.int32("throttle_time_ms")
    error = cursor.error()
    results: list[IsrResult] = []
    for _ in cursor.structs("topics", 3):
        topic = cursor.topic_name("topic_name") if version < 2 else None
        topic_id = cursor.topic_id() if version >= 2 else None
        results += [_isr_result(cursor, version, topic, topic_id) for _ in cursor.structs("partitions", 20)]
    return PartitionsAltered(tuple(results), error)


def _isr_result(cursor: Cursor, version: int, topic: TopicName | None, topic_id: TopicId | None) -> IsrResult:
    return IsrResult(
        topic,
        topic_id,
        PartitionId(cursor.int32("partition_index")),
        cursor.error(),
        BrokerId(cursor.int32("leader_id")),
        LeaderEpoch(cursor.int32("leader_epoch")),
        cursor.replicas("isr"),
        cursor.int8("leader_recovery_state") if version >= 1 else 0,
        PartitionEpoch(cursor.int32("partition_epoch")),
    )
