"""What answers a request that is refused as a whole?

Source: the `getErrorResponse` of Kafka's request classes.
"""

from __future__ import annotations

from typing import assert_never

from controller.core.messages.errors import MESSAGES, ErrorCode
from controller.core.messages.replies import (
    AclCreated,
    AclsCreated,
    AclsDeleted,
    AclsDescribed,
    AclsFiltered,
    ClusterDescription,
    FeaturesUpdated,
    LeadersElected,
    PartitionResult,
    PartitionsAltered,
    PartitionsCreated,
    ProducerIdsAllocated,
    ReassignmentsAltered,
    ReassignmentsListed,
    Reply,
    ScramCredentialsAltered,
    ShutdownPermitted,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
    TopicMetadata,
    TopicsCreated,
    TopicsDeleted,
    UserAltered,
)
from controller.core.messages.requests import (
    AclRequest,
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
    ListReassignments,
    Request,
    TopicRequest,
    UpdateFeatures,
)
from zk_layout.ids import NO_LEADER

_ABOUT_US = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})


def refusal(request: Request, error: ErrorCode, message: str | None = None) -> Reply:  # noqa: C901 (one flat match)
    """The reply that refuses everything asked, with one error.

    Metadata has no field for a general error. Its refusal lists no brokers: clients then keep the brokers they know
    and ask another. If the error is about this process rather than the topics, requested topics get
    LEADER_NOT_AVAILABLE, which clients retry.

    >>> refusal(ControlledShutdown(1), ErrorCode.NOT_CONTROLLER).error.name
    'NOT_CONTROLLER'
    """
    message = MESSAGES.get(error) if message is None else message
    match request:
        case DescribeCluster():
            return _unknown_cluster(request, error)
        case ListReassignments():
            return ReassignmentsListed(error=error, message=message)
        case AlterReassignments():
            results = tuple(PartitionResult(wanted.topic_partition, error, message) for wanted in request.reassignments)
            return ReassignmentsAltered(results, error, message)
        case AlterPartition():
            return PartitionsAltered(error=error)
        case ControlledShutdown():
            return ShutdownPermitted(error=error)
        case AllocateProducerIds():
            return ProducerIdsAllocated(error=error)
        case AlterScramCredentials():
            users = dict.fromkeys(part.user for part in request.parts)
            return ScramCredentialsAltered(tuple(UserAltered(user, error, message) for user in users))
        case UpdateFeatures():
            return FeaturesUpdated((), error, message)
        case DescribeAcls() | CreateAcls() | DeleteAcls():
            return _acls_refused(request, error, message)
        case CreateTopics() | DeleteTopics() | CreatePartitions() | ElectLeaders():
            return _topics_refused(request, error, message)
        case _:
            assert_never(request)


def _acls_refused(request: AclRequest, error: ErrorCode, message: str | None) -> Reply:
    match request:
        case DescribeAcls():
            return AclsDescribed((), error, message)
        case CreateAcls(creations):
            return AclsCreated((AclCreated(error, message),) * len(creations))
        case DeleteAcls(filters):
            return AclsDeleted((AclsFiltered((), error, message),) * len(filters))


def _topics_refused(request: TopicRequest, error: ErrorCode, message: str | None) -> Reply:
    match request:
        case CreateTopics():
            return TopicsCreated(tuple(TopicCreated(topic.name, error, message) for topic in request.topics))
        case DeleteTopics():
            return TopicsDeleted(tuple(TopicDeleted(t.name, t.topic_id, error, message) for t in request.topics))
        case CreatePartitions():
            return PartitionsCreated(tuple(TopicGrown(growth.topic, error, message) for growth in request.growths))
        case ElectLeaders():
            results = tuple(PartitionResult(at, error, message) for at in request.partitions or ())
            return LeadersElected(results, error)


def _unknown_cluster(request: DescribeCluster, error: ErrorCode) -> ClusterDescription:
    shown = ErrorCode.LEADER_NOT_AVAILABLE if error in _ABOUT_US else error
    topics = tuple(TopicMetadata(topic.name, topic.topic_id, shown) for topic in request.topics or ())
    return ClusterDescription(nodes=(), cluster_id=None, controller=NO_LEADER, topics=topics)
