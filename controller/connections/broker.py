"""How does one request travel over one connection to a broker, and its response back?"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Mapping
from typing import Protocol

from controller.connections.framing import Admit, FrameStream
from controller.wire.api_versions import CLIENT_ID, decode_answer, encode_question
from controller.wire.apis import VersionRange
from controller.wire.cursor import Malformed
from controller.wire.frames import OversizedFrame
from zk_layout.znodes.brokers import Endpoint

LARGEST_RESPONSE_BYTES = 100 * 1024 * 1024
_LARGEST_CORRELATION_ID = 2**31 - 1
_CORRELATION_ID = struct.Struct(">i")
_SURELY_GOOD = 0.85  # of a login's lifetime; Kafka's clients log in again then
_IN_REQUEST = 8  # after size, api key and version; a response begins with it


class Dialer(Protocol):
    """Opens connections that are ready for Kafka requests, authenticated if necessary."""

    async def open_connection(self, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """One new connection.

        Raises:
            OSError, ValueError, OverflowError: it could not be opened, or the address is invalid.
        """

    def lasts_s(self, writer: asyncio.StreamWriter) -> float:
        """How long after its opening the other end accepts requests on this connection, in seconds."""


class Broken(Exception):
    """The connection is unusable; says why in one line."""


class Unreachable(Broken):
    """The connection could not even be opened."""


class Ended(Broken):
    """The other end closed or reset the connection without an answer."""


class BrokerConnection:
    """One connection, opened at the first request and again after it was dropped; one request at a time."""

    def __init__(
        self, dialer: Dialer, endpoint: Endpoint, largest_response_bytes: int = LARGEST_RESPONSE_BYTES
    ) -> None:
        self._largest_response_bytes = largest_response_bytes
        self._dialer = dialer
        self._endpoint = endpoint
        self._stream: FrameStream | None = None
        self._until = 0.0
        self.openings = 0
        """How often it was opened: a different node may answer after each opening."""
        self._is_retired = False
        self._correlation_id = 0

    def next_correlation_id(self, count: int = 1) -> int:
        """A correlation id for a request; with `count`, the first of that many in a row."""
        first = self._correlation_id + 1
        if first + count > _LARGEST_CORRELATION_ID:
            first = 1
        self._correlation_id = first + count - 1
        return first

    async def ask(self, *chunks: bytes, timeout_s: float, admit: Admit | None = None) -> bytes:
        """Send a request and return its response, without its size. A long one is received when `admit` returns.

        Shape:
            The chunks are written one after the other and may be shared with other connections. The first begins
            with the size of all and holds the request's header.

        Units:
            `timeout_s`: for connecting, and again for sending and waiting.

        Raises:
            Unreachable, Ended, Broken: the connection is dropped, with everything in flight on it.
        """
        stream = await self._opened(timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await stream.send(*chunks)
                response = await stream.receive(admit)
            return self._checked(chunks[0], response)
        except TimeoutError:
            self.drop()
            raise Broken(f"no answer from {self._endpoint} within {timeout_s:g} s") from None
        except (OSError, OversizedFrame) as error:
            self.drop()
            kind = Ended if isinstance(error, OSError) else Broken
            raise kind(f"{self._endpoint}: {str(error) or type(error).__name__}") from None
        except BaseException:  # cancelled, or `Broken` already: half a response may be in flight
            self.drop()
            raise

    async def versions(self, timeout_s: float, client_id: str = CLIENT_ID) -> Mapping[int, VersionRange]:
        """The versions the broker supports, by api key.

        Raises:
            Unreachable, Broken: as from `ask`; also when the answer is malformed.
        """
        question = encode_question(client_id, self.next_correlation_id())
        frame = await self.ask(question, timeout_s=timeout_s)
        try:
            return decode_answer(frame).ranges
        except Malformed as error:
            self.drop()
            raise Broken(f"{self._endpoint} does not report its versions: {error}") from None

    @property
    def is_open(self) -> bool:
        """Whether the next request needs no new connection."""
        return self._stream is not None and not self._stream.is_ended and self._now() < self._until

    @property
    def is_ended(self) -> bool:
        """Whether the other end has closed the connection since the last request."""
        return self._stream is not None and self._stream.is_ended

    async def ends_within(self, time_s: float) -> bool:
        """Wait until the other end closes the connection, but no longer; return whether it has. Only between requests.

        The connection is dropped then. Without one, all the time passes.
        """
        if self._stream is None:
            await asyncio.sleep(time_s)
            return False
        with contextlib.suppress(OSError):  # of the connection, or the time is over
            async with asyncio.timeout(time_s):
                await self._stream.ended()
        if not self.is_ended:
            return False
        self.drop()
        return True

    def drop(self) -> None:
        """Close the connection at once, losing what was not written yet."""
        if self._stream is not None:
            self._stream.abort()
            self._stream = None

    def retire(self) -> None:
        """Drop the connection and open no other."""
        self._is_retired = True
        self.drop()

    async def _opened(self, timeout_s: float) -> FrameStream:
        if self._stream is not None:
            # Brokers close idle connections, and those whose login has expired; noticing it here saves a failed
            # attempt.
            if self.is_open:
                return self._stream
            self.drop()
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await self._dialer.open_connection(self._endpoint)
        except TimeoutError:
            raise Unreachable(f"no connection to {self._endpoint} within {timeout_s:g} s") from None
        except Exception as error:  # whatever a dialer raises, the next attempt may succeed
            raise Unreachable(f"{self._endpoint}: {str(error) or type(error).__name__}") from None
        self._stream = FrameStream(reader, writer, self._largest_response_bytes)
        self.openings += 1
        self._until = self._now() + _SURELY_GOOD * self._dialer.lasts_s(writer)
        if self._is_retired:
            self.drop()
            raise Broken(f"{self._endpoint} is no longer the broker's address")
        return self._stream

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _checked(self, request: bytes, response: bytes | None) -> bytes:
        if response is None:
            raise Ended(f"{self._endpoint} closed the connection without an answer")
        if len(response) < _CORRELATION_ID.size:
            raise Broken(
                f"{self._endpoint} answered {len(response)} bytes; the server there does not speak Kafka's protocol"
            )
        (asked,), (answered,) = _CORRELATION_ID.unpack_from(request, _IN_REQUEST), _CORRELATION_ID.unpack_from(response)
        if answered != asked:
            raise Broken(f"the response of {self._endpoint} has correlation id {answered}, the request {asked}")
        return response
