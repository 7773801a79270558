"""Which ACLs are in force, whether or not this process leads? Read in every session and followed until it ends."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from controller.core.acl_authorizer import AclAuthorizer, host_of
from controller.core.messages.effects import Notice
from controller.core.messages.events import Event, Loaded, Observed, ReadAllowed, ReadRefused
from controller.core.messages.requests import Caller
from controller.core.settings import AuthorizerSettings
from controller.core.state.cluster import ClusterState
from controller.following.session_reader import SessionReader
from controller.runtime.supervision import Troubles
from controller.zk.bridge import Bridge
from controller.zk.reader import Reader
from zk_layout.watched import RIGHTS
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType


class RightsFollower(SessionReader[ClusterState]):
    """Decides by the last complete read. Before the first one, only super users may do anything.

    The last session's ACLs stay in force until the next session has read everything, as with brokers.
    """

    part = "following rights"

    def __init__(
        self,
        bridge: Callable[[], Bridge],
        settings: AuthorizerSettings,
        notice: Callable[[Notice], None] = lambda _: None,
        troubles: Troubles | None = None,
    ) -> None:
        """`bridge` returns the current connection to ZooKeeper; `notice` receives each unreadable znode once."""
        super().__init__(bridge, notice, troubles)
        self._settings = settings
        self._state = ClusterState()
        self.authorizer = self._decided_by(self._state)

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

    def _begin(self, bridge: Bridge) -> tuple[ClusterState, Reader]:
        state = ClusterState()
        return state, Reader(bridge, partial(self._hear, state), notice=self._notice, what=RIGHTS)

    async def _load(self, state: ClusterState) -> None:
        self._state, self.authorizer = state, self._decided_by(state)
        self._name_all(state)

    def _unread(self, state: ClusterState) -> Collection[str]:
        return *state.unreadable.refusals, *state.unreadable.malformed

    def _decided_by(self, state: ClusterState) -> AclAuthorizer:
        return AclAuthorizer(
            state.rights.known,
            self._settings.super_users,
            allows_everyone_if_no_acl_is_found=self._settings.allows_everyone_if_no_acl_is_found,
        )

    def _hear(self, state: ClusterState, event: Event) -> None:
        match event:
            case Observed(facts):
                state.apply_all(facts)
            case ReadRefused(path, reason, address):
                state.refuse(path, reason, address)
            case ReadAllowed(path):
                state.allow(path)
            case Loaded():
                state.begin()
            case _:
                raise TypeError(f"unexpected event: {event}")
        self._name_all(state)

    def _name_all(self, state: ClusterState) -> None:
        """Give a notice for each unreadable znode, with the reason."""
        changes = state.take_changes()
        for path, reason in changes.malformed:
            self._name(path, Notice("malformed znode", f"{path}: {reason}"))
        for path, reason in changes.refused:
            text = f"{reason}; what it might deny is denied until it can be read"
            self._name(path, Notice("unreadable znode", text))
        if state is self._state:  # a state that is still loading does not show that a znode is readable again
            self._named = {path: text for path, text in self._named.items() if path in state.unreadable}
