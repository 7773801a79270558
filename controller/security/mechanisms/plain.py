"""PLAIN: is this the password of that user?

Source: RFC 4616; Kafka's PlainSaslServer and PlainServerCallbackHandler.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from secrets import token_bytes
from typing import Final

from controller.security.failures import AuthenticationFailed, told
from controller.security.jaas import PLAIN_LOGIN, LoginModule

_USER = "user_"
_BLIND: Final = token_bytes(32)
WRONG = "Authentication failed: Invalid username or password"
OTHER_IDENTITY = "Authentication failed: Client requested an authorization id that is different from username"


class PlainServer:
    """The users are options `user_<name>` of the listener's login module, if that is Kafka's for PLAIN."""

    expires_at_ms: int | None = None
    is_token = False

    def __init__(self, module: LoginModule) -> None:
        self._module = module
        self.is_done = False
        self.user = ""

    def answer(self, token: bytes) -> bytes:
        """Nothing more is said to a user who is known.

        Raises:
            AuthenticationFailed: not a user with this password.
        """
        parts = token.decode("utf-8", "replace").split("\0", 3)
        if len(parts) != 3:
            raise told(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        identity, user, password = parts
        if not user:
            raise told("Authentication failed: username not specified")
        if not password:
            raise told("Authentication failed: password not specified")
        if not self._is_password(user, password):
            raise AuthenticationFailed(f"wrong password, or no such user: {user!r}", WRONG)
        if identity and identity != user:
            raise told(OTHER_IDENTITY)
        self.user, self.is_done = user, True
        return b""

    def _is_password(self, user: str, password: str) -> bool:
        """As long for a user who is not there, and for a password of another length."""
        expected = self._module.option(_USER + user) if self._module.name == PLAIN_LOGIN else None
        is_same = hmac.compare_digest(_blinded(password), _blinded(expected or ""))
        return is_same and expected is not None


def _blinded(password: str) -> bytes:
    return hmac.digest(_BLIND, password.encode("utf-8", "surrogatepass"), sha256().name)
