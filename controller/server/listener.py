"""Where does the controller listen, and who is let in?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct

from controller.connections.framing import FrameStream
from controller.core.effects import Answer
from controller.core.errors import ErrorCode
from controller.core.events import Asked
from controller.core.replies import Reply
from controller.core.requests import Caller, Request
from controller.server.connection import Connection, Limits, ServerObserver, Service
from controller.server.inquiries import Inquiries
from controller.server.relay import Brokers, Relay
from zk_layout.ids import BrokerId

_log = structlog.get_logger(__name__)
_BACKLOG = 512
_ONE_WARNING_IN_S = 10.0


class ListenerSettings(Struct, frozen=True):
    """One address to listen on; port 0 takes a free one. `relays` must be false where clients have an identity."""

    name: str
    host: str
    port: int
    relays: bool = True


class Unobserved:
    """An observer that looks away."""

    def answered(self, listener: str, api_key: int, took_s: float) -> None:
        """Nothing."""

    def connections_changed(self, count: int) -> None:
        """Nothing."""

    def client_disconnected(self, reason: str) -> None:
        """Nothing."""


class Server:
    """The Kafka protocol server; it lives as long as the process and serves one term after the other."""

    def __init__(
        self,
        own_id: BrokerId,
        listeners: Sequence[ListenerSettings],
        *,
        brokers: Brokers | None = None,
        limits: Limits | None = None,
        observer: ServerObserver | None = None,
    ) -> None:
        """Nothing listens yet. Without `brokers` nothing is relayed."""
        self._listeners = listeners
        self._brokers = brokers
        self._inquiries = Inquiries()
        self._limits = limits or Limits()
        self._observer = observer or Unobserved()
        self._service = Service(own_id, self._inquiries, self._observer, self._limits)
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], FrameStream] = {}
        self._warned_at = -_ONE_WARNING_IN_S

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener."""
        return {
            settings.name: server.sockets[0].getsockname()[1]
            for settings, server in zip(self._listeners, self._servers, strict=True)
        }

    async def start(self) -> None:
        """Listen everywhere.

        Raises:
            OSError: an address is taken or not ours; then nothing listens.
        """
        try:
            for settings in self._listeners:
                self._servers.append(
                    await asyncio.start_server(self._welcome(settings), settings.host, settings.port, backlog=_BACKLOG)
                )
        except OSError:
            await self.close()
            raise

    def begin_term(self, emit: Callable[[Asked], None]) -> None:
        """From now on requests become events."""
        self._inquiries.begin_term(emit)

    async def ask(self, request: Request, caller: Caller) -> Reply:
        """The answer to a request that comes from this process itself.

        Raises:
            NothingKnown: a description of the cluster was asked for, and this process does not lead.
        """
        return await self._inquiries.ask(request, caller)

    def answer(self, answer: Answer) -> None:
        """Carry out an `Answer`; nothing happens if the client has gone."""
        self._inquiries.answer(answer)

    def refuse_all(self, error: ErrorCode = ErrorCode.NOT_CONTROLLER) -> None:
        """The term is over: refuse every unanswered request, and every further one until the next term."""
        self._inquiries.refuse_all(error)

    async def close(self) -> None:
        """Stop listening and hang up on everybody."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for task, stream in self._connections.items():
            stream.abort()
            task.cancel()
        if self._connections:
            await asyncio.wait(tuple(self._connections))

    def _welcome(self, settings: ListenerSettings) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            host, port = (writer.get_extra_info("peername") or ("?", 0))[:2]
            if len(self._connections) >= self._limits.most_connections:
                self._turn_away(host)
                writer.transport.abort()
                return
            relay = Relay(self._brokers, settings.name) if self._brokers and settings.relays else None
            stream = FrameStream(reader, writer, self._limits.most_request_bytes)
            connection = Connection(self._service, stream, settings.name, f"{host}:{port}", relay)
            task = asyncio.get_running_loop().create_task(connection.serve())
            self._connections[task] = stream
            task.add_done_callback(self._left)
            self._observer.connections_changed(len(self._connections))

        return welcome

    def _left(self, task: asyncio.Task[None]) -> None:
        del self._connections[task]
        self._observer.connections_changed(len(self._connections))

    def _turn_away(self, host: str) -> None:
        self._observer.client_disconnected("too many connections")
        now = asyncio.get_running_loop().time()
        if now - self._warned_at >= _ONE_WARNING_IN_S:
            self._warned_at = now
            _log.warning(
                "client connection refused: too many connections",
                client=host,
                limit=self._limits.most_connections,
                hint="if these clients are legitimate, raise max.connections",
            )
