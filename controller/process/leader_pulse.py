"""Does the leader give a sign of life? It is asked for its versions, on a connection that is kept.

Its event loop answers, so that a process that hangs gives none. One that ZooKeeper does not answer offers no versions,
which is no sign of life either. What answers over a new connection, after one was lost, may be a process that was
started again at the same address. A connection that ends is reported at once, and only once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from controller.connections.broker import Broken, BrokerConnection, Ended
from controller.core.candidacy.challenger import Heard, HungUp, Sign, Unheard
from controller.core.messages.commands import LiveBroker
from controller.server.relay import BrokerDialer
from controller.wire.api_versions import PULSE_ID
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint

PATIENCE_S: Final = 0.2
OPENING_S: Final = 0.5


class LeaderPulse:
    """One connection to the leader's listener of a name, as brokers connect to it. `registered` finds its addresses."""

    def __init__(
        self, registered: Callable[[BrokerId], Awaitable[LiveBroker | None]], dialer: BrokerDialer, listener: str
    ) -> None:
        self._registered = registered
        self._dialer = dialer
        self._listener = listener
        self._connection: tuple[Endpoint, BrokerConnection] | None = None
        self._is_reopened = False

    async def ask(self, leader: BrokerId) -> Sign | None:
        """Whether the leader answers within a moment; None if there is no way to ask it."""
        endpoint = await self._endpoint(leader)
        if endpoint is None:
            self.close()
            return None
        if self._connection is None or self._connection[0] != endpoint:
            self.close()
            self._connection = endpoint, BrokerConnection(self._dialer, endpoint)
        connection = self._connection[1]
        if connection.is_ended:
            connection.drop()
            return HungUp()
        opened = connection.openings
        try:
            offered = await connection.versions(PATIENCE_S if connection.is_open else OPENING_S, PULSE_ID)
        except Broken as error:
            has_hung_up = isinstance(error, Ended) and connection.openings == opened
            return HungUp() if has_hung_up else Unheard()
        self._is_reopened |= connection.openings > opened > 0
        if not offered:
            return Unheard()
        is_reopened, self._is_reopened = self._is_reopened, False
        return Heard(is_reopened)

    async def hangs_up_within(self, time_s: float) -> bool:
        """Wait until the leader closes the connection, but no longer; return whether it has."""
        if self._connection is None:
            await asyncio.sleep(time_s)
            return False
        return await self._connection[1].ends_within(time_s)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection[1].drop()
            self._connection = None
        self._is_reopened = False

    async def _endpoint(self, leader: BrokerId) -> Endpoint | None:
        found = await self._registered(leader)
        endpoints = () if found is None else found.endpoints
        return next((e for e in endpoints if e.listener == self._listener and self._dialer.reaches(e)), None)
