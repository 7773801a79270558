"""How do whole messages leave and enter a stream, bounded in size?"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from controller.wire.frames import FrameBuffer

Admit = Callable[[int], Awaitable[None]]
_READ_BYTES = 256 * 1024
_SLICE_BYTES = 256 * 1024
_SMALL_BYTES = 16 * 1024


class FrameStream:
    """Messages over one connection; callers set the timeouts.

    Memory is allocated for what has arrived, never for an announced size. Reading stops while messages are not taken,
    so a sender cannot pile them up here; writing waits for the reader on the other end.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most_bytes: int) -> None:
        """Takes over the streams."""
        self._reader = reader
        self._writer = writer
        self._buffer = FrameBuffer(most_bytes)
        self._whole: deque[bytes] = deque()

    @property
    def is_ended(self) -> bool:
        """Whether the other end has hung up."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def receive(self, admit: Admit | None = None) -> bytes | None:
        """The next message without its size; None when the other end hung up. A message longer than what has arrived so
        far is received only when `admit`, called with its size, returns.

        Raises:
            OversizedFrame: it announces more than is accepted.
            OSError: the connection broke.
        """
        while not self._whole:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                return None
            self._whole.extend(self._buffer.feed(data))
            if admit is not None and not self._whole and self._buffer.announced_bytes is not None:
                await admit(self._buffer.announced_bytes)
                admit = None
        return self._whole.popleft()

    async def send(self, *chunks: bytes) -> None:
        """Write a message that includes its size, and wait until the other end reads it.

        A large one in slices, because a transport copies what the socket does not take at once: many megabytes shared
        by all brokers would become as many copies. A small one at once: one call of the system, and one packet.

        Raises:
            OSError: the connection broke.
        """
        if sum(map(len, chunks)) <= _SMALL_BYTES:
            chunks = (b"".join(chunks),)
        for chunk in chunks:
            view = memoryview(chunk)
            for at in range(0, len(view), _SLICE_BYTES):
                self._writer.write(view[at : at + _SLICE_BYTES])
                await self._writer.drain()

    async def ended(self) -> None:
        """Wait until the other end hangs up; never while a message is awaited. What comes unasked ends it, too.

        Raises:
            OSError: the connection broke.
        """
        if await self._reader.read(1):
            self.abort()

    def close(self) -> None:
        """Close after writing what the operating system still accepts at once."""
        if not self._writer.is_closing():
            self._writer.close()

    def abort(self) -> None:
        """Close at once, losing what was not written yet."""
        self._writer.transport.abort()
