"""Whom does the HTTP server answer, how many at once, and for how long?"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

from aiohttp import web

MOST_CONNECTIONS = 32
CONNECTION_S = 30.0
BACKLOG = 8  # asyncio writes an error for each of so many when there is no descriptor left
_ONE_LINE_IN_S = 10.0
_LONGEST_LINE = 300

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


class _Refused(asyncio.Protocol):
    """Nobody is served any more."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


def protocols(server: web.Server, loop: asyncio.AbstractEventLoop) -> Callable[[], asyncio.BaseProtocol]:
    """One protocol for each connection: at most so many, and none for longer than a slow answer takes."""

    def make() -> asyncio.BaseProtocol:
        if len(server.connections) >= MOST_CONNECTIONS:
            return _Refused()
        made = server()
        loop.call_later(CONNECTION_S, _end, made)
        return made

    return make


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
