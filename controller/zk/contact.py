"""Does ZooKeeper answer this process now?

A leader that has lost ZooKeeper can decide nothing, however well it answers its clients: it must not pass for one that
leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from controller.zk import protocol
from controller.zk.answers import Disconnected, Reply
from controller.zk.bridge import Bridge

LOST_S: Final = 1.0
"""A connection that moves to another server takes less."""


class Contact:
    """Tries the way to ZooKeeper each time a caller asks. `bridge` returns the current connection."""

    def __init__(self, bridge: Callable[[], Bridge]) -> None:
        self._bridge = bridge
        self._asked: Bridge | None = None  # has not answered yet
        self._asked_at = 0.0

    def is_lost(self) -> bool:
        """Whether ZooKeeper has owed an answer for too long. Ask several times a second: the first time asks it."""
        now, bridge = asyncio.get_running_loop().time(), self._bridge()
        if self._asked is not bridge:
            self._asked, self._asked_at = bridge, now
            self._ask(bridge)
        return self._asked is bridge and now - self._asked_at > LOST_S

    def _ask(self, bridge: Bridge) -> None:
        def answered(reply: Reply) -> None:
            if self._asked is not bridge:
                return
            if isinstance(reply.failure, Disconnected):
                self._ask(bridge)  # waits for the connection
            else:
                self._asked = None

        bridge.submit(protocol.Exists(bridge.full("/")), answered, ahead=True)
