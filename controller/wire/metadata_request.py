"""What does a client want to know of the cluster?

Source: Kafka's MetadataRequest.json and DescribeClusterRequest.json.
"""

from __future__ import annotations

from msgspec import Struct

from controller.core.messages.requests import BROKER_ENDPOINTS, DescribeCluster, TopicReference
from controller.wire.cursor import Cursor
from zk_layout.ids import TopicName


class MetadataRequest(Struct, frozen=True):
    """Metadata (3), and whether brokers may create the topics it names."""

    described: DescribeCluster
    may_create_topics: bool


def read(cursor: Cursor, version: int) -> MetadataRequest:
    """Metadata (3)."""
    read_array = cursor.structs if version == 0 else cursor.nullable_structs
    entries = read_array("topics", 18 if version >= 10 else 2)
    topics: tuple[TopicReference, ...] | None
    topics = None if entries is None else tuple(_topic_reference(cursor, version) for _ in entries)
    if version == 0 and not topics:
        topics = None  # in the oldest version an empty list means all topics
    may_create = cursor.boolean("allow_auto_topic_creation") if version >= 4 else True
    described = DescribeCluster(
        topics,
        with_cluster_operations=8 <= version <= 10 and cursor.boolean("include_cluster_authorized_operations"),
        with_topic_operations=version >= 8 and cursor.boolean("include_topic_authorized_operations"),
    )
    return MetadataRequest(described, may_create)


def describe_cluster(cursor: Cursor, version: int) -> DescribeCluster:
    """DescribeCluster (60): like Metadata, without topics."""
    return DescribeCluster(
        (),
        with_cluster_operations=cursor.boolean("include_cluster_authorized_operations"),
        endpoint_type=cursor.int8("endpoint_type") if version >= 1 else BROKER_ENDPOINTS,
    )


def _topic_reference(cursor: Cursor, version: int) -> TopicReference:
    if version < 10:
        return TopicReference(name=cursor.topic_name())
    topic_id, name = cursor.topic_id(), cursor.nullable_topic_name()
    # A topic with neither name nor id is answered like an unknown one.
    return TopicReference(name=name or TopicName("")) if topic_id is None else TopicReference(topic_id=topic_id)
