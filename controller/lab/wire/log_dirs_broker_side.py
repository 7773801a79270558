"""What is a broker asked about its log directories, and which bytes answer it?

The opposite of `controller.wire.log_dirs`, for simulated brokers and tests.

Source: Kafka's DescribeLogDirsRequest and DescribeLogDirsResponse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Directory, ReplicaSize
from controller.wire.apis import ApiKey
from controller.wire.frames import RequestHeader, encode_response_header, framed
from controller.wire.requests import decode_header, reading
from controller.wire.schema import encode_entity, response_schema
from zk_layout.ids import PartitionId, TopicName, TopicPartition


def decode_describe(frame: bytes) -> tuple[RequestHeader, tuple[TopicPartition, ...] | None]:
    """The replicas a broker is asked for; None asks for everything.

    Raises:
        MalformedRequest: it is cut off, continues after its end, or claims more than it holds.
    """
    header = decode_header(frame)
    with reading(header, frame) as cursor:
        entries = cursor.nullable_structs("topics", 3)
        asked: list[TopicPartition] = []
        for _ in entries or ():
            topic = cursor.topic_name("topic")
            asked += [TopicPartition(topic, PartitionId(p)) for p in cursor.int32s("partitions")]
        cursor.tags()
        cursor.finish()
    return header, None if entries is None else tuple(asked)


def encode_described(
    header: RequestHeader,
    log_dir: str | Directory,
    sizes: Mapping[TopicPartition, ReplicaSize],
    error: ErrorCode = ErrorCode.NONE,
    offline: Sequence[str] = (),
) -> bytes:
    """A broker's answer, with its size: all its replicas in one directory, and directories that are offline."""
    directory = Directory(log_dir, -1, -1) if isinstance(log_dir, str) else log_dir
    schema = response_schema(ApiKey.DESCRIBE_LOG_DIRS, header.api_version)
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

    def result(directory: Directory, topics: tuple[object, ...], error: ErrorCode) -> object:
        return schema.make(
            "DescribeLogDirsResult",
            error_code=error,
            log_dir=directory.path,
            topics=topics,
            total_bytes=directory.total_bytes,
            usable_bytes=directory.usable_bytes,
        )

    gone = tuple(result(Directory(path, -1, -1), (), ErrorCode.KAFKA_STORAGE_ERROR) for path in offline)
    results = (result(directory, topics, ErrorCode.NONE), *gone)
    entity = schema.make("DescribeLogDirsResponse", error_code=error, results=results)
    return framed(encode_response_header(header), encode_entity(entity))
