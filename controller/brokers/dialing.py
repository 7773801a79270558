"""How is a connection to a broker opened? Only a dialer knows how a listener is secured.

Source: Kafka's SaslClientAuthenticator; KIP-152.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from controller.core.messages.errors import ErrorCode
from controller.security.failures import AuthenticationFailed
from controller.wire.api_versions import CLIENT_ID
from controller.wire.apis import ApiKey
from controller.wire.cursor import Malformed
from controller.wire.frames import RequestHeader
from controller.wire.sasl import (
    decode_authenticate_answer,
    decode_handshake_answer,
    encode_authenticate,
    encode_handshake,
)
from zk_layout.znodes.brokers import Endpoint

if TYPE_CHECKING:
    from controller.security.client_login import ClientLogin

READ_AHEAD_BYTES = 1024 * 1024
_VERSION: Final = 1  # of both requests: every broker from 2.4 on supports it
_LARGEST_ANSWER: Final = 512 * 1024
_SIZE = struct.Struct(">i")

_T = TypeVar("_T")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Security(Protocol):
    """Our identity towards brokers on one listener."""

    @property
    def protocol(self) -> str:
        """Its security protocol."""

    @property
    def mechanism(self) -> str:
        """The SASL mechanism, if there is one."""

    def context(self) -> ssl.SSLContext | None:
        """The TLS context of the next connection; None without encryption."""

    def login(self, host: str) -> ClientLogin | None:
        """The login for the next connection; None if the listener has no login.

        Raises:
            UnusableSecurity: no credentials are set.
        """


class PlaintextDialer:
    """Connections to PLAINTEXT listeners."""

    def __init__(self, read_ahead_bytes: int = READ_AHEAD_BYTES) -> None:
        """If a response is not read, about twice `read_ahead_bytes` of it is held."""
        self._read_ahead_bytes = read_ahead_bytes

    def reaches(self, endpoint: Endpoint) -> bool:
        """Whether a connection may be tried."""
        return endpoint.security_protocol == "PLAINTEXT"

    async def open_connection(self, endpoint: Endpoint) -> Streams:
        """One new connection.

        Raises:
            OSError: the port is closed, or the listener is secured and would not understand plain text.
        """
        _demand(endpoint, "PLAINTEXT")
        return await asyncio.open_connection(endpoint.host, endpoint.port, limit=self._read_ahead_bytes)

    def lasts_s(self, writer: asyncio.StreamWriter) -> float:  # noqa: ARG002 (no login)
        """For ever."""
        return inf


class SecuredDialer:
    """Connections to listeners of one security protocol, with our identity there."""

    def __init__(self, security: Security, read_ahead_bytes: int = READ_AHEAD_BYTES) -> None:
        self._security = security
        self._read_ahead_bytes = read_ahead_bytes
        self._lasts_s: WeakKeyDictionary[asyncio.StreamWriter, float] = WeakKeyDictionary()

    def reaches(self, endpoint: Endpoint) -> bool:
        """Whether a connection may be tried."""
        return endpoint.security_protocol == self._security.protocol

    async def open_connection(self, endpoint: Endpoint) -> Streams:
        """One new connection, ready for requests.

        Raises:
            OSError: the port is closed, or one end does not trust the other; the text says which, and why.
        """
        security, host = self._security, endpoint.host
        _demand(endpoint, security.protocol)
        context = security.context()
        named = None if context is None else host
        streams = await asyncio.open_connection(
            host, endpoint.port, limit=self._read_ahead_bytes, ssl=context, server_hostname=named
        )
        try:
            login = security.login(host)
            if login is not None:
                lasts_ms = await _log_in(streams, security.mechanism, login)
                if lasts_ms:
                    self._lasts_s[streams[1]] = lasts_ms / 1000
        except AuthenticationFailed as failure:
            streams[1].transport.abort()
            raise ConnectionError(f"{security.mechanism}: {failure.reason}") from None
        except Malformed as malformed:
            streams[1].transport.abort()
            raise ConnectionError(f"the answer to a login is malformed: {malformed}") from None
        except BaseException:
            streams[1].transport.abort()
            raise
        return streams

    def lasts_s(self, writer: asyncio.StreamWriter) -> float:
        """As long as the broker allowed at the login; it then requires another one (KIP-368)."""
        return self._lasts_s.get(writer, inf)


class ListenerDialer:
    """Connections to brokers on any listener, with our identity there."""

    def __init__(self, securities: Mapping[str, Security], read_ahead_bytes: int = READ_AHEAD_BYTES) -> None:
        """`securities` are by listener; any other listener is plain text."""
        self._plain = PlaintextDialer(read_ahead_bytes)
        self._secured = {name: SecuredDialer(security, read_ahead_bytes) for name, security in securities.items()}

    def reaches(self, endpoint: Endpoint) -> bool:
        """Whether a connection may be tried."""
        return self._dialer(endpoint).reaches(endpoint)

    async def open_connection(self, endpoint: Endpoint) -> Streams:
        """One new connection, ready for requests.

        Raises:
            OSError: the port is closed, or one end does not trust the other; the text says which, and why.
        """
        return await self._dialer(endpoint).open_connection(endpoint)

    def lasts_s(self, writer: asyncio.StreamWriter) -> float:
        """How long after its opening a connection can be used."""
        return min((dialer.lasts_s(writer) for dialer in self._secured.values()), default=inf)

    def _dialer(self, endpoint: Endpoint) -> PlaintextDialer | SecuredDialer:
        return self._secured.get(endpoint.listener, self._plain)


def _demand(endpoint: Endpoint, protocol: str) -> None:
    if endpoint.security_protocol != protocol:
        raise ConnectionError(
            f"listener {endpoint} uses {endpoint.security_protocol} but this controller is configured "
            f"for {protocol}; choose a {protocol} inter-broker listener"
        )


async def _log_in(streams: Streams, mechanism: str, login: ClientLogin) -> int:
    """Log in; return for how many milliseconds the login is valid, 0 for ever."""
    asked = RequestHeader(ApiKey.SASL_HANDSHAKE, _VERSION, 0, CLIENT_ID)
    handshake = decode_handshake_answer(_VERSION, await _answer(streams, encode_handshake(asked, mechanism)))
    if handshake.error:
        enabled = ", ".join(handshake.mechanisms)
        raise AuthenticationFailed(f"the broker refuses the mechanism ({_named(handshake.error)}); it has {enabled}")
    token: bytes | None = await _said(login, login.first_token)
    number = lasts_ms = 0
    while token is not None:
        number += 1
        asked = RequestHeader(ApiKey.SASL_AUTHENTICATE, _VERSION, number, CLIENT_ID)
        answer = decode_authenticate_answer(_VERSION, await _answer(streams, encode_authenticate(asked, token)))
        if answer.error:
            raise AuthenticationFailed(f"the broker refuses the login: {answer.message or _named(answer.error)}")
        token = await _said(login, partial(login.next_token, answer.auth_bytes))
        lasts_ms = answer.session_lifetime_ms
    return lasts_ms


async def _said(login: ClientLogin, say: Callable[[], _T]) -> _T:
    """Compute a token, on a thread of its own if other servers are asked first; the end of the process does not wait
    for it."""
    if not login.asks_others:
        return say()
    loop = asyncio.get_running_loop()
    said: asyncio.Future[_T] = loop.create_future()

    def tell(result: _T | None, error: Exception | None) -> None:
        if said.done():
            return  # the caller has stopped waiting
        if error is not None:
            said.set_exception(error)
        else:
            said.set_result(cast("_T", result))

    def run() -> None:
        try:
            outcome: tuple[_T | None, Exception | None] = say(), None
        except Exception as error:
            outcome = None, error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, *outcome)

    threading.Thread(target=run, name="login", daemon=True).start()
    return await said


async def _answer(streams: Streams, question: bytes) -> bytes:
    reader, writer = streams
    writer.write(question)
    try:
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        if not 0 <= size <= _LARGEST_ANSWER:
            raise ConnectionError(
                f"an answer to a login announces {size} bytes; the server there does not speak Kafka's protocol"
            )
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise ConnectionError("the broker hung up during the login") from None


def _named(error: int) -> str:
    return next((known.name for known in ErrorCode if known == error), f"error {error}")
