"""How does kazoo's client speak TLS by our own settings?

Kazoo would read keys from files, unencrypted, and its loop looks at the socket only: what the library has decrypted
already, or a record without any data, such as a session ticket, would hold it up. So the socket that it is given keeps
what has come, and counts as readable only when there is something to read.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler

from controller.security.tls.stores import UnusableStore

_AT_ONCE: Final = 65_536
_MOST_KEPT: Final = 1_048_576


class TlsSocket:
    """What kazoo needs of a socket, around one that is encrypted."""

    def __init__(self, secured: ssl.SSLSocket, failed: Callable[[OSError | None], None]) -> None:
        """The handshake is over for this side; with TLSv1.3 the other one may refuse our certificate yet. `failed` is
        told of that: of an error, or None where the other side has hung up without a word.
        """
        self._secured = secured
        self._failed = failed
        self._has_heard = False
        self._kept = bytearray()
        self._has_ended = False
        self._error: OSError | None = None

    def fill(self) -> None:
        """Take what has come."""
        try:
            while len(self._kept) < _MOST_KEPT:
                data = self._secured.recv(_AT_ONCE)
                if not data:
                    self._has_ended = True
                    break
                self._kept += data
                self._has_heard = True
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            self._error = error
        if (self._has_ended or self._error is not None) and not self._has_heard:
            self._failed(self._error)

    @property
    def is_readable(self) -> bool:
        """Whether `recv` has something to say."""
        return bool(self._kept) or self._has_ended or self._error is not None

    def pending(self) -> int:
        """How much can be read at once; kazoo asks before it waits."""
        return len(self._kept)

    def recv(self, most: int) -> bytes:
        """What has come, at most so much; nothing when the other side has closed."""
        if not self.is_readable:
            self.fill()
        if self._kept:
            taken = bytes(self._kept[:most])
            del self._kept[:most]
            return taken
        if self._error is not None:
            raise self._error
        if self._has_ended:
            return b""
        raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "nothing has come")

    def send(self, data: bytes) -> int:
        """How much of it was taken."""
        return self._secured.send(data)

    def fileno(self) -> int:
        """For select."""
        return self._secured.fileno()

    def setblocking(self, flag: bool) -> None:
        """As of a socket."""
        self._secured.setblocking(flag)

    def shutdown(self, how: int) -> None:
        """As of a socket."""
        self._secured.shutdown(how)

    def close(self) -> None:
        """As of a socket."""
        self._secured.close()


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # untyped library
    """Kazoo's threads, with connections over TLS. `context` is asked for at each, so that a renewed store counts.

    `failed` is told why there is none, in kazoo's thread.
    """

    def __init__(self, context: Callable[[], ssl.SSLContext], failed: Callable[[str], None]) -> None:
        super().__init__()
        self._context = context
        self._failed = failed

    def create_connection(
        self, address: tuple[str, int], hostname: str = "", timeout: float | None = None, **_: object
    ) -> TlsSocket:
        """Connect, and shake hands.

        Raises:
            ConnectionDropped: the stores cannot be used, or one side does not trust the other.
            OSError: nobody answers.
        """
        try:
            context = self._context()
        except UnusableStore as error:
            self._failed(str(error))
            raise ConnectionDropped(str(error)) from None

        def failed(error: OSError | None) -> None:
            self._failed(f"TLS with {hostname}:{address[1]} fails: {_worded(error)}")

        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return TlsSocket(context.wrap_socket(plain, server_hostname=hostname or address[0]), failed)
        except OSError as error:
            plain.close()
            failed(error)
            raise ConnectionDropped(f"TLS fails: {_worded(error)}") from None

    def select(
        self, readers: list[Any], writers: list[Any], errors: list[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As of the operating system, but that a TLS socket is readable when it has something to read."""
        until = None if timeout is None else monotonic() + timeout
        while True:
            lines = [one for one in readers if isinstance(one, TlsSocket)]
            left = None if until is None else max(0.0, until - monotonic())
            wait_s = 0.0 if any(line.is_readable for line in lines) else left
            found, writable, failed = super().select(readers, writers, errors, wait_s)
            for line in lines:
                if line in found and not line.is_readable:
                    line.fill()
            readable = [one for one in readers if (one.is_readable if one in lines else one in found)]
            if readable or writable or failed or left == 0.0:
                return readable, writable, failed


def _worded(error: OSError | None) -> str:
    if error is None:
        return "it hangs up; does it trust our certificate (zookeeper.ssl.keystore.location)?"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return "it hangs up" if isinstance(error, ConnectionError) else error.strerror or str(error)
