"""How are requests about topics encoded, and their answers decoded?

The other direction of `controller.wire.topic_requests` and `topic_replies`, for simulated clients and tests.

Source: Kafka's schemas of CreateTopics, DeleteTopics, CreatePartitions and ElectLeaders.
"""

from __future__ import annotations

import datetime
from itertools import groupby
from typing import Any

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    ConfigSource,
    LeadersElected,
    PartitionResult,
    PartitionsCreated,
    TopicConfig,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
    TopicsCreated,
    TopicsDeleted,
)
from controller.core.messages.requests import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    NewTopic,
    TopicRequest,
)
from controller.wire.cursor import Cursor
from controller.wire.schema import MessageSchema, topic_uuid
from controller.wire.topic_requests import UNCLEAN
from zk_layout.ids import PartitionId, TopicPartition

_CONFIGS_ERROR = 0  # the tag of topic_config_error_code


def topic_request_entity(schema: MessageSchema, version: int, request: TopicRequest) -> Any:
    """The kio value of a request about topics."""
    timeout = datetime.timedelta(milliseconds=request.timeout_ms)
    match request:
        case CreateTopics():
            topics = tuple(_new_topic(schema, topic) for topic in request.topics)
            return schema.make(
                "CreateTopicsRequest", topics=topics, timeout=timeout, validate_only=request.is_validation_only
            )
        case DeleteTopics():
            return _deletion(schema, version, request, timeout)
        case CreatePartitions():
            return _growth(schema, request, timeout)
        case ElectLeaders():
            return _election(schema, request, timeout)


def _new_topic(schema: MessageSchema, topic: NewTopic) -> Any:
    assignments = tuple(
        schema.make("CreatableReplicaAssignment", partition_index=number, broker_ids=replicas)
        for number, replicas in topic.assignments
    )
    configs = tuple(schema.make("CreatableTopicConfig", name=name, value=value) for name, value in topic.configs)
    return schema.make(
        "CreatableTopic",
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        assignments=assignments,
        configs=configs,
    )


def _deletion(schema: MessageSchema, version: int, request: DeleteTopics, timeout: datetime.timedelta) -> Any:
    if version < 6:
        names = tuple(topic.name for topic in request.topics)
        return schema.make("DeleteTopicsRequest", topic_names=names, timeout=timeout)
    topics = tuple(
        schema.make("DeleteTopicState", name=topic.name, topic_id=topic_uuid(topic.topic_id))
        for topic in request.topics
    )
    return schema.make("DeleteTopicsRequest", topics=topics, timeout=timeout)


def _growth(schema: MessageSchema, request: CreatePartitions, timeout: datetime.timedelta) -> Any:
    topics = tuple(
        schema.make(
            "CreatePartitionsTopic",
            name=growth.topic,
            count=growth.partition_count,
            assignments=growth.assignments
            and tuple(schema.make("CreatePartitionsAssignment", broker_ids=r) for r in growth.assignments),
        )
        for growth in request.growths
    )
    return schema.make(
        "CreatePartitionsRequest", topics=topics, timeout=timeout, validate_only=request.is_validation_only
    )


def _election(schema: MessageSchema, request: ElectLeaders, timeout: datetime.timedelta) -> Any:
    partitions = request.partitions and tuple(
        schema.make("TopicPartitions", topic=topic, partitions=tuple(at.partition for at in of_topic))
        for topic, of_topic in groupby(request.partitions, lambda at: at.topic)
    )
    return schema.make(
        "ElectLeadersRequest",
        election_type=UNCLEAN if request.is_unclean else 0,
        topic_partitions=partitions,
        timeout=timeout,
    )


def topics_created(cursor: Cursor, version: int) -> TopicsCreated:
    """The answer to CreateTopics."""
    throttle_ms = cursor.int32("throttle_time_ms") if version >= 2 else 0
    return TopicsCreated(tuple(_created(cursor, version) for _ in cursor.array("topics", 4)), throttle_ms)


def _created(cursor: Cursor, version: int) -> TopicCreated:
    name, topic_id = cursor.topic_name(), cursor.topic_id() if version >= 7 else None
    error = cursor.error()
    message = cursor.nullable_string("error_message") if version >= 1 else None
    if version < 5:
        return TopicCreated(name, error, message)
    count, factor = cursor.int32("num_partitions"), cursor.int16("replication_factor")
    entries = cursor.nullable_array("configs", 6)
    configs = None if entries is None else tuple(_config(cursor) for _ in entries)
    tagged = cursor.tags().get(_CONFIGS_ERROR)
    configs_error = ErrorCode(int.from_bytes(tagged, "big", signed=True)) if tagged is not None else ErrorCode.NONE
    return TopicCreated(name, error, message, topic_id, count, factor, configs, configs_error)


def _config(cursor: Cursor) -> TopicConfig:
    name, value = cursor.string("name"), cursor.nullable_string("value")
    cursor.boolean("read_only")
    source = ConfigSource(cursor.int8("config_source"))
    cursor.boolean("is_sensitive")
    cursor.tags()
    return TopicConfig(name, value, source)


def topics_deleted(cursor: Cursor, version: int) -> TopicsDeleted:
    """The answer to DeleteTopics."""
    throttle_ms = cursor.int32("throttle_time_ms") if version >= 1 else 0
    return TopicsDeleted(tuple(_deleted(cursor, version) for _ in cursor.array("responses", 3)), throttle_ms)


def _deleted(cursor: Cursor, version: int) -> TopicDeleted:
    name = cursor.nullable_topic_name() if version >= 6 else cursor.topic_name()
    topic_id = cursor.topic_id() if version >= 6 else None
    error: ErrorCode = cursor.error()
    message = cursor.nullable_string("error_message") if version >= 5 else None
    cursor.tags()
    return TopicDeleted(name, topic_id, error, message)


def partitions_created(cursor: Cursor, _version: int) -> PartitionsCreated:
    """The answer to CreatePartitions."""
    throttle_ms = cursor.int32("throttle_time_ms")
    results = []
    for _ in cursor.array("results", 5):
        results.append(TopicGrown(cursor.topic_name(), cursor.error(), cursor.nullable_string("error_message")))
        cursor.tags()
    return PartitionsCreated(tuple(results), throttle_ms)


def leaders_elected(cursor: Cursor, version: int) -> LeadersElected:
    """The answer to ElectLeaders."""
    cursor.int32("throttle_time_ms")
    error = cursor.error() if version >= 1 else ErrorCode.NONE
    results = []
    for _ in cursor.array("replica_election_results", 3):
        topic = cursor.topic_name("topic")
        for _ in cursor.array("partition_result", 8):
            at = TopicPartition(topic, PartitionId(cursor.int32("partition_id")))
            results.append(PartitionResult(at, cursor.error(), cursor.nullable_string("error_message")))
            cursor.tags()
        cursor.tags()
    return LeadersElected(tuple(results), error)
