"""What does a broker on the other end of a link do? What a test's script says, on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

from controller.wire.broker_side import Told, decode_command, encode_acknowledgement
from zk_layout.znodes.brokers import Endpoint

Script = Callable[["Peer", Told, asyncio.StreamWriter], Awaitable[None]]


async def acknowledge(_peer: Peer, told: Told, writer: asyncio.StreamWriter) -> None:
    """As every healthy broker does."""
    writer.write(encode_acknowledgement(told))


class Peer:
    """Listens, keeps every command that arrives, and does with each what the script says."""

    def __init__(self, script: Script = acknowledge) -> None:
        """Nothing listens yet."""
        self.script = script
        self.told: list[Told] = []
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return Endpoint("INSIDE", "127.0.0.1", self.port)

    async def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Go away, with all connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in tuple(self._writers):
            writer.transport.abort()
        while self._writers:
            await asyncio.sleep(0.001)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                told = decode_command(await reader.readexactly(size))
                self.told.append(told)
                await self.script(self, told, writer)
        self._writers.discard(writer)
        writer.transport.abort()


@contextlib.asynccontextmanager
async def listening(script: Script = acknowledge) -> AsyncIterator[Peer]:
    """A peer for the time of a test."""
    peer = Peer(script)
    await peer.start()
    try:
        yield peer
    finally:
        await peer.stop()
