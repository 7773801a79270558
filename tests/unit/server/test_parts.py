"""A long request is asked in parts, and answered as one."""

from __future__ import annotations

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    PartitionsAltered,
    ScramCredentialsAltered,
    TopicDeleted,
    TopicsDeleted,
    UserAltered,
)
from controller.core.messages.requests import (
    AlterPartition,
    AlterReassignments,
    AlterScramCredentials,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Growth,
    ListReassignments,
    NewTopic,
    PartitionReassignment,
    Request,
    ScramDeletion,
    ScramUpsertion,
    TopicReference,
)
from controller.server.parts import MOST_AT_ONCE, parts_of, whole
from zk_layout.ids import BrokerEpoch, BrokerId, PartitionId, TopicName, TopicPartition


def name(number: int) -> TopicName:
    return TopicName(f"t{number}")


def test_what_is_short_or_one_thing_is_not_divided() -> None:
    moves = tuple(PartitionReassignment(TopicPartition(name(n), PartitionId(0)), None) for n in range(5000))
    requests: list[Request] = [
        ListReassignments(None),
        ElectLeaders(None, False, 1),
        DeleteTopics((), 1, knows_deletion_disabled=True),
        AlterPartition(BrokerId(1), BrokerEpoch(1), ()),
        AlterReassignments(moves),
    ]
    assert [parts_of(request) for request in requests] == [[request] for request in requests]


def test_parts_are_small_and_lose_nothing() -> None:
    topics = tuple(TopicReference(name(number)) for number in range(2500))
    request = DeleteTopics(topics, 7, knows_deletion_disabled=True)

    parts = parts_of(request)

    assert all(isinstance(part, DeleteTopics) and len(part.topics) <= MOST_AT_ONCE for part in parts)
    assert tuple(t for part in parts if isinstance(part, DeleteTopics) for t in part.topics) == topics
    assert {part.timeout_ms for part in parts if isinstance(part, DeleteTopics)} == {7}


def test_topics_count_by_their_partitions() -> None:
    created = parts_of(CreateTopics(tuple(NewTopic(name(n), 600, 1) for n in range(3)), 1, False))
    grown = parts_of(CreatePartitions(tuple(Growth(name(n), 9, ((),) * 600) for n in range(3)), 1, False))

    assert (len(created), len(grown)) == (3, 3)


def test_a_user_is_changed_as_a_whole() -> None:
    users = [f"user-{n}" for n in range(1500)]
    request = AlterScramCredentials(
        tuple(ScramUpsertion(user, 1, 4096, "") for user in users), tuple(ScramDeletion(user, 2) for user in users)
    )

    parts = [part for part in parts_of(request) if isinstance(part, AlterScramCredentials)]

    assert len(parts) > 2
    assert all(len(part.parts) <= MOST_AT_ONCE for part in parts)
    asked = [{part.user for part in some.parts} for some in parts]
    assert [user for some in asked for user in some if sum(user in other for other in asked) > 1] == []
    assert sorted(part.user for some in parts for part in some.parts) == sorted(users * 2)
    altered = [ScramCredentialsAltered((UserAltered(user),)) for user in users[:2]]
    assert whole(altered) == ScramCredentialsAltered((UserAltered(users[0]), UserAltered(users[1])))


def test_answers_are_joined_in_order_with_the_first_error_of_all() -> None:
    deleted = [TopicsDeleted((TopicDeleted(name(n)),)) for n in range(3)]
    assert whole(deleted) == TopicsDeleted(tuple(TopicDeleted(name(n)) for n in range(3)))

    altered = [PartitionsAltered(), PartitionsAltered(error=ErrorCode.STALE_BROKER_EPOCH), PartitionsAltered()]
    assert whole(altered) == PartitionsAltered(error=ErrorCode.STALE_BROKER_EPOCH)


def test_what_is_said_twice_of_one_topic_stays_together() -> None:
    topics = tuple(NewTopic(name(number)) for number in (*range(2500), 7))

    first, *_ = parts_of(CreateTopics(topics, 1, False))

    assert isinstance(first, CreateTopics)
    assert [topic.name for topic in first.topics].count(name(7)) == 2
