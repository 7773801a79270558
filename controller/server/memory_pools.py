"""How much memory may requests use together, and which of them wait when it is used up?

Source: Kafka's `queued.max.request.bytes` and SimpleMemoryPool, which lets one more in while anything is left.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from controller.server.relay import MOST_READ_AHEAD_BYTES
from controller.settings.limits import Limits
from controller.wire.apis import Pool, pool_of

HURRIED_S = 2.0
_TOKEN_BYTES = 4 * 1024
_SMALL_BYTES = 16 * 1024
_MEDIUM_BYTES = 1024 * 1024
_GROWTH = 32  # a decoded request is larger than its bytes


class Reservation:
    """Part of a pool, for an arriving request. While others wait, its time is short."""

    def __init__(self) -> None:
        self.is_complete = False
        self._is_hurried = False
        self._limit: asyncio.Timeout | None = None

    def hurry_with(self, limit: asyncio.Timeout) -> None:
        """Set the timeout of its arrival."""
        self._limit = limit
        if self._is_hurried:
            self.hurry()

    def hurry(self) -> None:
        """Shorten the timeout: others wait."""
        self._is_hurried = True
        if self._limit is not None and not self.is_complete and not self._limit.expired():
            soon = asyncio.get_running_loop().time() + HURRIED_S
            until = self._limit.when()
            self._limit.reschedule(soon if until is None else min(soon, until))


class MemoryPool:
    """A number of bytes, granted to the smallest request first, so that a large one cannot make a small one wait.

    A request is granted in full while anything is left, so that none is too large forever; one request may thus exceed
    the pool.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._held: dict[Reservation, None] = {}
        self.taken_bytes = 0

    def resize(self, most_bytes: int) -> None:
        """Grant so many bytes from now on; what is taken already stays taken."""
        self._most_bytes = most_bytes
        self.leave(0)

    @contextlib.asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[Reservation]:
        """Wait for memory, and return it at the end."""
        await self.enter(size)
        held = Reservation()
        self._held[held] = None
        if self._waiting:
            held.hurry()
        try:
            yield held
        finally:
            del self._held[held]
            self.leave(size)

    async def enter(self, size: int) -> None:
        """Wait for memory; `leave` returns it."""
        if not self._waiting and self.taken_bytes < self._most_bytes:
            self.taken_bytes += size
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        bisect.insort(self._waiting, (size, next(self._numbers), future))
        for held in self._held:
            held.hurry()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.leave(size)
            raise

    def leave(self, size: int) -> None:
        """Return memory and wake those that wait for it."""
        self.taken_bytes -= size
        while self._waiting and self.taken_bytes < self._most_bytes:
            wanted, _, future = self._waiting.pop(0)
            if not future.done():
                self.taken_bytes += wanted
                future.set_result(None)


class MemoryPools:
    """Memory for arriving requests, and for open ones from decoding to answer.

    Each kind has its own pool: changes may wait a minute for brokers, and relayed requests for a broker that hangs.
    Neither may delay reads, and none of them the brokers' own requests.
    """

    def __init__(self, limits: Limits) -> None:
        half = max(1, limits.queued_bytes // 2)
        self._large, self._medium = MemoryPool(half), MemoryPool(half)
        self._from_brokers = MemoryPool(limits.queued_bytes)
        self._open = {pool: MemoryPool(limits.open_bytes) for pool in Pool if pool is not Pool.RELAYED}
        self._relayed = MemoryPool(2 * limits.open_bytes)
        self._strangers = MemoryPool(max(1, limits.queued_bytes // 4))
        self._strangers_of_brokers = MemoryPool(max(1, limits.queued_bytes // 4))
        self.responses = MemoryPool(limits.queued_bytes)
        """For answers to brokers, until the client has read them."""

    def adjust(self, limits: Limits) -> None:
        """Follow changed limits."""
        for pools, most_bytes in (
            ((self._large, self._medium), limits.queued_bytes // 2),
            ((self._from_brokers, self.responses), limits.queued_bytes),
            ((self._strangers, self._strangers_of_brokers), limits.queued_bytes // 4),
        ):
            for pool in pools:
                pool.resize(max(1, most_bytes))

    def arriving(self, key: int, size: int) -> AbstractAsyncContextManager[Reservation]:
        """Memory for a request about to be received; small ones need none."""
        if size <= _SMALL_BYTES:
            return contextlib.nullcontext(Reservation())
        if pool_of(key) is Pool.BROKERS_OWN:
            return self._from_brokers.take(size)
        return (self._medium if size <= _MEDIUM_BYTES else self._large).take(size)

    def before_login(self, size: int, *, is_brokers_own: bool) -> AbstractAsyncContextManager[Reservation]:
        """Memory for messages before authentication. Those on the brokers' own listener do not wait for those of other
        listeners. Most mechanisms' tokens are small and never wait."""
        if size <= _TOKEN_BYTES:
            return contextlib.nullcontext(Reservation())
        return (self._strangers_of_brokers if is_brokers_own else self._strangers).take(size)

    def opened(self, key: int, size: int) -> AbstractAsyncContextManager[Reservation]:
        """Memory for a decoded request."""
        pool = pool_of(key)
        return self.relayed(size) if pool is Pool.RELAYED else self._open[pool].take(size * _GROWTH)

    def relayed(self, size: int) -> AbstractAsyncContextManager[Reservation]:
        """Memory for a request that a broker answers, and for what is read ahead of the answer."""
        return self._relayed.take(max(size * _GROWTH, MOST_READ_AHEAD_BYTES))
