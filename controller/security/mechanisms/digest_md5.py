"""DIGEST-MD5: how does a client of ZooKeeper prove that it knows its password?

The mechanism is historic, and the only one with passwords that ZooKeeper's servers support. An eavesdropper can try
passwords against the exchange; TLS prevents that.

Source: RFC 2831; Java's DigestMD5Client and DigestMD5Server, ZooKeeper's ZooKeeperSaslClient and SecurityUtils.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

from controller.security.failures import AuthenticationFailed
from controller.settings.security import Secret

SERVICE, HOST = "zookeeper", "zk-sasl-md5"
"""The name ZooKeeper's servers use in the mechanism, whatever their host names are."""
_DIRECTIVE = re.compile(r'\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]*))\s*(?:,|$)', re.DOTALL)
_QOP, _COUNT = "auth", "00000001"


class DigestMd5Login:
    """Our side of one login: `first_token`, then `next_token` for each answer until it is None."""

    def __init__(
        self,
        user: str,
        password: Secret,
        nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24),
        *,
        service: str = SERVICE,
        host: str = HOST,
    ) -> None:
        """`nonce` returns a different text for each login."""
        self._user = user
        self._password = password
        self._nonce = nonce
        self._uri = f"{service}/{host}"
        self._expected = ""
        self.is_done = False

    def first_token(self) -> bytes:
        """Empty: the server begins."""
        return b""

    def next_token(self, answer: bytes) -> bytes | None:
        """The token to send after this answer; None once the server has proved that it knows the password, too.

        Raises:
            AuthenticationFailed: the server violates the mechanism, or does not know the password itself.
        """
        if not answer:  # the answer of a server that has no users, or accepts failed logins
            why = "does not accept user and password" if self._expected else "has no users for SASL logins"
            raise AuthenticationFailed(f"DIGEST-MD5: the server {why}")
        directives = _directives(answer)
        if not self._expected:
            return self._response(directives)
        if not hmac.compare_digest(directives.get("rspauth", "").encode(), self._expected.encode()):
            raise AuthenticationFailed("DIGEST-MD5: the server does not know the password itself")
        self.is_done = True
        return None

    def _response(self, challenge: dict[str, str]) -> bytes:
        server_nonce, realm = challenge.get("nonce", ""), challenge.get("realm", "")
        offered = [word.strip() for word in challenge.get("qop", _QOP).split(",")]
        if not server_nonce or challenge.get("algorithm") != "md5-sess" or _QOP not in offered:
            raise AuthenticationFailed("DIGEST-MD5: the server's challenge cannot be parsed")
        nonce = self._nonce()
        secret = hashlib.md5(b":".join(map(_bytes, (self._user, realm, self._password.reveal())))).digest()
        session = hashlib.md5(secret + f":{server_nonce}:{nonce}".encode()).hexdigest()

        def proof(method: str) -> str:
            asked = hashlib.md5(f"{method}:{self._uri}".encode()).hexdigest()
            return hashlib.md5(f"{session}:{server_nonce}:{_COUNT}:{nonce}:{_QOP}:{asked}".encode()).hexdigest()

        self._expected = proof("")
        said = {
            "charset": "utf-8",
            "username": _quoted(self._user),
            "realm": _quoted(realm),
            "nonce": _quoted(server_nonce),
            "nc": _COUNT,
            "cnonce": _quoted(nonce),
            "digest-uri": _quoted(self._uri),
            "response": proof("AUTHENTICATE"),
            "qop": _QOP,
        }
        return ",".join(f"{name}={value}" for name, value in said.items()).encode()


def _directives(message: bytes) -> dict[str, str]:
    text, at, found = message.decode("utf-8", "replace"), 0, {}
    while at < len(text):
        match = _DIRECTIVE.match(text, at)
        if match is None:
            raise AuthenticationFailed("DIGEST-MD5: the server's answer cannot be parsed")
        name, quoted, bare = match.groups()
        found[name.lower()] = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        at = match.end()
    return found


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _bytes(text: str) -> bytes:
    """The encoding of Java and the RFC: Latin-1 where it suffices."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()
