"""Which rights are in force, whoever leads? Read in every session of this process, and followed as long as it lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from controller.core.acl_authorizer import AclAuthorizer, host_of
from controller.core.messages.effects import Notice, ReadAgain
from controller.core.messages.events import Event, Loaded, Observed, ReadAllowed, ReadRefused
from controller.core.messages.requests import Caller
from controller.core.settings import AuthorizerSettings
from controller.core.state.cluster import ClusterState
from controller.runtime.supervision import Troubles, supervised
from controller.zk.answers import SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.reader import Reader
from zk_layout.watched import RIGHTS
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
PART: Final = "following rights"


class RightsFollower:
    """Decides by what was read last. Before everything was read once, nobody but super users may do anything.

    When a session ends, what was known in it counts until the next one has read everything, as with brokers.
    """

    def __init__(
        self,
        bridge: Callable[[], Bridge],
        settings: AuthorizerSettings,
        notice: Callable[[Notice], None] = lambda _: None,
        troubles: Troubles | None = None,
    ) -> None:
        """Nothing is known. `bridge` is the present way to ZooKeeper; `notice` hears what cannot be read, once."""
        self._troubles = troubles or Troubles()
        self._bridge = bridge
        self._settings = settings
        self._notice = notice
        self._named: dict[str, str] = {}
        self._state = ClusterState()
        self.authorizer = self._decided_by(self._state)

    def is_allowed(self, caller: Caller, operation: AclOperation, resource: ResourcePattern) -> bool:
        """Whether a caller may do this, by what was read last."""
        return self.authorizer.is_allowed(caller.principal, host_of(caller.address), operation, resource)

    def is_allowed_for_any(self, caller: Caller, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether a caller may do this with at least one resource of a type, by what was read last."""
        host = host_of(caller.address)
        return self.authorizer.is_allowed_by_resource_type(caller.principal, host, operation, resource_type)

    def reason(self, caller: Caller, operation: AclOperation, resource: ResourcePattern) -> str:
        """Why, in words."""
        return self.authorizer.reason(caller.principal, host_of(caller.address), operation, resource)

    async def follow(self) -> None:
        """For as long as this process lives; whatever goes wrong is tried again, and costs nothing else."""
        # The end of a session is said by whoever cannot do without it.
        await supervised(PART, self._follow_once, self._troubles, again_after_s=FIRST_WAIT_S, expected=(SessionEnded,))

    async def _follow_once(self) -> None:
        """In one session, to its end."""
        state = ClusterState()
        reader = Reader(self._bridge(), lambda event: self._hear(state, event), notice=self._notice, what=RIGHTS)
        try:
            await reader.load()
            self._state, self.authorizer = state, self._decided_by(state)
            self._name(state)
            self._troubles.right(PART)
            reading, wait_s = asyncio.ensure_future(reader.wait()), FIRST_WAIT_S
            while not reading.done():
                await asyncio.wait([reading], timeout=wait_s)
                unreadable = (*state.unreadable.refusals, *state.unreadable.malformed)
                if unreadable:  # a change of ZooKeeper's own ACLs sets no watch off
                    reader.read_again(ReadAgain(unreadable))
                wait_s = min(2 * wait_s, LONGEST_WAIT_S) if unreadable else FIRST_WAIT_S
            reading.result()
        finally:
            reader.stop()

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
                raise TypeError(f"{event} is nothing that is read")
        self._name(state)

    def _name(self, state: ClusterState) -> None:
        """Say what cannot be read, and why: once for as long as it is so, be it in several sessions."""
        changes = state.take_changes()
        for path, reason in changes.malformed:
            if self._is_news(path, reason):
                self._notice(Notice("malformed znode", f"{path}: {reason}"))
        for path, reason in changes.refused:
            if self._is_news(path, reason):
                self._notice(Notice("unreadable znode", f"{reason}; what it might deny is denied until it can be read"))
        if state is self._state:  # of one that is still being read, nothing is known to be mended
            self._named = {path: reason for path, reason in self._named.items() if path in state.unreadable}

    def _is_news(self, path: str, reason: str) -> bool:
        is_news = self._named.get(path) != reason
        self._named[path] = reason
        return is_news
