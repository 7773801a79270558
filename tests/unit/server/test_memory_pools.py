"""Requests wait when there is no memory, and no kind waits for another."""

from __future__ import annotations

import asyncio

from controller.server.memory_pools import MemoryPool, MemoryPools
from controller.settings.limits import Limits
from controller.wire.apis import ApiKey


def test_a_request_while_anything_is_left_gets_all_and_the_others_wait() -> None:
    async def story() -> None:
        pool, entered = MemoryPool(100), []

        async def visit(name: str, size: int, until: asyncio.Event) -> None:
            async with pool.take(size):
                entered.append(name)
                await until.wait()

        ends = [asyncio.Event() for _ in range(4)]
        tasks = [
            asyncio.create_task(visit(name, size, end))
            for name, size, end in zip("abcd", (60, 500, 1, 2), ends, strict=True)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (entered, pool.taken_bytes) == (["a", "b"], 560)

        tasks[2].cancel()  # gives up while it waits
        ends[0].set()
        await asyncio.sleep(0.01)
        assert entered == ["a", "b"]
        ends[1].set()
        await asyncio.sleep(0.01)
        assert entered == ["a", "b", "d"]
        ends[3].set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert pool.taken_bytes == 0

    asyncio.run(story())


def test_what_brokers_ask_never_waits_for_clients() -> None:
    async def story() -> None:
        pools = MemoryPools(Limits(queued_bytes=1, open_bytes=1))
        async with (
            asyncio.timeout(5),
            pools.arriving(ApiKey.METADATA, 1_000_000),
            pools.opened(ApiKey.METADATA, 1_000_000),
            pools.opened(ApiKey.CREATE_TOPICS, 1_000_000),
            pools.opened(10, 1_000_000),
            pools.arriving(ApiKey.ALTER_PARTITION, 1_000_000),
            pools.opened(ApiKey.ALTER_PARTITION, 1_000_000),
        ):
            pass

    asyncio.run(story())
