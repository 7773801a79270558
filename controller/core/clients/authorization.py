"""May this caller ask for this at all? The one place where every request over the wire is judged before anything else.

Source: Kafka's KafkaApis: `authorizeClusterOperation` before the controller sees a request.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from msgspec import Struct

from controller.core.acl_authorizer import AclAuthorizer, KnownAcls, host_of
from controller.core.clients.refusal import refusal
from controller.core.messages import requests
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import Reply
from controller.core.settings import AuthorizerSettings
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType

CLUSTER = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")

Authorizer = Callable[[requests.Caller, AclOperation, ResourcePattern], bool]
Reasons = Callable[[requests.Caller, AclOperation, ResourcePattern], str]
"""Says why an authorizer decides as it does."""


class Withheld(Struct, frozen=True):
    """Why clients get nothing from this process: a broker might give them less.

    Shape:
        `is_known`: brokers are known to judge by what this process does not have; otherwise they were not asked yet.
    """

    reason: str
    is_known: bool


NOT_KNOWN_YET = Withheld("it is not known yet whether brokers judge requests by an authorizer", is_known=False)


def anybody(_caller: requests.Caller, _operation: AclOperation, _resource: ResourcePattern) -> bool:
    """Allows everything, as a cluster without an authorizer does."""
    return True


def authorizer_of(settings: AuthorizerSettings | None, known: KnownAcls) -> tuple[Authorizer, Reasons | None]:
    """Who decides, and who says why: everybody may do everything, or what is known of rights says it."""
    if settings is None:
        return anybody, None
    acls = AclAuthorizer(
        known,
        settings.super_users,
        allows_everyone_if_no_acl_is_found=settings.allows_everyone_if_no_acl_is_found,
    )

    def is_allowed(caller: requests.Caller, operation: AclOperation, resource: ResourcePattern) -> bool:
        return acls.is_allowed(caller.principal, host_of(caller.address), operation, resource)

    def reason(caller: requests.Caller, operation: AclOperation, resource: ResourcePattern) -> str:
        return acls.reason(caller.principal, host_of(caller.address), operation, resource)

    return is_allowed, reason


NEEDED: MappingProxyType[type[requests.Request], AclOperation] = MappingProxyType(
    {
        requests.AlterReassignments: AclOperation.ALTER,
        requests.ElectLeaders: AclOperation.ALTER,
        requests.AlterScramCredentials: AclOperation.ALTER,
        requests.UpdateFeatures: AclOperation.ALTER,
        requests.CreateAcls: AclOperation.ALTER,
        requests.DeleteAcls: AclOperation.ALTER,
        requests.ListReassignments: AclOperation.DESCRIBE,
        requests.DescribeAcls: AclOperation.DESCRIBE,
        requests.AlterPartition: AclOperation.CLUSTER_ACTION,
        requests.ControlledShutdown: AclOperation.CLUSTER_ACTION,
        requests.AllocateProducerIds: AclOperation.CLUSTER_ACTION,
    }
)
"""The operation on the cluster that a request needs. The others need none, or judge their parts themselves."""


def refuse(request: requests.Request, may: Callable[[AclOperation, ResourcePattern], bool]) -> Reply | None:
    """The refusal of a request its caller has no right to; None where it may be considered."""
    operation = NEEDED.get(type(request))
    if operation is None or may(operation, CLUSTER):
        return None
    return refusal(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
