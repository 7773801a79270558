"""Whom does the HTTP server answer, how many at once, and for how long?"""

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

    A page from the internet whose name is suddenly an address of this network makes a browser ask here in that name
    (DNS rebinding). It cannot do so for an address, nor for a name without a dot, which nobody can register.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """These names, and those that this machine has; `*` allows every name."""
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
    """A middleware that refuses names of others, and lets each connection ask once; `asked` hears of each that does."""

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


class Letting(Protocol):
    """Who is let in."""

    def knows(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether who sends this header, and shows this certificate, is known to be let in. It returns at once."""

    def lets_in(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether it is let in. It is called from a thread of its own, and may take a while."""


class TooMany(Exception):
    """So many have failed, or are being looked at, at one address, that no more are."""


class Attempts:
    """Passwords that nobody knows yet. Comparing one takes processor time on purpose, so they are compared one at a
    time, few of one address wait at once, and an address at which many were wrong has to wait.
    """

    def __init__(self, lets_in: Callable[[str | None, Mapping[str, Any] | None], bool]) -> None:
        self._lets_in = lets_in
        self._comparing = ThreadPoolExecutor(1, "passwords")
        self._waiting: Counter[str] = Counter()
        self._failed: dict[str, list[float]] = {}

    async def lets_in(self, address: str, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether somebody at this address is let in.

        Raises:
            TooMany: nobody looks.
        """
        loop = asyncio.get_running_loop()
        failed = [at for at in self._failed.get(address, ()) if loop.time() - at < FAILURES_WITHIN_S]
        if len(failed) >= MOST_FAILURES or self._waiting[address] >= MOST_COMPARISONS:
            raise TooMany
        self._waiting[address] += 1
        try:
            is_let_in = await loop.run_in_executor(self._comparing, self._lets_in, authorization, certificate)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]
        if not is_let_in:
            self._fail(address, loop.time())
        return is_let_in

    def _fail(self, address: str, now: float) -> None:
        """The address that failed last is remembered for longest."""
        before = self._failed.pop(address, [])
        self._failed[address] = [*before[-MOST_FAILURES + 1 :], now]
        while len(self._failed) > _MOST_ADDRESSES:
            del self._failed[next(iter(self._failed))]


def authenticated(access: Letting, open_paths: Container[str]) -> Any:
    """A middleware that answers only who is let in. To others open paths tell whether all is well, without a word."""
    attempts = Attempts(access.lets_in)

    async def is_let_in(request: web.Request) -> bool:
        authorization = request.headers.get("Authorization")
        if authorization is None and request.path in open_paths:
            return False
        transport = request.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        # Who was let in before waits for nobody.
        return access.knows(authorization, certificate) or await attempts.lets_in(
            request.remote or "", authorization, certificate
        )

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = web.Response(status=401, text="Unauthorized\n", headers={"WWW-Authenticate": "Basic"})
        try:
            if await is_let_in(request):
                return await handler(request)
        except TooMany:
            refusal = web.Response(status=429, text="Too many attempts\n", headers={"Retry-After": "60"})
        if request.path in open_paths:
            return web.Response(status=(await handler(request)).status)
        _log.warning("HTTP request without the right user or certificate from %s", request.remote)
        return refusal

    return middleware


def bound(info: tuple[Any, ...]) -> socket.socket:
    """A socket that is bound to one of the addresses that `getaddrinfo` gives.

    Raises:
        OSError: the address is taken or not ours.
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
    """One connection, from the moment in which it was accepted."""

    def __init__(self, address: str, since: float) -> None:
        self.address, self.since = address, since
        self.has_asked = False
        self.opening: asyncio.Task[None] | None = None
        self.protocol: web.RequestHandler | None = None

    def is_here(self, connected: Container[web.RequestHandler]) -> bool:
        """Whether it has not ended."""
        if self.protocol is not None:
            return self.protocol in connected
        return self.opening is not None and not self.opening.done()

    def end(self) -> None:
        """Now."""
        if self.protocol is None and self.opening is not None:
            self.opening.cancel()
        elif self.protocol is not None and self.protocol.transport is not None:
            self.protocol.transport.abort()

    def end_unless_it_has_asked(self) -> None:
        """Now, if no whole request has come."""
        if not self.has_asked:
            self.end()


def _close_unless_open(accepted: socket.socket, visit: _Visit, _: object) -> None:
    if visit.protocol is None:
        accepted.close()


class Acceptor:
    """Accepts connections for a server: at most so many at once, and none for longer than a slow answer takes.

    A newcomer always gets in, above all a probe: where there are too many, one that has not asked anything goes for it,
    of the address that has most, the oldest first; only without any one that has asked. Who does not ask soon goes too.
    """

    def __init__(self, server: web.Server, context: Callable[[], ssl.SSLContext | None]) -> None:
        """Nobody has come. `context` says how the next connection is encrypted, if it is."""
        self._server = server
        self._context = context
        self._visits: list[_Visit] = []

    def asked(self, request: web.Request) -> None:
        """A whole request has come."""
        for visit in self._visits:
            visit.has_asked = visit.has_asked or visit.protocol is request.protocol

    async def run(self, listening: socket.socket) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except Exception as error:  # above all, no descriptor is left
                _log.error("no connection can be accepted: %s", error)
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
        except Exception as error:  # of TLS, of time, of the operating system
            reason = getattr(error, "reason", None) or error
            _log.warning("HTTP connection from %s: TLS handshake failed: %s", visit.address, reason)
        else:
            visit.protocol = made
            loop.call_later(REQUEST_S, visit.end_unless_it_has_asked)
            loop.call_later(CONNECTION_S, visit.end)

    async def close(self) -> None:
        """Whoever is shaking hands is not waited for."""
        for visit in self._visits:
            if visit.opening is not None:
                visit.opening.cancel()
        tasks = [visit.opening for visit in self._visits if visit.opening is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


class OneLine(logging.Filter):
    """One short line in a while instead of a traceback for each client that does not speak HTTP."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0
        self._unsaid = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write this record, which is made short."""
        if time.monotonic() < self._next:
            self._unsaid += 1
            return False
        self._next = time.monotonic() + _ONE_LINE_IN_S
        error = record.exc_info[1] if record.exc_info else None
        more = f" (and {self._unsaid} like it)" if self._unsaid else ""
        text = record.getMessage() + (f": {type(error).__name__}: {error}" if error is not None else "")
        record.msg, record.args = " ".join(text.split())[:_LONGEST_LINE] + more, ()
        record.exc_info = record.exc_text = None
        self._unsaid = 0
        return True


_log.addFilter(OneLine())
