"""What did a broker answer to a command?

Nearly every answer reports "no error" for each partition; where the version allows, that is recognised without looking
at each.

Source: Kafka's LeaderAndIsrResponse, UpdateMetadataResponse and StopReplicaResponse.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import assert_never

from controller.core.messages.commands import LeaderAndIsr, PartitionView, StopReplica, UpdateMetadata
from controller.core.messages.effects import Tell
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged
from controller.wire.apis import ApiKey
from controller.wire.cursor import Cursor, Malformed, error_code
from controller.wire.frames import response_cursor
from controller.wire.versions import InterBrokerProtocol
from zk_layout.ids import PartitionId, TopicId, TopicName, TopicPartition

_ERROR = struct.Struct(">ih")
_TAGGED_ERROR = struct.Struct(">ihB")

Errors = dict[TopicPartition, ErrorCode]


def decode_acknowledgement(protocol: InterBrokerProtocol, tell: Tell, frames: Sequence[bytes]) -> Acknowledged:
    """One acknowledgement for all responses to a command; the first top-level error counts.

    Raises:
        Malformed: a response is cut off, continues after its end, or claims more than it holds.
    """
    worst = ErrorCode.NONE
    errors: Errors = {}
    for frame in frames:
        error = _decode_response(protocol, tell, frame, errors)
        if worst == ErrorCode.NONE:
            worst = error
    return Acknowledged(tell.broker, tell.broker_epoch, tell.command, worst, errors)


def _decode_response(protocol: InterBrokerProtocol, tell: Tell, frame: bytes, errors: Errors) -> ErrorCode:
    match tell.command:
        case LeaderAndIsr():
            key, version = ApiKey.LEADER_AND_ISR, protocol.leader_and_isr
        case UpdateMetadata():
            key, version = ApiKey.UPDATE_METADATA, protocol.update_metadata
        case StopReplica():
            key, version = ApiKey.STOP_REPLICA, protocol.stop_replica
        case _:
            assert_never(tell.command)
    try:
        _, cursor = response_cursor(key, version, frame)
        error = cursor.error()
        if isinstance(tell.command, LeaderAndIsr) and version >= 5:
            _errors_by_topic_id(cursor, tell.command, errors)
        elif not isinstance(tell.command, UpdateMetadata):
            _errors_by_name(cursor, errors)
        cursor.tags()
        cursor.finish()
    except Malformed as malformed:
        raise Malformed(
            f"broker {tell.broker} answered {key.name} version {version} with a malformed response: "
            f"{malformed}; check that its version matches inter.broker.protocol.version"
        ) from None
    return error


def _errors_by_name(cursor: Cursor, errors: Errors) -> None:
    for _ in cursor.structs("partition_errors", 8):
        topic = cursor.topic_name("topic_name")
        partition, number = cursor.fixed(_ERROR, "partition_index")
        if number:
            errors[TopicPartition(topic, PartitionId(partition))] = error_code(number)


def _errors_by_topic_id(cursor: Cursor, command: LeaderAndIsr, errors: Errors) -> None:
    topics: _TopicsById | None = None
    for _ in cursor.structs("topics", 18):
        topic_id = cursor.topic_id()
        for partition, number in _refused_partitions(cursor):
            if topics is None:
                topics = _TopicsById(command)
            for topic in topics.named(topic_id, partition):
                errors[TopicPartition(topic, partition)] = error_code(number)


def _refused_partitions(cursor: Cursor) -> list[tuple[PartitionId, int]]:
    """The partitions of one topic that have an error.

    An entry without tagged fields is seven bytes: number, error, and the count of tagged fields.
    """
    count = cursor.array_length("partition_errors", _TAGGED_ERROR.size)
    if count < 0:
        raise cursor.malformed("partition_errors", "must not be null")
    begin = cursor.at
    entries = cursor.bytes_of(count * _TAGGED_ERROR.size, "partition_errors")
    if not any(entries[6::7]):
        if not any(entries[4::7]) and not any(entries[5::7]):
            return []
        return [(PartitionId(p), number) for p, number, _ in _TAGGED_ERROR.iter_unpack(entries) if number]
    cursor.at = begin
    refused: list[tuple[PartitionId, int]] = []
    for _ in range(count):
        partition, number = cursor.fixed(_ERROR, "partition_errors")
        cursor.tags()
        if number:
            refused.append((PartitionId(partition), number))
    return refused


class _TopicsById:
    """The names behind topic ids, from the command that was answered."""

    def __init__(self, command: LeaderAndIsr) -> None:
        self._names: dict[TopicId, TopicName] = {}
        self._without_id: dict[PartitionId, list[TopicName]] = {}
        for views in (command.partitions, command.new):
            for view in views:
                self._add(view)

    def _add(self, view: PartitionView) -> None:
        if view.topic_id is not None:
            self._names[view.topic_id] = view.topic
        else:
            self._without_id.setdefault(view.partition, []).append(view.topic)

    def named(self, topic_id: TopicId | None, partition: PartitionId) -> Sequence[TopicName]:
        """The topics meant: several, if they have no id and cannot be distinguished; none, if not in the command."""
        if topic_id is None:
            return self._without_id.get(partition, ())
        name = self._names.get(topic_id)
        return () if name is None else (name,)
