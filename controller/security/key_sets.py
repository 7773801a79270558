"""By which keys are tokens signed: the JSON Web Key Set at `sasl.oauthbearer.jwks.endpoint.url`?

Fetched on a thread of its own, so that no login waits for it: at the start, every
`sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token names a key that is not known.

Source: KIP-768; Kafka's RefreshingHttpsJwks.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from controller.security.failures import UnusableSecurity

URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_REFRESH: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
_USUAL_REFRESH_MS: Final = "3600000"
_SOONEST_S: Final = 10.0
_WITHIN_S: Final = 10.0
_LARGEST_BYTES: Final = 1024 * 1024
_SCHEMES: Final = ("file:", "http:", "https:")

KeySet = Sequence[Mapping[str, Any]]


class KeySource:
    """The keys as they were when they were fetched last; what was fetched stays while nothing newer can be had."""

    def __init__(self, options: Mapping[str, str], say: Callable[[str, str], None]) -> None:
        """Fetch in the background, for as long as the process lives.

        Raises:
            UnusableSecurity: the address is none, or the time no number.
        """
        self._url, self._say = options[URL], say
        refresh = options.get(_REFRESH, _USUAL_REFRESH_MS)
        if not self._url.startswith(_SCHEMES):
            raise UnusableSecurity(f"{URL} must begin with one of {', '.join(_SCHEMES)}")
        if not refresh.isdecimal() or not int(refresh):
            raise UnusableSecurity(f"{_REFRESH} must be a number of milliseconds, at least 1")
        self._every_s = int(refresh) / 1000
        self._keys: KeySet = ()
        self._is_wanted = threading.Event()
        self._failure = ""
        threading.Thread(target=self._keep, name="key set", daemon=True).start()

    def __call__(self, key_id: str | None) -> KeySet:
        """The keys; if the wanted one is not among them, they are fetched again for the next login."""
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
            with urllib.request.urlopen(self._url, timeout=_WITHIN_S) as answer:
                found = json.loads(answer.read(_LARGEST_BYTES))["keys"]
            self._keys = tuple(key for key in found if isinstance(key, dict))
            self._failure = ""
        except Exception as error:  # whatever is answered, what was known stays
            failure = f"{type(error).__name__}: {error}"
            if failure != self._failure:
                self._say("keys for tokens could not be fetched; those of before stay in force", failure)
            self._failure = failure
