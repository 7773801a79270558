"""To which brokers can a standby pass its clients on, and who leads?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from controller.core.messages.commands import LiveBroker
from controller.zk import preparation
from controller.zk.answers import Disconnected, Refused, SessionEnded
from controller.zk.bridge import Bridge
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Registration

BELIEVED_FOR_S = 2.0
PATIENCE_S = 0.5  # shorter than clients wait for ApiVersions: a client that gives up first learns nothing


class RegisteredBrokers:
    """The brokers registered in ZooKeeper, looked up on demand and cached briefly.

    Leaves out our own replicas: one that no longer leads would send clients back. While ZooKeeper does not answer, the
    last brokers known are the best guess.
    """

    def __init__(self, bridge: Callable[[], Bridge]) -> None:
        """`bridge` returns the current connection to ZooKeeper."""
        self._bridge = bridge
        self._known: dict[BrokerId, Registration] = {}
        self._due_at = 0.0
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self) -> Sequence[LiveBroker]:
        """The registered brokers, after at most `PATIENCE_S`."""
        known = sorted((await self._looked_up()).items())
        return tuple(LiveBroker(broker, seen.endpoints) for broker, seen in known if not seen.is_ours)

    async def get(self, broker: BrokerId) -> LiveBroker | None:
        """The broker or replica registered with this id, after at most `PATIENCE_S`."""
        seen = (await self._looked_up()).get(broker)
        return None if seen is None else LiveBroker(broker, seen.endpoints)

    async def _looked_up(self) -> dict[BrokerId, Registration]:
        async with self._one_at_a_time:
            loop = asyncio.get_running_loop()
            if loop.time() >= self._due_at:
                try:
                    async with asyncio.timeout(PATIENCE_S):
                        self._known = await preparation.registrations(self._bridge(), with_ours=True)
                except (Refused, Disconnected, SessionEnded, TimeoutError):
                    pass  # reported by the parts that need ZooKeeper
                self._due_at = loop.time() + BELIEVED_FOR_S
            return self._known
