"""Is this token valid, where tokens are not signed? For development, as in Kafka.

Source: KIP-255; Kafka's OAuthBearerUnsecuredValidatorCallbackHandler, OAuthBearerUnsecuredJws,
OAuthBearerValidationUtils and OAuthBearerScopeUtils.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import msgspec

from controller.security.failures import UnusableSecurity
from controller.security.jaas import LoginModule
from controller.security.tokens.oauthbearer import BearerToken, TokenRefused, Validate

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_PREFIX = "unsecuredValidator"
_Number = (int, float)


def unsecured_tokens(module: LoginModule, now_ms: Callable[[], int]) -> Validate:
    """The validation that a listener's login module configures by its options `unsecuredValidator…`.

    Raises:
        UnusableSecurity: an option is no scope or no number of milliseconds.
    """
    principal_claim = _option(module, "PrincipalClaimName") or "sub"
    scope_claim = _option(module, "ScopeClaimName") or "scope"
    needed = [item for item in _option(module, "RequiredScope").split(" ") if item]
    if not all(_SCOPE.fullmatch(item) for item in needed):
        raise UnusableSecurity(f"sasl.jaas.config: {_PREFIX}RequiredScope has an invalid scope value")
    try:
        skew_ms = int(_option(module, "AllowableClockSkewMs") or "0")
    except ValueError:
        skew_ms = -1
    if skew_ms < 0:
        raise UnusableSecurity(f"sasl.jaas.config: {_PREFIX}AllowableClockSkewMs must be a number that is not negative")

    def validate(token: str) -> BearerToken:
        claims = _claims(token)
        user = claims.get(principal_claim)
        if not isinstance(user, str) or not user.strip():
            raise TokenRefused(f"No principal name in JWT claim: {principal_claim}")
        expires = _check_times(claims, now_ms(), skew_ms)
        lacking = set(needed) - _scopes(claims, scope_claim)
        if lacking:
            wanted = f"[{', '.join(needed)}]"
            raise TokenRefused(f"it lacks {len(lacking)} of the scopes {wanted}", "insufficient_scope", wanted)
        return BearerToken(user, round(expires * 1000))

    return validate


def _check_times(claims: dict[str, Any], now: int, skew_ms: int) -> float:
    """When it expires."""
    issued, expires = _seconds(claims, "iat"), _seconds(claims, "exp")
    if expires is None:
        raise TokenRefused("No expiration time in JWT")
    if issued is not None and 1000 * issued > now + skew_ms:
        raise TokenRefused("it was issued later than now")
    if now - skew_ms >= 1000 * expires:
        raise TokenRefused("it has expired")
    if issued is not None and expires <= issued:
        raise TokenRefused("it expires before it was issued")
    return expires


def _option(module: LoginModule, name: str) -> str:
    return (module.option(_PREFIX + name) or "").strip()


def _claims(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if ".." in token or len(parts) != 3:
        raise TokenRefused("Unsecured JWS compact serializations must have 3 dot-separated Base64URL-encoded values")
    header, claims = _decoded(parts[0]), _decoded(parts[1])
    if header.get("alg") != "none":
        raise TokenRefused("Unsecured JWS must have 'none' for an algorithm")
    if parts[2]:
        raise TokenRefused("Unsecured JWS must not contain a digital signature")
    return {name: _converted(value) for name, value in claims.items()}


def _decoded(part: str) -> dict[str, Any]:
    """Kafka uses plain Base64 here, not the URL-safe variant."""
    try:
        return msgspec.json.decode(b64decode(part + "=" * (-len(part) % 4), validate=True), type=dict[str, Any])
    except (ValueError, RecursionError):
        raise TokenRefused("malformed Base64 or JSON") from None


def _converted(value: Any) -> Any:
    """What Kafka makes of a JSON value: numbers, lists of texts, otherwise text."""
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    is_number = isinstance(value, _Number) and not isinstance(value, bool)
    return value if is_number else _as_text(value)


def _as_text(value: Any) -> str:
    match value:
        case str():
            return value
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict() | list():
            return ""
    return str(value)


def _seconds(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, _Number):
        raise TokenRefused(f"The '{name}' claim was not of type Number")
    if abs(value) > 1e15:
        raise TokenRefused(f"The '{name}' claim is no time")
    return float(value)


def _scopes(claims: dict[str, Any], name: str) -> set[str]:
    """A text is one scope, even with blanks in it."""
    value = claims.get(name)
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | None):
        raise TokenRefused(f"The '{name}' claim was not of type List")
    return {item.strip() for item in value or () if item.strip()}
