"""Which bytes carry a command to a broker, and what did the broker answer?

Partitions are packed here and not by kio, because a take-over tells every broker about every partition: see
`partition_bytes`. The property tests prove that both give the same bytes.

One command must stay far below the brokers' `socket.request.max.bytes` (100 MB by default); its sender splits it by
count. A partition with three replicas takes about 60 bytes, and its topic's name once.

Source: Kafka's LeaderAndIsrRequest, UpdateMetadataRequest and StopReplicaRequest; ControllerChannelManager.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar, assert_never

from msgspec import Struct
from msgspec.structs import replace

from controller.core.messages.commands import (
    Command,
    LeaderAndIsr,
    LiveBroker,
    PartitionView,
    ReplicaStop,
    StopReplica,
    UpdateMetadata,
)
from controller.core.messages.effects import Tell
from controller.core.messages.events import Acknowledged
from controller.wire.acknowledgements import decode_acknowledgement
from controller.wire.apis import ApiKey, is_flexible
from controller.wire.frames import RequestHeader, encode_request_header
from controller.wire.partition_bytes import PartitionPacking, Tails
from controller.wire.versions import InterBrokerProtocol
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicName, TopicPartition
from zk_layout.znodes.brokers import SECURITY_PROTOCOLS, Endpoint

_SHARED_MOST_BYTES = 64 * 1024 * 1024
_SIZE = struct.Struct(">i")
_EPOCHS = struct.Struct(">iq")
_STOP = struct.Struct(">ii?")
_Listed = TypeVar("_Listed", PartitionView, ReplicaStop)


class CommandRequest(Struct, frozen=True):
    """One request to send; its response has the same correlation id.

    Shape:
        Write `chunks` one after the other; the first begins with the size of all. Later ones may be shared with other
        brokers' requests.
    """

    api_key: ApiKey
    api_version: int
    correlation_id: int
    chunks: tuple[bytes, ...]


class CommandEncoder:
    """Encodes commands in the versions of one inter-broker protocol.

    What brokers have in common is packed once: the payload of one `UpdateMetadata` value, which is recognised by
    identity and cached until others displace it, and the head of one `PartitionView` value, which is kept with that.
    `forget` drops what is cached, for a moment when nothing is left to send.
    """

    def __init__(
        self,
        controller_id: BrokerId,
        protocol: InterBrokerProtocol,
        inter_broker_listener: str,
        client_id: str | None = None,
    ) -> None:
        self._controller_id = controller_id
        self._protocol = protocol
        self._listener = inter_broker_listener
        self._client_id = str(controller_id) if client_id is None else client_id
        self._packing = PartitionPacking(
            is_flexible=is_flexible(ApiKey.UPDATE_METADATA, protocol.update_metadata),
        )
        self._has_recovery_state = protocol.leader_and_isr >= 6
        self._tails_of_existing = self._leader_and_isr_tails(is_new=False)
        self._tails_of_new = self._leader_and_isr_tails(is_new=True)
        self._tails_of_metadata = Tails(self._packing.int32s(()) + self._packing.no_tags, self._tail_of_metadata)
        self._shared: dict[int, tuple[UpdateMetadata, bytes]] = {}
        self._shared_bytes = 0
        self._last_brokers: tuple[tuple[LiveBroker, ...], bytes] = ((), self._pack_brokers(()))

    def encode(self, tell: Tell, correlation_id: int) -> tuple[CommandRequest, ...]:
        """The requests that carry a command, in sending order; their correlation ids count up from the given one.
        There is one, except that StopReplica before version 3 needs one for replicas to delete and one for replicas
        to keep."""
        match tell.command:
            case LeaderAndIsr():
                payload = self._leader_and_isr(tell.command)
                key, version = ApiKey.LEADER_AND_ISR, self._protocol.leader_and_isr
                return (self._request(key, version, correlation_id, tell, payload),)
            case UpdateMetadata():
                payload = self._shared_update_metadata(tell.command)
                key, version = ApiKey.UPDATE_METADATA, self._protocol.update_metadata
                return (self._request(key, version, correlation_id, tell, payload),)
            case StopReplica():
                version = self._protocol.stop_replica
                return tuple(
                    self._request(ApiKey.STOP_REPLICA, version, correlation_id + position, tell, payload)
                    for position, payload in enumerate(self._stop_replica(tell.command, version))
                )
            case _:
                assert_never(tell.command)

    def encodable(self, tell: Tell) -> tuple[Tell, tuple[TopicPartition, ...]]:
        """The command without the partitions that cannot be encoded, and those partitions; each is tried singly."""
        unsendable: dict[TopicPartition, None] = {}

        def sendable(
            items: tuple[_Listed, ...], alone: Callable[[tuple[_Listed, ...]], Command]
        ) -> tuple[_Listed, ...]:
            for item in items:
                try:
                    self.encode(replace(tell, command=alone((item,))), 0)
                except Exception:  # the caller has seen an error like it, and logs the partition
                    unsendable[TopicPartition(item.topic, item.partition)] = None
            return tuple(i for i in items if TopicPartition(i.topic, i.partition) not in unsendable)

        match tell.command:
            case LeaderAndIsr(partitions, new, leaders):
                existing = sendable(partitions, lambda some: LeaderAndIsr(some, (), ()))
                command: Command = LeaderAndIsr(
                    existing, sendable(new, lambda some: LeaderAndIsr((), some, ())), leaders
                )
            case UpdateMetadata(partitions, brokers):
                command = UpdateMetadata(sendable(partitions, lambda some: UpdateMetadata(some, ())), brokers)
            case StopReplica(stops):
                command = StopReplica(sendable(stops, StopReplica))
            case _:
                assert_never(tell.command)
        return replace(tell, command=command), tuple(unsendable)

    def decode_acknowledgement(self, tell: Tell, *frames: bytes) -> Acknowledged:
        """Decode a broker's answer: one frame, without its size, for each request `encode` made, in that order.

        Raises:
            Malformed: not the response to these requests.
        """
        return decode_acknowledgement(self._protocol, tell, frames)

    def forget(self) -> None:
        """Drop everything cached for sharing."""
        self._packing.forget()
        self._shared.clear()
        self._shared_bytes = 0

    def _request(self, key: ApiKey, version: int, correlation_id: int, tell: Tell, payload: bytes) -> CommandRequest:
        header = encode_request_header(RequestHeader(key, version, correlation_id, self._client_id))
        begin = header + self._sender(key, version, tell.controller_epoch, tell.broker_epoch)
        return CommandRequest(key, version, correlation_id, (_SIZE.pack(len(begin) + len(payload)) + begin, payload))

    def _sender(self, key: ApiKey, version: int, controller_epoch: ControllerEpoch, broker_epoch: BrokerEpoch) -> bytes:
        """The first fields of every command: the sender, and which registration of the recipient it addresses."""
        says_kind = version >= FIRST_WITH_KIND[key]
        is_kraft = b"\0" if says_kind else b""
        return _SIZE.pack(self._controller_id) + is_kraft + _EPOCHS.pack(controller_epoch, broker_epoch)

    def _leader_and_isr(self, command: LeaderAndIsr) -> bytes:
        packing, version = self._packing, self._protocol.leader_and_isr
        pieces = packing.topic_states(
            ((command.partitions, self._tails_of_existing), (command.new, self._tails_of_new)),
            with_ids=version >= 5,
        )
        if version >= 5:
            pieces.insert(0, b"\0")  # the type of request, which only KRaft uses
        leaders = [(leader.broker, endpoint) for leader in command.leaders if (endpoint := self._endpoint(leader))]
        pieces.append(packing.array(len(leaders)))
        for broker, endpoint in leaders:
            pieces += (
                _SIZE.pack(broker),
                packing.string(endpoint.host),
                _SIZE.pack(endpoint.port),
                packing.no_tags,
            )
        pieces.append(packing.no_tags)
        return b"".join(pieces)

    def _endpoint(self, broker: LiveBroker) -> Endpoint | None:
        return next((e for e in broker.endpoints if e.listener == self._listener), None)

    def _leader_and_isr_tails(self, *, is_new: bool) -> Tails:
        packing = self._packing
        has_recovery_state, new = self._has_recovery_state, b"\1" if is_new else b"\0"

        def tail(adding: tuple[int, ...], removing: tuple[int, ...], recovery_state: int) -> bytes:
            recovery = recovery_state.to_bytes(1, "big", signed=True) if has_recovery_state else b""
            return packing.int32s(adding) + packing.int32s(removing) + new + recovery + packing.no_tags

        return Tails(tail((), (), 0), lambda view: tail(view.adding, view.removing, view.leader_recovery_state))

    def _shared_update_metadata(self, command: UpdateMetadata) -> bytes:
        known = self._shared.get(id(command))
        if known is not None:
            return known[1]
        payload = self._update_metadata(command)
        self._shared[id(command)] = (command, payload)
        self._shared_bytes += len(payload)
        while self._shared_bytes > _SHARED_MOST_BYTES and len(self._shared) > 1:
            _, oldest = self._shared.pop(next(iter(self._shared)))
            self._shared_bytes -= len(oldest)
        return payload

    def _update_metadata(self, command: UpdateMetadata) -> bytes:
        packing, version = self._packing, self._protocol.update_metadata
        pieces = packing.topic_states(
            ((command.partitions, self._tails_of_metadata),),
            with_ids=version >= 7,
        )
        pieces += (self._brokers_bytes(command.brokers), packing.no_tags)
        return b"".join(pieces)

    def _brokers_bytes(self, brokers: tuple[LiveBroker, ...]) -> bytes:
        """The brokers of a command; mostly those of the last one, and in a large cluster more bytes than the rest."""
        known, packed = self._last_brokers
        if known != brokers:
            packed = self._pack_brokers(brokers)
            self._last_brokers = brokers, packed
        return packed

    def _pack_brokers(self, brokers: tuple[LiveBroker, ...]) -> bytes:
        packing = self._packing
        pieces = [packing.array(len(brokers))]
        for broker in brokers:
            pieces += (_SIZE.pack(broker.broker), packing.array(len(broker.endpoints)))
            pieces += map(self._endpoint_bytes, broker.endpoints)
            pieces += (packing.nullable_string(broker.rack), packing.no_tags)
        return b"".join(pieces)

    def _endpoint_bytes(self, endpoint: Endpoint) -> bytes:
        packing = self._packing
        protocol = SECURITY_PROTOCOLS.index(endpoint.security_protocol)
        return b"".join(
            (
                _SIZE.pack(endpoint.port),
                packing.string(endpoint.host),
                packing.string(endpoint.listener),
                protocol.to_bytes(2, "big"),
                packing.no_tags,
            )
        )

    def _tail_of_metadata(self, view: PartitionView) -> bytes:
        return self._packing.int32s(view.offline) + self._packing.no_tags

    def _stop_replica(self, command: StopReplica, version: int) -> list[bytes]:
        if version >= 3:
            return [self._stops_with_epochs(command.stops)]
        return [self._stops_alike(stops, is_deletion) for is_deletion, stops in split_stops(command)]

    def _stops_with_epochs(self, stops: Sequence[ReplicaStop]) -> bytes:
        packing = self._packing
        groups: dict[TopicName, list[bytes]] = {}
        for stop in stops:
            packed = _STOP.pack(stop.partition, stop.leader_epoch, stop.is_deletion)
            groups.setdefault(stop.topic, []).append(packed + packing.no_tags)
        pieces = [packing.array(len(groups))]
        for topic, states in groups.items():
            pieces += (packing.string(topic), packing.array(len(states)), *states, packing.no_tags)
        pieces.append(packing.no_tags)
        return b"".join(pieces)

    def _stops_alike(self, stops: Sequence[ReplicaStop], is_deletion: bool) -> bytes:
        packing = self._packing
        groups: dict[TopicName, list[int]] = {}
        for stop in stops:
            groups.setdefault(stop.topic, []).append(stop.partition)
        pieces = [b"\1" if is_deletion else b"\0", packing.array(len(groups))]
        for topic, partitions in groups.items():
            pieces += (packing.string(topic), packing.int32s(tuple(partitions)), packing.no_tags)
        pieces.append(packing.no_tags)
        return b"".join(pieces)


FIRST_WITH_KIND = {ApiKey.LEADER_AND_ISR: 7, ApiKey.STOP_REPLICA: 4, ApiKey.UPDATE_METADATA: 8}


def split_stops(command: StopReplica) -> list[tuple[bool, list[ReplicaStop]]]:
    """Split into one request each, for StopReplica before version 3: replicas to keep, then replicas to delete.

    Shape:
        At least one group, which is empty only if there is nothing to stop.
    """
    kept = [stop for stop in command.stops if not stop.is_deletion]
    deleted = [stop for stop in command.stops if stop.is_deletion]
    groups = [(False, kept)] if kept or not deleted else []
    return [*groups, (True, deleted)] if deleted else groups
