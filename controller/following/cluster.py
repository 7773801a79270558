"""What does this process know of the cluster whether or not it leads, and which facts does a term get?

It follows the registered brokers, to which it relays clients' requests, and ACLs if it authorizes clients. A term reads
more.
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

PATIENCE_S = 0.5  # less than a client waits for an answer


class ClusterFollower(SessionReader[Facts]):
    """Follows the cluster in each session of this process, and makes the facts of each term.

    After a session ends, its facts count until the next one has read everything. Before the first complete read, what
    has been read so far counts; until then only super users may do anything.
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
        """`bridge` returns the current connection to ZooKeeper.

        With `judges` ACLs are followed, too, and `notice` receives each unreadable one once.
        """
        super().__init__(bridge, notice, troubles)
        self._what = followed(follows_rights=judges)
        self.state = ClusterState()
        """The facts read last."""
        self._loaded: ClusterState | None = None
        self._has_brokers = asyncio.Event()

    def for_term(self, what: Watched, request_bytes: int) -> Facts:
        """Empty facts for a term whose claim has been accepted, to be read in the session of the claim.

        A term decides only by what the session of its claim has read after the claim was answered: a server that has
        answered a write shows it, and a session that moves to another server makes that one catch up first (`Bridge`).
        So no write before the claim is missed, and a later one is fenced or triggers a watch. A `Standby` gives a term
        what was followed before its claim.
        """
        bridge = self._bridge()
        return Facts(bridge, what, bulk=BulkReader(bridge, request_bytes=request_bytes))

    async def live_brokers(self) -> Sequence[LiveBroker]:
        """The registered brokers; waits for them up to `PATIENCE_S`.

        Leaves out replicas of ours: one that no longer leads would send clients back.
        """
        await self._wait()
        known = sorted(self.state.brokers.items())
        return tuple(LiveBroker(b, seen.registration.endpoints) for b, seen in known if not seen.registration.is_ours)

    async def registered(self, broker: BrokerId) -> LiveBroker | None:
        """The broker, or replica of ours, registered with this id; waits up to `PATIENCE_S`."""
        await self._wait()
        seen = self.state.brokers.get(broker)
        return None if seen is None else LiveBroker(broker, seen.registration.endpoints)

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self._has_brokers.wait()

    def _begin(self, bridge: Bridge) -> tuple[Facts, Reader]:
        facts = Facts(bridge, self._what, folded=self._heard)
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
        """Give a notice for each unreadable ACL, with the reason. Terms do so for other znodes."""
        if state.brokers and state is self.state:
            self._has_brokers.set()
        changes = state.take_changes()
        for path, reason in changes.malformed:
            self._name_rights(path, Notice("malformed znode", f"{path}: {reason}"))
        for path, reason in changes.refused:
            text = f"{reason}; what it might deny is denied until it can be read"
            self._name_rights(path, Notice("unreadable znode", text))
        if state is self._loaded:  # a state that is still loading does not show that a znode is readable again
            self._named = {path: text for path, text in self._named.items() if path in state.unreadable}

    def _name_rights(self, path: str, notice: Notice) -> None:
        if path.startswith(RIGHTS.parents):
            self._name(path, notice)
