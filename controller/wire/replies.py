"""Which bytes answer this request?

Encodes the answers to the requests in `SERVED`, each in the version of its request.

Source: Kafka's *Response.json schemas; KIP-511 for ApiVersions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, assert_never

from controller.core.messages import replies
from controller.core.messages.errors import ErrorCode
from controller.wire import acl_replies, admin_replies, topic_replies
from controller.wire.apis import SERVED, ApiKey, VersionRange
from controller.wire.frames import RequestHeader, encode_response_header, framed
from controller.wire.metadata_bytes import MetadataEncoder
from controller.wire.operation_bits import operation_bits
from controller.wire.schema import UNTHROTTLED, MessageSchema, encode_entity, response_schema, topic_uuid
from controller.wire.tagged import listed, request_id_field, with_tagged, without_additions

_KEYS: dict[type[replies.Reply], tuple[ApiKey, ...]] = {
    replies.ClusterDescription: (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER),
    replies.ReassignmentsListed: (ApiKey.LIST_PARTITION_REASSIGNMENTS,),
    replies.ReassignmentsAltered: (ApiKey.ALTER_PARTITION_REASSIGNMENTS,),
    replies.PartitionsAltered: (ApiKey.ALTER_PARTITION,),
    replies.ShutdownPermitted: (ApiKey.CONTROLLED_SHUTDOWN,),
    replies.ProducerIdsAllocated: (ApiKey.ALLOCATE_PRODUCER_IDS,),
    replies.ScramCredentialsAltered: (ApiKey.ALTER_USER_SCRAM_CREDENTIALS,),
    replies.FeaturesUpdated: (ApiKey.UPDATE_FEATURES,),
    replies.TopicsCreated: (ApiKey.CREATE_TOPICS,),
    replies.TopicsDeleted: (ApiKey.DELETE_TOPICS,),
    replies.PartitionsCreated: (ApiKey.CREATE_PARTITIONS,),
    replies.LeadersElected: (ApiKey.ELECT_LEADERS,),
    replies.AclsDescribed: (ApiKey.DESCRIBE_ACLS,),
    replies.AclsCreated: (ApiKey.CREATE_ACLS,),
    replies.AclsDeleted: (ApiKey.DELETE_ACLS,),
}


def encode_reply(header: RequestHeader, reply: replies.Reply) -> bytes:
    """The answer to the request with this header, with its size.

    Raises:
        ValueError: the reply answers another kind of request.
    """
    key = next((key for key in _KEYS[type(reply)] if key == header.api_key), None)
    if key is None:
        raise ValueError(f"{type(reply).__name__} does not answer the request with key {header.api_key}")
    if isinstance(reply, replies.ClusterDescription):
        body = _cluster(key, header.api_version, reply)
    elif isinstance(reply, replies.ReassignmentsListed):
        body = listed(reply if header.reads_additions else without_additions(reply))
    else:
        schema = response_schema(key, header.api_version)
        body = encode_entity(_entity(schema, header.api_version, reply))
        if isinstance(reply, replies.ReassignmentsAltered) and header.reads_additions:
            body = with_tagged(body, request_id_field(reply.request_id))
    return framed(encode_response_header(header), body)


def encode_api_versions(
    header: RequestHeader,
    ranges: Mapping[int, VersionRange] = SERVED,
    error: ErrorCode = ErrorCode.NONE,
) -> bytes:
    """The answer to ApiVersions, with its size. A version unsupported here is answered in version 0, which
    every client understands (KIP-511); give UNSUPPORTED_VERSION with it."""
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
    reply: replies.ReassignmentsAltered
    | replies.PartitionsAltered
    | replies.ShutdownPermitted
    | replies.ProducerIdsAllocated
    | replies.ScramCredentialsAltered
    | replies.FeaturesUpdated
    | replies.AclsDescribed
    | replies.AclsCreated
    | replies.AclsDeleted
    | replies.TopicsCreated
    | replies.TopicsDeleted
    | replies.PartitionsCreated
    | replies.LeadersElected,
) -> Any:
    match reply:
        case replies.TopicsCreated():
            return topic_replies.topics_created(schema, version, reply)
        case replies.TopicsDeleted():
            return topic_replies.topics_deleted(schema, version, reply)
        case replies.PartitionsCreated():
            return topic_replies.partitions_created(schema, reply)
        case replies.LeadersElected():
            return topic_replies.leaders_elected(schema, reply)
        case replies.AclsDescribed() | replies.AclsCreated() | replies.AclsDeleted():
            return acl_replies.acl_reply(schema, reply)
        case replies.ScramCredentialsAltered() | replies.FeaturesUpdated():
            return admin_replies.admin_reply(schema, reply)
        case replies.ReassignmentsAltered():
            return _altered(schema, reply)
        case replies.PartitionsAltered():
            return _partitions_altered(schema, version, reply)
        case replies.ShutdownPermitted():
            return _shutdown_permitted(schema, reply)
        case replies.ProducerIdsAllocated():
            return schema.make(
                "AllocateProducerIdsResponse",
                throttle_time=UNTHROTTLED,
                error_code=reply.error,
                producer_id_start=reply.first,
                producer_id_len=reply.length,
            )
        case _:
            assert_never(reply)


def _cluster(key: ApiKey, version: int, reply: replies.ClusterDescription) -> bytes:
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


def _altered(schema: MessageSchema, reply: replies.ReassignmentsAltered) -> Any:
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


def _partition_results(schema: MessageSchema, results: Iterable[replies.PartitionResult]) -> tuple[Any, ...]:
    return tuple(
        schema.make(
            "ReassignablePartitionResponse",
            partition_index=result.topic_partition.partition,
            error_code=result.error,
            error_message=result.message,
        )
        for result in results
    )


def _partitions_altered(schema: MessageSchema, version: int, reply: replies.PartitionsAltered) -> Any:
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


def _isr_result(schema: MessageSchema, result: replies.IsrResult) -> Any:
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


def _shutdown_permitted(schema: MessageSchema, reply: replies.ShutdownPermitted) -> Any:
    return schema.make(
        "ControlledShutdownResponse",
        error_code=reply.error,
        remaining_partitions=tuple(
            schema.make("RemainingPartition", topic_name=p.topic, partition_index=p.partition) for p in reply.remaining
        ),
    )
