"""What does a broker read in a command, and which bytes answer it?

The opposite of `commands`: while a broker's native controller leads, it takes us for a broker and commands us.
Simulated brokers, benchmarks and tests decode commands here too.

Source: Kafka's LeaderAndIsrRequest, UpdateMetadataRequest and StopReplicaRequest, and their responses; KafkaApis.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import assert_never

from msgspec import Struct

from controller.core.messages.commands import (
    Command,
    LeaderAndIsr,
    LiveBroker,
    PartitionView,
    ReplicaStop,
    StopReplica,
    UpdateMetadata,
)
from controller.core.messages.errors import ErrorCode
from controller.wire.apis import COMMANDS, ApiKey, is_flexible
from controller.wire.commands import FIRST_WITH_KIND
from controller.wire.cursor import Cursor, int32s_layout
from controller.wire.frames import RequestHeader, encode_response_header, framed
from controller.wire.packing import Packing
from controller.wire.requests import UnsupportedApi, decode_header, reading
from controller.wire.schema import topic_id_bytes
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)
from zk_layout.znodes.brokers import SECURITY_PROTOCOLS, Endpoint

UNNAMED_LISTENER = ""
"""The listener of the leaders in LeaderAndIsr, which contains only host and port."""

_FIRST = struct.Struct(">4iB")
_FOUR = struct.Struct(">4i")
_EPOCHS = struct.Struct(">iq")
_STOP = struct.Struct(">ii?")
_ERROR = struct.Struct(">ih")
# Not moving, not new, not recovering, no tagged fields: how nearly all partitions end.
_QUIET_TAILS = {4: b"\1\1\0\0", 5: b"\1\1\0\0", 6: b"\1\1\0\0\0", 7: b"\1\1\0\0\0"}
_NO_OFFLINE = b"\1\0"


class ReceivedCommand(Struct, frozen=True):
    """One command as it arrived at a broker.

    Shape:
        Partitions of UpdateMetadata have no adding and removing replicas, those of LeaderAndIsr no offline
        ones. Stops before StopReplica version 3 have leader epoch -1.
    """

    header: RequestHeader
    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    command: Command


def decode_command(frame: bytes) -> ReceivedCommand:
    """Decode a command in one of the versions this controller sends; `frame` is without its size.

    Raises:
        UnsupportedApi: not one of `COMMANDS`; try `requests.decode_request`.
        MalformedRequest: it is cut off, or claims more than it holds.
    """
    header = decode_header(frame)
    if header.api_key not in COMMANDS:
        raise UnsupportedApi(header, f"api key {header.api_key} is not a command to a broker; decode it as a request")
    key, version = ApiKey(header.api_key), header.api_version
    with reading(header, frame) as cursor:
        controller = BrokerId(cursor.int32("controller_id"))
        if version >= FIRST_WITH_KIND[key]:
            cursor.boolean("is_k_raft_controller")
        controller_epoch, broker_epoch = cursor.fixed(_EPOCHS, "controller_epoch")
        command = _command(cursor, key, version)
    return ReceivedCommand(header, controller, ControllerEpoch(controller_epoch), BrokerEpoch(broker_epoch), command)


def _command(cursor: Cursor, key: ApiKey, version: int) -> Command:
    if key == ApiKey.UPDATE_METADATA:
        return _update_metadata(cursor.data[cursor.at :], version)
    command = _leader_and_isr(cursor, version) if key == ApiKey.LEADER_AND_ISR else _stop_replica(cursor, version)
    cursor.tags()
    return command


def _leader_and_isr(cursor: Cursor, version: int) -> LeaderAndIsr:
    if version >= 5:
        cursor.int8("type")
    partitions: list[PartitionView] = []
    new: list[PartitionView] = []
    for _ in cursor.structs("topic_states", 3):
        topic = cursor.topic_name("topic_name")
        topic_id = cursor.topic_id() if version >= 5 else None
        for _ in cursor.array("partition_states", 26):
            view, is_new = _leader_and_isr_view(cursor, version, topic, topic_id)
            (new if is_new else partitions).append(view)
    leaders = tuple(_live_leader(cursor) for _ in cursor.structs("live_leaders", 9))
    return LeaderAndIsr(tuple(partitions), tuple(new), leaders)


_Head = tuple[
    PartitionId,
    ControllerEpoch,
    BrokerId,
    LeaderEpoch,
    tuple[BrokerId, ...],
    PartitionEpoch,
    tuple[BrokerId, ...],
]


def _leader_and_isr_view(
    cursor: Cursor, version: int, topic: TopicName, topic_id: TopicId | None
) -> tuple[PartitionView, bool]:
    head = _head(cursor)
    quiet = _QUIET_TAILS.get(version)
    at = cursor.at
    recovery_state = 0
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    is_new = False
    if quiet is not None and cursor.data.startswith(quiet, at):
        cursor.at = at + len(quiet)
    else:
        adding, removing = cursor.replicas("adding_replicas"), cursor.replicas("removing_replicas")
        is_new = cursor.boolean("is_new")
        recovery_state = cursor.int8("leader_recovery_state") if version >= 6 else 0
        cursor.tags()
    return PartitionView(topic, topic_id, *head[:6], recovery_state, head[6], adding, removing), is_new


@lru_cache(maxsize=128)
def _middle(isr: int) -> struct.Struct:
    return struct.Struct(f">{isr}iiB")


def _head(cursor: Cursor) -> _Head:
    """The fields both commands begin a partition with; short compact lists are read three fields at a time."""
    at = cursor.at
    if cursor.is_flexible:
        try:
            partition, epoch, leader, leader_epoch, isr_length = _FIRST.unpack_from(cursor.data, at)
            if 0 < isr_length < 0x80:
                middle = _middle(isr_length - 1)
                *isr, partition_epoch, length = middle.unpack_from(cursor.data, at + _FIRST.size)
                if 0 < length < 0x80:
                    at += _FIRST.size + middle.size
                    replicas = int32s_layout(length - 1).unpack_from(cursor.data, at)
                    cursor.at = at + 4 * (length - 1)
                    return partition, epoch, leader, leader_epoch, tuple(isr), partition_epoch, replicas
        except struct.error:
            pass  # it is cut off; the slow path below says where
    partition, epoch, leader, leader_epoch = cursor.fixed(_FOUR, "partition_index")
    isr_ids = cursor.replicas("isr")
    partition_epoch = cursor.int32("partition_epoch")
    return (
        partition,
        epoch,
        leader,
        leader_epoch,
        isr_ids,
        PartitionEpoch(partition_epoch),
        cursor.replicas("replicas"),
    )


def _live_leader(cursor: Cursor) -> LiveBroker:
    broker, host, port = BrokerId(cursor.int32("broker_id")), cursor.string("host_name"), cursor.int32("port")
    return LiveBroker(broker, (Endpoint(UNNAMED_LISTENER, host, port),))


@lru_cache(maxsize=4)
def _update_metadata(body: bytes, version: int) -> UpdateMetadata:
    """What follows the epochs; cached, because many simulated brokers in one process get the same bytes."""
    cursor = Cursor(body, is_flexible=is_flexible(ApiKey.UPDATE_METADATA, version))
    partitions: list[PartitionView] = []
    for _ in cursor.structs("topic_states", 3):
        topic = cursor.topic_name("topic_name")
        topic_id = cursor.topic_id() if version >= 7 else None
        entries = cursor.array("partition_states", 23)
        partitions += [_metadata_view(cursor, topic, topic_id) for _ in entries]
    brokers = tuple(_live_broker(cursor) for _ in cursor.structs("live_brokers", 6))
    cursor.tags()
    return UpdateMetadata(tuple(partitions), brokers)


def _metadata_view(cursor: Cursor, topic: TopicName, topic_id: TopicId | None) -> PartitionView:
    head = _head(cursor)
    at = cursor.at
    offline: tuple[BrokerId, ...] = ()
    if cursor.is_flexible and cursor.data.startswith(_NO_OFFLINE, at):
        cursor.at = at + 2
    else:
        offline = cursor.replicas("offline_replicas")
        cursor.tags()
    return PartitionView(topic, topic_id, *head[:6], 0, head[6], offline=offline)


def _live_broker(cursor: Cursor) -> LiveBroker:
    broker = BrokerId(cursor.int32("id"))
    endpoints = tuple(_endpoint(cursor) for _ in cursor.structs("endpoints", 8))
    return LiveBroker(broker, endpoints, cursor.nullable_string("rack"))


def _endpoint(cursor: Cursor) -> Endpoint:
    port, host, listener = cursor.int32("port"), cursor.string("host"), cursor.string("listener")
    protocol = cursor.int16("security_protocol")
    if not 0 <= protocol < len(SECURITY_PROTOCOLS):
        raise cursor.malformed("security_protocol", f"is {protocol}, not one of {', '.join(SECURITY_PROTOCOLS)}")
    return Endpoint(listener, host, port, SECURITY_PROTOCOLS[protocol])


def _stop_replica(cursor: Cursor, version: int) -> StopReplica:
    alike = cursor.boolean("delete_partitions") if version < 3 else False
    stops: list[ReplicaStop] = []
    for _ in cursor.structs("topic_states", 3):
        topic = cursor.topic_name("topic_name")
        if version < 3:
            numbers = cursor.int32s("partition_indexes")
            stops += [ReplicaStop(topic, PartitionId(p), LeaderEpoch(-1), alike) for p in numbers]
        else:
            for _ in cursor.structs("partition_states", 10):
                partition, leader_epoch, is_deletion = cursor.fixed(_STOP, "partition_index")
                stops.append(ReplicaStop(topic, partition, leader_epoch, is_deletion))
    return StopReplica(tuple(stops))


def encode_acknowledgement(
    received: ReceivedCommand,
    error: ErrorCode = ErrorCode.NONE,
    errors: Mapping[TopicPartition, ErrorCode] | None = None,
) -> bytes:
    """The response to a command, with its size; partitions without an entry in `errors` were accepted.

    Like a broker, it lists no partitions when the whole command is refused, and all of them with the error when the
    sender lacks the right.
    """
    key, version = received.header.api_key, received.header.api_version
    packing = Packing(is_flexible=is_flexible(key, version))
    pieces = [encode_response_header(received.header), struct.pack(">h", error)]
    is_listed = error in (ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    listed: Command = received.command if is_listed else _NOTHING[type(received.command)]
    if error != ErrorCode.NONE:
        errors = dict.fromkeys(_partitions_of(listed), error)
    match listed:
        case UpdateMetadata():
            pass
        case LeaderAndIsr() if version >= 5:
            pieces += _errors_by_topic_id(packing, (*listed.partitions, *listed.new), errors or {})
        case LeaderAndIsr():
            names = ((v.topic, v.partition) for v in (*listed.partitions, *listed.new))
            pieces += _errors_by_name(packing, names, errors or {})
        case StopReplica():
            pieces += _errors_by_name(packing, ((s.topic, s.partition) for s in listed.stops), errors or {})
        case _:
            assert_never(listed)
    return framed(*pieces, packing.no_tags)


def _partitions_of(command: Command) -> Iterator[TopicPartition]:
    match command:
        case UpdateMetadata():
            return iter(())
        case LeaderAndIsr():
            return (TopicPartition(view.topic, view.partition) for view in (*command.partitions, *command.new))
        case StopReplica():
            return (TopicPartition(stop.topic, stop.partition) for stop in command.stops)
        case _:
            assert_never(command)


_NOTHING: dict[type, Command] = {
    LeaderAndIsr: LeaderAndIsr((), (), ()),
    UpdateMetadata: UpdateMetadata((), ()),
    StopReplica: StopReplica(()),
}


def _errors_by_name(
    packing: Packing,
    partitions: Iterable[tuple[TopicName, PartitionId]],
    errors: Mapping[TopicPartition, ErrorCode],
) -> list[bytes]:
    entries = [
        packing.string(topic)
        + _ERROR.pack(partition, errors.get(TopicPartition(topic, partition), ErrorCode.NONE))
        + packing.no_tags
        for topic, partition in partitions
    ]
    return [packing.array(len(entries)), *entries]


def _errors_by_topic_id(
    packing: Packing, views: Iterable[PartitionView], errors: Mapping[TopicPartition, ErrorCode]
) -> list[bytes]:
    topics: dict[TopicId | None, list[bytes]] = {}
    for view in views:
        error = errors.get(TopicPartition(view.topic, view.partition), ErrorCode.NONE) if errors else ErrorCode.NONE
        topics.setdefault(view.topic_id, []).append(_ERROR.pack(view.partition, error) + packing.no_tags)
    pieces = [packing.array(len(topics))]
    for topic_id, entries in topics.items():
        pieces += (topic_id_bytes(topic_id), packing.array(len(entries)), *entries, packing.no_tags)
    return pieces
