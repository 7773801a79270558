"""Which ACLs are in force, whether or not this process leads?"""

from __future__ import annotations

from controller.core.acl_authorizer import AclAuthorizer, host_of
from controller.core.messages.requests import Caller
from controller.core.settings import AuthorizerSettings
from controller.core.state.cluster import ClusterState
from controller.following.cluster import ClusterFollower
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType


class RightsInForce:
    """Decides by the last complete read. Before the first one, only super users may do anything."""

    def __init__(self, followed: ClusterFollower, settings: AuthorizerSettings) -> None:
        self._followed = followed
        self._settings = settings
        self._decided_by: tuple[ClusterState, AclAuthorizer] | None = None

    @property
    def authorizer(self) -> AclAuthorizer:
        """What decides now."""
        state = self._followed.state
        if self._decided_by is None or self._decided_by[0] is not state:
            opens = self._settings.allows_everyone_if_no_acl_is_found
            authorizer = AclAuthorizer(
                state.rights.known, self._settings.super_users, allows_everyone_if_no_acl_is_found=opens
            )
            self._decided_by = state, authorizer
        return self._decided_by[1]

    def is_allowed(self, caller: Caller, operation: AclOperation, resource: ResourcePattern) -> bool:
        """Whether the caller may do this, by the ACLs read last."""
        return self.authorizer.is_allowed(caller.principal, host_of(caller.address), operation, resource)

    def is_allowed_for_any(self, caller: Caller, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the caller may do this with at least one resource of the type, by the ACLs read last."""
        host = host_of(caller.address)
        return self.authorizer.is_allowed_by_resource_type(caller.principal, host, operation, resource_type)

    def reason(self, caller: Caller, operation: AclOperation, resource: ResourcePattern) -> str:
        """The reason for the decision, as text."""
        return self.authorizer.reason(caller.principal, host_of(caller.address), operation, resource)
