"""How does a listener with client certificates do under load? New connections all the time, and one that stays."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.cluster.certificates import Authority

_THREADS = 4
_ASK = struct.pack(">ihhih", 10, 18, 0, 7, -1)  # ApiVersions
_HEAD = struct.Struct(">ii")


class Load:
    """For the time of a `with`, as somebody; what fails is kept."""

    def __init__(self, port: int, authority: Authority, name: str) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=str(authority.trusted_pem))
        self._context.load_cert_chain(*authority.pem_files(name))
        self._is_over = threading.Event()
        runs = [self._anew] * (_THREADS - 1) + [self._on_one]
        self._threads = [threading.Thread(target=self._guarded, args=(run,)) for run in runs]
        self.certificates: set[bytes] = set()
        self.answers = 0
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, run: Callable[[], None]) -> None:
        while not self._is_over.is_set():
            try:
                run()
            except OSError as error:
                self.failures.append(str(error))

    def _anew(self) -> None:
        with self._connected() as connection:
            self._ask(connection)

    def _on_one(self) -> None:
        with self._connected() as connection:
            while not self._is_over.is_set():
                self._ask(connection)
                time.sleep(0.02)

    def _connected(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self._port), timeout=10)
        connection = self._context.wrap_socket(plain, server_hostname="localhost")
        self.certificates.add(connection.getpeercert(binary_form=True) or b"")
        return connection

    def _ask(self, connection: ssl.SSLSocket) -> None:
        connection.sendall(_ASK)
        size, answered = _HEAD.unpack(_exactly(connection, _HEAD.size))
        _exactly(connection, size - 4)
        if answered != 7:
            raise OSError(f"the answer is for request {answered}")
        self.answers += 1


def _exactly(connection: ssl.SSLSocket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        some = connection.recv(count - len(found))
        if not some:
            raise OSError("hung up on")
        found += some
    return found
