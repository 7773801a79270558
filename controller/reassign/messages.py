"""Which Kafka messages does the tool send, with what our controller adds to them?

kafka-python reads tagged fields that it does not know, and keeps them as bytes; it does not write any. The additions
of kafka-zk-controller stand at the end of a request, where Kafka's own controllers skip them.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import pack
from typing import Any

import msgspec
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest

from controller.reassign.cluster import Standing
from zk_layout.ids import Replicas, TopicName, TopicPartition

MODE = REQUEST_ID = CONTROLLER = PROGRESS = 20000
REQUEST_STATUS = 20001


class TaggedAlter(AlterPartitionReassignmentsRequest, init=False):  # type: ignore[misc, call-arg]  # untyped library
    """AlterPartitionReassignments with tagged fields of ours."""

    __slots__ = ("own_tags",)

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> bytes:
        """The message with the fields in `own_tags`."""
        return with_tags(super().encode(version=version, header=header), self.own_tags, framed=framed)


class TaggedList(ListPartitionReassignmentsRequest, init=False):  # type: ignore[misc, call-arg]  # untyped library
    """ListPartitionReassignments with tagged fields of ours."""

    __slots__ = ("own_tags",)

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> bytes:
        """The message with the fields in `own_tags`."""
        return with_tags(super().encode(version=version, header=header), self.own_tags, framed=framed)


def with_tags(message: bytes, tags: Mapping[int, bytes], *, framed: bool) -> bytes:
    """A message that ends in "no tagged fields", with these instead.

    >>> with_tags(bytes([7, 0]), {5: b"ab"}, framed=False)
    b'\\x07\\x01\\x05\\x02ab'
    """
    fields = b"".join(_varint(tag) + _varint(len(value)) + value for tag, value in sorted(tags.items()))
    whole = message[:-1] + _varint(len(tags)) + fields
    return pack(">i", len(whole)) + whole if framed else whole


def alter_request(targets: Mapping[TopicPartition, Replicas | None], timeout_ms: int, mode: str | None) -> TaggedAlter:
    """Moves to begin, or, where there are no replicas, to cancel."""
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
    request.own_tags = {} if mode is None else {MODE: compact_string(mode)}
    return request


def list_request(
    partitions: Mapping[TopicName, list[int]] | None, timeout_ms: int, request_id: int | None
) -> TaggedList:
    """What moves, of all partitions or of these; with a request's id its status too."""
    kind = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    topics = None
    if partitions is not None:
        topics = [kind(name=topic, partition_indexes=list(indexes)) for topic, indexes in partitions.items()]
    request = TaggedList(timeout_ms=timeout_ms, topics=topics, max_version=0)
    request.own_tags = {} if request_id is None else {REQUEST_ID: pack(">q", request_id)}
    return request


def text_of(message: Any, tag: int) -> str | None:
    """A compact string among the tagged fields that kafka-python did not know."""
    data: bytes | None = (message.unknown_tags or {}).get(f"_{tag}")
    if data is None:
        return None
    length, start = _read_varint(data)
    return data[start : start + length - 1].decode()


def number_of(message: Any, tag: int) -> int | None:
    """An int64 among them."""
    data: bytes | None = (message.unknown_tags or {}).get(f"_{tag}")
    return None if data is None else int.from_bytes(data, "big", signed=True)


def standing_of(partition: Any) -> Standing | None:
    """Where a move stands, if the controller told it in words that are understood."""
    text = text_of(partition, PROGRESS)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Standing)
    except msgspec.DecodeError:
        return None


def compact_string(text: str) -> bytes:
    """Its length plus one, then its bytes."""
    data = text.encode()
    return _varint(len(data) + 1) + data


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _read_varint(data: bytes) -> tuple[int, int]:
    number = position = 0
    while True:
        byte = data[position]
        number |= (byte & 0x7F) << 7 * position
        position += 1
        if byte < 0x80:
            return number, position
