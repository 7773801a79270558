"""Which brokers can a process that does not lead pass its clients on to?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from controller.core.commands import LiveBroker
from controller.zk import preparation
from controller.zk.answers import Disconnected, Refused, SessionEnded
from controller.zk.bridge import Bridge

BELIEVED_FOR_S = 2.0
PATIENCE_S = 0.5  # less than a client waits for what is offered here: whoever gives up first learns nothing


class RegisteredBrokers:
    """The brokers that are registered in ZooKeeper: looked up when somebody asks, and believed for a while.

    Registrations of replicas of ours are left out: one that does not lead would send clients back. While ZooKeeper
    does not answer, the brokers that were there last are likely to be there still.
    """

    def __init__(self, bridge: Callable[[], Bridge]) -> None:
        """Nobody is known yet. `bridge` is the present way to ZooKeeper."""
        self._bridge = bridge
        self._known: Sequence[LiveBroker] = ()
        self._due_at = 0.0
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self) -> Sequence[LiveBroker]:
        """Who they are, after `PATIENCE_S` at most."""
        async with self._one_at_a_time:
            loop = asyncio.get_running_loop()
            if loop.time() >= self._due_at:
                try:
                    async with asyncio.timeout(PATIENCE_S):
                        found = await preparation.registrations(self._bridge())
                    self._known = tuple(LiveBroker(broker, seen.endpoints) for broker, seen in sorted(found.items()))
                except (Refused, Disconnected, SessionEnded, TimeoutError):
                    pass  # said by whoever needs ZooKeeper
                self._due_at = loop.time() + BELIEVED_FOR_S
            return self._known
