"""PLAIN: is this the password of that user?

Source: RFC 4616; Kafka's PlainSaslServer and PlainServerCallbackHandler.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from secrets import token_bytes
from typing import Final

from controller.security.failures import AuthenticationFailed, shown_to_client
from controller.security.jaas import PLAIN_LOGIN, LoginModule
from controller.security.server_mechanism import ServerMechanism

_USER = "user_"
_BLIND: Final = token_bytes(32)
WRONG = "Authentication failed: Invalid username or password"
OTHER_IDENTITY = "Authentication failed: Client requested an authorization id that is different from username"


class PlainServer(ServerMechanism):
    """Users are the options `user_<name>` of the listener's login module, if that is Kafka's for PLAIN."""

    def __init__(self, module: LoginModule) -> None:
        self._module = module

    def answer(self, token: bytes) -> bytes:
        """Check the credentials; the answer to a correct login is empty.

        Raises:
            AuthenticationFailed: unknown user or wrong password.
        """
        parts = token.decode("utf-8", "replace").split("\0", 3)
        if len(parts) != 3:
            raise shown_to_client(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        identity, user, password = parts
        if not user:
            raise shown_to_client("Authentication failed: username not specified")
        if not password:
            raise shown_to_client("Authentication failed: password not specified")
        if not self._is_password(user, password):
            raise AuthenticationFailed(f"wrong password, or no such user: {user!r}", WRONG)
        if identity and identity != user:
            raise shown_to_client(OTHER_IDENTITY)
        self.user, self.is_done = user, True
        return b""

    def _is_password(self, user: str, password: str) -> bool:
        """Takes the same time for unknown users and for passwords of any length."""
        expected = self._module.option(_USER + user) if self._module.name == PLAIN_LOGIN else None
        is_same = hmac.compare_digest(_blinded(password), _blinded(expected or ""))
        return is_same and expected is not None


def _blinded(password: str) -> bytes:
    return hmac.digest(_BLIND, password.encode("utf-8", "surrogatepass"), sha256().name)
