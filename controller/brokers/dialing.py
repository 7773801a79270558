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
from typing import Final, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from controller.core.messages.errors import ErrorCode
from controller.security.client_login import ClientLogin
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

READ_AHEAD_BYTES = 1024 * 1024
_VERSION: Final = 1  # of both requests: every broker from 2.4 on answers it
_LARGEST_ANSWER: Final = 512 * 1024
_SIZE = struct.Struct(">i")

_T = TypeVar("_T")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Security(Protocol):
    """How we are seen by brokers on one listener."""

    @property
    def protocol(self) -> str:
        """Its security protocol."""

    @property
    def mechanism(self) -> str:
        """The SASL mechanism, where it is used."""

    def context(self) -> ssl.SSLContext | None:
        """For the next connection; None where nothing is encrypted."""

    def login(self, host: str) -> ClientLogin | None:
        """For the next connection; None where nobody logs in.

        Raises:
            UnusableSecurity: there is nothing to log in with.
        """


class PlaintextDialer:
    """Connections to PLAINTEXT listeners."""

    def __init__(self, read_ahead_bytes: int = READ_AHEAD_BYTES) -> None:
        """Of a response that nobody takes, about twice as much is held."""
        self._read_ahead_bytes = read_ahead_bytes

    def reaches(self, endpoint: Endpoint) -> bool:
        """Whether a connection may be tried."""
        return endpoint.security_protocol == "PLAINTEXT"

    async def open_connection(self, endpoint: Endpoint) -> Streams:
        """One new connection.

        Raises:
            OSError: nobody listens there, or the listener is secured and plain text would not be understood.
        """
        _demand(endpoint, "PLAINTEXT")
        return await asyncio.open_connection(endpoint.host, endpoint.port, limit=self._read_ahead_bytes)

    def lasts_s(self, writer: asyncio.StreamWriter) -> float:  # noqa: ARG002 (nobody has logged in)
        """For ever."""
        return inf


class SecuredDialer:
    """Connections to listeners of one security protocol, as whoever we are there."""

    def __init__(self, security: Security, read_ahead_bytes: int = READ_AHEAD_BYTES) -> None:
        self._security = security
        self._read_ahead_bytes = read_ahead_bytes
        self._lasts_s: WeakKeyDictionary[asyncio.StreamWriter, float] = WeakKeyDictionary()

    def reaches(self, endpoint: Endpoint) -> bool:
        """Whether a connection may be tried."""
        return endpoint.security_protocol == self._security.protocol

    async def open_connection(self, endpoint: Endpoint) -> Streams:
        """One new connection, on which requests can be sent at once.

        Raises:
            OSError: nobody listens there, or one end does not trust the other; the text says which, and why.
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
            raise ConnectionError(f"no answer to a login, but {malformed}") from None
        except BaseException:
            streams[1].transport.abort()
            raise
        return streams

    def lasts_s(self, writer: asyncio.StreamWriter) -> float:
        """As long as the broker said at the login; it then wants another one (KIP-368)."""
        return self._lasts_s.get(writer, inf)


class ListenerDialer:
    """Connections to brokers on whatever listener, as whoever we are on that one."""

    def __init__(self, securities: Mapping[str, Security], read_ahead_bytes: int = READ_AHEAD_BYTES) -> None:
        """`securities` are by listener; a listener that is not among them is one of plain text."""
        self._plain = PlaintextDialer(read_ahead_bytes)
        self._secured = {name: SecuredDialer(security, read_ahead_bytes) for name, security in securities.items()}

    def reaches(self, endpoint: Endpoint) -> bool:
        """Whether a connection may be tried."""
        return self._dialer(endpoint).reaches(endpoint)

    async def open_connection(self, endpoint: Endpoint) -> Streams:
        """One new connection, on which requests can be sent at once.

        Raises:
            OSError: nobody listens there, or one end does not trust the other; the text says which, and why.
        """
        return await self._dialer(endpoint).open_connection(endpoint)

    def lasts_s(self, writer: asyncio.StreamWriter) -> float:
        """For how long after it was opened a connection is good."""
        return min((dialer.lasts_s(writer) for dialer in self._secured.values()), default=inf)

    def _dialer(self, endpoint: Endpoint) -> PlaintextDialer | SecuredDialer:
        return self._secured.get(endpoint.listener, self._plain)


def _demand(endpoint: Endpoint, protocol: str) -> None:
    if endpoint.security_protocol != protocol:
        raise ConnectionError(
            f"listener {endpoint} speaks {endpoint.security_protocol} but this controller is configured "
            f"for {protocol}; choose a {protocol} inter-broker listener"
        )


async def _log_in(streams: Streams, mechanism: str, login: ClientLogin) -> int:
    """For how many milliseconds the login counts; 0 for ever."""
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
    """On a thread of its own where others are asked first; nobody waits for that one when the process ends."""
    if not login.asks_others:
        return say()
    loop = asyncio.get_running_loop()
    said: asyncio.Future[_T] = loop.create_future()

    def tell(result: _T | None, error: Exception | None) -> None:
        if said.done():
            return  # nobody waits any more
        if error is not None:
            said.set_exception(error)
        else:
            said.set_result(cast("_T", result))

    def run() -> None:
        try:
            outcome: tuple[_T | None, Exception | None] = say(), None
        except Exception as error:
            outcome = None, error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, *outcome)

    threading.Thread(target=run, name="login", daemon=True).start()
    return await said


async def _answer(streams: Streams, question: bytes) -> bytes:
    reader, writer = streams
    writer.write(question)
    try:
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        if not 0 <= size <= _LARGEST_ANSWER:
            raise ConnectionError(f"an answer to a login announces {size} bytes; whoever listens there speaks no Kafka")
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise ConnectionError("the broker has hung up during the login") from None


def _named(error: int) -> str:
    return next((known.name for known in ErrorCode if known == error), f"error {error}")
