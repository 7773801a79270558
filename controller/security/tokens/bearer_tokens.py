"""Which token do we send to brokers, and who fetches the next one?

One fetch serves all connections. A thread fetches the next token before this one expires; a caller that needs a token
while there is none waits for the fetch, on a thread too.

Source: Kafka's ExpiringCredentialRefreshingLogin.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from controller.security.tokens.own_token import NoToken, OwnToken, Refresh, next_fetch_ms

NO_TOKEN: Final = "no token for brokers; trying again"
TOKEN_FETCHED: Final = "a token for brokers is available again"
_AGAIN_MS: Final = 10_000
_LOOKS_EVERY_S: Final = 30.0  # the clock may be set


class BearerTokens:
    """The token in force, and how to get the next one."""

    def __init__(
        self,
        fetch: Callable[[], OwnToken],
        refresh: Refresh,
        now_ms: Callable[[], int],
        say: Callable[[str, str], None],
    ) -> None:
        """`fetch` raises NoToken; `say` receives failures."""
        self._fetch, self._refresh, self._now_ms, self._say = fetch, refresh, now_ms, say
        self._lock = threading.Lock()
        self._token: OwnToken | None = None
        self._under_way: Future[OwnToken] | None = None
        self._refusal: NoToken | None = None
        self._next_ms = 0
        self._is_kept = False
        self._said = ""

    def __call__(self) -> str:
        """A token that has not expired.

        Raises:
            NoToken: none is available. After a refusal the provider is not asked again for ten seconds.
        """
        return self._got(refetch=False).text.reveal()

    def keep(self) -> None:
        """Start a thread that fetches each next token, for as long as the process lives."""
        with self._lock:
            is_kept, self._is_kept = self._is_kept, True
        if not is_kept:
            threading.Thread(target=self._keep, name="tokens for brokers", daemon=True).start()

    def renew(self) -> float:
        """Fetch the next token if it is due; return the seconds until the next look."""
        if self._now_ms() >= self._next_ms:
            with contextlib.suppress(NoToken):  # logged where it was fetched, and tried again
                self._got(refetch=True)
        return max(0.0, (self._next_ms - self._now_ms()) / 1000)

    def _keep(self) -> None:
        while True:
            wait_s = _LOOKS_EVERY_S
            try:
                wait_s = self.renew()
            except Exception as error:  # this thread is the only one that fetches tokens
                self._say(NO_TOKEN, type(error).__name__)
            time.sleep(min(_LOOKS_EVERY_S, max(1.0, wait_s)))

    def _got(self, *, refetch: bool) -> OwnToken:
        with self._lock:
            token, under_way = self._token, self._under_way
            if not refetch and token is not None and token.expires_at_ms > self._now_ms():
                return token
            if self._refusal is not None and self._now_ms() < self._next_ms:
                raise self._refusal
            is_mine = under_way is None
            if under_way is None:
                under_way = self._under_way = Future()
        if is_mine:
            self._settle(under_way)
        return under_way.result()

    def _settle(self, under_way: Future[OwnToken]) -> None:
        """Fetch, and give every waiting caller the same outcome."""
        got = self._tried()
        with self._lock:
            now, self._under_way = self._now_ms(), None
            self._next_ms, self._refusal = now + _AGAIN_MS, None
            if isinstance(got, OwnToken):
                self._token = got
                self._next_ms = next_fetch_ms(got, now, self._refresh, random.random())
            elif got.is_final:
                self._refusal = got
        if isinstance(got, OwnToken):
            under_way.set_result(got)
        else:
            under_way.set_exception(got)
        failure = "" if isinstance(got, OwnToken) else got.reason
        if failure != self._said:
            self._say(NO_TOKEN if failure else TOKEN_FETCHED, failure)
        self._said = failure

    def _tried(self) -> OwnToken | NoToken:
        try:
            return self._good()
        except NoToken as failure:
            return failure
        except Exception as error:  # whatever a provider answers, waiting callers must get it
            return NoToken(type(error).__name__)

    def _good(self) -> OwnToken:
        token = self._fetch()
        if token.expires_at_ms <= self._now_ms():
            raise NoToken(
                "the token has expired already; compare the clocks of this host and the identity provider",
                is_final=True,
            )
        return token
