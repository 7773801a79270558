"""What is answered to a request that is refused as a whole?

Source: the `getErrorResponse` of Kafka's request classes.
"""

from __future__ import annotations

from typing import assert_never

from controller.core.messages import replies, requests
from controller.core.messages.errors import MESSAGES, ErrorCode
from zk_layout.ids import NO_LEADER

_ABOUT_US = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})


def refusal(request: requests.Request, error: ErrorCode, message: str | None = None) -> replies.Reply:  # noqa: C901 (one flat match)
    """The reply that refuses everything asked, with one error.

    Metadata cannot carry an error of its own. It is refused by knowing no broker: clients then keep the
    brokers they have and ask another of them. The topics they named get LEADER_NOT_AVAILABLE, on which they
    ask again, where the error is about this process and not about the topics.

    >>> refusal(ControlledShutdown(1), ErrorCode.NOT_CONTROLLER).error.name
    'NOT_CONTROLLER'
    """
    message = MESSAGES.get(error) if message is None else message
    match request:
        case requests.DescribeCluster():
            return _unknown_cluster(request, error)
        case requests.ListReassignments():
            return replies.ReassignmentsListed(error=error, message=message)
        case requests.AlterReassignments():
            results = tuple(
                replies.PartitionResult(wanted.topic_partition, error, message) for wanted in request.reassignments
            )
            return replies.ReassignmentsAltered(results, error, message)
        case requests.AlterPartition():
            return replies.PartitionsAltered(error=error)
        case requests.ControlledShutdown():
            return replies.ShutdownPermitted(error=error)
        case requests.AllocateProducerIds():
            return replies.ProducerIdsAllocated(error=error)
        case requests.AlterScramCredentials():
            users = dict.fromkeys(part.user for part in request.parts)
            return replies.ScramCredentialsAltered(tuple(replies.UserAltered(user, error, message) for user in users))
        case requests.UpdateFeatures():
            return replies.FeaturesUpdated((), error, message)
        case requests.DescribeAcls() | requests.CreateAcls() | requests.DeleteAcls():
            return _acls_refused(request, error, message)
        case requests.CreateTopics() | requests.DeleteTopics() | requests.CreatePartitions() | requests.ElectLeaders():
            return _topics_refused(request, error, message)
        case _:
            assert_never(request)


def _acls_refused(request: requests.AclRequest, error: ErrorCode, message: str | None) -> replies.Reply:
    match request:
        case requests.DescribeAcls():
            return replies.AclsDescribed((), error, message)
        case requests.CreateAcls(creations):
            return replies.AclsCreated((replies.AclCreated(error, message),) * len(creations))
        case requests.DeleteAcls(filters):
            return replies.AclsDeleted((replies.AclsFiltered((), error, message),) * len(filters))


def _topics_refused(request: requests.TopicRequest, error: ErrorCode, message: str | None) -> replies.Reply:
    match request:
        case requests.CreateTopics():
            return replies.TopicsCreated(
                tuple(replies.TopicCreated(topic.name, error, message) for topic in request.topics)
            )
        case requests.DeleteTopics():
            return replies.TopicsDeleted(
                tuple(replies.TopicDeleted(t.name, t.topic_id, error, message) for t in request.topics)
            )
        case requests.CreatePartitions():
            return replies.PartitionsCreated(
                tuple(replies.TopicGrown(growth.topic, error, message) for growth in request.growths)
            )
        case requests.ElectLeaders():
            results = tuple(replies.PartitionResult(at, error, message) for at in request.partitions or ())
            return replies.LeadersElected(results, error)


def _unknown_cluster(request: requests.DescribeCluster, error: ErrorCode) -> replies.ClusterDescription:
    told = ErrorCode.LEADER_NOT_AVAILABLE if error in _ABOUT_US else error
    topics = tuple(replies.TopicMetadata(topic.name, topic.topic_id, told) for topic in request.topics or ())
    return replies.ClusterDescription(nodes=(), cluster_id=None, controller=NO_LEADER, topics=topics)
