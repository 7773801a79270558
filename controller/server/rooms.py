"""How much memory may requests take together, and which of them wait when it is used up?

Source: Kafka's `queued.max.request.bytes` and SimpleMemoryPool, which lets one more in while anything is left.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from controller.server.limits import Limits
from controller.server.relay import MOST_READ_AHEAD_BYTES, RELAYABLE
from controller.wire.versions import ApiKey

BROKERS_OWN = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
"""What only brokers send."""

_CHANGES = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    }
)
_SMALL_BYTES = 16 * 1024
_GROWTH = 32  # a decoded request is larger than its bytes


class Room:
    """So many bytes, given out in the order of asking.

    Whoever asks while anything is left gets all it asked for, so that no request is too large for ever; the room may
    be exceeded by one request.
    """

    def __init__(self, most_bytes: int) -> None:
        """All of it is free."""
        self._most_bytes = most_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.taken_bytes = 0

    @contextlib.asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[None]:
        """Wait until there is room, and give it back in the end."""
        await self.enter(size)
        try:
            yield
        finally:
            self.leave(size)

    async def enter(self, size: int) -> None:
        """Wait until there is room; `leave` gives it back."""
        if not self._waiting and self.taken_bytes < self._most_bytes:
            self.taken_bytes += size
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, future))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.leave(size)
            raise

    def leave(self, size: int) -> None:
        """Give so much back, and let in those who wait."""
        self.taken_bytes -= size
        while self._waiting and self.taken_bytes < self._most_bytes:
            wanted, future = self._waiting.popleft()
            if not future.done():
                self.taken_bytes += wanted
                future.set_result(None)


class Rooms:
    """Room for requests that arrive, and for those that are open, from their decoding to their answer.

    Each kind has its own: changes may wait for brokers for a minute, relayed requests for a broker that hangs, and
    neither may keep reads waiting, nor any of them what brokers themselves ask.
    """

    def __init__(self, limits: Limits) -> None:
        """All is free."""
        self._arriving, self._from_brokers = Room(limits.queued_bytes), Room(limits.queued_bytes)
        self._reads, self._changes = Room(limits.open_bytes), Room(limits.open_bytes)
        self._relayed, self._brokers_own = Room(2 * limits.open_bytes), Room(limits.open_bytes)
        self.responses = Room(limits.queued_bytes)
        """Of brokers, until the client has taken them."""

    def arriving(self, key: int, size: int) -> AbstractAsyncContextManager[None]:
        """Room for a request that is about to be received; small ones need none."""
        if size <= _SMALL_BYTES:
            return contextlib.nullcontext()
        return (self._from_brokers if key in BROKERS_OWN else self._arriving).take(size)

    def opened(self, key: int, size: int) -> AbstractAsyncContextManager[None]:
        """Room for what a request becomes when it is decoded."""
        if key in BROKERS_OWN:
            room = self._brokers_own
        elif key in _CHANGES:
            room = self._changes
        elif key in RELAYABLE:
            return self._relayed.take(max(size * _GROWTH, MOST_READ_AHEAD_BYTES))
        else:
            room = self._reads
        return room.take(size * _GROWTH)
