"""What does this process know of the cluster whether or not it leads, and what is a term handed?

Registered brokers, for clients that are passed on, and rights, where this process judges clients. A term reads more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence

from controller.core.messages.commands import LiveBroker
from controller.core.messages.effects import Notice
from controller.core.state.cluster import ClusterState
from controller.following.facts import Facts
from controller.following.session_reader import SessionReader
from controller.runtime.supervision import Troubles
from controller.zk.bridge import Bridge
from controller.zk.bulk import BulkReader
from controller.zk.reader import Reader
from zk_layout.ids import BrokerId
from zk_layout.watched import RIGHTS, Watched, followed

PATIENCE_S = 0.5  # less than a client waits for what is offered here: one that gives up first learns nothing


class ClusterFollower(SessionReader[Facts]):
    """Follows the cluster in each session of this process, and makes the facts of each term.

    When a session ends, what was known in it counts until the next one has read everything. Until that has been done
    once, what has been read so far counts: rights are closed until then.
    """

    part = "following the cluster"

    def __init__(
        self,
        bridge: Callable[[], Bridge],
        notice: Callable[[Notice], None] = lambda _: None,
        troubles: Troubles | None = None,
        *,
        judges: bool = False,
    ) -> None:
        """Nothing is known. `bridge` is the present way to ZooKeeper.

        With `judges` rights are followed, too, and `notice` hears which cannot be read, once.
        """
        super().__init__(bridge, notice, troubles)
        self._what = followed(follows_rights=judges)
        self.state = ClusterState()
        """What was read last."""
        self._loaded: ClusterState | None = None
        self._has_brokers = asyncio.Event()

    def for_term(self, what: Watched, request_bytes: int) -> Facts:
        """The facts of a term whose claim has been accepted: none yet, to be read in the session of the claim.

        All that a term decides by is read after its claim was answered, by the session that claimed: a server that has
        answered a write shows it, and a session that moves to another server has that one catch up first (`Bridge`).
        So no write before the claim is missed, and a later one is fenced or told by a watch. Facts that were followed
        before the claim may be handed over here only if everything that may have changed until it was answered is
        marked, and read again before `Loaded`.
        """
        bridge = self._bridge()
        return Facts(bridge, what, bulk=BulkReader(bridge, request_bytes=request_bytes))

    async def live_brokers(self) -> Sequence[LiveBroker]:
        """The brokers that are registered, after `PATIENCE_S` at most.

        A replica of ours is no broker: one that does not lead any more would send clients back.
        """
        await self._wait()
        known = sorted(self.state.brokers.items())
        return tuple(LiveBroker(b, seen.registration.endpoints) for b, seen in known if not seen.registration.is_ours)

    async def registered(self, broker: BrokerId) -> LiveBroker | None:
        """What is registered with an id, a replica of ours included, after `PATIENCE_S` at most."""
        await self._wait()
        seen = self.state.brokers.get(broker)
        return None if seen is None else LiveBroker(broker, seen.registration.endpoints)

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self._has_brokers.wait()

    def _begin(self, bridge: Bridge) -> tuple[Facts, Reader]:
        facts = Facts(bridge, self._what, notice=self._notice, folded=self._heard)
        if self._loaded is None:
            self.state = facts.state
        return facts, facts.reader

    async def _load(self, facts: Facts) -> None:
        self.state = self._loaded = facts.state
        self._has_brokers.set()
        self._heard(facts.state)

    def _unread(self, facts: Facts) -> Collection[str]:
        unreadable = facts.state.unreadable
        return *unreadable.refusals, *unreadable.malformed

    def _heard(self, state: ClusterState) -> None:
        """Say which rights cannot be read, and why. Terms name the rest."""
        if state.brokers and state is self.state:
            self._has_brokers.set()
        changes = state.take_changes()
        for path, reason in changes.malformed:
            self._name_rights(path, Notice("malformed znode", f"{path}: {reason}"))
        for path, reason in changes.refused:
            text = f"{reason}; what it might deny is denied until it can be read"
            self._name_rights(path, Notice("unreadable znode", text))
        if state is self._loaded:  # of one that is still being read, nothing is known to be mended
            self._named = {path: text for path, text in self._named.items() if path in state.unreadable}

    def _name_rights(self, path: str, notice: Notice) -> None:
        if path.startswith(RIGHTS.parents):
            self._name(path, notice)
