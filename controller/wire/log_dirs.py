"""Which bytes ask a broker how large its replicas are, and what did it answer?

Source: Kafka's DescribeLogDirsRequest and DescribeLogDirsResponse; KIP-113, KIP-784 for the error of the whole, and
KIP-827 for the room of directories.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Directory, ReplicaSize
from controller.wire.apis import ApiKey
from controller.wire.commands import CommandRequest
from controller.wire.cursor import Cursor
from controller.wire.frames import RequestHeader, encode_request_header, framed, response_cursor
from controller.wire.schema import encode_entity, request_schema
from zk_layout.ids import PartitionId, TopicPartition

_KEY = ApiKey.DESCRIBE_LOG_DIRS
WITH_ROOM = 4
"""The version from which on answers say how much room directories have: brokers know it from 3.3 on."""


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
    return {directory.path: error for directory, error in _log_dirs(frame, version, {})}


def decode_room(frame: bytes) -> tuple[tuple[Directory, ...], dict[TopicPartition, ReplicaSize]]:
    """The log directories that are online, as an answer in version `WITH_ROOM` tells it, and the replicas in them.

    Shape:
        A size of -1 is not known to the broker.

    Raises:
        Malformed, Refused: as `decode_described`.
    """
    sizes: dict[TopicPartition, ReplicaSize] = {}
    found = _log_dirs(frame, WITH_ROOM, sizes)
    return tuple(directory for directory, error in found if error is ErrorCode.NONE), sizes


def _log_dirs(
    frame: bytes, version: int, sizes: dict[TopicPartition, ReplicaSize]
) -> list[tuple[Directory, ErrorCode]]:
    _, cursor = response_cursor(_KEY, version, frame)
    cursor.int32("throttle_time_ms")
    error = cursor.error() if version >= 3 else ErrorCode.NONE
    if error is not ErrorCode.NONE:
        raise Refused(f"DescribeLogDirs is refused: {error.name}")
    found = [_log_dir(cursor, version, sizes) for _ in cursor.structs("results", 5)]
    cursor.tags()
    cursor.finish()
    return found


def _log_dir(cursor: Cursor, version: int, sizes: dict[TopicPartition, ReplicaSize]) -> tuple[Directory, ErrorCode]:
    error = cursor.error()  # an offline directory, which lists nothing
    path = cursor.string("log_dir")
    for _ in cursor.structs("topics", 6):
        topic = cursor.topic_name()
        for _ in cursor.structs("partitions", 21):
            partition = PartitionId(cursor.int32("partition_index"))
            size, lag = cursor.int64("partition_size"), cursor.int64("offset_lag")
            if not cursor.boolean("is_future_key"):
                sizes[TopicPartition(topic, partition)] = ReplicaSize(max(0, size), lag)
    total, usable = -1, -1
    if version >= WITH_ROOM:
        total, usable = cursor.int64("total_bytes"), cursor.int64("usable_bytes")
    return Directory(path, total, usable), error
