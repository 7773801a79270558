"""Which bytes ask a broker how large its replicas are, and what did it answer?

Source: Kafka's DescribeLogDirsRequest and DescribeLogDirsResponse; KIP-113, and KIP-784 for the error of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import ReplicaSize
from controller.wire.apis import ApiKey
from controller.wire.commands import CommandRequest
from controller.wire.cursor import Cursor
from controller.wire.frames import RequestHeader, encode_request_header, framed, response_cursor
from controller.wire.schema import encode_entity, request_schema
from zk_layout.ids import PartitionId, TopicPartition

_KEY = ApiKey.DESCRIBE_LOG_DIRS


class Refused(Exception):
    """The broker refuses to answer; the message is why."""


def encode_describe(
    partitions: Iterable[TopicPartition], version: int, correlation_id: int, client_id: str
) -> CommandRequest:
    """One request for these replicas, which must be grouped by topic."""
    schema = request_schema(_KEY, version)
    topics = tuple(
        schema.make("DescribableLogDirTopic", topic=topic, partitions=tuple(at.partition for at in of_topic))
        for topic, of_topic in groupby(partitions, lambda at: at.topic)
    )
    header = encode_request_header(RequestHeader(_KEY, version, correlation_id, client_id))
    body = encode_entity(schema.make("DescribeLogDirsRequest", topics=topics))
    return CommandRequest(_KEY, version, correlation_id, (framed(header, body),))


def decode_described(frame: bytes, version: int) -> dict[TopicPartition, ReplicaSize]:
    """The replicas in the log directories that are online; copies on their way to another directory do not count.

    Raises:
        Malformed: not a response to it.
        Refused: the broker refuses to answer.
    """
    sizes: dict[TopicPartition, ReplicaSize] = {}
    _log_dirs(frame, version, sizes)
    return sizes


def decode_directories(frame: bytes, version: int) -> dict[str, ErrorCode]:
    """The log directories, each with its error: an offline one has KAFKA_STORAGE_ERROR. A broker that refuses to answer
    up to version 2 names none.

    Raises:
        Malformed, Refused: as `decode_described`.
    """
    return dict(_log_dirs(frame, version, {}))


def _log_dirs(frame: bytes, version: int, sizes: dict[TopicPartition, ReplicaSize]) -> list[tuple[str, ErrorCode]]:
    _, cursor = response_cursor(_KEY, version, frame)
    cursor.int32("throttle_time_ms")
    error = cursor.error() if version >= 3 else ErrorCode.NONE
    if error is not ErrorCode.NONE:
        raise Refused(f"DescribeLogDirs is refused: {error.name}")
    found = [_log_dir(cursor, version, sizes) for _ in cursor.structs("results", 5)]
    cursor.tags()
    cursor.finish()
    return found


def _log_dir(cursor: Cursor, version: int, sizes: dict[TopicPartition, ReplicaSize]) -> tuple[str, ErrorCode]:
    error = cursor.error()  # an offline directory, which lists nothing
    path = cursor.string("log_dir")
    for _ in cursor.structs("topics", 6):
        topic = cursor.topic_name()
        for _ in cursor.structs("partitions", 21):
            partition = PartitionId(cursor.int32("partition_index"))
            size, lag = cursor.int64("partition_size"), cursor.int64("offset_lag")
            if not cursor.boolean("is_future_key"):
                sizes[TopicPartition(topic, partition)] = ReplicaSize(max(0, size), lag)
    if version >= 4:
        cursor.int64("total_bytes")
        cursor.int64("usable_bytes")
    return path, error
