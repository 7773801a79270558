"""Where do our tokens for OAUTHBEARER come from, by the settings beside the login module?

Source: KIP-255, KIP-768; Kafka's OAuthBearerLoginCallbackHandler, AccessTokenRetrieverFactory, JaasOptionsUtils and
LoginManager, which shares a login among all users of the same configuration, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from controller.security.failures import UnusableSecurity
from controller.security.identity_providers import encrypting
from controller.security.jaas import LoginModule
from controller.security.tokens.bearer_tokens import BearerTokens
from controller.security.tokens.own_token import Refresh, read_token
from controller.security.tokens.signed_tokens import expectations
from controller.security.tokens.token_endpoint import Client, Patience, TokenEndpoint, token_in
from controller.security.tokens.unsigned_tokens import EXTENSION, unsigned_tokens
from controller.settings.security import Secret

URL: Final = "sasl.oauthbearer.token.endpoint.url"
HANDLER: Final = "sasl.login.callback.handler.class"
_ENCODE: Final = "sasl.oauthbearer.header.urlencode"
_KAFKA: Final = "org.apache.kafka.common.security.oauthbearer."
_ENDPOINT: Final = frozenset(
    {f"{_KAFKA}OAuthBearerLoginCallbackHandler", f"{_KAFKA}secured.OAuthBearerLoginCallbackHandler"}
)
_UNSIGNED: Final = f"{_KAFKA}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")

TokenSource = Callable[[], tuple[str, Mapping[str, str]]]
"""Gives a bearer token, and the extensions to send with it (KIP-342); it may wait for an identity provider.

Raises:
    NoToken: there is none.
"""
Say = Callable[[str, str], None]


def token_source(module: LoginModule, options: Mapping[str, str], say: Say) -> TokenSource:
    """Tokens by a login module and the keys `sasl.…` beside it; fetches nothing yet.

    Raises:
        UnusableSecurity: names the setting to change.
    """
    handler = options.get(HANDLER, _UNSIGNED)
    if handler == _UNSIGNED:
        made, of_unsigned = unsigned_tokens(module, _now_ms), _extensions(module, EXTENSION)
        return lambda: (made().text.reveal(), of_unsigned)
    if handler not in _ENDPOINT:
        raise UnusableSecurity(
            f"{HANDLER}: {handler} is a Java class and cannot run here; only Kafka's own handlers are supported"
        )
    extensions = _extensions(module, "extension_")
    tokens = _shared(tuple(sorted(module.options.items(), key=str)), tuple(sorted(options.items())), say)

    def fetched() -> tuple[str, Mapping[str, str]]:
        token = tokens()
        tokens.keep()
        return token, extensions

    return fetched


@cache
def _shared(of_module: tuple[tuple[str, Secret], ...], beside: tuple[tuple[str, str], ...], say: Say) -> BearerTokens:
    options, of_login = dict(beside), {key: secret.reveal() for key, secret in of_module}
    ask, user_claim = _asking(options, of_login), expectations(options).user_claim
    return BearerTokens(lambda: read_token(ask(), user_claim), _refresh(options), _now_ms, say)


def _asking(options: Mapping[str, str], of_login: Mapping[str, str]) -> Callable[[], str]:
    url = _url(options)
    if url.scheme == "file":
        path = Path(url.path)
        if not path.is_file() or not os.access(path, os.R_OK):
            raise UnusableSecurity(f"{URL}: {path} is not a readable file")
        return partial(token_in, path)
    needed = {name: of_login.get(name, "").strip() for name in ("clientId", "clientSecret")}
    lacking = [name for name, value in needed.items() if not value]
    if lacking:
        raise UnusableSecurity(f"sasl.jaas.config: option {lacking[0]} is missing; {URL} needs it")
    encode = options.get(_ENCODE, "false").strip().lower()
    if encode not in ("true", "false"):
        raise UnusableSecurity(f"{_ENCODE} must be true or false")
    client = Client(
        needed["clientId"], Secret(needed["clientSecret"]), of_login.get("scope", "").strip(), encode == "true"
    )
    if url.scheme == "http":
        return TokenEndpoint(url, client, _patience(options))
    return TokenEndpoint(url, client, _patience(options), encrypting(of_login))


def _url(options: Mapping[str, str]) -> SplitResult:
    text = options.get(URL, "").strip()
    if not text:
        raise UnusableSecurity(f"{URL} is missing")
    with contextlib.suppress(ValueError):  # for a malformed port or address
        url = urlsplit(text)
        is_asked = url.scheme in ("http", "https") and url.hostname and url.port != 0
        if is_asked or (url.scheme == "file" and url.path):
            return url
    raise UnusableSecurity(f"{URL} must be a URL with http, https or file")


def _extensions(module: LoginModule, prefix: str) -> Mapping[str, str]:
    found = {
        option.removeprefix(prefix): value.reveal()
        for option, value in module.options.items()
        if option.startswith(prefix)
    }
    for name, value in found.items():
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name):
            raise UnusableSecurity(
                f"sasl.jaas.config: {prefix}…: an extension's name must consist of letters, and not be auth"
            )
        if not _EXTENSION_VALUE.fullmatch(value):
            raise UnusableSecurity(f"sasl.jaas.config: {prefix}{name} has a value that cannot be sent")
    return found


def _refresh(options: Mapping[str, str]) -> Refresh:
    usual, prefix = Refresh(), "sasl.login.refresh."
    return Refresh(
        _number(options, f"{prefix}window.factor", usual.window_factor, (0.5, 1.0)),
        _number(options, f"{prefix}window.jitter", usual.window_jitter, (0.0, 0.25)),
        int(_number(options, f"{prefix}min.period.seconds", usual.min_period_s, (0, 900))),
        int(_number(options, f"{prefix}buffer.seconds", usual.buffer_s, (0, 3600))),
    )


def _patience(options: Mapping[str, str]) -> Patience:
    usual, prefix = Patience(), "sasl.login."
    patience = Patience(
        _seconds(options, f"{prefix}connect.timeout.ms", usual.connect_s, 1),
        _seconds(options, f"{prefix}read.timeout.ms", usual.read_s, 1),
        _seconds(options, f"{prefix}retry.backoff.ms", usual.backoff_s, 0),
        _seconds(options, f"{prefix}retry.backoff.max.ms", usual.backoff_sum_s, 0),
    )
    if patience.backoff_sum_s < patience.backoff_s:
        raise UnusableSecurity(f"{prefix}retry.backoff.max.ms is less than {prefix}retry.backoff.ms")
    return patience


def _seconds(options: Mapping[str, str], key: str, usual_s: float, least_ms: int) -> float:
    return _number(options, key, usual_s * 1000, (least_ms, 2**31 - 1)) / 1000


def _number(options: Mapping[str, str], key: str, usual: float, bounds: tuple[float, float]) -> float:
    try:
        number = float(options.get(key, usual))
    except ValueError:
        number = float("nan")
    if not bounds[0] <= number <= bounds[1]:
        raise UnusableSecurity(f"{key} must be a number from {bounds[0]} to {bounds[1]}")
    return number


def _now_ms() -> int:
    return round(time.time() * 1000)
