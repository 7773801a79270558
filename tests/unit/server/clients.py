"""How does a test speak to a server? Over a real socket, one message at a time or many."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any

from controller.connections.framing import FrameStream
from controller.core.messages.effects import Answer
from controller.core.messages.events import Asked
from controller.core.messages.replies import Reply
from controller.core.messages.requests import Request
from controller.server.listener import ListenerSettings, Server
from controller.server.relay import Brokers
from controller.settings.limits import Limits
from controller.wire.api_versions import ApiVersionsReply
from controller.wire.frames import RequestHeader, framed
from controller.wire.requests import ApiVersionsRequest
from tests.equipment.client_side import api_key_of, decode_reply, encode_request
from zk_layout.ids import BrokerId

OWN_ID = BrokerId(1000)
MOST_BYTES = 1024 * 1024


class Client:
    """One connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._stream = FrameStream(reader, writer, MOST_BYTES)
        self._correlation_id = 0

    def send(self, request: Request | ApiVersionsRequest, version: int = 0) -> RequestHeader:
        self._correlation_id += 1
        header = RequestHeader(api_key_of(request), version, self._correlation_id, "a test", reads_additions=True)
        self.writer.write(encode_request(header, request))
        return header

    async def receive(self, header: RequestHeader) -> Reply | ApiVersionsReply:
        return decode_reply(header, await self.frame())

    async def ask(self, request: Request | ApiVersionsRequest, version: int = 0) -> Any:
        return await self.receive(self.send(request, version))

    async def frame(self) -> bytes:
        frame = await self._stream.receive()
        assert frame is not None, "hung up on"
        return frame

    async def ask_raw(self, message: bytes) -> bytes:
        self.writer.write(framed(message))
        return await self.frame()

    async def is_hung_up_on(self) -> bool:
        try:
            async with asyncio.timeout(5):
                return await self._stream.receive() is None
        except ConnectionResetError:
            return True


class Desk:
    """A term that records requests, and answers on demand."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def __call__(self, asked: Asked) -> None:
        self.asked.append(asked)

    async def until(self, count: int) -> list[Asked]:
        while len(self.asked) < count:
            await asyncio.sleep(0.002)
        return self.asked

    def answer(self, server: Server, asked: Asked, reply: Reply) -> None:
        server.answer(Answer(asked.call, reply))


@contextlib.asynccontextmanager
async def serving(
    limits: Limits | None = None,
    brokers: Brokers | None = None,
    listeners: Sequence[ListenerSettings] = (ListenerSettings("OUTSIDE", "127.0.0.1", 0),),
    inter_broker_listener: str | None = None,
    own_id: BrokerId = OWN_ID,
) -> AsyncIterator[Server]:
    """A server for the time of a test."""
    server = Server(own_id, listeners, brokers=brokers, limits=limits, inter_broker_listener=inter_broker_listener)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def connected(
    server: Server, listener: str = "OUTSIDE", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Client]:
    """A client for the time of a test."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[listener], ssl=tls)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()
