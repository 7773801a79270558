"""How are connections accepted, and what if the process may not open another file?

asyncio's own servers write hundreds of tracebacks a second when no descriptor is left.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from controller.runtime.supervision import reason_of
from controller.settings.limits import Limits

_BACKLOG = 512
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BACK_OFF_S = (0.05, 1.0)

Heard = Callable[[Exception | None], None]
"""Receives why a connection could not be accepted; None for each one accepted."""
Welcome = Callable[[socket.socket, str, int], None]
"""Takes over a connection from this address and port; must not block."""


async def listen(host: str, port: int, limits: Limits) -> list[socket.socket]:
    """Open sockets on all addresses of a host; an empty host means all interfaces. Accepted connections inherit their
    buffer sizes.

    Raises:
        OSError: an address is taken or not local.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sockets.append(_listening(family, kind, protocol, address, limits))
    except OSError as error:
        for opened in sockets:
            opened.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {str(error.strerror).lower()}") from None
    return sockets


def _listening(family: int, kind: int, protocol: int, address: tuple[object, ...], limits: Limits) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        for option, size in (
            (socket.SO_SNDBUF, limits.send_buffer_bytes),
            (socket.SO_RCVBUF, limits.receive_buffer_bytes),
        ):
            if size >= 0:
                made.setsockopt(socket.SOL_SOCKET, option, size)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made


class Acceptor:
    """Accepts connections on one socket for as long as its task runs."""

    def __init__(self, listening: socket.socket, welcome: Welcome, most_per_s: int, heard: Heard) -> None:
        """`heard` receives the outcome of each attempt."""
        self._listening = listening
        self._welcome = welcome
        self.most_per_s = most_per_s
        self._heard = heard
        self._next = 0.0

    async def run(self) -> None:
        """Accept until cancelled; after any failure, wait and try again."""
        back_off_s = _BACK_OFF_S[0]
        while True:
            try:
                await self._accept()
            except Exception as error:  # whatever the error, the next client must get in
                self._heard(error)
                await asyncio.sleep(back_off_s)
                back_off_s = min(2 * back_off_s, _BACK_OFF_S[1])
            else:
                self._heard(None)
                back_off_s = _BACK_OFF_S[0]
                await self._keep_to_the_rate()

    async def _accept(self) -> None:
        try:
            connection, address = await asyncio.get_running_loop().sock_accept(self._listening)
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise
            return  # one connection broke before it was accepted
        try:
            self._welcome(connection, str(address[0]), int(address[1]))
        except BaseException:
            connection.close()
            raise

    async def _keep_to_the_rate(self) -> None:
        """Let the connections of one second in at once, and space out those beyond the rate."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - 1.0) + 1 / self.most_per_s
        await asyncio.sleep(max(0.0, self._next - now))


def reason_of_failure(error: Exception) -> str:
    """Why a connection could not be accepted, and what to do."""
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        return (
            f"the process has no descriptor or memory left ({error.strerror}); raise the limit of open files "
            "(LimitNOFILE), or lower max.connections"
        )
    return reason_of(error)
