"""What happens on one client connection, from its handshake to its end?

Serves one request at a time, as Kafka does: the next is not read before the last answer has left. That keeps answers in
order and bounds what a connection holds, and a client that hangs holds up only its own task. A large request is
received, and any request decoded, only when the memory pools have room.

Source: Kafka's SocketServer, ApiVersionsRequest; KIP-511.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager

import structlog

from controller.connections.frame_socket import FrameSocket, check_size
from controller.connections.wires import TlsWire
from controller.core.messages.requests import ANONYMOUS
from controller.security.failures import AuthenticationFailed
from controller.server.answering import Answering, Chunks, LedElsewhere, Requester, Unanswerable
from controller.server.connection_quotas import REFUSED_FOR, OpenConnection
from controller.server.entrance import Entrance, LoginRejected
from controller.server.inquiries import NotLeading
from controller.server.memory_pools import Reservation
from controller.server.relay import NoBrokerAvailable, Relay
from controller.server.repeated_lines import shortened
from controller.server.service import ListenerAccess, Service
from controller.wire.apis import ApiKey, Pool, pool_of
from controller.wire.frames import OversizedFrame
from controller.wire.requests import MalformedRequest

_log = structlog.get_logger(__name__)

NO_KEY = -1
_LOOKS_EVERY_S = 1.0
_KEY_BYTES = 2
_LONGEST_HEADER = 10 + 2**15
_LARGEST_SKIPPED = 2**28

_DISCONNECTED: dict[type[Exception], str] = {
    OversizedFrame: "oversized frame",
    MalformedRequest: "malformed request",
    Unanswerable: "unanswerable request",
    NoBrokerAvailable: "no broker available",
    LoginRejected: "failed login",
}
DISCONNECTED_FOR = (
    *_DISCONNECTED.values(),
    "failed TLS handshake",
    "made room for another",
    "answers not read",
    "internal error",
    *REFUSED_FOR,
)
"""Why a client is disconnected or turned away."""


class Connection:
    """One client's connection, on one of our listeners."""

    def __init__(
        self,
        service: Service,
        wire: FrameSocket,
        connection: OpenConnection,
        address: str,
        relay: Relay | None,
        access: ListenerAccess,
    ) -> None:
        """Take over the socket. Without a relay, only requests the controller itself answers are offered."""
        self._service = service
        self._wire = wire
        self._connection = connection
        self._listener = connection.listener
        self._address = address
        self._relay = relay
        self._tls = access.tls
        self._entrance = None if access.login is None else Entrance(access.login(), asyncio.get_running_loop().time)
        self._is_ready = access.is_ready
        self._most_login_bytes = access.most_login_bytes
        self._principal = ANONYMOUS
        self._shown = (False, False, False)
        is_known = access.tls is not None or access.login is not None
        requester = Requester(connection.listener, connection.address, address, self._who, is_known)
        self._answering = Answering(service, requester, relay, wire.has_hung_up)
        self._patience_s = min(service.limits.idle_s, service.limits.request_s)

    async def serve(self) -> None:
        """Answer requests until one side closes the connection."""
        try:
            if await self._open():
                await self._serve()
        except NotLeading:
            self._wire.abort()  # the client will ask another node
        except (OSError, TimeoutError):
            self._wire.abort()  # gone, idle, or not reading: nothing for an operator to do
        except (OversizedFrame, MalformedRequest, Unanswerable, NoBrokerAvailable, LoginRejected) as error:
            self._complain(_DISCONNECTED[type(error)], "client connection closed", shortened(str(error)))
        except Exception as error:
            reason = shortened(f"{type(error).__name__}: {error}")
            self._complain("internal error", "client connection closed after an internal error", reason, error)
        finally:
            self._wire.close()
            if self._relay is not None:
                self._relay.close()

    def _who(self) -> str:
        return self._principal if self._entrance is None else self._entrance.principal

    async def _open(self) -> bool:
        """Complete the TLS handshake, if the listener requires one. False if the connection must be closed."""
        if self._tls is None:
            return True
        wire = self._wire.wire
        assert isinstance(wire, TlsWire)
        try:
            async with asyncio.timeout(self._patience_s):
                await wire.open()
        except ssl.SSLError as error:
            self._complain("failed TLS handshake", "TLS handshake failed", shortened(self._tls.reason(error)))
            return False
        if wire.certificate is not None:
            try:
                self._principal = self._tls.principal(wire.certificate)
            except AuthenticationFailed as failure:
                self._complain("failed login", "client connection closed", shortened(failure.reason))
                return False
        return True

    def _complain(self, cause: str, what: str, reason: str, error: Exception | None = None) -> None:
        self._service.observer.client_disconnected(cause)
        unsaid = self._service.repeated.say(cause, asyncio.get_running_loop().time())
        if unsaid is None:
            return
        more = {"unsaid": unsaid} if unsaid else {}
        level = logging.WARNING if error is None else logging.ERROR
        _log.log(level, what, reason=reason, client=self._address, listener=self._listener, exc_info=error, **more)

    async def _serve(self) -> None:
        service, connection, loop = self._service, self._connection, asyncio.get_running_loop()
        while True:
            async with asyncio.timeout(service.limits.idle_s):
                size = await self._wire.size(_LARGEST_SKIPPED)
            if size is None:
                return
            answer = await self._take(size)
            if answer is None:
                return
            connection.since = loop.time()
            self._settle()
            await self._give(answer)
            throttle_s = self._answering.take_throttle_s()
            if throttle_s:
                await self._mute(throttle_s)

    def _settle(self) -> None:
        """Give the client a regular place, now that it has authenticated."""
        connection, entrance = self._connection, self._entrance
        is_known = entrance is None or entrance.is_open
        shown = is_known, is_known and self._who() != ANONYMOUS, connection.is_broker
        if shown == self._shown:
            return
        self._shown = shown
        connection.is_known, connection.is_identified = shown[:2]
        if self._service.quotas.settle(connection) is not None:
            self._service.observer.client_disconnected("made room for another")

    async def _mute(self, throttle_s: float) -> None:
        """Read nothing while the client is throttled: some clients do not wait by themselves.

        Raises:
            TimeoutError: the throttle is longer than a connection may be idle.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + throttle_s
        async with asyncio.timeout(self._service.limits.idle_s):
            while (left_s := until - loop.time()) > 0 and not self._wire.has_hung_up():
                await asyncio.sleep(min(left_s, _LOOKS_EVERY_S))

    async def _take(self, size: int) -> Chunks | None:
        """Receive a request of known size and answer it; None if the client closed the connection."""
        service, wire = self._service, self._wire
        first = min(size, _KEY_BYTES)
        head = await self._arrived(wire.bytes_of(first))
        if head is None:
            return None
        key = int.from_bytes(head, "big", signed=True) if first == _KEY_BYTES else NO_KEY
        if self._entrance is not None and self._entrance.takes(key):
            return await self._log_in(self._entrance, size, head)
        pool = key
        if pool_of(key) is Pool.BROKERS_OWN:
            self._connection.is_broker = self._answering.is_a_brokers()
            pool = key if self._connection.is_broker else NO_KEY
        if key == ApiKey.UPDATE_METADATA:
            return await self._acknowledge_unread(size, head)
        check_size(size, self._most_bytes())
        is_known = self._entrance is None or self._entrance.is_open
        async with service.pools.arriving(pool, size) if is_known else self._before_login(size) as held:
            async with asyncio.timeout(self._patience_s) as limit:
                held.hurry_with(limit)
                frame = await wire.bytes_of(size - first, head)
            if frame is None:
                return None
            held.is_complete = True
            try:
                async with service.pools.opened(pool, size):
                    return await self._timed(key, self._answering.answer(frame))
            except NotLeading:
                if self._relay is None:
                    raise
                elsewhere = self._answering.of_a_broker(frame, self._relay)
            except LedElsewhere as led:
                elsewhere = self._answering.of_the_controller(led, frame)
            # A broker may hang: first release what is reserved for reads answered here.
            async with service.pools.relayed(size):
                return await self._timed(key, elsewhere)

    def _most_bytes(self) -> int:
        """Largest request accepted; small before authentication."""
        most = self._service.limits.most_request_bytes
        return most if self._entrance is None or self._entrance.is_open else min(most, self._most_login_bytes)

    async def _log_in(self, entrance: Entrance, size: int, head: bytes) -> Chunks | None:
        """Delay the answer to a failed login, so that guessing passwords is slow."""
        check_size(size, self._most_login_bytes)
        try:
            answer = await self._answered_login(entrance, size, head)
        except LoginRejected as refusal:
            refused = LoginRejected(str(refusal), refusal.answer)  # the original's traceback holds the password
        else:
            return None if answer is None else (answer,)
        await asyncio.sleep(self._service.limits.failed_login_delay_s)
        if refused.answer is not None:
            await self._give((refused.answer,))
        raise refused

    async def _answered_login(self, entrance: Entrance, size: int, head: bytes) -> bytes | None:
        """Receive a login message once there is memory for it; None if the client closed the connection."""
        async with asyncio.timeout(self._patience_s) as limit, self._before_login(size) as held:
            held.hurry_with(limit)
            frame = await self._wire.bytes_of(size - len(head), head)
            held.is_complete = True
            if self._is_ready is not None:
                await self._is_ready()
            return None if frame is None else entrance.answer(frame)

    def _before_login(self, size: int) -> AbstractAsyncContextManager[Reservation]:
        service = self._service
        is_brokers_own = self._listener == service.quotas.inter_broker_listener
        return service.pools.before_login(size, is_brokers_own=is_brokers_own)

    async def _timed(self, key: int, answering: Awaitable[Chunks]) -> Chunks:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._connection.is_busy = True
        try:
            answer = await answering
        finally:
            self._connection.is_busy = False
        self._service.observer.answered(self._listener, key, loop.time() - began)
        return answer

    async def _arrived(self, arriving: Awaitable[bytes | None]) -> bytes | None:
        async with asyncio.timeout(self._patience_s):
            return await arriving

    async def _acknowledge_unread(self, size: int, head: bytes) -> Chunks | None:
        """Answer from the header alone; megabytes are neither kept nor decoded."""
        began = asyncio.get_running_loop().time()
        more = min(size, _LONGEST_HEADER) - len(head)
        async with asyncio.timeout(self._patience_s):
            frame = await self._wire.bytes_of(more, head)
            if frame is None or not await self._wire.skip(size - len(frame)):
                return None
        answer = self._answering.acknowledge_unread(frame)
        duration_s = asyncio.get_running_loop().time() - began
        self._service.observer.answered(self._listener, ApiKey.UPDATE_METADATA, duration_s)
        return answer

    async def _give(self, answer: Chunks) -> None:
        quotas, now = self._service.quotas, asyncio.get_running_loop().time()
        largest = max(answer, key=len)
        if quotas.hold(self._connection, largest, now) is not None:
            self._service.observer.client_disconnected("answers not read")
        try:
            await self._wire.send(*answer, patience_s=self._patience_s)
        finally:
            quotas.release(self._connection, largest)
            if self._relay is not None:
                self._relay.delivered()
