"""What does a broker on the other end of a link do? What a test's script says, on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from controller.lab.listening import MessageServer
from controller.wire.broker_side import ReceivedCommand, decode_command, encode_acknowledgement
from zk_layout.znodes.brokers import Endpoint

Script = Callable[["Peer", ReceivedCommand, asyncio.StreamWriter], Awaitable[None]]


async def acknowledge(_peer: Peer, received: ReceivedCommand, writer: asyncio.StreamWriter) -> None:
    """Acknowledge, as every healthy broker does."""
    writer.write(encode_acknowledgement(received))


class Peer:
    """Listens, keeps every command that arrives, and treats each as the script says."""

    def __init__(self, script: Script = acknowledge) -> None:
        self.script = script
        self.received: list[ReceivedCommand] = []
        self._server = MessageServer(self._serve)
        self.start = self._server.start
        self.stop = self._server.stop

    @property
    def endpoint(self) -> Endpoint:
        """The address it listens on."""
        return Endpoint("INSIDE", "127.0.0.1", self.port)

    @property
    def port(self) -> int:
        """Its port; the same after it went away and came back."""
        return self._server.port

    @property
    def connections(self) -> int:
        """The number of connections so far."""
        return self._server.connections

    async def _serve(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        received = decode_command(frame)
        self.received.append(received)
        await self.script(self, received, writer)


@contextlib.asynccontextmanager
async def listening(script: Script = acknowledge) -> AsyncIterator[Peer]:
    """A peer for the time of a test."""
    peer = Peer(script)
    await peer.start()
    try:
        yield peer
    finally:
        await peer.stop()
