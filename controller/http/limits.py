"""Which clients does the HTTP server answer, how many at once, and for how long?"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

MOST_CONNECTIONS = 32
CONNECTION_S = 30.0
REQUEST_S = 5.0
HANDSHAKE_S = 5.0
MOST_COMPARISONS = 2
MOST_FAILURES = 10
FAILURES_WITHIN_S = 60.0
_MOST_ADDRESSES = 1_000
BACKLOG = 128
_ONE_LINE_IN_S = 10.0
_LONGEST_LINE = 300

_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AllowedHosts:
    """Which names in a Host header are this server's.

    A web page whose name suddenly resolves to an address of this network makes a browser send requests here under that
    name (DNS rebinding). It cannot do so for an address, nor for a name without a dot, which cannot be registered.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """These names, and those of this machine; `*` allows every name."""
        self._names = {name.lower() for name in (*names, socket.getfqdn(), socket.gethostname())}

    def __contains__(self, host: str) -> bool:
        name = _without_port(host).lower().rstrip(".")
        return "." not in name or name in self._names or "*" in self._names or _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, _ = host.rpartition(":")
    return name if colon else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def polite(allowed: AllowedHosts, asked: Callable[[web.Request], None]) -> Any:
    """A middleware that refuses foreign host names and allows one request a connection; `asked` receives each
    request."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get("Host")
        asked(request)
        if host is not None and host not in allowed:
            response: web.StreamResponse = web.Response(
                status=421, text="this is not the server's name; add it to http.allowed.hosts, or use the address\n"
            )
        else:
            response = await handler(request)
        response.force_close()
        return response

    return middleware


class ReadAccess(Protocol):
    """Who may read."""

    def knows(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether the client with this header and certificate is already known to be allowed. Returns at once."""

    def admits(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether the client is allowed. Called from a thread of its own; may take a while."""


class TooMany(Exception):
    """Too many attempts from one address have failed or are being checked; no more are."""


class Attempts:
    """Passwords not checked before. A check takes processor time on purpose, so checks run one at a time, few of one
    address wait at once, and an address with many failures has to wait."""

    def __init__(self, admits: Callable[[str | None, Mapping[str, Any] | None], bool]) -> None:
        self._lets_in = admits
        self._comparing = ThreadPoolExecutor(1, "passwords")
        self._waiting: Counter[str] = Counter()
        self._failed: dict[str, list[float]] = {}

    async def admits(self, address: str, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a client at this address is allowed.

        Raises:
            TooMany: not checked.
        """
        loop = asyncio.get_running_loop()
        failed = [at for at in self._failed.get(address, ()) if loop.time() - at < FAILURES_WITHIN_S]
        if len(failed) >= MOST_FAILURES or self._waiting[address] >= MOST_COMPARISONS:
            raise TooMany
        self._waiting[address] += 1
        try:
            is_admitted = await loop.run_in_executor(self._comparing, self._lets_in, authorization, certificate)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]
        if not is_admitted:
            self._fail(address, loop.time())
        return is_admitted

    def _fail(self, address: str, now: float) -> None:
        """Note a failure; the address that failed last is remembered longest."""
        before = self._failed.pop(address, [])
        self._failed[address] = [*before[-MOST_FAILURES + 1 :], now]
        while len(self._failed) > _MOST_ADDRESSES:
            del self._failed[next(iter(self._failed))]


def authenticated(access: ReadAccess, open_paths: Container[str]) -> Any:
    """A middleware that answers only authorized clients. On open paths, others see the status code without a text."""
    attempts = Attempts(access.admits)

    async def is_admitted(request: web.Request) -> bool:
        authorization = request.headers.get("Authorization")
        if authorization is None and request.path in open_paths:
            return False
        transport = request.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        # A client that was authorized before does not wait for others.
        return access.knows(authorization, certificate) or await attempts.admits(
            request.remote or "", authorization, certificate
        )

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = web.Response(status=401, text="Unauthorized\n", headers={"WWW-Authenticate": "Basic"})
        try:
            if await is_admitted(request):
                return await handler(request)
        except TooMany:
            refusal = web.Response(status=429, text="Too many attempts\n", headers={"Retry-After": "60"})
        if request.path in open_paths:
            return web.Response(status=(await handler(request)).status)
        _log.warning("HTTP request without the right user or certificate from %s", request.remote)
        return refusal

    return middleware


def bound(info: tuple[Any, ...]) -> socket.socket:
    """A socket bound to one of the addresses from `getaddrinfo`.

    Raises:
        OSError: the address is taken or not local.
    """
    family, kind, number, _, address = info
    made = socket.socket(family, kind, number)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


class _Visit:
    """One connection, from the moment it was accepted."""

    def __init__(self, address: str, since: float) -> None:
        self.address, self.since = address, since
        self.has_asked = False
        self.opening: asyncio.Task[None] | None = None
        self.protocol: web.RequestHandler | None = None

    def is_here(self, connected: Container[web.RequestHandler]) -> bool:
        """Whether it is still open."""
        if self.protocol is not None:
            return self.protocol in connected
        return self.opening is not None and not self.opening.done()

    def end(self) -> None:
        """Close it now."""
        if self.protocol is None and self.opening is not None:
            self.opening.cancel()
        elif self.protocol is not None and self.protocol.transport is not None:
            self.protocol.transport.abort()

    def end_unless_it_has_asked(self) -> None:
        """Close it if it has not sent a whole request."""
        if not self.has_asked:
            self.end()


def _close_unless_open(accepted: socket.socket, visit: _Visit, _: object) -> None:
    if visit.protocol is None:
        accepted.close()


class Acceptor:
    """Accepts connections for a server: a limited number at once, none for longer than a slow answer takes.

    A newcomer, above all a probe, is always admitted. Where there are too many, it displaces a connection that has sent
    no request, the oldest of the address that has most; only without such one, any other. A connection that sends no
    request soon is closed too.
    """

    def __init__(self, server: web.Server, context: Callable[[], ssl.SSLContext | None]) -> None:
        """`context` returns the TLS context of the next connection, if it is encrypted."""
        self._server = server
        self._context = context
        self._visits: list[_Visit] = []

    def asked(self, request: web.Request) -> None:
        """A whole request has arrived."""
        for visit in self._visits:
            visit.has_asked = visit.has_asked or visit.protocol is request.protocol

    async def run(self, listening: socket.socket) -> None:
        """Accept until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except Exception as error:  # above all, no descriptor is left
                _log.error("cannot accept a connection: %s", error)
                await asyncio.sleep(1.0)
                continue
            self._make_room()
            visit = _Visit(str(address[0]), loop.time())
            visit.opening = loop.create_task(self._open(accepted, visit))
            visit.opening.add_done_callback(partial(_close_unless_open, accepted, visit))
            self._visits.append(visit)

    def _make_room(self) -> None:
        connected = self._server.connections
        self._visits = [visit for visit in self._visits if visit.is_here(connected)]
        if len(self._visits) < MOST_CONNECTIONS:
            return
        of_address = Counter(visit.address for visit in self._visits)
        leaving = min(self._visits, key=lambda visit: (visit.has_asked, -of_address[visit.address], visit.since))
        self._visits.remove(leaving)
        leaving.end()

    async def _open(self, accepted: socket.socket, visit: _Visit) -> None:
        loop = asyncio.get_running_loop()
        try:
            context = self._context()
            limit = None if context is None else HANDSHAKE_S
            _, made = await loop.connect_accepted_socket(
                self._server, accepted, ssl=context, ssl_handshake_timeout=limit
            )
        except Exception as error:  # errors of TLS, timeouts, errors of the operating system
            reason = getattr(error, "reason", None) or error
            _log.warning("HTTP connection from %s: TLS handshake failed: %s", visit.address, reason)
        else:
            visit.protocol = made
            loop.call_later(REQUEST_S, visit.end_unless_it_has_asked)
            loop.call_later(CONNECTION_S, visit.end)

    async def close(self) -> None:
        """Do not wait for handshakes under way."""
        for visit in self._visits:
            if visit.opening is not None:
                visit.opening.cancel()
        tasks = [visit.opening for visit in self._visits if visit.opening is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


class OneLine(logging.Filter):
    """One short line of each level in a while instead of a traceback for each client that does not speak HTTP.

    aiohttp logs such a client as an error, but there is nothing to mend: scanners and mistaken clients exist.
    """

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[int, float] = {}
        self._unsaid: Counter[int] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write this record, which is shortened."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
            if not logging.getLogger(record.name).isEnabledFor(logging.INFO):
                return False
        level, now = record.levelno, time.monotonic()
        if now < self._next.get(level, 0.0):
            self._unsaid[level] += 1
            return False
        self._next[level] = now + _ONE_LINE_IN_S
        more = f" (and {self._unsaid[level]} like it)" if self._unsaid[level] else ""
        text = record.getMessage() + (f": {type(error).__name__}: {error}" if error is not None else "")
        record.msg, record.args = " ".join(text.split())[:_LONGEST_LINE] + more, ()
        record.exc_info = record.exc_text = None
        self._unsaid[level] = 0
        return True


_log.addFilter(OneLine())
