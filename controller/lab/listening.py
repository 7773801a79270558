"""How does a server on this machine speak Kafka's protocol without being one of Kafka's?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from controller.connections.framing import FrameStream
from controller.wire.frames import OversizedFrame

_MOST_BYTES = 100 * 1024 * 1024  # Kafka's `socket.request.max.bytes`
_READ_AHEAD_BYTES = 4 * 1024 * 1024
_BACKLOG = 128

Answering = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
"""Receives each message without its size; writes the answer, or does what a faulty server would do."""


class MessageServer:
    """Listens on 127.0.0.1; answers the messages of each connection one after the other."""

    def __init__(self, answering: Answering, port: int = 0) -> None:
        """Port 0 takes a free one, and keeps it."""
        self.port = port
        self.connections = 0
        self._answering = answering
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Listen, on the same port as before if there was one.

        Raises:
            OSError: the port is taken.
        """
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, limit=_READ_AHEAD_BYTES, backlog=_BACKLOG
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and close all connections."""
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
        stream = FrameStream(reader, writer, _MOST_BYTES)
        try:
            with contextlib.suppress(OSError, OversizedFrame):
                while (message := await stream.receive()) is not None:
                    await self._answering(message, writer)
                    await writer.drain()
        finally:
            self._writers.discard(writer)
            stream.abort()
