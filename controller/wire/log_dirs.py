"""Which bytes ask a broker how large its replicas are, and what did it answer? Both directions.

Source: Kafka's DescribeLogDirsRequest and DescribeLogDirsResponse; KIP-113, and KIP-784 for the error of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from controller.core.errors import ErrorCode
from controller.core.events import ReplicaSize
from controller.wire.commands import CommandRequest
from controller.wire.cursor import Cursor, Malformed
from controller.wire.frames import RequestHeader, encode_request_header, encode_response_header, framed, response_cursor
from controller.wire.requests import MalformedRequest, decode_header
from controller.wire.schema import UNTHROTTLED, encode_entity, request_schema, response_schema
from controller.wire.versions import ApiKey, is_flexible
from zk_layout.ids import PartitionId, TopicName, TopicPartition

KEY = ApiKey.DESCRIBE_LOG_DIRS
_UNREADABLE = "DescribeLogDirs version {version} is malformed: {error}; correct the controller's encoding"


class Refused(Exception):
    """The broker does not say; the message is why."""


def encode_describe(
    partitions: Iterable[TopicPartition], version: int, correlation_id: int, client_id: str
) -> CommandRequest:
    """One request for these replicas, those of a topic one after the other."""
    schema = request_schema(KEY, version)
    topics = tuple(
        schema.make("DescribableLogDirTopic", topic=topic, partitions=tuple(at.partition for at in of_topic))
        for topic, of_topic in groupby(partitions, lambda at: at.topic)
    )
    header = encode_request_header(RequestHeader(KEY, version, correlation_id, client_id))
    body = encode_entity(schema.make("DescribeLogDirsRequest", topics=topics))
    return CommandRequest(KEY, version, correlation_id, (framed(header, body),))


def decode_described(frame: bytes, version: int) -> dict[TopicPartition, ReplicaSize]:
    """The replicas in the log directories that are online; copies on their way to another directory do not count.

    Raises:
        Malformed: not a response to it.
        Refused: the broker does not say.
    """
    _, cursor = response_cursor(KEY, version, frame)
    cursor.int32("throttle_time_ms")
    error = cursor.error() if version >= 3 else ErrorCode.NONE
    if error is not ErrorCode.NONE:
        raise Refused(f"DescribeLogDirs is refused: {error.name}")
    sizes: dict[TopicPartition, ReplicaSize] = {}
    for _ in cursor.array("results", 8):
        _log_dir(cursor, version, sizes)
    cursor.tags()
    cursor.finish()
    return sizes


def _log_dir(cursor: Cursor, version: int, sizes: dict[TopicPartition, ReplicaSize]) -> None:
    cursor.error()  # of a directory that is offline, and then lists nothing
    cursor.string("log_dir")
    for _ in cursor.array("topics", 6):
        topic = cursor.topic_name()
        for _ in cursor.array("partitions", 21):
            partition = PartitionId(cursor.int32("partition_index"))
            size, lag = cursor.int64("partition_size"), cursor.int64("offset_lag")
            is_future = cursor.boolean("is_future_key")
            cursor.tags()
            if not is_future:
                sizes[TopicPartition(topic, partition)] = ReplicaSize(max(0, size), lag)
        cursor.tags()
    if version >= 4:
        cursor.int64("total_bytes")
        cursor.int64("usable_bytes")
    cursor.tags()


def decode_describe(frame: bytes) -> tuple[RequestHeader, tuple[TopicPartition, ...] | None]:
    """What a broker is asked for; None asks for everything.

    Raises:
        MalformedRequest: it breaks off, goes on after its end, or claims what it does not hold.
    """
    header = decode_header(frame)
    is_flexible_here = is_flexible(KEY, header.api_version)
    cursor = Cursor(frame, 10 + len((header.client_id or "").encode()), is_flexible=is_flexible_here)
    try:
        cursor.tags()
        entries = cursor.nullable_array("topics", 3)
        asked: list[TopicPartition] = []
        for _ in entries or ():
            topic = cursor.topic_name("topic")
            asked += [TopicPartition(topic, PartitionId(p)) for p in cursor.int32s("partitions")]
            cursor.tags()
        cursor.tags()
        cursor.finish()
    except Malformed as error:
        raise MalformedRequest(header, _UNREADABLE.format(version=header.api_version, error=error)) from None
    return header, None if entries is None else tuple(asked)


def encode_described(
    header: RequestHeader, log_dir: str, sizes: Mapping[TopicPartition, ReplicaSize], error: ErrorCode = ErrorCode.NONE
) -> bytes:
    """A broker's answer, with its size: all its replicas in one directory."""
    schema = response_schema(KEY, header.api_version)
    by_topic: dict[TopicName, list[tuple[PartitionId, ReplicaSize]]] = {}
    for at, size in sizes.items():
        by_topic.setdefault(at.topic, []).append((at.partition, size))
    topics = tuple(
        schema.make(
            "DescribeLogDirsTopic",
            name=topic,
            partitions=tuple(
                schema.make(
                    "DescribeLogDirsPartition",
                    partition_index=partition,
                    partition_size=size.size_bytes,
                    offset_lag=size.lag,
                    is_future_key=False,
                )
                for partition, size in replicas
            ),
        )
        for topic, replicas in by_topic.items()
    )
    result = schema.make(
        "DescribeLogDirsResult",
        error_code=ErrorCode.NONE,
        log_dir=log_dir,
        topics=topics,
        total_bytes=-1,
        usable_bytes=-1,
    )
    entity = schema.make("DescribeLogDirsResponse", throttle_time=UNTHROTTLED, error_code=error, results=(result,))
    return framed(encode_response_header(header), encode_entity(entity))
