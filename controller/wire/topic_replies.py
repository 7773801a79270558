"""Which kio value answers a request about topics?

Source: Kafka's CreateTopicsResponse.json, DeleteTopicsResponse.json, CreatePartitionsResponse.json and
ElectLeadersResponse.json; KIP-525 for the settings in the first.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from typing import Any

from controller.core.messages import replies
from controller.core.messages.errors import ErrorCode
from controller.wire.schema import UNTHROTTLED, MessageSchema, topic_uuid

SETTINGS_FROM = 5  # the first version of CreateTopics that tells a new topic's settings, KIP-525


def topics_created(schema: MessageSchema, version: int, reply: replies.TopicsCreated) -> Any:
    """CreateTopics (19)."""
    made: dict[tuple[replies.TopicConfig, ...], tuple[Any, ...]] = {}

    def configs_of(result: replies.TopicCreated) -> tuple[Any, ...] | None:
        if version < SETTINGS_FROM:
            return None
        if result.configs is None:
            # None says that the settings may not be seen; of a topic that was refused Kafka tells an empty list.
            return () if result.error is not ErrorCode.NONE else None
        if result.configs not in made:  # most topics of a request have the same
            made[result.configs] = tuple(_config(schema, config) for config in result.configs)
        return made[result.configs]

    topics = tuple(
        schema.make(
            "CreatableTopicResult",
            name=result.topic,
            topic_id=topic_uuid(result.topic_id),
            error_code=result.error,
            error_message=result.message,
            topic_config_error_code=result.configs_error,
            num_partitions=result.partition_count,
            replication_factor=result.replication_factor,
            configs=configs_of(result),
        )
        for result in reply.results
    )
    return schema.make("CreateTopicsResponse", throttle_time=_throttle(reply), topics=topics)


def _throttle(reply: replies.TopicsCreated | replies.TopicsDeleted | replies.PartitionsCreated) -> timedelta:
    return timedelta(milliseconds=reply.throttle_ms)


def _config(schema: MessageSchema, config: replies.TopicConfig) -> Any:
    return schema.make(
        "CreatableTopicConfigs",
        name=config.name,
        value=config.value,
        read_only=False,
        config_source=config.source,
        is_sensitive=False,
    )


def topics_deleted(schema: MessageSchema, version: int, reply: replies.TopicsDeleted) -> Any:
    """DeleteTopics (20)."""
    responses = tuple(
        schema.make(
            "DeletableTopicResult",
            name=result.topic if version >= 6 else result.topic or "",
            topic_id=topic_uuid(result.topic_id),
            error_code=result.error,
            error_message=result.message,
        )
        for result in reply.results
    )
    return schema.make("DeleteTopicsResponse", throttle_time=_throttle(reply), responses=responses)


def partitions_created(schema: MessageSchema, reply: replies.PartitionsCreated) -> Any:
    """CreatePartitions (37)."""
    results = tuple(
        schema.make(
            "CreatePartitionsTopicResult",
            name=result.topic,
            error_code=result.error,
            error_message=result.message,
        )
        for result in reply.results
    )
    return schema.make("CreatePartitionsResponse", throttle_time=_throttle(reply), results=results)


def leaders_elected(schema: MessageSchema, reply: replies.LeadersElected) -> Any:
    """ElectLeaders (43)."""
    results = tuple(
        schema.make(
            "ReplicaElectionResult",
            topic=topic,
            partition_result=tuple(
                schema.make(
                    "PartitionResult",
                    partition_id=result.topic_partition.partition,
                    error_code=result.error,
                    error_message=result.message,
                )
                for result in of_topic
            ),
        )
        for topic, of_topic in groupby(reply.results, lambda result: result.topic_partition.topic)
    )
    return schema.make(
        "ElectLeadersResponse",
        throttle_time=UNTHROTTLED,
        error_code=reply.error,
        replica_election_results=results,
    )
