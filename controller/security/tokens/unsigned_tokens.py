"""Which token do we make ourselves where tokens are not signed? For development, as in Kafka.

Source: KIP-255; Kafka's OAuthBearerUnsecuredLoginCallbackHandler.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from controller.security.failures import UnusableSecurity
from controller.security.jaas import LoginModule
from controller.security.tokens.own_token import OwnToken
from controller.settings.security import Secret

PREFIX: Final = "unsecuredLogin"
EXTENSION: Final = PREFIX + "Extension_"
_USUAL_LIFETIME_S: Final = "3600"


def unsigned_tokens(module: LoginModule, now_ms: Callable[[], int]) -> Callable[[], OwnToken]:
    """Tokens by the options `unsecuredLogin…` of a login module.

    Raises:
        UnusableSecurity: an option is no number, or the token's owner is not set.
    """
    claims = _claims(module.options)
    principal = (module.option(PREFIX + "PrincipalClaimName") or "").strip() or "sub"
    user = claims.get(principal)
    if not isinstance(user, str) or not user.strip():
        raise UnusableSecurity(
            f"sasl.jaas.config: {PREFIX}StringClaim_{principal} is missing: it names the principal; set it or "
            "sasl.login.callback.handler.class and sasl.oauthbearer.token.endpoint.url"
        )
    lifetime = _number(module.option(PREFIX + "LifetimeSeconds") or _USUAL_LIFETIME_S, "LifetimeSeconds")

    def made() -> OwnToken:
        now = now_ms()
        ends = now / 1000 + int(lifetime)
        parts = [{"alg": "none"}, {"exp": ends, "iat": now / 1000, **claims}]
        return OwnToken(Secret(f"{'.'.join(map(_encoded, parts))}."), round(ends * 1000), now)

    return made


def _claims(options: Mapping[str, Secret]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option, secret in options.items():
        kind, _, name = option.removeprefix(PREFIX).partition("_")
        if not option.startswith(PREFIX) or not name or kind not in _KINDS:
            continue
        if name in ("iat", "exp"):
            raise UnusableSecurity(f"sasl.jaas.config: {option}: the claim {name} cannot be set")
        found[name] = _KINDS[kind](secret.reveal(), f"{kind}_{name}")
    return found


def _number(text: str, name: str) -> float:
    try:
        number = float(text)
        json.dumps(number, allow_nan=False)
    except ValueError:
        raise UnusableSecurity(f"sasl.jaas.config: {PREFIX}{name} must be a number") from None
    return number


def _listed(text: str, _: str) -> list[str]:
    """The first character separates the others."""
    return text[1:].split(text[0]) if len(text) > 1 else []


_KINDS: Mapping[str, Callable[[str, str], Any]] = {
    "StringClaim": lambda text, _: text,
    "NumberClaim": _number,
    "ListClaim": _listed,
}


def _encoded(part: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
