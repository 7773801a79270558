"""How long is one of our bearer tokens valid, and when is the next one fetched?

Source: KIP-255; Kafka's LoginAccessTokenValidator, ExpiringCredentialRefreshingLogin, ExpiringCredentialRefreshConfig.
"""

from __future__ import annotations

import re
from typing import Any, Final

import jwt
from msgspec import Struct

from controller.security.failures import AuthenticationFailed
from controller.settings.security import Secret

_ON_THE_WIRE: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_LATEST_S: Final = 1e12


class NoToken(AuthenticationFailed):
    """There is no token for brokers; if that `is_final`, repeating the same request would not help."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        super().__init__(f"no token for the broker: {why}")
        self.is_final = is_final


class OwnToken(Struct, frozen=True):
    """A token with which we log in. Times are milliseconds since 1970."""

    text: Secret
    expires_at_ms: int
    issued_at_ms: int | None = None


class Refresh(Struct, frozen=True):
    """The settings `sasl.login.refresh.…`."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300


def read_token(text: str, user_claim: str = "sub") -> OwnToken:
    """Parse a JSON Web Token that was issued to us. Only the broker checks its signature.

    Raises:
        NoToken: it is malformed, or lacks its owner or its expiry.
    """
    text = text.strip()
    try:
        claims = jwt.decode(text, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise NoToken(f"the token is no JSON Web Token ({type(error).__name__})", is_final=True) from None
    user, expires, issued = claims.get(user_claim), _seconds(claims, "exp"), _seconds(claims, "iat")
    if not _ON_THE_WIRE.fullmatch(text) or expires is None:
        raise NoToken("the token does not say when it expires (exp)", is_final=True)
    if not isinstance(user, str) or not user.strip():
        raise NoToken(f"the token does not name its owner ({user_claim})", is_final=True)
    return OwnToken(Secret(text), expires * 1000, None if issued is None else issued * 1000)


def next_fetch_ms(token: OwnToken, now_ms: int, refresh: Refresh, chance: float) -> int:
    """When to fetch the next token; `chance` is from 0 to 1.

    >>> next_fetch_ms(OwnToken(Secret("t"), 3_600_000, 0), 0, Refresh(), 1.0)
    3060000
    """
    share = refresh.window_factor + refresh.window_jitter * chance
    expires, earliest = token.expires_at_ms, now_ms + refresh.min_period_s * 1000
    latest = expires - refresh.buffer_s * 1000
    if earliest > latest:
        return now_ms + round((expires - now_ms) * share)
    begins = now_ms if token.issued_at_ms is None else token.issued_at_ms
    return max(earliest, min(latest, begins + round((expires - begins) * share)))


def _seconds(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _LATEST_S:
        return None
    return int(value)
