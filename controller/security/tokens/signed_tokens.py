"""Is this token signed by an issuer we trust, for us, and still valid?

PyJWT checks the signature; the claims are checked here, by the given clock. The keys are fetched elsewhere.

Source: KIP-768; Kafka's OAuthBearerValidatorCallbackHandler, ValidatorAccessTokenValidator and ClaimValidationUtils,
and what the library jose4j requires: `exp` and `iat`, `nbf` if present, only an expected audience; RSA keys of 2048
bits, shared secrets as long as the hash, and the algorithm's own curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jwt
from jwt.types import Options
from msgspec import Struct

from controller.security.failures import UnusableSecurity
from controller.security.tokens.oauthbearer import BearerToken, TokenRefused, Validate

_PREFIX = "sasl.oauthbearer."
_DEFAULT_CLOCK_SKEW = "30"
_JUDGED_BY_PYJWT: Options = {
    "verify_signature": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
    "enforce_minimum_key_length": True,
}
_KEY_TYPES: Mapping[str, str] = {"RS": "RSA", "PS": "RSA", "ES": "EC", "HS": "oct", "Ed": "OKP"}

Keys = Callable[[str | None], Sequence[Mapping[str, Any]]]
"""The keys of a JSON Web Key Set, as they are now. The argument is the key id wanted, so that a missing key can be
fetched for the next login."""


class Expectations(Struct, frozen=True):
    """What a token must contain, by the settings `sasl.oauthbearer.…`."""

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    user_claim: str = "sub"


def expectations(options: Mapping[str, str]) -> Expectations:
    """Parse `sasl.oauthbearer.expected.audience` and related settings.

    Raises:
        UnusableSecurity: the clock skew is no number, or a name is empty.
    """
    audiences = options.get(_PREFIX + "expected.audience", "").split(",")
    try:
        skew = int(options.get(_PREFIX + "clock.skew.seconds", _DEFAULT_CLOCK_SKEW))
    except ValueError:
        skew = -1
    if skew < 0:
        raise UnusableSecurity(f"{_PREFIX}clock.skew.seconds must be a number that is not negative")
    names = [options.get(_PREFIX + key, usual).strip() for key, usual in _CLAIM_NAMES.items()]
    if not all(names):
        raise UnusableSecurity(f"{_PREFIX}scope.claim.name and sub.claim.name must not be empty")
    return Expectations(
        audiences=frozenset(audience.strip() for audience in audiences if audience.strip()),
        issuer=options.get(_PREFIX + "expected.issuer", "").strip() or None,
        clock_skew_s=skew,
        scope_claim=names[0],
        user_claim=names[1],
    )


_CLAIM_NAMES = {"scope.claim.name": "scope", "sub.claim.name": "sub"}


def signed_tokens(expected: Expectations, keys: Keys, now_ms: Callable[[], int]) -> Validate:
    """The judgement of tokens that are signed with one of the keys."""

    def validate(token: str) -> BearerToken:
        claims = _verified(token, keys)
        _check_scopes(claims, expected.scope_claim)
        expires = _check_times(claims, now_ms() / 1000, expected.clock_skew_s)
        _check_audience(claims.get("aud"), expected.audiences)
        if expected.issuer is not None and claims.get("iss") != expected.issuer:
            raise TokenRefused("its issuer is not the expected one")
        user = claims.get(expected.user_claim)
        if not isinstance(user, str) or not user.strip():
            raise TokenRefused(f"{expected.user_claim} must be a non-empty text")
        return BearerToken(user.strip(), round(expires * 1000))

    return validate


def _verified(token: str, keys: Keys) -> Mapping[str, Any]:
    """Its claims, if one of the keys has signed it; any other bytes are refused."""
    try:
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm[:2] not in _KEY_TYPES:
            raise TokenRefused("its signature algorithm is not accepted")
        for key in keys(key_id):
            if _fits(key, algorithm, key_id):
                return _signed_with(key, token, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise TokenRefused(f"its signature could not be verified ({type(error).__name__})") from None
    raise TokenRefused("no known key matches the one it names")


def _signed_with(key: Mapping[str, Any], token: str, algorithm: str) -> Mapping[str, Any]:
    public = jwt.PyJWK(dict(key), algorithm=algorithm)
    claims: Mapping[str, Any] = jwt.decode(token, public, algorithms=[algorithm], options=_JUDGED_BY_PYJWT)
    return claims


def _fits(key: Mapping[str, Any], algorithm: str, key_id: str | None) -> bool:
    """Compares the kind of key first: a public key is never taken for a shared secret."""
    return (
        key.get("kty") == _KEY_TYPES[algorithm[:2]]
        and (key_id is None or key.get("kid") == key_id)
        and key.get("alg") in (None, algorithm)
        and key.get("use") in (None, "sig")
        and "verify" in (key.get("key_ops") or ("verify",))
    )


def _check_times(claims: Mapping[str, Any], now_s: float, skew_s: int) -> float:
    """When it expires."""
    expires, issued = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expires is None or issued is None:
        raise TokenRefused("it lacks one of the claims exp and iat")
    if now_s - skew_s >= expires:
        raise TokenRefused("it has expired")
    begins = _seconds(claims, "nbf")
    if begins is not None and now_s + skew_s < begins:
        raise TokenRefused("it is not valid yet")
    if min(expires, issued) < 0:
        raise TokenRefused("exp and iat must not be negative")
    return expires


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or abs(value) > 1e15:
        raise TokenRefused(f"{name} is not a time")
    return float(value)


def _check_audience(found: Any, expected: frozenset[str]) -> None:
    audiences = [found] if isinstance(found, str) else found
    if audiences is None and not expected:
        return
    if not isinstance(audiences, list) or expected.isdisjoint(item for item in audiences if isinstance(item, str)):
        raise TokenRefused("its audience is not an expected one")


def _check_scopes(claims: Mapping[str, Any], name: str) -> None:
    scopes = claims.get(name)
    listed = [scopes] if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
    if not all(isinstance(scope, str) and scope.strip() for scope in listed) or len({*listed}) != len(listed):
        raise TokenRefused(f"{name} has an empty or duplicate scope")
