"""On which addresses does the controller listen, and how is one served?"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog
from msgspec import Struct

from controller.connections.frame_socket import FrameSocket
from controller.connections.wires import PlainWire, TlsWire, Wire
from controller.core.clients.authorization import Withheld, anybody
from controller.core.messages.effects import Answer, Effect
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, Event
from controller.core.messages.replies import BrokerConfig, Reply
from controller.core.messages.requests import Caller, Request
from controller.runtime.pump import Took
from controller.runtime.supervision import Troubles
from controller.server.accepting import Acceptor, Welcome, listen, reason_of_failure
from controller.server.connection import Connection
from controller.server.connection_quotas import OpenConnection, TurnedAway
from controller.server.relay import Brokers, Relay
from controller.server.service import AuthorizerOfTypes, Judged, ListenerAccess, ServerObserver, Service
from controller.settings.limits import Limits
from zk_layout.ids import BrokerId

_log = structlog.get_logger(__name__)
_UNLIMITED = 2**31 - 1


class ListenerSettings(Struct, frozen=True):
    """One address to listen on; port 0 takes a free one.

    Shape:
        `access` says how clients authenticate.
    """

    name: str
    host: str
    port: int
    relays: bool = True
    access: ListenerAccess = ListenerAccess()


def _part(listener: str) -> str:
    """The name under which a listener's troubles are reported."""
    return f"listener {listener}"


class Unobserved:
    """An observer that ignores everything."""

    def answered(self, listener: str, api_key: int, took_s: float) -> None:
        """Do nothing."""

    def connections_changed(self, count: int) -> None:
        """Do nothing."""

    def client_disconnected(self, reason: str) -> None:
        """Do nothing."""


class Server:
    """The Kafka protocol server. Lives as long as the process and serves one term after another."""

    def __init__(
        self,
        own_id: BrokerId,
        listeners: Sequence[ListenerSettings],
        *,
        brokers: Brokers | None = None,
        limits: Limits | None = None,
        inter_broker_listener: str | None = None,
        observer: ServerObserver | None = None,
    ) -> None:
        """Without `brokers`, nothing is relayed. Listens only after `start`."""
        self._listeners = listeners
        self._brokers = brokers
        self._limits = limits or Limits()
        self._observer = observer or Unobserved()
        self._service = Service(own_id, self._observer, self._limits, inter_broker_listener, brokers)
        self._inquiries = self._service.inquiries
        self._sockets: dict[str, list[socket.socket]] = {}
        self._acceptors: dict[asyncio.Task[None], tuple[Acceptor, ListenerSettings]] = {}
        self._troubles = Troubles()
        self._not_accepting: set[str] = set()
        self._connections: dict[asyncio.Task[None], tuple[OpenConnection, FrameSocket]] = {}

    def judge(self, is_allowed_for_any: AuthorizerOfTypes, judged: Judged) -> None:
        """From now on, decide rights by resource type with `is_allowed_for_any` and report decisions about clients'
        rights to `judged`."""
        self._service.is_allowed_for_any = is_allowed_for_any
        self._service.judged = judged

    def withhold(self, withheld: Callable[[], Withheld | None]) -> None:
        """From now on, serve and forward requests of clients only while `withheld` gives no reason. Without an
        authorizer here, forward only to nodes that say they have none either."""
        self._service.withheld = withheld
        if self._brokers is not None:
            self._brokers.shuns_judges = self._brokers.is_allowed is anybody

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener."""
        return {name: int(sockets[0].getsockname()[1]) for name, sockets in self._sockets.items()}

    async def start(self) -> None:
        """Listen on every address.

        Raises:
            OSError: an address is taken or not local; then nothing listens.
        """
        try:
            for settings in self._listeners:
                self._sockets[settings.name] = await listen(settings.host, settings.port, self._limits)
        except OSError:
            await self.close()
            raise
        for settings in self._listeners:
            welcome = self._welcome(settings)
            heard = partial(self._accepted, settings.name)
            for listening in self._sockets[settings.name]:
                acceptor = Acceptor(listening, welcome, self._most_new_per_s(settings), heard)
                self._acceptors[asyncio.create_task(acceptor.run())] = acceptor, settings

    def adjust(self, limits: Limits) -> None:
        """Follow changed limits. The sizes of the system's buffers stay as they were."""
        self._limits = limits
        self._service.adjust(limits)
        for acceptor, settings in self._acceptors.values():
            acceptor.most_per_s = self._most_new_per_s(settings)

    def relay_within(self, timeout_s: float) -> None:
        """Wait so long for brokers' answers to relayed requests from now on."""
        if self._brokers is not None:
            self._brokers.timeout_s = timeout_s

    def _most_new_per_s(self, settings: ListenerSettings) -> int:
        return _UNLIMITED if self._is_brokers_own(settings) else self._limits.most_new_per_s

    @property
    def cannot_accept(self) -> bool:
        """Whether a listener failed to accept its last connection."""
        return bool(self._not_accepting)

    def report_to(self, troubles: Troubles) -> None:
        """Report to `troubles` when connections cannot be accepted."""
        self._troubles = troubles
        for listener in self._listeners:
            troubles.expect(_part(listener.name))

    def ask_for_quotas(self, limits_users: Callable[[], bool]) -> None:
        """From now on, ask `limits_users` whether any quota depends on a request's user."""
        self._service.limits_users = limits_users

    def show(self, own_configs: Callable[[], Mapping[str, BrokerConfig]]) -> None:
        """Show `own_configs` to clients that take this node for a broker."""
        self._service.own_configs = own_configs

    def show_life(self, is_cut_off: Callable[[], bool]) -> None:
        """Tell standbys that this node is alive, except while `is_cut_off` returns True."""
        self._service.is_cut_off = is_cut_off

    def expect(self, client_id: str) -> Callable[[], bool]:
        """Watch for a client with this id. The function returned says whether it has come, and stops watching."""
        expected = self._service.expected
        expected[client_id] = False
        return lambda: expected.pop(client_id, False)

    def turned(self, now: float, events: Sequence[Event], effects: Sequence[Effect], took: Took, left: int) -> None:  # noqa: ARG002 (what the term heard is enough)
        """Drop cached metadata answers that this turn's events may have made stale."""
        self._service.metadata.changed(events)

    def begin_term(self, emit: Callable[[Asked], None]) -> None:
        """Turn requests into events of this term."""
        self._service.metadata.forget()
        self._inquiries.begin_term(emit)

    async def ask(self, request: Request, caller: Caller) -> Reply:
        """The answer to a request of this process itself.

        Raises:
            NotLeading: the request describes the cluster, and this process does not lead.
        """
        return await self._inquiries.ask(request, caller)

    def answer(self, answer: Answer) -> None:
        """Carry out an `Answer`; does nothing if the client has gone."""
        self._inquiries.answer(answer)

    def refuse_all(self, error: ErrorCode = ErrorCode.NOT_CONTROLLER) -> None:
        """The term is over: refuse every unanswered request, and new ones until the next term."""
        self._service.metadata.forget()
        self._inquiries.refuse_all(error)

    async def close(self) -> None:
        """Stop listening and close every connection."""
        acceptors, self._acceptors = self._acceptors, {}
        for task in (*acceptors, *self._connections):
            task.cancel()
        await asyncio.gather(*acceptors, *self._connections, return_exceptions=True)
        for sockets in self._sockets.values():
            for listening in sockets:
                listening.close()
        self._sockets.clear()
        for pool in (self._service.beside, self._service.handshakes, self._service.brokers_handshakes):
            pool.shutdown(wait=False, cancel_futures=True)

    def _accepted(self, listener: str, failure: Exception | None) -> None:
        part = _part(listener)
        if failure is None:
            self._not_accepting.discard(listener)
            self._troubles.right(part)
            return
        self._not_accepting.add(listener)
        unexpected = None if isinstance(failure, OSError) else failure
        self._troubles.wrong(part, "a connection cannot be accepted", reason_of_failure(failure), unexpected)

    def _is_brokers_own(self, settings: ListenerSettings) -> bool:
        return settings.name == self._service.quotas.inter_broker_listener and len(self._listeners) > 1

    def _welcome(self, settings: ListenerSettings) -> Welcome:
        loop, tls, service = asyncio.get_running_loop(), settings.access.tls, self._service
        handshakes = service.brokers_handshakes if self._is_brokers_own(settings) else service.handshakes

        def opening(accepted: socket.socket) -> Wire:
            return PlainWire(accepted) if tls is None else TlsWire(accepted, tls.context(), handshakes)

        def welcome(accepted: socket.socket, host: str, port: int) -> None:
            wire = FrameSocket(accepted, opening)
            connection = OpenConnection(settings.name, host, loop.time())
            try:
                leaving = self._service.quotas.enter(connection)
            except TurnedAway as reason:
                self._turn_away(str(reason), host, settings.name)
                wire.abort()
                return
            if leaving is not None:
                self._observer.client_disconnected("made room for another")
            relay = Relay(self._brokers, settings.name) if self._brokers and settings.relays else None
            client = Connection(self._service, wire, connection, f"{host}:{port}", relay, settings.access)
            task = loop.create_task(client.serve())
            connection.leave, connection.has_hung_up = task.cancel, wire.has_hung_up
            self._connections[task] = connection, wire
            task.add_done_callback(self._left)
            self._observer.connections_changed(len(self._connections))

        return welcome

    def _left(self, task: asyncio.Task[None]) -> None:
        connection, wire = self._connections.pop(task)
        wire.close()  # a task cancelled before it started never closes its socket
        self._service.quotas.left(connection)
        self._observer.connections_changed(len(self._connections))

    def _turn_away(self, reason: str, host: str, listener: str) -> None:
        self._observer.client_disconnected(reason)
        unsaid = self._service.repeated.say(reason, asyncio.get_running_loop().time())
        if unsaid is not None:
            _log.warning(
                f"client connection refused: {reason}",
                client=host,
                listener=listener,
                limit=self._limits.most_connections,
                unsaid=unsaid,
                hint="if these clients are legitimate, raise max.connections or the limit for a listener or address",
            )
