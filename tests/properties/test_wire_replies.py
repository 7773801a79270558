"""Is every reply read back as it was given, in every version of its request?"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader
from msgspec.structs import replace

from controller.core.acls.numbers import OPERATION_NUMBERS
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    ClusterDescription,
    ConfigSource,
    IsrResult,
    LeadersElected,
    Node,
    OngoingMove,
    PartitionMetadata,
    PartitionResult,
    PartitionsAltered,
    PartitionsCreated,
    ProducerIdsAllocated,
    ReassignmentsAltered,
    ReassignmentsListed,
    Reply,
    ShutdownPermitted,
    TopicConfig,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
    TopicMetadata,
    TopicsCreated,
    TopicsDeleted,
)
from controller.wire.api_versions import ApiVersionsReply
from controller.wire.apis import SERVED, ApiKey, VersionRange
from controller.wire.frames import RequestHeader
from controller.wire.metadata_bytes import INTERNAL_TOPICS, MetadataEncoder
from controller.wire.operation_bits import operation_bits
from controller.wire.replies import encode_api_versions, encode_reply
from controller.wire.schema import UNTHROTTLED, encode_entity, response_schema, topic_uuid
from tests.equipment.client_side import decode_reply
from zk_layout.ids import TopicPartition

KEYS: dict[type[Reply], ApiKey] = {
    ClusterDescription: ApiKey.METADATA,
    ReassignmentsListed: ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ReassignmentsAltered: ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    PartitionsAltered: ApiKey.ALTER_PARTITION,
    ShutdownPermitted: ApiKey.CONTROLLED_SHUTDOWN,
    ProducerIdsAllocated: ApiKey.ALLOCATE_PRODUCER_IDS,
    TopicsCreated: ApiKey.CREATE_TOPICS,
    TopicsDeleted: ApiKey.DELETE_TOPICS,
    PartitionsCreated: ApiKey.CREATE_PARTITIONS,
    LeadersElected: ApiKey.ELECT_LEADERS,
}

_HEADER = 9  # the size, the correlation id and no tagged fields

int32 = st.integers(-(2**31), 2**31 - 1)
names = st.sampled_from(sorted(INTERNAL_TOPICS)) | st.text(st.characters(codec="utf-8"), min_size=1, max_size=260)
texts = st.none() | st.text(st.characters(codec="utf-8"), max_size=300)
ids = st.none() | st.sampled_from(["AAECAwQFBgcICQoLDA0ODw", "_-_-_-_-_-_-_-_-_-_-_w"])
errors = st.sampled_from(ErrorCode)
throttles = st.integers(0, 2**31 - 1)
replicas = st.lists(int32, max_size=4).map(tuple) | st.integers(120, 300).map(lambda count: tuple(range(count)))
partitions = st.builds(TopicPartition, names, int32)


def _configs_as_told(result: TopicCreated) -> tuple[TopicConfig, ...] | None:
    """None says that they must not be seen; there are none of a topic that was refused."""
    return () if result.configs is None and result.error is not ErrorCode.NONE else result.configs


def several(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=4).map(tuple)


operations = st.none() | st.sets(st.sampled_from(sorted(OPERATION_NUMBERS, key=OPERATION_NUMBERS.__getitem__))).map(
    lambda drawn: tuple(sorted(drawn, key=OPERATION_NUMBERS.__getitem__))
)
partition_metadata = st.builds(PartitionMetadata, int32, errors, int32, int32, replicas, replicas, replicas)
cluster_descriptions = st.builds(
    ClusterDescription,
    several(st.builds(Node, int32, names, int32, texts)),
    texts,
    int32,
    several(st.builds(TopicMetadata, st.none() | names, ids, errors, several(partition_metadata), operations)),
    operations=operations,
)
replies = st.one_of(
    cluster_descriptions,
    st.builds(
        ReassignmentsListed,
        several(st.builds(OngoingMove, partitions, replicas, replicas, replicas)),
        errors,
        texts,
    ),
    st.builds(ReassignmentsAltered, several(st.builds(PartitionResult, partitions, errors, texts)), errors, texts),
    st.builds(
        PartitionsAltered,
        several(st.builds(IsrResult, names, ids, int32, errors, int32, int32, replicas, st.integers(0, 1), int32)),
        errors,
    ),
    st.builds(ShutdownPermitted, several(partitions), errors),
    st.builds(ProducerIdsAllocated, st.integers(-(2**63), 2**63 - 1), int32, errors),
    st.builds(
        TopicsCreated,
        several(
            st.builds(
                TopicCreated,
                names,
                errors,
                texts,
                ids,
                int32,
                st.integers(-1, 2**15 - 1),
                st.none() | several(st.builds(TopicConfig, names, st.none() | names, st.sampled_from(ConfigSource))),
                errors,
            )
        ),
        throttles,
    ),
    st.builds(TopicsDeleted, several(st.builds(TopicDeleted, st.none() | names, ids, errors, texts)), throttles),
    st.builds(PartitionsCreated, several(st.builds(TopicGrown, names, errors, texts)), throttles),
    st.builds(LeadersElected, several(st.builds(PartitionResult, partitions, errors, texts)), errors),
)


def as_the_version_tells_it(version: int, reply: Any) -> Any:
    match reply:
        case ClusterDescription():
            return ClusterDescription(
                tuple(node if version >= 1 else replace(node, rack=None) for node in reply.nodes),
                reply.cluster_id if version >= 2 else None,
                reply.controller if version >= 1 else -1,
                tuple(
                    TopicMetadata(
                        topic.name,
                        topic.topic_id if version >= 10 else None,
                        topic.error,
                        tuple(
                            replace(
                                partition,
                                leader_epoch=partition.leader_epoch if version >= 7 else -1,
                                offline=partition.offline if version >= 5 else (),
                            )
                            for partition in topic.partitions
                        ),
                        topic.operations if version >= 8 else None,
                    )
                    for topic in reply.topics
                ),
                operations=reply.operations if 8 <= version <= 10 else None,
            )
        case TopicsCreated():
            return TopicsCreated(
                tuple(
                    replace(
                        result,
                        message=result.message if version >= 1 else None,
                        topic_id=result.topic_id if version >= 7 else None,
                        partition_count=result.partition_count if version >= 5 else -1,
                        replication_factor=result.replication_factor if version >= 5 else -1,
                        configs=_configs_as_told(result) if version >= 5 else None,
                        configs_error=result.configs_error if version >= 5 else ErrorCode.NONE,
                    )
                    for result in reply.results
                ),
                reply.throttle_ms if version >= 2 else 0,
            )
        case TopicsDeleted():
            return TopicsDeleted(
                tuple(
                    replace(
                        result,
                        topic=result.topic if version >= 6 else result.topic or "",
                        topic_id=result.topic_id if version >= 6 else None,
                        message=result.message if version >= 5 else None,
                    )
                    for result in reply.results
                ),
                reply.throttle_ms if version >= 1 else 0,
            )
        case LeadersElected() if version < 1:
            return replace(reply, error=ErrorCode.NONE)
        case PartitionsAltered():
            by_id = version >= 2
            return PartitionsAltered(
                tuple(
                    replace(
                        result,
                        topic=None if by_id else result.topic,
                        topic_id=result.topic_id if by_id else None,
                        leader_recovery_state=result.leader_recovery_state if version >= 1 else 0,
                    )
                    for result in reply.results
                ),
                reply.error,
            )
        case _:
            return reply


@given(replies, int32, st.data())
def test_a_reply_is_read_back_whole_in_every_version(reply: Reply, correlation_id: int, data: st.DataObject) -> None:
    key = KEYS[type(reply)]
    version = data.draw(st.integers(SERVED[key].lowest, SERVED[key].highest))
    header = RequestHeader(key, version, correlation_id, "me")

    response = encode_reply(header, reply)

    assert decode_reply(header, response[4:]) == as_the_version_tells_it(version, reply)


ranges = st.dictionaries(
    st.integers(0, 90), st.builds(VersionRange, st.integers(0, 9), st.integers(0, 99)), max_size=70
)


@given(ranges, st.integers(0, 4), int32)
def test_the_versions_served_are_read_back_in_every_version(
    served: dict[int, VersionRange], version: int, correlation_id: int
) -> None:
    header = RequestHeader(ApiKey.API_VERSIONS, version, correlation_id)

    assert decode_reply(header, encode_api_versions(header, served)[4:]) == ApiVersionsReply(served)


@given(cluster_descriptions, errors, texts, st.integers(0, 1))
def test_a_cluster_is_described_without_its_topics(
    cluster: ClusterDescription, error: ErrorCode, message: str | None, version: int
) -> None:
    told = replace(cluster, error=error, message=message)

    response = encode_reply(RequestHeader(ApiKey.DESCRIBE_CLUSTER, version, 7), told)

    schema = import_module(f"kio.schema.describe_cluster.v{version}.response")
    described = entity_reader(schema.DescribeClusterResponse)(memoryview(response), _HEADER)[0]
    assert (described.error_code, described.error_message) == (error, message)
    assert (described.cluster_id, described.controller_id) == (cluster.cluster_id or "", cluster.controller)
    assert [Node(n.broker_id, n.host, n.port, n.rack) for n in described.brokers] == list(cluster.nodes)
    assert described.cluster_authorized_operations == operation_bits(cluster.operations)


@given(cluster_descriptions, st.integers(0, 12))
def test_a_cluster_is_packed_as_kio_encodes_it(cluster: ClusterDescription, version: int) -> None:
    schema = response_schema(ApiKey.METADATA, version)

    def partition_entity(partition: PartitionMetadata) -> Any:
        return schema.make(
            "MetadataResponsePartition",
            error_code=partition.error,
            partition_index=partition.partition,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            offline_replicas=partition.offline,
        )

    def topic_entity(topic: TopicMetadata) -> Any:
        return schema.make(
            "MetadataResponseTopic",
            error_code=topic.error,
            name=topic.name if version >= 12 else topic.name or "",
            topic_id=topic_uuid(topic.topic_id),
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=tuple(map(partition_entity, topic.partitions)),
            topic_authorized_operations=operation_bits(topic.operations),
        )

    expected = schema.make(
        "MetadataResponse",
        throttle_time=UNTHROTTLED,
        brokers=tuple(
            schema.make("MetadataResponseBroker", node_id=n.broker, host=n.host, port=n.port, rack=n.rack)
            for n in cluster.nodes
        ),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller,
        topics=tuple(map(topic_entity, cluster.topics)),
        cluster_authorized_operations=operation_bits(cluster.operations),
    )

    assert MetadataEncoder(version).encode(cluster) == encode_entity(expected)
