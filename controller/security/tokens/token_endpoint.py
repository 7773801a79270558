"""Which token does an identity provider issue for our client id and secret, or does a file hold?

Callers block until the answer; call on a thread of its own. No error text contains a secret.

Source: KIP-768; RFC 6749, 4.4 and 5.2; Kafka's HttpAccessTokenRetriever, FileTokenRetriever and Retry.
"""

from __future__ import annotations

import json
import ssl
import time
from base64 import b64encode
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, quote_plus

from msgspec import Struct

from controller.security.tls.stores import UnusableStore
from controller.security.tokens.own_token import NoToken
from controller.settings.security import Secret

_GIVEN: Final = frozenset({200, 201})
_FINAL: Final = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
_LARGEST_BYTES: Final = 1024 * 1024
_LONGEST_REASON: Final = 300


class Client(Struct, frozen=True):
    """The client to authenticate: `clientId`, `clientSecret` and `scope` of the login module. `is_encoded` is
    `sasl.oauthbearer.header.urlencode`."""

    id: str
    secret: Secret
    scope: str = ""
    is_encoded: bool = False


class Patience(Struct, frozen=True):
    """How long to wait for a connection, for each read, and between two attempts: that wait doubles, up to a total."""

    connect_s: float = 10.0
    read_s: float = 10.0
    backoff_s: float = 0.1
    backoff_sum_s: float = 10.0


class TokenEndpoint:
    """An endpoint asked over HTTP, with the grant client_credentials."""

    def __init__(
        self,
        url: SplitResult,
        client: Client,
        patience: Patience,
        context: Callable[[], ssl.SSLContext] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`context` makes the TLS context of the next connection, for a URL with https."""
        self._host, self._port = url.hostname or "", url.port
        self._path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._shown = f"{url.scheme}://{self._host}{f':{url.port}' if url.port else ''}{url.path}"
        self._client, self._patience, self._context, self._sleep = client, patience, context, sleep

    def __call__(self) -> str:
        """A token, after as many attempts as the patience allows.

        Raises:
            NoToken: with the outcome of the last attempt.
        """
        wait_s, left_s = self._patience.backoff_s, self._patience.backoff_sum_s
        while True:
            began = time.monotonic()
            try:
                return self._asked()
            except NoToken as failure:
                left_s -= time.monotonic() - began
                if failure.is_final or min(wait_s, left_s) <= 0:
                    raise
            self._sleep(min(wait_s, left_s))
            left_s -= wait_s
            wait_s *= 2

    def _asked(self) -> str:
        try:
            status, body = self._answer()
        except UnusableStore as error:
            raise NoToken(f"{self._shown}: {error}", is_final=True) from None
        except (OSError, HTTPException, ValueError) as error:  # an OSError contains only the system's text
            why = str(error) if isinstance(error, OSError) and str(error) else type(error).__name__
            raise NoToken(f"{self._shown}: {why}") from None
        if status not in _GIVEN:
            raise NoToken(f"{self._shown} answers {status}{self._reason(body)}", is_final=status in _FINAL)
        token = _object(body).get("access_token")
        if not isinstance(token, str) or not token.strip():
            raise NoToken(f"{self._shown} answers {status} without an access_token")
        return token

    def _answer(self) -> tuple[int, bytes]:
        connect_s = self._patience.connect_s
        if self._context is None:
            connection = HTTPConnection(self._host, self._port, timeout=connect_s)
        else:
            connection = HTTPSConnection(self._host, self._port, timeout=connect_s, context=self._context())
        try:
            connection.connect()
            connection.sock.settimeout(self._patience.read_s)
            connection.request("POST", self._path, self._body(), self._headers())
            answer = connection.getresponse()
            return answer.status, answer.read(_LARGEST_BYTES)
        finally:
            connection.close()

    def _body(self) -> str:
        scope = f"&scope={quote_plus(self._client.scope)}" if self._client.scope else ""
        return f"grant_type=client_credentials{scope}"

    def _headers(self) -> dict[str, str]:
        user, password = self._client.id, self._client.secret.reveal()
        if self._client.is_encoded:
            user, password = quote_plus(user), quote_plus(password)
        return {
            "Accept": "application/json",
            "Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }

    def _reason(self, body: bytes) -> str:
        """The error as RFC 6749 defines it; nothing else of the answer is shown."""
        found = _object(body)
        words = [found.get("error", found.get("errorCode")), found.get("error_description", found.get("errorSummary"))]
        text = " ".join(": ".join(word for word in words if isinstance(word, str)).split())[:_LONGEST_REASON]
        secret = self._client.secret.reveal()
        is_answered = text.isprintable() and secret not in text and quote_plus(secret) not in text
        return f" ({text})" if text and is_answered else ""


def token_in(path: Path) -> str:
    """The content of a file, without surrounding blanks.

    Raises:
        NoToken: the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise NoToken(f"{path}: {why}", is_final=True) from None


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
