"""Which bytes answer this request?

Encodes the answers to the requests in `SERVED`, each in the version of its request.

Source: Kafka's *Response.json schemas; KIP-511 for ApiVersions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, assert_never

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    AclsCreated,
    AclsDeleted,
    AclsDescribed,
    ClusterDescription,
    FeaturesUpdated,
    IsrResult,
    LeadersElected,
    PartitionResult,
    PartitionsAltered,
    PartitionsCreated,
    ProducerIdsAllocated,
    ReassignmentsAltered,
    ReassignmentsListed,
    Reply,
    ScramCredentialsAltered,
    ShutdownPermitted,
    TopicsCreated,
    TopicsDeleted,
)
from controller.wire import acl_replies, admin_replies, topic_replies
from controller.wire.apis import SERVED, ApiKey, VersionRange
from controller.wire.frames import RequestHeader, encode_response_header, framed
from controller.wire.metadata_bytes import MetadataEncoder
from controller.wire.operation_bits import operation_bits
from controller.wire.schema import (
    UNTHROTTLED,
    MessageSchema,
    encode_entity,
    response_schema,
    topic_uuid,
)
from controller.wire.tagged import listed, request_id_field, with_tagged, without_additions

_KEYS: dict[type[Reply], tuple[ApiKey, ...]] = {
    ClusterDescription: (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER),
    ReassignmentsListed: (ApiKey.LIST_PARTITION_REASSIGNMENTS,),
    ReassignmentsAltered: (ApiKey.ALTER_PARTITION_REASSIGNMENTS,),
    PartitionsAltered: (ApiKey.ALTER_PARTITION,),
    ShutdownPermitted: (ApiKey.CONTROLLED_SHUTDOWN,),
    ProducerIdsAllocated: (ApiKey.ALLOCATE_PRODUCER_IDS,),
    ScramCredentialsAltered: (ApiKey.ALTER_USER_SCRAM_CREDENTIALS,),
    FeaturesUpdated: (ApiKey.UPDATE_FEATURES,),
    TopicsCreated: (ApiKey.CREATE_TOPICS,),
    TopicsDeleted: (ApiKey.DELETE_TOPICS,),
    PartitionsCreated: (ApiKey.CREATE_PARTITIONS,),
    LeadersElected: (ApiKey.ELECT_LEADERS,),
    AclsDescribed: (ApiKey.DESCRIBE_ACLS,),
    AclsCreated: (ApiKey.CREATE_ACLS,),
    AclsDeleted: (ApiKey.DELETE_ACLS,),
}


def encode_reply(header: RequestHeader, reply: Reply) -> bytes:
    """The answer to the request with this header, with its size.

    Raises:
        ValueError: the reply answers another kind of request.
    """
    key = next((key for key in _KEYS[type(reply)] if key == header.api_key), None)
    if key is None:
        raise ValueError(f"{type(reply).__name__} does not answer the request with key {header.api_key}")
    if isinstance(reply, ClusterDescription):
        body = _cluster(key, header.api_version, reply)
    elif isinstance(reply, ReassignmentsListed):
        body = listed(reply if header.reads_additions else without_additions(reply))
    else:
        schema = response_schema(key, header.api_version)
        body = encode_entity(_entity(schema, header.api_version, reply))
        if isinstance(reply, ReassignmentsAltered) and header.reads_additions:
            body = with_tagged(body, request_id_field(reply.request_id))
    return framed(encode_response_header(header), body)


def encode_api_versions(
    header: RequestHeader,
    ranges: Mapping[int, VersionRange] = SERVED,
    error: ErrorCode = ErrorCode.NONE,
) -> bytes:
    """The answer to ApiVersions, with its size. A version unsupported here is answered in version 0, which every client
    understands (KIP-511); pass UNSUPPORTED_VERSION as `error` then."""
    supported = header.api_version in SERVED[ApiKey.API_VERSIONS]
    schema = response_schema(ApiKey.API_VERSIONS, header.api_version if supported else 0)
    keys = tuple(
        schema.make("ApiVersion", api_key=int(key), min_version=served.lowest, max_version=served.highest)
        for key, served in sorted(ranges.items())
    )
    entity = schema.make("ApiVersionsResponse", error_code=error, api_keys=keys, throttle_time=UNTHROTTLED)
    return framed(encode_response_header(header), encode_entity(entity))


def _entity(  # noqa: C901 (one flat match)
    schema: MessageSchema,
    version: int,
    reply: ReassignmentsAltered
    | PartitionsAltered
    | ShutdownPermitted
    | ProducerIdsAllocated
    | ScramCredentialsAltered
    | FeaturesUpdated
    | AclsDescribed
    | AclsCreated
    | AclsDeleted
    | TopicsCreated
    | TopicsDeleted
    | PartitionsCreated
    | LeadersElected,
) -> Any:
    match reply:
        case TopicsCreated():
            return topic_replies.topics_created(schema, version, reply)
        case TopicsDeleted():
            return topic_replies.topics_deleted(schema, version, reply)
        case PartitionsCreated():
            return topic_replies.partitions_created(schema, reply)
        case LeadersElected():
            return topic_replies.leaders_elected(schema, reply)
        case AclsDescribed() | AclsCreated() | AclsDeleted():
            return acl_replies.acl_reply(schema, reply)
        case ScramCredentialsAltered() | FeaturesUpdated():
            return admin_replies.admin_reply(schema, reply)
        case ReassignmentsAltered():
            return _altered(schema, reply)
        case PartitionsAltered():
            return _partitions_altered(schema, version, reply)
        case ShutdownPermitted():
            return _shutdown_permitted(schema, reply)
        case ProducerIdsAllocated():
            return schema.make(
                "AllocateProducerIdsResponse",
                throttle_time=UNTHROTTLED,
                error_code=reply.error,
                producer_id_start=reply.first,
                producer_id_len=reply.length,
            )
        case _:
            assert_never(reply)


def _cluster(key: ApiKey, version: int, reply: ClusterDescription) -> bytes:
    if key is ApiKey.METADATA:
        return MetadataEncoder(version).encode(reply)
    schema = response_schema(key, version)
    described = schema.make(
        "DescribeClusterResponse",
        throttle_time=UNTHROTTLED,
        error_code=reply.error,
        error_message=reply.message,
        cluster_id=reply.cluster_id or "",
        controller_id=reply.controller,
        brokers=tuple(
            schema.make("DescribeClusterBroker", broker_id=node.broker, host=node.host, port=node.port, rack=node.rack)
            for node in reply.nodes
        ),
        cluster_authorized_operations=operation_bits(reply.operations),
    )
    return encode_entity(described)


def _altered(schema: MessageSchema, reply: ReassignmentsAltered) -> Any:
    return schema.make(
        "AlterPartitionReassignmentsResponse",
        throttle_time=UNTHROTTLED,
        error_code=reply.error,
        error_message=reply.message,
        responses=tuple(
            schema.make("ReassignableTopicResponse", name=topic, partitions=_partition_results(schema, results))
            for topic, results in groupby(reply.results, lambda result: result.topic_partition.topic)
        ),
    )


def _partition_results(schema: MessageSchema, results: Iterable[PartitionResult]) -> tuple[Any, ...]:
    return tuple(
        schema.make(
            "ReassignablePartitionResponse",
            partition_index=result.topic_partition.partition,
            error_code=result.error,
            error_message=result.message,
        )
        for result in results
    )


def _partitions_altered(schema: MessageSchema, version: int, reply: PartitionsAltered) -> Any:
    by_id = version >= 2
    return schema.make(
        "AlterPartitionResponse",
        throttle_time=UNTHROTTLED,
        error_code=reply.error,
        topics=tuple(
            schema.make(
                "TopicData",
                topic_id=topic_uuid(topic_id),
                topic_name=topic or "",
                partitions=tuple(_isr_result(schema, result) for result in results),
            )
            for (topic, topic_id), results in groupby(
                reply.results, lambda r: (None if by_id else r.topic, r.topic_id if by_id else None)
            )
        ),
    )


def _isr_result(schema: MessageSchema, result: IsrResult) -> Any:
    return schema.make(
        "PartitionData",
        partition_index=result.partition,
        error_code=result.error,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=result.isr,
        leader_recovery_state=result.leader_recovery_state,
        partition_epoch=result.partition_epoch,
    )


def _shutdown_permitted(schema: MessageSchema, reply: ShutdownPermitted) -> Any:
    return schema.make(
        "ControlledShutdownResponse",
        error_code=reply.error,
        remaining_partitions=tuple(
            schema.make("RemainingPartition", topic_name=p.topic, partition_index=p.partition) for p in reply.remaining
        ),
    )
