"""Does another implementation of the protocol understand us, and we it?"""

from __future__ import annotations

import warnings

import pytest

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    ClusterDescription,
    Node,
    OngoingMove,
    PartitionMetadata,
    PartitionResult,
    ReassignmentsAltered,
    ReassignmentsListed,
    TopicCreated,
    TopicDeleted,
    TopicMetadata,
    TopicsCreated,
    TopicsDeleted,
)
from controller.core.messages.requests import (
    AlterReassignments,
    CreateTopics,
    DeleteTopics,
    DescribeCluster,
    ListReassignments,
    NewTopic,
    PartitionReassignment,
    TopicReference,
)
from controller.wire.apis import SERVED, ApiKey
from controller.wire.frames import RequestHeader
from controller.wire.replies import encode_api_versions, encode_reply
from controller.wire.requests import ApiVersionsRequest, decode_request
from zk_layout.ids import TopicPartition

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.admin.topics import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        CreateTopicsRequest,
        CreateTopicsResponse,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from kafka.protocol.metadata import ApiVersionsRequest as KafkaPythonApiVersions
    from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

CLUSTER = ClusterDescription(
    nodes=(Node(1, "127.0.0.1", 9092, "r1"), Node(2, "::1", 9093)),
    cluster_id="abc",
    controller=2,
    topics=(
        TopicMetadata(
            "__consumer_offsets",
            "AAECAwQFBgcICQoLDA0ODw",
            ErrorCode.NONE,
            (PartitionMetadata(0, ErrorCode.LEADER_NOT_AVAILABLE, -1, 5, (1, 2), (2,), (2,)),),
        ),
    ),
)


def test_another_implementation_is_understood_in_every_version_of_metadata() -> None:
    for version in range(13):
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name="orders", version=version)],
            allow_auto_topic_creation=True,
            version=version,
        )
        request.with_header(correlation_id=7, client_id="kafka-python")

        decoded = decode_request(request.encode(header=True))

        assert decoded == (
            RequestHeader(3, version, 7, "kafka-python"),
            DescribeCluster((TopicReference(name="orders"),)),
        )


def test_another_implementation_is_understood_when_it_asks_for_versions() -> None:
    for version in range(5):
        request = KafkaPythonApiVersions(client_software_name="kp", client_software_version="3", version=version)
        request.with_header(correlation_id=7, client_id="kafka-python")

        decoded = decode_request(request.encode(header=True))[1]

        assert decoded == (ApiVersionsRequest("kp", "3") if version >= 3 else ApiVersionsRequest())


def test_another_implementation_is_understood_when_it_moves_replicas() -> None:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    alter = AlterPartitionReassignmentsRequest(
        timeout_ms=1000,
        topics=[
            topic(
                name="orders",
                partitions=[topic.ReassignablePartition(partition_index=3, replicas=[1, 2])],
            )
        ],
        version=0,
    )
    alter.with_header(correlation_id=7)
    listing = ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None, version=0)
    listing.with_header(correlation_id=8)

    assert decode_request(alter.encode(header=True))[1] == AlterReassignments(
        (PartitionReassignment(TopicPartition("orders", 3), (1, 2)),), timeout_ms=1000
    )
    assert decode_request(listing.encode(header=True))[1] == ListReassignments(None, timeout_ms=1000)


@pytest.mark.parametrize("version", range(8))
def test_another_implementation_is_understood_when_it_creates_topics(version: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        topics=[
            topic(
                name="orders",
                num_partitions=3,
                replication_factor=2,
                assignments=[topic.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])],
                configs=[topic.CreatableTopicConfig(name="retention.ms", value="1")],
            )
        ],
        timeout_ms=1000,
        validate_only=False,
        version=version,
    )
    request.with_header(correlation_id=7)
    reply = TopicsCreated((TopicCreated("orders", ErrorCode.TOPIC_ALREADY_EXISTS, "there"),))

    assert decode_request(request.encode(header=True))[1] == CreateTopics(
        (NewTopic("orders", 3, 2, ((0, (1, 2)),), (("retention.ms", "1"),)),), 1000, knows_quota_exceeded=version >= 6
    )
    (read,) = CreateTopicsResponse.decode(
        encode_reply(RequestHeader(19, version, 7), reply)[4:], version=version, header=True
    ).topics
    assert (read.name, read.error_code) == ("orders", 36)
    assert version < 5 or read.configs == [], "null says that the caller may not see the settings"


@pytest.mark.parametrize("version", range(7))
def test_another_implementation_is_understood_when_it_deletes_topics(version: int) -> None:
    names = {"topic_names": ["orders"]} if version < 6 else {}
    states = {"topics": [DeleteTopicsRequest.DeleteTopicState(name="orders")]} if version >= 6 else {}
    request = DeleteTopicsRequest(**names, **states, timeout_ms=1000, version=version)
    request.with_header(correlation_id=7)
    reply = TopicsDeleted((TopicDeleted("orders", None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),))

    assert decode_request(request.encode(header=True))[1] == DeleteTopics(
        (TopicReference("orders"),),
        1000,
        knows_deletion_disabled=version >= 3,
        knows_quota_exceeded=version >= 5,
    )
    (read,) = DeleteTopicsResponse.decode(
        encode_reply(RequestHeader(20, version, 7), reply)[4:], version=version, header=True
    ).responses
    assert (read.name, read.error_code) == ("orders", 3)


@pytest.mark.parametrize("version", range(13))
def test_another_implementation_reads_metadata_in_every_version(version: int) -> None:
    response = encode_reply(RequestHeader(3, version, 7), CLUSTER)

    read = MetadataResponse.decode(response[4:], version=version, header=True)

    assert [(b.node_id, b.host, b.port) for b in read.brokers] == [(1, "127.0.0.1", 9092), (2, "::1", 9093)]
    (topic,) = read.topics
    assert (topic.error_code, topic.name) == (0, "__consumer_offsets")
    (partition,) = topic.partitions
    assert (partition.error_code, partition.partition_index, partition.leader_id) == (5, 0, -1)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1, 2], [2])
    if version >= 1:
        assert (read.controller_id, topic.is_internal, read.brokers[0].rack) == (2, True, "r1")
    if version >= 7:
        assert (partition.leader_epoch, partition.offline_replicas) == (5, [2])


def test_another_implementation_reads_the_answers_about_reassignments() -> None:
    altered = encode_reply(
        RequestHeader(45, 0, 7),
        ReassignmentsAltered((PartitionResult(TopicPartition("a", 1)),), ErrorCode.NOT_CONTROLLER, "ask 2"),
    )
    listed = encode_reply(
        RequestHeader(46, 0, 8),
        ReassignmentsListed((OngoingMove(TopicPartition("a", 1), (3, 1), (3,), (1,)),)),
    )

    read = AlterPartitionReassignmentsResponse.decode(altered[4:], version=0, header=True)
    assert (read.error_code, read.error_message) == (41, "ask 2")
    assert [(t.name, t.partitions[0].partition_index, t.partitions[0].error_code) for t in read.responses] == [
        ("a", 1, 0)
    ]
    move = ListPartitionReassignmentsResponse.decode(listed[4:], version=0, header=True).topics[0].partitions[0]
    assert (move.replicas, move.adding_replicas, move.removing_replicas) == ([3, 1], [3], [1])


@pytest.mark.parametrize("version", range(5))
def test_another_implementation_reads_the_versions_served(version: int) -> None:
    response = encode_api_versions(RequestHeader(ApiKey.API_VERSIONS, version, 7))

    read = ApiVersionsResponse.decode(response[4:], version=version, header=True)

    assert {k.api_key: (k.min_version, k.max_version) for k in read.api_keys} == {
        int(key): (served.lowest, served.highest) for key, served in SERVED.items()
    }
