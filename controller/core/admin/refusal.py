"""What is answered to a request that is refused as a whole?

Source: the `getErrorResponse` of Kafka's request classes.
"""

from __future__ import annotations

from typing import assert_never

from controller.core.errors import MESSAGES, ErrorCode
from controller.core.replies import (
    ClusterDescription,
    PartitionResult,
    PartitionsAltered,
    ProducerIdsAllocated,
    ReassignmentsAltered,
    ReassignmentsListed,
    Reply,
    ShutdownPermitted,
    TopicMetadata,
)
from controller.core.requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    DescribeCluster,
    ListReassignments,
    Request,
)
from zk_layout.ids import NO_LEADER

_ABOUT_US = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})


def refusal(request: Request, error: ErrorCode, message: str | None = None) -> Reply:
    """The reply that refuses everything asked, with one error.

    Metadata cannot carry an error of its own. It is refused by knowing no broker: clients then keep the
    brokers they have and ask another of them. The topics they named get LEADER_NOT_AVAILABLE, on which they
    ask again, where the error is about this process and not about the topics.

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
            results = tuple(PartitionResult(wish.topic_partition, error, message) for wish in request.wishes)
            return ReassignmentsAltered(results, error, message)
        case AlterPartition():
            return PartitionsAltered(error=error)
        case ControlledShutdown():
            return ShutdownPermitted(error=error)
        case AllocateProducerIds():
            return ProducerIdsAllocated(error=error)
        case _:
            assert_never(request)


def _unknown_cluster(request: DescribeCluster, error: ErrorCode) -> ClusterDescription:
    told = ErrorCode.LEADER_NOT_AVAILABLE if error in _ABOUT_US else error
    topics = tuple(TopicMetadata(topic.name, topic.topic_id, told) for topic in request.topics or ())
    return ClusterDescription(nodes=(), cluster_id=None, controller=NO_LEADER, topics=topics)
