"""Which right on the cluster does each request need, and how is a caller without it refused?"""

from __future__ import annotations

from typing import get_args

import pytest

from controller.core.clients.authorization import CLUSTER, refuse
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import FeaturesUpdated, ScramCredentialsAltered
from controller.core.messages.requests import (
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
    ListReassignments,
    Request,
    ScramDeletion,
    ScramUpsertion,
    UpdateFeatures,
)
from zk_layout.ids import BrokerEpoch, BrokerId
from zk_layout.znodes.acls import AclOperation, ResourcePattern

BROKER, EPOCH = BrokerId(1), BrokerEpoch(7)
SCRAM = AlterScramCredentials((ScramUpsertion("ann", 1, 4096, "keys"),), (ScramDeletion("bob", 2),))
FEATURES = UpdateFeatures((FeatureUpdate("some", 1, 1),))
NEEDED: list[tuple[Request, AclOperation | None]] = [
    (AlterReassignments(()), AclOperation.ALTER),
    (ElectLeaders(None), AclOperation.ALTER),
    (SCRAM, AclOperation.ALTER),
    (FEATURES, AclOperation.ALTER),
    (CreateAcls(()), AclOperation.ALTER),
    (DeleteAcls(()), AclOperation.ALTER),
    (DescribeAcls(AclFilter(1, None, 1, None, None, 1, 1)), AclOperation.DESCRIBE),
    (ListReassignments(None), AclOperation.DESCRIBE),
    (AlterPartition(BROKER, EPOCH, ()), AclOperation.CLUSTER_ACTION),
    (ControlledShutdown(BROKER, EPOCH), AclOperation.CLUSTER_ACTION),
    (AllocateProducerIds(BROKER, EPOCH), AclOperation.CLUSTER_ACTION),
    # These are judged topic by topic, or show what anybody may see.
    (CreateTopics(()), None),
    (DeleteTopics(()), None),
    (CreatePartitions(()), None),
    (DescribeCluster(None), None),
]


def test_no_request_is_forgotten() -> None:
    assert {type(request) for request, _ in NEEDED} == set(get_args(Request))


@pytest.mark.parametrize(("request_", "operation"), NEEDED, ids=lambda found: type(found).__name__)
def test_a_request_needs_the_right_that_kafka_demands(request_: Request, operation: AclOperation | None) -> None:
    wanted: list[tuple[AclOperation, ResourcePattern]] = []

    def deny(operation: AclOperation, resource: ResourcePattern) -> bool:
        wanted.append((operation, resource))
        return False

    refused = refuse(request_, deny)

    assert wanted == ([] if operation is None else [(operation, CLUSTER)])
    assert (refused is None) == (operation is None)
    assert refuse(request_, lambda *_: True) is None


def test_users_are_refused_one_by_one_and_features_altogether() -> None:
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    users, features = (refuse(request, lambda *_: False) for request in (SCRAM, FEATURES))

    assert isinstance(users, ScramCredentialsAltered)
    assert [(result.user, result.error) for result in users.results] == [("ann", error), ("bob", error)]
    assert isinstance(features, FeaturesUpdated)
    assert (features.results, features.error) == ((), error)
