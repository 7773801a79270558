"""How are requests read from a client's socket, and answers written to it, without holding more than one?

This process buffers only the one frame that is being read: what a client sends beyond it, or does not read, stays in
the operating system's socket buffers, and stops the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct

from controller.connections.wires import Opening, PlainWire
from controller.wire.frames import OversizedFrame

_FIRST_BYTES = 64 * 1024
_SLICE_BYTES = 256 * 1024
_SIZE = struct.Struct(">i")
_AT_ONCE = struct.pack("ii", 1, 0)


class FrameSocket:
    """Messages over one accepted connection. Only one task may read, and only one may write.

    Memory grows with what has arrived, never with what a size announces.
    """

    def __init__(self, connection: socket.socket, opening: Opening = PlainWire) -> None:
        """Takes over the socket. `opening` makes the wire for its bytes."""
        self._socket = connection
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.wire = opening(connection)

    async def size(self, most_bytes: int) -> int | None:
        """The size of the next message; None when the other end hung up.

        Raises:
            OversizedFrame: it announces more than is accepted.
            OSError: the connection broke.
        """
        head = bytearray(_SIZE.size)
        if not await self._fill(head, 0):
            return None
        (size,) = _SIZE.unpack(head)
        check_size(size, most_bytes)
        return int(size)

    async def bytes_of(self, count: int, first: bytes = b"") -> bytes | None:
        """The next `count` bytes of a message, with `first` in front; None when the other end hung up."""
        end = len(first) + count
        held = bytearray(first)
        while len(held) < end:
            at = len(held)
            held.extend(bytes(min(end, max(2 * at, _FIRST_BYTES)) - at))
            if not await self._fill(held, at):
                return None
        return bytes(held)

    async def skip(self, count: int) -> bool:
        """Read and discard `count` bytes; False if the other end hung up before."""
        waste = bytearray(min(count, _SLICE_BYTES))
        while count:
            size = min(count, len(waste))
            if not await self._fill(waste, len(waste) - size):
                return False
            count -= size
        return True

    async def send(self, *chunks: bytes, patience_s: float) -> None:
        """Send a message to the other end, which may be slow but must keep reading.

        Raises:
            TimeoutError: nothing more was read for `patience_s`.
            OSError: the connection broke.
        """
        for chunk in chunks:
            with memoryview(chunk) as view:
                for at in range(0, len(view), _SLICE_BYTES):
                    async with asyncio.timeout(patience_s):
                        await self.wire.send(view[at : at + _SLICE_BYTES])

    def has_hung_up(self) -> bool:
        """Whether the other end sends nothing more, even if some of what it sent is still unread."""
        if self._socket.fileno() < 0:
            return True
        looking = select.poll()
        looking.register(self._socket, select.POLLRDHUP)
        return bool(looking.poll(0))

    def close(self) -> None:
        """Close; no task may be reading or writing any more."""
        self._socket.close()

    def abort(self) -> None:
        """Close with a reset: the other end notices at once, and nothing lingers in the operating system."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._socket.close()

    async def _fill(self, target: bytearray, at: int) -> bool:
        with memoryview(target) as view:
            while at < len(view):
                with view[at:] as left:
                    count = await self.wire.receive_into(left)
                if not count:
                    return False
                at += count
        return True


def check_size(size: int, most_bytes: int) -> None:
    """Refuse a message that is too large before reading any of it.

    Raises:
        OversizedFrame: it is.
    """
    if not 0 <= size <= most_bytes:
        raise OversizedFrame(
            f"a message announces {size} bytes where 0 to {most_bytes} are accepted; "
            "the sender must speak the plain Kafka protocol here and send less at once"
        )
