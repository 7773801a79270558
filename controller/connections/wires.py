"""How do bytes get in and out of an accepted socket: plain or encrypted?

Neither holds more than one TLS record: what is not read stays in the operating system's socket buffers, and stops the
sender. Handshakes, which are expensive, are computed on another thread, one at a time.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

RECORD_BYTES = 16 * 1024 + 512


class Wire(Protocol):
    """The bytes of one connection. Only one task may receive, and only one may send."""

    async def open(self) -> None:
        """Complete what precedes the first byte.

        Raises:
            OSError: the other end fails to; `ssl.SSLError` is one.
        """

    async def receive_into(self, target: memoryview) -> int:
        """Read what has arrived, at least one byte; 0 when the other end hung up.

        Raises:
            OSError: the connection broke.
        """

    async def send(self, data: memoryview) -> None:
        """Send all of it to the other end.

        Raises:
            OSError: the connection broke.
        """


class PlainWire:
    """Plain bytes."""

    def __init__(self, connection: socket.socket) -> None:
        """Makes the socket non-blocking."""
        self._socket = connection

    async def open(self) -> None:
        """Do nothing."""

    async def receive_into(self, target: memoryview) -> int:
        """Read what has arrived."""
        return await asyncio.get_running_loop().sock_recv_into(self._socket, target)

    async def send(self, data: memoryview) -> None:
        """Send all of it to the other end."""
        await asyncio.get_running_loop().sock_sendall(self._socket, data)


class TlsWire:
    """The server's end of TLS."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, beside: Executor | None = None) -> None:
        """Handshakes are computed on `beside`. Sends nothing yet."""
        self._socket = connection
        self._beside = beside
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_side=True)
        self._sending = asyncio.Lock()

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate in DER; None without one. Known once the wire is open."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def how(self) -> tuple[str, str]:
        """The protocol and the cipher suite, such as TLSv1.3 and TLS_AES_256_GCM_SHA384."""
        cipher = self._tls.cipher()
        return self._tls.version() or "", cipher[0] if cipher is not None else ""

    async def open(self) -> None:
        """Complete the handshake.

        Raises:
            ssl.SSLError: the client speaks no TLS, shares no version or suite, or is not trusted.
            ConnectionResetError: it hung up before the end.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(self._beside, self._tls.do_handshake)
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._fetch():
                    raise ConnectionResetError("the client hung up during the TLS handshake") from None
            except ssl.SSLError:
                await self._flush()  # the alert that tells the client why
                raise
            else:
                await self._flush()
                return

    async def receive_into(self, target: memoryview) -> int:
        """Read what has arrived, decrypted."""
        while True:
            try:
                count = int(self._tls.read(len(target), target))  # the number of bytes, since there is a target
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._fetch():
                    return 0  # a client that closes without notice; each message has its length
            except ssl.SSLZeroReturnError:
                return 0
            else:
                if self._leaving.pending:
                    await self._flush()  # the answers of TLS itself
                return count

    async def send(self, data: memoryview) -> None:
        """Send all of it to the other end, record by record."""
        for at in range(0, len(data), RECORD_BYTES):
            with data[at : at + RECORD_BYTES] as some:
                self._tls.write(some)
            await self._flush()

    async def _fetch(self) -> bool:
        came = await asyncio.get_running_loop().sock_recv(self._socket, RECORD_BYTES)
        self._arrived.write(came)
        return bool(came)

    async def _flush(self) -> None:
        async with self._sending:  # a receiver may have to answer while another task sends
            if self._leaving.pending:
                await asyncio.get_running_loop().sock_sendall(self._socket, self._leaving.read())


Opening = Callable[[socket.socket], Wire]
"""Makes the wire of an accepted connection."""
