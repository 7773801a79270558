"""How is a connection on this machine cut, slowed down or left half open? By what stands between its two ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from enum import Enum
from typing import Any, TypeVar

from controller.lab.ports import free_port

T = TypeVar("T")
_CHUNK_BYTES = 64 * 1024
_BACKLOG = 256
DELAY_S = 0.4
SLOW_BYTES_A_SECOND = 64 * 1024


class Mode(Enum):
    """What becomes of connections through a link."""

    OPEN = "open"
    CUT = "cut"
    """Existing ones are reset, new ones are reset at once."""
    SLOW = "slow"
    """Each chunk arrives late, and few bytes a second do."""
    HALF_OPEN = "half open"
    """The far end is gone without a word: whatever is sent disappears, existing ones never work again."""


class Link:
    """A port of its own in front of a port on this machine."""

    def __init__(self, name: str, target: int) -> None:
        self.name = name
        self.port = free_port()
        self.target = target
        self.mode = Mode.OPEN
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._alone: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        """Accept connections from now on."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=_BACKLOG)

    def close(self) -> None:
        """Listen no more, and break all connections."""
        if self._server is not None:
            self._server.close()
        for writer in (*(end for pair in self._pairs for end in pair), *self._alone):
            writer.transport.abort()

    async def become(self, mode: Mode) -> None:
        """From now on connections are treated like this; none that was half open comes back to life."""
        self.mode = mode
        for near, far in tuple(self._pairs):
            if mode is Mode.CUT:
                near.transport.abort()
                far.transport.abort()
            elif mode is Mode.HALF_OPEN:
                far.transport.abort()
        if mode is Mode.CUT:
            for writer in tuple(self._alone):
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.mode is Mode.CUT:
                return
            if self.mode is Mode.HALF_OPEN:
                await self._swallow(reader, writer)
                return
            await self._connect(reader, writer)
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        pair = (writer, far_writer)
        self._pairs.add(pair)
        try:
            async with asyncio.TaskGroup() as pumps:
                back = pumps.create_task(self._pump(far_reader, writer))
                await self._pump(reader, far_writer)
                if self.mode is Mode.HALF_OPEN:
                    back.cancel()
                    await self._swallow(reader, writer)
        finally:
            self._pairs.discard(pair)
            far_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand on what comes until one end closes."""
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                if self.mode is Mode.SLOW:
                    await asyncio.sleep(DELAY_S + len(data) / SLOW_BYTES_A_SECOND)
                if self.mode is Mode.HALF_OPEN:
                    return
                writer.write(data)
                await writer.drain()
        if self.mode is not Mode.HALF_OPEN:
            writer.close()

    async def _swallow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._alone.add(writer)
        try:
            with contextlib.suppress(OSError):
                while await reader.read(_CHUNK_BYTES):
                    pass
        finally:
            self._alone.discard(writer)


class Proxies:
    """The event loop of all links, in a thread of its own."""

    def __init__(self) -> None:
        self._links: list[Link] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def link(self, name: str, target: int) -> Link:
        """A link that is open."""
        link = Link(name, target)
        self._run(link.listen())
        self._links.append(link)
        return link

    def become(self, link: Link, mode: Mode) -> None:
        """Treat the connections of a link like this from now on."""
        self._run(link.become(mode))

    def stop(self) -> None:
        """Break all connections and listen no more."""
        with contextlib.suppress(TimeoutError):
            self._run(self._close_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _close_all(self) -> None:
        for link in self._links:
            link.close()
        await asyncio.sleep(0.01)  # for the transports to be told
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)
