"""What does a broker on the other end of a link do? What a test's script says, on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from controller.lab.listening import MessageServer
from controller.wire.broker_side import Told, decode_command, encode_acknowledgement
from zk_layout.znodes.brokers import Endpoint

Script = Callable[["Peer", Told, asyncio.StreamWriter], Awaitable[None]]


async def acknowledge(_peer: Peer, told: Told, writer: asyncio.StreamWriter) -> None:
    """As every healthy broker does."""
    writer.write(encode_acknowledgement(told))


class Peer:
    """Listens, keeps every command that arrives, and does with each what the script says."""

    def __init__(self, script: Script = acknowledge) -> None:
        self.script = script
        self.told: list[Told] = []
        self._server = MessageServer(self._serve)
        self.start = self._server.start
        self.stop = self._server.stop

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return Endpoint("INSIDE", "127.0.0.1", self.port)

    @property
    def port(self) -> int:
        """Its port; the same after it went away and came back."""
        return self._server.port

    @property
    def connections(self) -> int:
        """How many there have been."""
        return self._server.connections

    async def _serve(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        told = decode_command(frame)
        self.told.append(told)
        await self.script(self, told, writer)


@contextlib.asynccontextmanager
async def listening(script: Script = acknowledge) -> AsyncIterator[Peer]:
    """A peer for the time of a test."""
    peer = Peer(script)
    await peer.start()
    try:
        yield peer
    finally:
        await peer.stop()
