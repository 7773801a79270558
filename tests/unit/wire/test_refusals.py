"""Can each request be refused as a whole, in every version of it?"""

from __future__ import annotations

import pytest

from controller.core.clients.refusal import refusal
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    AclsCreated,
    AclsDeleted,
    ClusterDescription,
    LeadersElected,
    PartitionResult,
    PartitionsCreated,
    ReassignmentsAltered,
    ScramCredentialsAltered,
    TopicMetadata,
    TopicsCreated,
    TopicsDeleted,
)
from controller.core.messages.requests import (
    AclCreation,
    AclFilter,
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
    FeatureUpdate,
    Growth,
    ListReassignments,
    NewTopic,
    PartitionReassignment,
    Request,
    ScramDeletion,
    ScramUpsertion,
    TopicReference,
    UpdateFeatures,
)
from controller.wire.apis import SERVED
from controller.wire.frames import RequestHeader
from controller.wire.replies import encode_reply
from tests.equipment.client_side import api_key_of, decode_reply
from zk_layout.ids import TopicPartition

EVERYTHING = AclFilter(1, None, 3, None, None, 1, 1)
REQUESTS: list[Request] = [
    ListReassignments(None),
    AlterReassignments((PartitionReassignment(TopicPartition("orders", 0), (1,)),)),
    AlterPartition(1, 2, ()),
    ControlledShutdown(1, 2),
    AllocateProducerIds(1, 2),
    UpdateFeatures((FeatureUpdate("some", 1, 1),)),
    DescribeAcls(EVERYTHING),
]
ACL_REQUESTS: list[Request] = [
    CreateAcls((AclCreation(2, "orders", 3, "User:ann", "*", 3, 3),) * 2),
    DeleteAcls((EVERYTHING, EVERYTHING)),
]


@pytest.mark.parametrize("request_", ACL_REQUESTS)
def test_each_entry_of_rights_is_refused(request_: Request) -> None:
    key = api_key_of(request_)
    for version in range(SERVED[key].highest + 1):
        header = RequestHeader(key, version, 7)
        refused = refusal(request_, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")

        answer = decode_reply(header, encode_reply(header, refused)[4:])

        assert isinstance(answer, AclsCreated | AclsDeleted)
        assert [(r.error, r.message) for r in answer.results] == [
            (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        ] * 2


@pytest.mark.parametrize("request_", REQUESTS)
def test_the_error_reaches_the_client_in_every_version(request_: Request) -> None:
    key = api_key_of(request_)
    for version in range(SERVED[key].lowest, SERVED[key].highest + 1):
        header = RequestHeader(key, version, 7)

        answer = decode_reply(header, encode_reply(header, refusal(request_, ErrorCode.NOT_CONTROLLER))[4:])

        assert not isinstance(
            answer,
            AclsCreated
            | AclsDeleted
            | ClusterDescription
            | ScramCredentialsAltered
            | TopicsCreated
            | TopicsDeleted
            | PartitionsCreated,
        )
        assert answer.error == ErrorCode.NOT_CONTROLLER


TOPIC_REQUESTS: list[Request] = [
    CreateTopics((NewTopic("orders"), NewTopic("payments"))),
    DeleteTopics((TopicReference("orders"), TopicReference("payments"))),
    CreatePartitions((Growth("orders", 2), Growth("payments", 2))),
    ElectLeaders((TopicPartition("orders", 0), TopicPartition("orders", 1))),
]


@pytest.mark.parametrize("request_", TOPIC_REQUESTS)
def test_the_error_reaches_the_client_for_each_topic_in_every_version(request_: Request) -> None:
    key = api_key_of(request_)
    for version in range(SERVED[key].lowest, SERVED[key].highest + 1):
        header = RequestHeader(key, version, 7)

        answer = decode_reply(header, encode_reply(header, refusal(request_, ErrorCode.NOT_CONTROLLER))[4:])

        assert isinstance(answer, TopicsCreated | TopicsDeleted | PartitionsCreated | LeadersElected)
        assert [result.error for result in answer.results] == [ErrorCode.NOT_CONTROLLER] * 2


def test_the_error_reaches_the_client_for_each_user() -> None:
    asked = AlterScramCredentials(
        (ScramUpsertion("ann", 1, 4096, ""),), (ScramDeletion("bob", 1), ScramDeletion("ann", 2))
    )
    header = RequestHeader(api_key_of(asked), 0, 7)

    answer = decode_reply(header, encode_reply(header, refusal(asked, ErrorCode.NOT_CONTROLLER))[4:])

    assert isinstance(answer, ScramCredentialsAltered)
    assert [(result.user, result.error.name) for result in answer.results] == [
        ("ann", "NOT_CONTROLLER"),
        ("bob", "NOT_CONTROLLER"),
    ]


def test_a_refused_move_is_refused_partition_by_partition_too() -> None:
    asked = AlterReassignments((PartitionReassignment(TopicPartition("orders", 0), (1,)),))

    assert refusal(asked, ErrorCode.NOT_CONTROLLER, "ask 2") == ReassignmentsAltered(
        (PartitionResult(TopicPartition("orders", 0), ErrorCode.NOT_CONTROLLER, "ask 2"),),
        ErrorCode.NOT_CONTROLLER,
        "ask 2",
    )


def test_who_is_not_controller_knows_no_broker_so_that_clients_ask_another() -> None:
    asked = DescribeCluster((TopicReference(name="orders"),))

    assert refusal(asked, ErrorCode.NOT_CONTROLLER) == ClusterDescription(
        nodes=(),
        cluster_id=None,
        controller=-1,
        topics=(TopicMetadata("orders", None, ErrorCode.LEADER_NOT_AVAILABLE),),
    )


def test_an_error_about_the_topics_is_reported_for_the_topics() -> None:
    asked = DescribeCluster((TopicReference(name="orders"),))

    answer = refusal(asked, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    assert isinstance(answer, ClusterDescription)
    assert answer.topics == (TopicMetadata("orders", None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),)


@pytest.mark.parametrize("version", range(13))
def test_refused_metadata_is_encodable_in_every_version(version: int) -> None:
    asked = DescribeCluster((TopicReference(topic_id="AAECAwQFBgcICQoLDA0ODw"),) if version >= 10 else None)
    header = RequestHeader(3, version, 7)

    answer = decode_reply(header, encode_reply(header, refusal(asked, ErrorCode.NOT_CONTROLLER))[4:])

    assert isinstance(answer, ClusterDescription)
    assert (answer.nodes, answer.controller) == ((), -1)
