"""Whom does the HTTP server answer, how many at once, and for how long?"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp import web

MOST_CONNECTIONS = 32
CONNECTION_S = 30.0
HANDSHAKE_S = 5.0
BACKLOG = 8
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


def polite(allowed: AllowedHosts) -> Any:
    """A middleware that refuses names of others, and lets each connection ask once."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get("Host")
        if host is not None and host not in allowed:
            response: web.StreamResponse = web.Response(
                status=421, text="this is not the server's name; add it to http.allowed.hosts, or use the address\n"
            )
        else:
            response = await handler(request)
        response.force_close()
        return response

    return middleware


def authenticated(lets_in: Callable[[str | None, Mapping[str, Any] | None], bool], open_paths: Container[str]) -> Any:
    """A middleware that answers only who is let in. To others open paths tell whether all is well, without a word."""
    # Comparing passwords takes processor time: one at a time, so that wrong ones cannot take all of it.
    comparing = ThreadPoolExecutor(1, "passwords")

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        authorization = request.headers.get("Authorization")
        transport = request.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        is_let_in = False
        if authorization is not None or request.path not in open_paths:
            loop = asyncio.get_running_loop()
            is_let_in = await loop.run_in_executor(comparing, lets_in, authorization, certificate)
        if is_let_in:
            return await handler(request)
        if request.path in open_paths:
            return web.Response(status=(await handler(request)).status)
        _log.warning("HTTP request without the right user or certificate from %s", request.remote)
        return web.Response(status=401, text="Unauthorized\n", headers={"WWW-Authenticate": "Basic"})

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


class Acceptor:
    """Accepts connections for a server: at most so many at once, and none for longer than a slow answer takes.

    One that comes too many is closed before any handshake.
    """

    def __init__(self, server: web.Server, context: Callable[[], ssl.SSLContext | None]) -> None:
        """Nobody has come. `context` says how the next connection is encrypted, if it is."""
        self._server = server
        self._context = context
        self._shaking_hands: set[asyncio.Task[None]] = set()

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
            if len(self._server.connections) + len(self._shaking_hands) >= MOST_CONNECTIONS:
                accepted.close()
                continue
            opening = loop.create_task(self._open(accepted, address))
            self._shaking_hands.add(opening)
            opening.add_done_callback(self._shaking_hands.discard)

    async def _open(self, accepted: socket.socket, address: tuple[Any, ...]) -> None:
        loop, context = asyncio.get_running_loop(), self._context()
        limit = None if context is None else HANDSHAKE_S
        try:
            _, made = await loop.connect_accepted_socket(
                self._server, accepted, ssl=context, ssl_handshake_timeout=limit
            )
        except OSError as error:  # also of TLS, and of time
            accepted.close()
            reason = getattr(error, "reason", None) or error
            _log.warning("HTTP connection from %s: TLS handshake failed: %s", address[0], reason)
        else:
            loop.call_later(CONNECTION_S, _end, made)

    async def close(self) -> None:
        """Whoever is shaking hands is not waited for."""
        for opening in self._shaking_hands:
            opening.cancel()
        await asyncio.gather(*self._shaking_hands, return_exceptions=True)


def _end(protocol: web.RequestHandler) -> None:
    if protocol.transport is not None:
        protocol.transport.abort()


class OneLine(logging.Filter):
    """One short line in a while instead of a traceback for each client that does not speak HTTP."""

    def __init__(self) -> None:
        """Nothing was said yet."""
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
