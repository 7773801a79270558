"""What may one caller see and do?

Source: KIP-430; Kafka's AuthHelper.authorizedOperations and AclEntry.supportedOperations.
"""

from __future__ import annotations

from types import MappingProxyType

from controller.core.clients.authorization import CLUSTER, Authorizer, anybody
from controller.core.messages.replies import Operations
from controller.core.messages.requests import Caller
from zk_layout.ids import TopicName
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType

OPERATIONS: MappingProxyType[ResourceType, Operations] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        ),
        ResourceType.CLUSTER: (
            AclOperation.CREATE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
        ),
    }
)
"""The operations that a resource supports."""


class CallersRights:
    """What one caller may see and do."""

    def __init__(self, is_allowed: Authorizer, caller: Caller, *, with_topic_operations: bool = False) -> None:
        """Rights to topics are determined only `with_topic_operations`."""
        self._is_allowed, self._caller = is_allowed, caller
        self._with_topic_operations = with_topic_operations

    @property
    def are_everybodys(self) -> bool:
        """Whether everything is allowed, without an authorizer."""
        return self._is_allowed is anybody

    @property
    def questions_a_topic(self) -> int:
        """The number of authorizer calls that one topic costs."""
        return len(OPERATIONS[ResourceType.TOPIC]) if self._with_topic_operations and not self.are_everybodys else 0

    def can_see(self, name: TopicName) -> bool:
        """Whether the caller may know that the topic exists."""
        return self._is_allowed(self._caller, AclOperation.DESCRIBE, ResourcePattern(ResourceType.TOPIC, name))

    def on_topic(self, name: TopicName | None) -> Operations | None:
        """The caller's rights to a visible topic; None if not requested."""
        if not self._with_topic_operations or name is None:
            return None
        return self._on(ResourcePattern(ResourceType.TOPIC, name))

    def on_cluster(self) -> Operations:
        """The caller's rights to the cluster; none without the right to describe it."""
        operations = self._on(CLUSTER)
        return operations if AclOperation.DESCRIBE in operations else ()

    def _on(self, resource: ResourcePattern) -> Operations:
        supported = OPERATIONS[resource.resource_type]
        if self.are_everybodys:
            return supported
        return tuple(operation for operation in supported if self._is_allowed(self._caller, operation, resource))
