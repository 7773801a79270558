"""Which keys sign tokens: the JSON Web Key Set at `sasl.oauthbearer.jwks.endpoint.url`?

Fetched on a thread of its own, so that no login waits for it: at the start, every
`sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token names an unknown key.

Source: KIP-768; Kafka's RefreshingHttpsJwks and VerificationKeyResolverFactory; Java's HttpURLConnection, which follows
a redirection only to where the scheme is the same.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPMessage
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit

from controller.security.failures import UnusableSecurity

URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_REFRESH: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
_USUAL_REFRESH_MS: Final = "3600000"
_SOONEST_S: Final = 10.0
_WITHIN_S: Final = 10.0
_LARGEST_BYTES: Final = 1024 * 1024
NO_KEYS: Final = "keys for tokens could not be fetched; the previous ones stay in force"
KEYS_FETCHED: Final = "keys for tokens can be fetched again"
_LONGEST_REFRESH_S: Final = 365 * 86400.0  # a thread cannot wait longer than some decades
_SCHEMES: Final = ("file:", "http:", "https:")

KeySet = Sequence[Mapping[str, Any]]


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Follows no redirect to another scheme: an attacker who alters unencrypted answers could supply keys."""

    def __init__(self, url: str) -> None:
        self._scheme = urlsplit(url).scheme

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """Follow the redirect as by default, or not at all."""
        if urlsplit(newurl).scheme != self._scheme:
            raise URLError(f"{self._scheme} is redirected to {newurl}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class KeySource:
    """The keys last fetched; they stay in force while newer ones cannot be had."""

    def __init__(
        self,
        options: Mapping[str, str],
        say: Callable[[str, str], None],
        context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """Fetches in the background for as long as the process lives. `context` makes the TLS context of the next
        connection.

        Raises:
            UnusableSecurity: the address or the interval is malformed.
        """
        self._url, self._say = options[URL], say
        refresh = options.get(_REFRESH, _USUAL_REFRESH_MS)
        if not self._url.startswith(_SCHEMES):
            raise UnusableSecurity(f"{URL} must start with one of {', '.join(_SCHEMES)}")
        if not refresh.isdecimal() or not int(refresh):
            raise UnusableSecurity(f"{_REFRESH} must be a number of milliseconds, at least 1")
        self._every_s = min(int(refresh[:20]) / 1000, _LONGEST_REFRESH_S)
        self._context = context or ssl.create_default_context
        self._keys: KeySet = ()
        self._is_wanted = threading.Event()
        self._failure = ""
        threading.Thread(target=self._keep, name="key set", daemon=True).start()

    def __call__(self, key_id: str | None) -> KeySet:
        """The keys. If `key_id` is not among them, they are fetched again for the next login."""
        keys = self._keys
        if not keys or (key_id is not None and all(key.get("kid") != key_id for key in keys)):
            self._is_wanted.set()
        return keys

    def _keep(self) -> None:
        while True:
            self._fetch()
            time.sleep(min(_SOONEST_S, self._every_s))
            self._is_wanted.wait(max(0.0, self._every_s - _SOONEST_S))
            self._is_wanted.clear()

    def _fetch(self) -> None:
        try:
            encrypted = urllib.request.HTTPSHandler(context=self._context())
            opener = urllib.request.build_opener(encrypted, _SameScheme(self._url))
            with opener.open(self._url, timeout=_WITHIN_S) as answer:
                found = json.loads(answer.read(_LARGEST_BYTES))["keys"]
            self._keys = tuple(key for key in found if isinstance(key, dict))
            failure = ""
        except Exception as error:  # whatever the answer is, the known keys stay
            failure = f"{type(error).__name__}: {error}"
        if failure != self._failure:
            self._say(NO_KEYS if failure else KEYS_FETCHED, failure or self._url)
        self._failure = failure
