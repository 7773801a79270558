"""How are requests to a controller encoded, and its answers decoded?

The other direction of `controller.wire.requests` and `replies`: what simulated brokers and the demo need of it is in
`controller.lab.wire.to_controller`, and the rest here.

Source: Kafka's *Request.json and *Response.json schemas.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from itertools import groupby
from typing import Any, assert_never

from msgspec import structs

from controller.core.acls.numbers import OPERATION_NUMBERS
from controller.core.messages.replies import (
    ClusterDescription,
    Node,
    OngoingMove,
    Operations,
    PartitionMetadata,
    ProducerIdsAllocated,
    ReassignmentsAltered,
    ReassignmentsListed,
    Reply,
    ShutdownPermitted,
    TopicMetadata,
)
from controller.core.messages.requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    AlterScramCredentials,
    ControlledShutdown,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    DescribeAcls,
    DescribeCluster,
    ElectLeaders,
    ListReassignments,
    Request,
    TopicReference,
    UpdateFeatures,
)
from controller.lab.wire import to_controller
from controller.wire.api_versions import ApiVersionsReply, read_answer
from controller.wire.apis import ApiKey
from controller.wire.cursor import Cursor
from controller.wire.frames import RequestHeader, encode_request_header, framed
from controller.wire.mode import mode_field
from controller.wire.requests import ApiVersionsRequest
from controller.wire.schema import MessageSchema, encode_entity, request_schema, topic_uuid
from controller.wire.tagged import (
    ADDITIONS,
    controller_of,
    give_up_field,
    progress_of,
    reason_field,
    request_id_field,
    request_id_of,
    status_of,
    throttle_field,
    weights_field,
    with_tagged,
)
from tests.equipment import acl_client_side, admin_client_side, topic_client_side
from zk_layout.ids import BrokerId, LeaderEpoch, PartitionId, TopicPartition


def encode_request(header: RequestHeader, request: Request | ApiVersionsRequest) -> bytes:
    """A request in its header's version, with its size. One that uses features that only this controller
    has thereby shows that it reads additions, regardless of its header.

    Raises:
        ValueError: the header names another api key than the request's.
    """
    expected = api_key_of(request)
    if header.api_key != expected:
        raise ValueError(f"{type(request).__name__} is {expected.name}, not the request with key {header.api_key}")
    schema = request_schema(expected, header.api_version)
    body = encode_entity(_request_entity(schema, header.api_version, request))
    additions = {ADDITIONS: b""} if header.reads_additions else {}
    if isinstance(request, ListReassignments):
        body = with_tagged(body, additions | request_id_field(request.request_id))
    elif isinstance(request, AlterReassignments):
        ours = mode_field(request.mode) | throttle_field(request.throttle) | reason_field(request.reason)
        ours |= give_up_field(request.give_up_ms)
        ours |= weights_field(tuple(wanted.weight for wanted in request.reassignments))
        body = with_tagged(body, additions | ours)
    return framed(encode_request_header(header), body)


def decode_reply(header: RequestHeader, frame: bytes) -> Reply | ApiVersionsReply:
    """The answer to the request with this header; `frame` is without its size.

    Raises:
        Malformed: not a response to it.
    """
    cursor = to_controller.answer_cursor(header, frame)
    reply = _DECODERS[ApiKey(header.api_key)](cursor, header.api_version)
    fields = cursor.tags()
    cursor.finish()
    return _with_ours(reply, fields, cursor) if fields else reply


def _with_ours(reply: Reply | ApiVersionsReply, fields: dict[int, bytes], cursor: Cursor) -> Reply | ApiVersionsReply:
    """The reply with the additions of this controller."""
    if isinstance(reply, ReassignmentsAltered):
        return structs.replace(reply, request_id=request_id_of(fields, cursor))
    if isinstance(reply, ReassignmentsListed):
        return structs.replace(reply, controller=controller_of(fields), request_status=status_of(fields))
    return reply


_KEYS: dict[type[Request | ApiVersionsRequest], ApiKey] = {
    ApiVersionsRequest: ApiKey.API_VERSIONS,
    DescribeCluster: ApiKey.METADATA,
    ListReassignments: ApiKey.LIST_PARTITION_REASSIGNMENTS,
    AlterReassignments: ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    AlterPartition: ApiKey.ALTER_PARTITION,
    ControlledShutdown: ApiKey.CONTROLLED_SHUTDOWN,
    AllocateProducerIds: ApiKey.ALLOCATE_PRODUCER_IDS,
    AlterScramCredentials: ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    UpdateFeatures: ApiKey.UPDATE_FEATURES,
    DescribeAcls: ApiKey.DESCRIBE_ACLS,
    CreateAcls: ApiKey.CREATE_ACLS,
    DeleteAcls: ApiKey.DELETE_ACLS,
    CreateTopics: ApiKey.CREATE_TOPICS,
    DeleteTopics: ApiKey.DELETE_TOPICS,
    CreatePartitions: ApiKey.CREATE_PARTITIONS,
    ElectLeaders: ApiKey.ELECT_LEADERS,
}


def api_key_of(request: Request | ApiVersionsRequest) -> ApiKey:
    """Kafka's number for a request."""
    return _KEYS[type(request)]


def _request_entity(schema: MessageSchema, version: int, request: Request | ApiVersionsRequest) -> Any:  # noqa: C901 (one flat match)
    match request:
        case ApiVersionsRequest():
            return schema.make(
                "ApiVersionsRequest",
                client_software_name=request.software_name,
                client_software_version=request.software_version,
            )
        case DescribeCluster():
            return _metadata_entity(schema, version, request)
        case ListReassignments():
            return _list_entity(schema, request)
        case AlterReassignments():
            return to_controller.alter_reassignments_entity(schema, request)
        case AlterPartition():
            return to_controller.alter_partition_entity(schema, version, request)
        case ControlledShutdown():
            return schema.make("ControlledShutdownRequest", broker_id=request.broker, broker_epoch=request.broker_epoch)
        case AllocateProducerIds():
            return schema.make(
                "AllocateProducerIdsRequest", broker_id=request.broker, broker_epoch=request.broker_epoch
            )
        case DescribeAcls() | CreateAcls() | DeleteAcls():
            return acl_client_side.acl_request_entity(schema, request)
        case UpdateFeatures() | AlterScramCredentials():
            return admin_client_side.admin_request_entity(schema, request)
        case CreateTopics() | DeleteTopics() | CreatePartitions() | ElectLeaders():
            return topic_client_side.topic_request_entity(schema, version, request)
        case _:
            assert_never(request)


def _metadata_entity(schema: MessageSchema, version: int, request: DescribeCluster) -> Any:
    topics = None if request.topics is None else tuple(_topic_entity(schema, t) for t in request.topics)
    return schema.make(
        "MetadataRequest",
        topics=() if topics is None and version == 0 else topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=request.with_cluster_operations,
        include_topic_authorized_operations=request.with_topic_operations,
    )


def _topic_entity(schema: MessageSchema, topic: TopicReference) -> Any:
    return schema.make("MetadataRequestTopic", topic_id=topic_uuid(topic.topic_id), name=topic.name)


def _list_entity(schema: MessageSchema, request: ListReassignments) -> Any:
    topics = request.partitions and tuple(
        schema.make(
            "ListPartitionReassignmentsTopics",
            name=topic,
            partition_indexes=tuple(p.partition for p in partitions),
        )
        for topic, partitions in groupby(request.partitions, lambda p: p.topic)
    )
    return schema.make(
        "ListPartitionReassignmentsRequest", timeout=datetime.timedelta(milliseconds=request.timeout_ms), topics=topics
    )


def _metadata(cursor: Cursor, version: int) -> ClusterDescription:
    if version >= 3:
        cursor.int32("throttle_time_ms")
    nodes = tuple(_node(cursor, version) for _ in cursor.array("brokers", 10))
    cluster_id = cursor.nullable_string("cluster_id") if version >= 2 else None
    controller = BrokerId(cursor.int32("controller_id")) if version >= 1 else BrokerId(-1)
    topics = tuple(_topic_metadata(cursor, version) for _ in cursor.array("topics", 6))
    operations = _operations(cursor.int32("cluster_authorized_operations")) if 8 <= version <= 10 else None
    return ClusterDescription(nodes, cluster_id, controller, topics, operations=operations)


def _operations(bits: int) -> Operations | None:
    if bits < 0:
        return None
    return tuple(operation for operation, code in OPERATION_NUMBERS.items() if bits & 1 << code)


def _node(cursor: Cursor, version: int) -> Node:
    broker, host, port = BrokerId(cursor.int32("node_id")), cursor.string("host"), cursor.int32("port")
    rack = cursor.nullable_string("rack") if version >= 1 else None
    cursor.tags()
    return Node(broker, host, port, rack)


def _topic_metadata(cursor: Cursor, version: int) -> TopicMetadata:
    error = cursor.error()
    name = cursor.nullable_topic_name() if version >= 12 else cursor.topic_name()
    topic_id = cursor.topic_id() if version >= 10 else None
    if version >= 1:
        cursor.boolean("is_internal")
    partitions = tuple(_partition_metadata(cursor, version) for _ in cursor.array("partitions", 13))
    operations = _operations(cursor.int32("topic_authorized_operations")) if version >= 8 else None
    cursor.tags()
    return TopicMetadata(name or None, topic_id, error, partitions, operations)


def _partition_metadata(cursor: Cursor, version: int) -> PartitionMetadata:
    error = cursor.error()
    partition, leader = PartitionId(cursor.int32("partition_index")), BrokerId(cursor.int32("leader_id"))
    leader_epoch = LeaderEpoch(cursor.int32("leader_epoch") if version >= 7 else -1)
    replicas, isr = cursor.replicas("replica_nodes"), cursor.replicas("isr_nodes")
    offline = cursor.replicas("offline_replicas") if version >= 5 else ()
    cursor.tags()
    return PartitionMetadata(partition, error, leader, leader_epoch, replicas, isr, offline)


def _listed(cursor: Cursor, _version: int) -> ReassignmentsListed:
    cursor.int32("throttle_time_ms")
    error, message = cursor.error(), cursor.nullable_string("error_message")
    moves: list[OngoingMove] = []
    for _ in cursor.array("topics", 3):
        topic = cursor.topic_name()
        for _ in cursor.array("partitions", 8):
            partition = TopicPartition(topic, PartitionId(cursor.int32("partition_index")))
            replicas = cursor.replicas("replicas")
            adding, removing = cursor.replicas("adding_replicas"), cursor.replicas("removing_replicas")
            moves.append(OngoingMove(partition, replicas, adding, removing, progress_of(cursor.tags())))
        cursor.tags()
    return ReassignmentsListed(tuple(moves), error, message)


def _shutdown_permitted(cursor: Cursor, _version: int) -> ShutdownPermitted:
    error = cursor.error()
    remaining: list[TopicPartition] = []
    for _ in cursor.array("remaining_partitions", 6):
        topic = cursor.topic_name("topic_name")
        remaining.append(TopicPartition(topic, PartitionId(cursor.int32("partition_index"))))
        cursor.tags()
    return ShutdownPermitted(tuple(remaining), error)


def _producer_ids_allocated(cursor: Cursor, _version: int) -> ProducerIdsAllocated:
    cursor.int32("throttle_time_ms")
    error = cursor.error()
    return ProducerIdsAllocated(cursor.int64("producer_id_start"), cursor.int32("producer_id_len"), error)


_DECODERS: dict[ApiKey, Callable[[Cursor, int], Reply | ApiVersionsReply]] = {
    ApiKey.API_VERSIONS: read_answer,
    ApiKey.METADATA: _metadata,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _listed,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: to_controller.reassignments_altered,
    ApiKey.ALTER_PARTITION: to_controller.partitions_altered,
    ApiKey.CONTROLLED_SHUTDOWN: _shutdown_permitted,
    ApiKey.ALLOCATE_PRODUCER_IDS: _producer_ids_allocated,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: admin_client_side.scram_credentials_altered,
    ApiKey.DESCRIBE_ACLS: acl_client_side.acls_described,
    ApiKey.CREATE_ACLS: acl_client_side.acls_created,
    ApiKey.DELETE_ACLS: acl_client_side.acls_deleted,
    ApiKey.UPDATE_FEATURES: admin_client_side.features_updated,
    ApiKey.CREATE_TOPICS: topic_client_side.topics_created,
    ApiKey.DELETE_TOPICS: topic_client_side.topics_deleted,
    ApiKey.CREATE_PARTITIONS: topic_client_side.partitions_created,
    ApiKey.ELECT_LEADERS: topic_client_side.leaders_elected,
}
