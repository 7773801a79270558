"""OAUTHBEARER: whose token is this?

A token that is no good is answered by RFC 7628's JSON, and only the client's next message ends the login.

Source: RFC 7628, KIP-255, KIP-342; Kafka's OAuthBearerSaslServer and OAuthBearerClientInitialResponse.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from controller.security.failures import AuthenticationFailed, told

_FIRST = re.compile(
    r"n,(?:a=(?P<identity>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTH = re.compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_UNDERSTOOD: Final = b"\x01"


class BearerToken(Struct, frozen=True):
    """Whose a token is that was found good, and when it ends (milliseconds since 1970)."""

    user: str
    expires_at_ms: int


class TokenRefused(Exception):
    """A token that is no good.

    Shape:
        `reason` is for the log; the client gets `status` and, where more scopes were needed, `scope`.
    """

    def __init__(self, reason: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.scope = scope

    def as_json(self) -> str:
        """What the client gets.

        >>> TokenRefused("late", scope="[a, b]").as_json()
        '{"status":"invalid_token", "scope":"[a, b]"}'
        """
        scope = "" if self.scope is None else f', "scope":"{self.scope}"'
        return f'{{"status":"{self.status}"{scope}}}'


Validate = Callable[[str], BearerToken]


class OAuthBearerServer:
    """One round, or two for a token that is no good. `validate` raises TokenRefused."""

    is_token = False

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refused: TokenRefused | None = None
        self.is_done = False
        self.user = ""
        self.expires_at_ms: int | None = None

    def answer(self, token: bytes) -> bytes:
        """Nothing for a good token; JSON for any other.

        Raises:
            AuthenticationFailed: ill-formed, for another principal, or the client has read why it is refused.
        """
        if token == _UNDERSTOOD and self._refused is not None:
            raise AuthenticationFailed(self._refused.reason, self._refused.as_json())
        self._refused = None
        identity, value = _read(token.decode("utf-8", "replace"))
        try:
            bearer = self._validate(value)
        except TokenRefused as refused:
            self._refused = refused
            return refused.as_json().encode()
        if identity and identity != bearer.user:
            raise told(
                f"Authentication failed: Client requested an authorization id ({identity}) that is different from the "
                f"token's principal name ({bearer.user})"
            )
        self.user, self.expires_at_ms, self.is_done = bearer.user, bearer.expires_at_ms, True
        return b""


def _read(message: str) -> tuple[str, str]:
    """The identity asked for, and the token."""
    found = _FIRST.fullmatch(message)
    if found is None:
        raise AuthenticationFailed("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.partition("=")[::2] for pair in found["pairs"].split("\x01")[:-1])
    if "auth" not in pairs:
        raise AuthenticationFailed("Invalid OAUTHBEARER client first message: 'auth' not specified")
    bearer = _AUTH.fullmatch(pairs["auth"])
    if bearer is None:
        raise AuthenticationFailed("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if bearer["scheme"].lower() != "bearer":
        raise AuthenticationFailed("Invalid scheme in OAUTHBEARER client first message")
    return found["identity"] or "", bearer["token"]
