"""How does one request travel over one connection to a broker, and its response back?"""

from __future__ import annotations

import asyncio
import struct
from typing import Protocol

from controller.brokers.dialing import Dialer
from zk_layout.znodes.brokers import Endpoint

LARGEST_RESPONSE_BYTES = 100 * 1024 * 1024
_SLICE_BYTES = 256 * 1024
_SIZE = struct.Struct(">i")


class Broken(Exception):
    """The connection is of no use any more; says why in one line."""


class Sendable(Protocol):
    """A request as bytes to write one after the other, beginning with their size."""

    @property
    def correlation_id(self) -> int:
        """What its response must begin with."""

    @property
    def chunks(self) -> tuple[bytes, ...]:
        """The bytes; never changed, since they may be shared."""


class Exchange:
    """One connection, opened at the first request and again after it was dropped.

    Raises:
        Broken: from `ask`, after dropping the connection.
    """

    def __init__(self, dialer: Dialer, endpoint: Endpoint) -> None:
        """Nothing is opened yet."""
        self._dialer = dialer
        self._endpoint = endpoint
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._is_retired = False

    async def ask(self, request: Sendable, timeout_s: float) -> bytes:
        """Send a request and wait for its response, without its size; connecting, and sending and waiting, each
        have the whole time."""
        try:
            reader, writer = await asyncio.wait_for(self._connected(), timeout_s)
            return await asyncio.wait_for(_converse(reader, writer, request), timeout_s)
        except TimeoutError:
            self.drop()
            raise Broken(f"no answer from {self._endpoint} within {timeout_s:g} s") from None
        except asyncio.IncompleteReadError:
            self.drop()
            raise Broken(f"{self._endpoint} closed the connection without an answer") from None
        except OSError as error:
            self.drop()
            raise Broken(f"{self._endpoint}: {str(error) or type(error).__name__}") from None
        except BaseException:  # cancelled, or `Broken` already: half a response may be under way
            self.drop()
            raise

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None:
            reader, writer = self._streams
            # Brokers close idle connections; noticing it here spares a failed attempt.
            if not reader.at_eof() and not writer.is_closing():
                return self._streams
            self.drop()
        self._streams = await self._dialer.open_connection(self._endpoint)
        if self._is_retired:
            raise Broken(f"{self._endpoint} is no longer the broker's address")
        return self._streams

    def drop(self) -> None:
        """Close the connection at once, losing what was not written yet."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    def retire(self) -> None:
        """Drop the connection and open no other."""
        self._is_retired = True
        self.drop()


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Sendable) -> bytes:
    for chunk in request.chunks:
        await _write(writer, chunk)
    (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    if not _SIZE.size <= size <= LARGEST_RESPONSE_BYTES:
        raise Broken(f"the response announces {size} bytes; whoever listens there does not speak Kafka's protocol")
    response = await reader.readexactly(size)
    (correlation_id,) = _SIZE.unpack_from(response)
    if correlation_id != request.correlation_id:
        raise Broken(f"the response has correlation id {correlation_id}, the request {request.correlation_id}")
    return response


async def _write(writer: asyncio.StreamWriter, chunk: bytes) -> None:
    """In slices, because a transport copies what the socket does not take at once: many megabytes shared by all
    brokers would become as many copies."""
    view = memoryview(chunk)
    for at in range(0, len(view), _SLICE_BYTES):
        writer.write(view[at : at + _SLICE_BYTES])
        await writer.drain()
