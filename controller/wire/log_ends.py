"""Which bytes ask a broker where its own logs end, and what did it answer?

Source: Kafka's ListOffsetsRequest.json and ListOffsetsResponse.json; ReplicaManager, which answers a debugging consumer
for any replica that the broker has, in sync or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from controller.core.messages.errors import ErrorCode
from controller.wire.api_versions import CLIENT_ID
from controller.wire.apis import ApiKey
from controller.wire.frames import RequestHeader, encode_request_header, framed, response_cursor
from controller.wire.schema import encode_entity, request_schema
from zk_layout.ids import PartitionId, TopicPartition

VERSION = 1
"""Every broker from 2.4 to 3.9 supports this version, with the same bytes."""

_DEBUGGING_CONSUMER = -2
_LATEST = -1


def encode_question(partitions: Iterable[TopicPartition], correlation_id: int) -> bytes:
    """Ask for the ends of these logs, which must be grouped by topic; the request includes its size."""
    schema = request_schema(ApiKey.LIST_OFFSETS, VERSION)
    topics = tuple(
        schema.make(
            "ListOffsetsTopic",
            name=topic,
            partitions=tuple(
                schema.make("ListOffsetsPartition", partition_index=at.partition, timestamp=_LATEST) for at in of_topic
            ),
        )
        for topic, of_topic in groupby(partitions, lambda at: at.topic)
    )
    header = encode_request_header(RequestHeader(ApiKey.LIST_OFFSETS, VERSION, correlation_id, CLIENT_ID))
    entity = schema.make("ListOffsetsRequest", replica_id=_DEBUGGING_CONSUMER, topics=topics)
    return framed(header, encode_entity(entity))


def decode_answer(frame: bytes) -> dict[TopicPartition, int]:
    """The offsets behind the last records, without the partitions that the broker refuses; `frame` is without its size.

    Raises:
        Malformed: not a response to it.
    """
    _, cursor = response_cursor(ApiKey.LIST_OFFSETS, VERSION, frame)
    ends: dict[TopicPartition, int] = {}
    for _ in cursor.array("topics", 6):
        topic = cursor.topic_name()
        for _ in cursor.array("partitions", 22):
            partition, error = PartitionId(cursor.int32("partition_index")), cursor.error()
            cursor.int64("timestamp")
            end = cursor.int64("offset")
            if error is ErrorCode.NONE and end >= 0:
                ends[TopicPartition(topic, partition)] = end
    cursor.finish()
    return ends
