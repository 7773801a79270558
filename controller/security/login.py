"""How is a client answered that logs in, and logs in again?

Independent of request formats: a listener passes the name of a mechanism, then token after token.

Source: Kafka's SaslServerAuthenticator and KafkaChannel; KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from controller.core.messages.errors import ErrorCode
from controller.security.failures import AuthenticationFailed
from controller.security.server_mechanism import ServerMechanism

LEAST_BETWEEN_LOGINS_MS = 1_000

Mechanisms = Mapping[str, Callable[[], ServerMechanism]]
"""The enabled mechanisms; each makes the server's side of one login."""


class HandshakeAnswer(Struct, frozen=True):
    """The answer to SaslHandshake. After UNSUPPORTED_SASL_MECHANISM, close the connection."""

    error: ErrorCode
    mechanisms: tuple[str, ...]


class TokenAnswer(Struct, frozen=True):
    """A successful answer to SaslAuthenticate; after SaslHandshake v0, only `auth_bytes` are sent.

    Units:
        `session_lifetime_ms` milliseconds, 0 while the login goes on and if it never expires; see
        `Login.session_ms`.
    """

    auth_bytes: bytes
    session_lifetime_ms: int = 0


class Login:
    """One connection's logins: the first, and later ones (KIP-368) by the same mechanism as the same principal.

    Shape:
        `principal` is None until a login has succeeded, and while one fails or goes on. `session_ms` is how long the
        last login is valid from its end, None for ever; close the connection if the client has not logged in again by
        then. `is_token` says that the client used a delegation token.

    Raises:
        AuthenticationFailed: send its error and message, if the client may see it, then close. `message` is never None.
    """

    def __init__(self, mechanisms: Mechanisms, now_ms: Callable[[], int], max_reauth_ms: int = 0) -> None:
        """`now_ms` returns milliseconds since 1970."""
        self._mechanisms = mechanisms
        self._now_ms = now_ms
        self._max_reauth_ms = max_reauth_ms
        self._mechanism = ""
        self._server: ServerMechanism | None = None
        self._known_before: str | None = None
        self._bad_mechanism: str | None = None
        self._began_again_ms: int | None = None
        self._is_over = False
        self.principal: str | None = None
        self.session_ms: int | None = None
        self.is_token = False

    @property
    def is_open(self) -> bool:
        """Whether the client has authenticated and may send requests."""
        return self.principal is not None

    @property
    def kind(self) -> str:
        """Kafka's word for a first or a later login."""
        return "authentication" if self._known_before is None else "re-authentication"

    def handshake(self, mechanism: str) -> HandshakeAnswer:
        """The client asks for this mechanism."""
        enabled = tuple(self._mechanisms)
        if self._is_over or (self._server is not None and not self.is_open):
            self._is_over = True
            text = "Unexpected Kafka request of type SASL_HANDSHAKE during SASL authentication."
            raise AuthenticationFailed(text, text, error=ErrorCode.ILLEGAL_SASL_STATE)
        if self.is_open and not self._may_begin_again():
            return HandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, ())
        if mechanism not in self._mechanisms:
            self.principal, self._is_over = None, True
            return HandshakeAnswer(ErrorCode.UNSUPPORTED_SASL_MECHANISM, enabled)
        if self.is_open and mechanism != self._mechanism:
            self._bad_mechanism = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of mechanism "
                f"'{self._mechanism}'"
            )
        self._known_before, self.principal = self.principal, None
        self._mechanism = mechanism
        self._server = self._mechanisms[mechanism]()
        return HandshakeAnswer(ErrorCode.NONE, enabled)

    def _may_begin_again(self) -> bool:
        """At most one re-authentication a second."""
        now = self._now_ms()
        if self._began_again_ms is not None and 0 <= now - self._began_again_ms < LEAST_BETWEEN_LOGINS_MS:
            return False
        self._began_again_ms = now
        return True

    def authenticate(self, token: bytes) -> TokenAnswer:
        """Process the client's next token of this login."""
        server = self._server
        if server is None or self._is_over or self.is_open:
            text = "SaslAuthenticate request received after successful authentication"
            if not self.is_open:
                self._is_over, text = True, "Unexpected Kafka request of type SASL_AUTHENTICATE during SASL handshake."
            raise AuthenticationFailed(text, text, error=ErrorCode.ILLEGAL_SASL_STATE)
        try:
            return self._answered(server, token)
        except AuthenticationFailed as failure:
            self._is_over = True
            if failure.message is None:
                failure.message = (
                    f"Authentication failed during {self.kind} due to invalid credentials with SASL mechanism "
                    f"{self._mechanism}"
                )
            raise

    def _answered(self, server: ServerMechanism, token: bytes) -> TokenAnswer:
        if self._bad_mechanism is not None:
            raise AuthenticationFailed(self._bad_mechanism, self._bad_mechanism, is_answered=False)
        auth_bytes = server.answer(token)
        if not server.is_done:
            return TokenAnswer(auth_bytes)
        principal = f"User:{server.user}"
        if self._known_before not in (None, principal):
            before, after = (name.replace(":", ".", 1) for name in (self._known_before or "", principal))
            text = f"Cannot change principals during re-authentication from {before}: {after}"
            raise AuthenticationFailed(text, text)
        self.principal, self.is_token = principal, server.is_token
        self.session_ms = self._lifetime_ms(server.expires_at_ms)
        return TokenAnswer(auth_bytes, self.session_ms or 0)

    def _lifetime_ms(self, expires_at_ms: int | None) -> int | None:
        """The shorter of what the credential and `connections.max.reauth.ms` allow."""
        limits = [] if expires_at_ms is None else [expires_at_ms - self._now_ms()]
        if self._max_reauth_ms > 0:
            limits.append(self._max_reauth_ms)
        return max(0, min(limits)) if limits else None
