"""What may a client send on a SASL listener before it has authenticated, and when must it do so again?

Source: Kafka's SaslServerAuthenticator and KafkaChannel; KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import ANONYMOUS
from controller.security.failures import AuthenticationFailed
from controller.security.login import Login
from controller.wire.apis import ANSWERED, ApiKey, api_name
from controller.wire.frames import RequestHeader, framed
from controller.wire.requests import decode_header
from controller.wire.sasl import (
    decode_authenticate,
    decode_handshake,
    encode_authenticate_answer,
    encode_handshake_answer,
)

_LOGIN = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_BARE = 0  # the version of SaslHandshake that raw tokens follow


class LoginRejected(Exception):
    """Close the connection after sending `answer`, if there is one; the text, for the log, says why."""

    def __init__(self, reason: str, answer: bytes | None = None) -> None:
        super().__init__(reason)
        self.answer = answer


class Entrance:
    """The logins of one connection."""

    def __init__(self, login: Login, now: Callable[[], float]) -> None:
        """`now` returns seconds."""
        self._login = login
        self._now = now
        self._has_begun = False
        self._is_bare = False
        self._until: float | None = None

    @property
    def principal(self) -> str:
        """The authenticated principal, anonymous before the end of a login."""
        return self._login.principal or ANONYMOUS

    @property
    def is_open(self) -> bool:
        """Whether the client has authenticated."""
        return self._login.is_open

    def takes(self, api_key: int) -> bool:
        """Whether the next message is part of a login.

        Raises:
            LoginRejected: the login has expired, and this message does not renew it.
        """
        if not self._login.is_open:
            return self._has_begun or api_key != ApiKey.API_VERSIONS
        if api_key in _LOGIN:
            return True
        if self._until is not None and self._now() > self._until:
            raise LoginRejected(f"{self.principal} has not logged in again in time")
        return False

    def answer(self, frame: bytes) -> bytes:
        """The answer to a login message, with its size.

        Raises:
            LoginRejected: the client is refused.
            UnreadableRequest: it is no login message.
        """
        if self._is_bare and not self._login.is_open:
            return framed(self._bare(frame))
        header = decode_header(frame)
        if header.api_key in _LOGIN and header.api_version not in ANSWERED[header.api_key]:
            raise LoginRejected(f"{api_name(header.api_key)} in version {header.api_version}, which no broker knows")
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(header, frame)
        if header.api_key == ApiKey.SASL_AUTHENTICATE and self._has_begun:
            return self._authenticate(header, frame)
        raise LoginRejected(f"{api_name(header.api_key)} before a login")

    def _handshake(self, header: RequestHeader, frame: bytes) -> bytes:
        mechanism = decode_handshake(header, frame)
        try:
            answered = self._login.handshake(mechanism)
        except AuthenticationFailed as failure:
            raise LoginRejected(failure.reason, encode_handshake_answer(header, failure.error, ())) from None
        answer = encode_handshake_answer(header, answered.error, answered.mechanisms)
        if answered.error is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(answered.mechanisms)
            raise LoginRejected(f"mechanism {mechanism[:40]!r} is not enabled here, but {enabled}", answer)
        self._has_begun = True
        self._is_bare = header.api_version == _BARE
        return answer

    def _authenticate(self, header: RequestHeader, frame: bytes) -> bytes:
        token = decode_authenticate(header, frame)
        try:
            answered = self._login.authenticate(token)
        except AuthenticationFailed as failure:
            reply = encode_authenticate_answer(header, failure.error, failure.message) if failure.is_answered else None
            raise LoginRejected(failure.reason, reply) from None
        self._count_from_now()
        return encode_authenticate_answer(
            header, auth_bytes=answered.auth_bytes, session_lifetime_ms=answered.session_lifetime_ms
        )

    def _bare(self, token: bytes) -> bytes:
        """Before KIP-152, only the mechanism's own bytes are sent and failures are not reported."""
        try:
            answered = self._login.authenticate(token)
        except AuthenticationFailed as failure:
            raise LoginRejected(failure.reason) from None
        self._count_from_now()
        return answered.auth_bytes

    def _count_from_now(self) -> None:
        if self._login.is_open:
            lasts_ms = self._login.session_ms
            self._until = None if lasts_ms is None else self._now() + lasts_ms / 1000
