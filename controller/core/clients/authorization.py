"""May this caller ask for this at all? The one place where every request over the wire is judged before anything else.

Source: Kafka's KafkaApis: `authorizeClusterOperation` before the controller sees a request.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from controller.core.clients.refusal import refusal
from controller.core.errors import ErrorCode
from controller.core.events import Asked
from controller.core.replies import Reply
from controller.core.requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    AlterScramCredentials,
    Caller,
    ControlledShutdown,
    ElectLeaders,
    ListReassignments,
    Request,
    UpdateFeatures,
)


class Operation(StrEnum):
    """Kafka's `AclOperation`, those that requests to a controller need."""

    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    CREATE = "Create"
    DELETE = "Delete"


class Resource(Struct, frozen=True):
    """What an operation is about: Kafka's resource type and name."""

    kind: str
    name: str


CLUSTER = Resource("Cluster", "kafka-cluster")
TOPIC = "Topic"

Authorizer = Callable[[Caller, Operation, Resource], bool]


def anybody(_caller: Caller, _operation: Operation, _resource: Resource) -> bool:
    """Allows everything, as a cluster without an authorizer does."""
    return True


def needed(request: Request) -> Operation | None:
    """The operation on the cluster that a request needs; None where it needs none, or judges its parts itself.

    >>> needed(ListReassignments(None)).value
    'Describe'
    """
    match request:
        case AlterReassignments() | ElectLeaders() | AlterScramCredentials() | UpdateFeatures():
            return Operation.ALTER
        case ListReassignments():
            return Operation.DESCRIBE
        case AlterPartition() | ControlledShutdown() | AllocateProducerIds():
            return Operation.CLUSTER_ACTION
        case _:
            return None


def refuse(asked: Asked, is_allowed: Authorizer) -> Reply | None:
    """The refusal of a request its caller has no right to; None where it may be considered."""
    operation = needed(asked.request)
    if operation is None or is_allowed(asked.caller, operation, CLUSTER):
        return None
    return refusal(asked.request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
