"""What does this message ask?

Decodes the requests this controller answers itself, in every version of `SERVED`. For any other, `UnsupportedApi`
carries the header, so that the request can be passed on.

Source: Kafka's *Request.json schemas; KIP-455, KIP-497, KIP-511, KIP-516, KIP-730.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from controller.core.messages import requests
from controller.wire import acl_requests, admin_requests, metadata_request, topic_requests
from controller.wire.apis import SERVED, ApiKey, VersionRange, is_flexible
from controller.wire.cursor import Cursor, Malformed
from controller.wire.frames import RequestHeader
from controller.wire.mode import mode_of
from controller.wire.tagged import give_up_of, reads_additions, reason_of, request_id_of, throttle_of, weights_of
from zk_layout.ids import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    Replicas,
    TopicPartition,
)


class ApiVersionsRequest(Struct, frozen=True):
    """ApiVersions (18): which requests are answered here? The names are empty before version 3."""

    software_name: str = ""
    software_version: str = ""

    def is_valid(self, version: int) -> bool:
        """Whether the client's names can serve as metric labels, from version 3 on.

        >>> ApiVersionsRequest("kafka-python", "2.2.3").is_valid(3), ApiVersionsRequest("", "1").is_valid(3)
        (True, False)
        """
        names = (self.software_name, self.software_version)
        return version < _FIRST_WITH_SOFTWARE or all(_SOFTWARE.fullmatch(name) for name in names)


class UnreadableRequest(ValueError):
    """A message that is not a request answered here; `header` is None if even that could not be read."""

    def __init__(self, header: RequestHeader | None, text: str) -> None:
        super().__init__(text)
        self.header = header


class MalformedRequest(UnreadableRequest):
    """The bytes violate the protocol; close the connection."""


class UnsupportedApi(UnreadableRequest):
    """Another request than those in `SERVED`.

    Shape:
        `header` always has api key, version and correlation id; the client id is that of any request Kafka
        knows but ControlledShutdown v0.
    """

    header: RequestHeader


class UnsupportedVersion(UnreadableRequest):
    """A request of `SERVED`, in a version outside its range. ApiVersions is answered nevertheless (KIP-511)."""

    header: RequestHeader

    def __init__(self, header: RequestHeader, served: VersionRange) -> None:
        name = _name(header.api_key)
        super().__init__(header, f"{name} version {header.api_version} is unsupported here; use {served}")
        self.served = served


_FIRST_WITH_SOFTWARE = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_NUMBERS = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_ISR_HEAD = struct.Struct(">ii")
_ISR_MEMBER = struct.Struct(">iq")


def decode_request(frame: bytes) -> tuple[RequestHeader, requests.Request | ApiVersionsRequest]:
    """Decode one whole message without its size.

    Raises:
        MalformedRequest: it is cut off, or claims more than it holds.
        UnsupportedApi: the controller does not answer it.
        UnsupportedVersion: a version not answered here.
    """
    header = decode_header(frame)
    key, version = header.api_key, header.api_version
    served = SERVED.get(key)
    if served is None:
        raise UnsupportedApi(header, f"{_name(key)} is not answered by the controller; ask a broker")
    if version not in served:
        raise UnsupportedVersion(header, served)
    with reading(header, frame) as cursor:
        request = _DECODERS[ApiKey(key)](cursor, version)
        fields = cursor.tags()
        if fields and isinstance(request, requests.ListReassignments | requests.AlterReassignments):
            header = msgspec.structs.replace(header, reads_additions=reads_additions(fields))
            request = _with_ours(request, fields, cursor)
    return header, request


@contextmanager
def reading(header: RequestHeader, frame: bytes) -> Iterator[Cursor]:
    """A cursor after a request's header, for reading its body. Like brokers, it ignores what is left behind the body:
    librdkafka leaves three bytes.

    Raises:
        MalformedRequest: for whatever is `Malformed` in it.
    """
    key = ApiKey(header.api_key)
    flexible, most = is_flexible(key, header.api_version), key.row.most_entries
    cursor = Cursor(frame, _body_at(header, frame), is_flexible=flexible, most_entries=most)
    try:
        cursor.tags()
        yield cursor
    except Malformed as error:
        raise MalformedRequest(
            header,
            f"{_name(header.api_key)} version {header.api_version} from client {header.client_id!r} "
            f"is malformed: {error}; correct the client's encoding",
        ) from None


def _with_ours(
    request: requests.ListReassignments | requests.AlterReassignments, fields: dict[int, bytes], cursor: Cursor
) -> requests.ListReassignments | requests.AlterReassignments:
    """The request with the fields that only this controller understands."""
    if isinstance(request, requests.ListReassignments):
        return msgspec.structs.replace(request, request_id=request_id_of(fields, cursor))
    mode, throttle, reason = mode_of(fields), throttle_of(fields, cursor), reason_of(fields)
    give_up_ms, weights = give_up_of(fields, cursor), weights_of(fields, len(request.reassignments))
    if weights:
        pairs = zip(request.reassignments, weights, strict=True)
        weighted = tuple(msgspec.structs.replace(wanted, weight=weight) for wanted, weight in pairs)
        request = msgspec.structs.replace(request, reassignments=weighted)
    return msgspec.structs.replace(request, mode=mode, throttle=throttle, reason=reason, give_up_ms=give_up_ms)


def decode_header(frame: bytes) -> RequestHeader:
    """The header alone, of a request of any kind.

    Raises:
        MalformedRequest: shorter than a header.
    """
    cursor = Cursor(frame)
    try:
        api_key, version, correlation_id = cursor.fixed(_NUMBERS, "header")
        header = RequestHeader(api_key, version, correlation_id)
        if header.has_client_id:
            header = RequestHeader(api_key, version, correlation_id, cursor.nullable_string("client_id"))
    except Malformed as error:
        raise MalformedRequest(
            None, f"a message of {len(frame)} bytes is not a Kafka request: {error}; close the connection"
        ) from None
    return header


def _body_at(header: RequestHeader, frame: bytes) -> int:
    if not header.has_client_id:
        return _NUMBERS.size
    (length,) = _LENGTH.unpack_from(frame, _NUMBERS.size)
    return _NUMBERS.size + _LENGTH.size + max(0, int(length))


def _name(api_key: int) -> str:
    try:
        return ApiKey(api_key).api_name
    except ValueError:
        return f"the request with api key {api_key}"


def _api_versions(cursor: Cursor, version: int) -> ApiVersionsRequest:
    if version < 3:
        return ApiVersionsRequest()
    return ApiVersionsRequest(cursor.string("client_software_name"), cursor.string("client_software_version"))


def _metadata(cursor: Cursor, version: int) -> requests.DescribeCluster:
    return metadata_request.read(cursor, version).described


def _controlled_shutdown(cursor: Cursor, version: int) -> requests.ControlledShutdown:
    broker = BrokerId(cursor.int32("broker_id"))
    return requests.ControlledShutdown(
        broker, BrokerEpoch(cursor.int64("broker_epoch")) if version >= 2 else NO_BROKER_EPOCH
    )


def _allocate_producer_ids(cursor: Cursor, _version: int) -> requests.AllocateProducerIds:
    return requests.AllocateProducerIds(BrokerId(cursor.int32("broker_id")), BrokerEpoch(cursor.int64("broker_epoch")))


def _list_reassignments(cursor: Cursor, _version: int) -> requests.ListReassignments:
    timeout_ms = cursor.int32("timeout_ms")
    entries = cursor.nullable_structs("topics", 3)
    if entries is None:
        return requests.ListReassignments(None, timeout_ms=timeout_ms)
    partitions: list[TopicPartition] = []
    for _ in entries:
        topic = cursor.topic_name()
        partitions += [TopicPartition(topic, PartitionId(p)) for p in cursor.int32s("partition_indexes")]
    return requests.ListReassignments(tuple(partitions), timeout_ms=timeout_ms)


def _alter_reassignments(cursor: Cursor, _version: int) -> requests.AlterReassignments:
    timeout_ms = cursor.int32("timeout_ms")
    reassignments: list[requests.PartitionReassignment] = []
    for _ in cursor.structs("topics", 3):
        topic = cursor.topic_name()
        for _ in cursor.structs("partitions", 6):
            partition = PartitionId(cursor.int32("partition_index"))
            replicas = cursor.nullable_int32s("replicas")
            target = None if replicas is None else tuple(map(BrokerId, replicas))
            reassignments.append(requests.PartitionReassignment(TopicPartition(topic, partition), target))
    return requests.AlterReassignments(tuple(reassignments), timeout_ms=timeout_ms)


def _alter_partition(cursor: Cursor, version: int) -> requests.AlterPartition:
    broker = BrokerId(cursor.int32("broker_id"))
    broker_epoch = BrokerEpoch(cursor.int64("broker_epoch"))
    proposals: list[requests.IsrProposal] = []
    for _ in cursor.structs("topics", 3 if version < 2 else 18):
        if version < 2:
            topic = requests.TopicReference(name=cursor.topic_name("topic_name"))
        else:
            topic = requests.TopicReference(topic_id=cursor.topic_id())
        proposals += [_isr_proposal(cursor, version, topic) for _ in cursor.structs("partitions", 14)]
    return requests.AlterPartition(broker, broker_epoch, tuple(proposals), names_topics_by_id=version >= 2)


def _isr_proposal(cursor: Cursor, version: int, topic: requests.TopicReference) -> requests.IsrProposal:
    partition, leader_epoch = cursor.fixed(_ISR_HEAD, "partition_index")
    isr: Replicas
    broker_epochs: tuple[BrokerEpoch, ...] = ()
    if version < 3:
        isr = cursor.replicas("new_isr")
    else:
        members = [cursor.fixed(_ISR_MEMBER, "broker_id") for _ in cursor.structs("new_isr_with_epochs", 13)]
        isr = tuple(BrokerId(broker) for broker, _ in members)
        broker_epochs = tuple(BrokerEpoch(epoch) for _, epoch in members)
    leader_recovery_state = cursor.int8("leader_recovery_state") if version >= 1 else 0
    partition_epoch = cursor.int32("partition_epoch")
    return requests.IsrProposal(
        topic,
        PartitionId(partition),
        LeaderEpoch(leader_epoch),
        PartitionEpoch(partition_epoch),
        isr,
        broker_epochs,
        leader_recovery_state,
    )


_DECODERS: dict[ApiKey, Callable[[Cursor, int], requests.Request | ApiVersionsRequest]] = {
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.METADATA: _metadata,
    ApiKey.DESCRIBE_CLUSTER: metadata_request.describe_cluster,
    ApiKey.CONTROLLED_SHUTDOWN: _controlled_shutdown,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_reassignments,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_reassignments,
    ApiKey.ALTER_PARTITION: _alter_partition,
    ApiKey.ALLOCATE_PRODUCER_IDS: _allocate_producer_ids,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: admin_requests.alter_scram_credentials,
    ApiKey.DESCRIBE_ACLS: acl_requests.describe_acls,
    ApiKey.CREATE_ACLS: acl_requests.create_acls,
    ApiKey.DELETE_ACLS: acl_requests.delete_acls,
    ApiKey.UPDATE_FEATURES: admin_requests.update_features,
    ApiKey.CREATE_TOPICS: topic_requests.create_topics,
    ApiKey.DELETE_TOPICS: topic_requests.delete_topics,
    ApiKey.CREATE_PARTITIONS: topic_requests.create_partitions,
    ApiKey.ELECT_LEADERS: topic_requests.elect_leaders,
}
