"""What is asked about topics in this message: to create, delete or enlarge them, to elect leaders?

Source: Kafka's CreateTopicsRequest.json, DeleteTopicsRequest.json, CreatePartitionsRequest.json and
ElectLeadersRequest.json.
"""

from __future__ import annotations

from controller.core.messages import requests
from controller.wire.cursor import Cursor
from zk_layout.ids import PartitionId, Replicas, TopicPartition

PREFERRED, UNCLEAN = 0, 1


def create_topics(cursor: Cursor, version: int) -> requests.CreateTopics:
    """CreateTopics (19), versions 0 to 7."""
    topics = tuple(_new_topic(cursor) for _ in cursor.array("topics", 10))
    timeout_ms = cursor.int32("timeout_ms")
    is_validation_only = cursor.boolean("validate_only") if version >= 1 else False
    return requests.CreateTopics(topics, timeout_ms, is_validation_only, knows_quota_exceeded=version >= 6)


def _new_topic(cursor: Cursor) -> requests.NewTopic:
    name = cursor.topic_name()
    count, factor = cursor.int32("num_partitions"), cursor.int16("replication_factor")
    assignments = tuple(_assignment(cursor) for _ in cursor.array("assignments", 5))
    configs = tuple(_config(cursor) for _ in cursor.array("configs", 3))
    cursor.tags()
    return requests.NewTopic(name, count, factor, assignments, configs)


def _assignment(cursor: Cursor) -> tuple[PartitionId, Replicas]:
    number, replicas = PartitionId(cursor.int32("partition_index")), cursor.replicas("broker_ids")
    cursor.tags()
    return number, replicas


def _config(cursor: Cursor) -> tuple[str, str | None]:
    name, value = cursor.string("name"), cursor.nullable_string("value")
    cursor.tags()
    return name, value


def delete_topics(cursor: Cursor, version: int) -> requests.DeleteTopics:
    """DeleteTopics (20), versions 0 to 6."""
    if version >= 6:
        topics = tuple(_named_or_numbered(cursor) for _ in cursor.array("topics", 18))
    else:
        topics = tuple(requests.TopicReference(cursor.topic_name("topic_name")) for _ in cursor.array("topic_names", 1))
    timeout_ms = cursor.int32("timeout_ms")
    return requests.DeleteTopics(
        topics, timeout_ms, knows_deletion_disabled=version >= 3, knows_quota_exceeded=version >= 5
    )


def _named_or_numbered(cursor: Cursor) -> requests.TopicReference:
    reference = requests.TopicReference(cursor.nullable_topic_name(), cursor.topic_id())
    cursor.tags()
    return reference


def create_partitions(cursor: Cursor, version: int) -> requests.CreatePartitions:
    """CreatePartitions (37), versions 0 to 3."""
    growths = tuple(_growth(cursor) for _ in cursor.array("topics", 7))
    timeout_ms, is_validation_only = cursor.int32("timeout_ms"), cursor.boolean("validate_only")
    return requests.CreatePartitions(growths, timeout_ms, is_validation_only, knows_quota_exceeded=version >= 3)


def _growth(cursor: Cursor) -> requests.Growth:
    topic, count = cursor.topic_name(), cursor.int32("count")
    entries = cursor.nullable_array("assignments", 2)
    assignments = None if entries is None else tuple(_brokers(cursor) for _ in entries)
    cursor.tags()
    return requests.Growth(topic, count, assignments)


def _brokers(cursor: Cursor) -> Replicas:
    replicas = cursor.replicas("broker_ids")
    cursor.tags()
    return replicas


def elect_leaders(cursor: Cursor, version: int) -> requests.ElectLeaders:
    """ElectLeaders (43), versions 0 to 2."""
    kind = cursor.int8("election_type") if version >= 1 else PREFERRED
    entries = cursor.nullable_array("topic_partitions", 3)
    partitions = None if entries is None else tuple(at for _ in entries for at in _partitions(cursor))
    return requests.ElectLeaders(partitions, kind == UNCLEAN, cursor.int32("timeout_ms"), kind in (PREFERRED, UNCLEAN))


def _partitions(cursor: Cursor) -> list[TopicPartition]:
    topic = cursor.topic_name("topic")
    partitions = [TopicPartition(topic, PartitionId(number)) for number in cursor.int32s("partitions")]
    cursor.tags()
    return partitions
