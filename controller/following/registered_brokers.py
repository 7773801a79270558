"""Whom can a process that does not lead pass its clients on to: which brokers, and who leads?"""

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
PATIENCE_S = 0.5  # less than a client waits for what is offered here: whoever gives up first learns nothing


class RegisteredBrokers:
    """The brokers that are registered in ZooKeeper: looked up when somebody asks, and believed for a while.

    A replica of ours is no broker: one that does not lead any more would send clients back. While ZooKeeper does not
    answer, those that were there last are likely to be there still.
    """

    def __init__(self, bridge: Callable[[], Bridge]) -> None:
        """Nobody is known yet. `bridge` is the present way to ZooKeeper."""
        self._bridge = bridge
        self._known: dict[BrokerId, Registration] = {}
        self._due_at = 0.0
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self) -> Sequence[LiveBroker]:
        """Who they are, after `PATIENCE_S` at most."""
        known = sorted((await self._looked_up()).items())
        return tuple(LiveBroker(broker, seen.endpoints) for broker, seen in known if not seen.is_ours)

    async def get(self, broker: BrokerId) -> LiveBroker | None:
        """Whoever is registered with an id, be it a replica of ours, after `PATIENCE_S` at most."""
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
                    pass  # said by whoever needs ZooKeeper
                self._due_at = loop.time() + BELIEVED_FOR_S
            return self._known
