"""How much memory may requests take together, and which of them wait when it is used up?

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
    """A part of a pool for a request that arrives. While others wait, it has little time."""

    def __init__(self) -> None:
        self.is_complete = False
        self._is_hurried = False
        self._limit: asyncio.Timeout | None = None

    def hurry_with(self, limit: asyncio.Timeout) -> None:
        """What ends its arrival."""
        self._limit = limit
        if self._is_hurried:
            self.hurry()

    def hurry(self) -> None:
        """Others wait."""
        self._is_hurried = True
        if self._limit is not None and not self.is_complete and not self._limit.expired():
            soon = asyncio.get_running_loop().time() + HURRIED_S
            until = self._limit.when()
            self._limit.reschedule(soon if until is None else min(soon, until))


class MemoryPool:
    """So many bytes, given out to the smallest wish first: who asks for much can wait, who asks for little cannot be
    kept waiting by it.

    Whoever asks while anything is left gets all it asked for, so that no request is too large for ever; the pool may
    be exceeded by one request.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._held: dict[Reservation, None] = {}
        self.taken_bytes = 0

    @contextlib.asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[Reservation]:
        """Wait until there is memory, and give it back in the end."""
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
        """Wait until there is memory; `leave` gives it back."""
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
        """Give so much back, and let in those who wait."""
        self.taken_bytes -= size
        while self._waiting and self.taken_bytes < self._most_bytes:
            wanted, _, future = self._waiting.pop(0)
            if not future.done():
                self.taken_bytes += wanted
                future.set_result(None)


class MemoryPools:
    """Memory for requests that arrive, and for those that are open, from their decoding to their answer.

    Each kind has its own: changes may wait for brokers for a minute, relayed requests for a broker that hangs, and
    neither may keep reads waiting, nor any of them what brokers themselves ask.
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
        """Of brokers, until the client has taken them."""

    def arriving(self, key: int, size: int) -> AbstractAsyncContextManager[Reservation]:
        """MemoryPool for a request that is about to be received; small ones need none."""
        if size <= _SMALL_BYTES:
            return contextlib.nullcontext(Reservation())
        if pool_of(key) is Pool.BROKERS_OWN:
            return self._from_brokers.take(size)
        return (self._medium if size <= _MEDIUM_BYTES else self._large).take(size)

    def before_login(self, size: int, *, is_brokers_own: bool) -> AbstractAsyncContextManager[Reservation]:
        """Memory for what somebody says whom nobody knows yet. On the brokers' own listener it waits for no stranger
        of another; the tokens of most mechanisms are small, and wait for nobody.
        """
        if size <= _TOKEN_BYTES:
            return contextlib.nullcontext(Reservation())
        return (self._strangers_of_brokers if is_brokers_own else self._strangers).take(size)

    def opened(self, key: int, size: int) -> AbstractAsyncContextManager[Reservation]:
        """Memory for what a request becomes when it is decoded."""
        pool = pool_of(key)
        return self.relayed(size) if pool is Pool.RELAYED else self._open[pool].take(size * _GROWTH)

    def relayed(self, size: int) -> AbstractAsyncContextManager[Reservation]:
        """Memory for a request that a broker answers, and for what is read ahead of the answer."""
        return self._relayed.take(max(size * _GROWTH, MOST_READ_AHEAD_BYTES))
