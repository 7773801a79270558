"""SCRAM: does the client know the password, of which we only hold a verifier?

The server needs only HMAC, a hash and a comparison in constant time, which Python's standard library has from OpenSSL.
A library for SCRAM would parse and normalise names differently from Kafka's clients, and refuse their extension
`tokenauth`.

An unknown user goes through both rounds too, with a salt that stays the same for the life of the process: the client
gets the same answers in the same time as for a wrong password. (Kafka ends it after the first round.)

Source: RFC 5802, RFC 7677; Kafka's ScramSaslServer, ScramMessages, ScramFormatter and ScramServerCallbackHandler.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import new
from secrets import randbits, token_bytes
from typing import Final

from msgspec import Struct

from controller.security.failures import AuthenticationFailed, shown_to_client
from controller.security.mechanisms.plain import OTHER_IDENTITY
from controller.security.server_mechanism import ServerMechanism
from zk_layout.znodes.scram import MECHANISMS, Credential, Mechanism

BY_NAME: Final = {mechanism.name: mechanism for mechanism in MECHANISMS.values()}

_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST = re.compile(
    rf"n,(?:a=(?P<identity>{_NAME}))?,(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL = re.compile(rf"(?P<unproven>c={_BASE64},r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})")
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_SALT_FOR_NOBODY: Final = token_bytes(32)


class TokenCredential(Struct, frozen=True):
    """A delegation token: its owner, its credential and its expiry."""

    owner: str
    credential: Credential
    expires_at_ms: int


Users = Callable[[str], Credential | None]
Tokens = Callable[[str], TokenCredential | None]


class _Begun(Struct, frozen=True):
    """What the second round is checked against."""

    user: str
    credential: Credential
    nonce: str
    said: str
    refusal: str | None
    expires_at_ms: int | None


class ScramServer(ServerMechanism):
    """Two rounds: the client names itself, then proves it.

    Shape:
        `tokens` serves clients with the extension `tokenauth`, whose name is then the id of a token.
    """

    def __init__(self, mechanism: Mechanism, users: Users, tokens: Tokens, server_nonce: str | None = None) -> None:
        """`server_nonce` is only for tests."""
        self._mechanism = mechanism
        self._users = users
        self._tokens = tokens
        self._server_nonce = server_nonce or _in_letters(randbits(130))
        self._begun: _Begun | None = None
        self._is_over = False

    def answer(self, token: bytes) -> bytes:
        """Salt and iterations; then the proof that we know the credential as well.

        Raises:
            AuthenticationFailed: malformed, or the proof is for another password.
        """
        if self._is_over:
            raise AuthenticationFailed("a message after the last of SCRAM")
        if self._begun is None:
            try:
                return self._first(token.decode("utf-8", "replace"))
            except AuthenticationFailed:
                self._is_over = True
                raise
        self._is_over = True
        return self._final(token.decode("utf-8", "replace"), self._begun)

    def _first(self, message: str) -> bytes:
        found = _FIRST.fullmatch(message)
        if found is None:
            raise AuthenticationFailed("not the first message of SCRAM")
        name = found["name"].replace("=2C", ",").replace("=3D", "=")
        if found["identity"] and found["identity"] != name:
            raise shown_to_client(OTHER_IDENTITY)
        extensions = dict(pair.partition("=")[::2] for pair in found["extensions"].split(",")[1:])
        self.is_token = extensions.get("tokenauth", "").lower() == "true"
        user, credential, expires_at_ms, refusal = self._known(name)
        nonce = found["nonce"] + self._server_nonce
        reply = f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._begun = _Begun(user, credential, nonce, f"{found['bare']},{reply}", refusal, expires_at_ms)
        return reply.encode()

    def _known(self, name: str) -> tuple[str, Credential, int | None, str | None]:
        """The user, the credential to check, its expiry, and the reason if the login must fail in any case."""
        unknown = self._unknown_user(
            name
        )  # made for every login, so that the time taken does not reveal which users exist
        if self.is_token:
            token = self._tokens(name)
            if token is not None:
                return token.owner, token.credential, token.expires_at_ms, None
            return "", unknown, None, f"no delegation token {name!r}, or it has expired"
        credential = self._users(name)
        if credential is None:
            return "", unknown, None, f"{name!r} has no credential of {self._mechanism.name}"
        if credential.iterations < self._mechanism.least_iterations:
            few = f"{credential.iterations} is less than the minimum {self._mechanism.least_iterations}"
            return "", unknown, None, f"Iterations of {name!r}: {few} for {self._mechanism.name}"
        return name, credential, None, None

    def _unknown_user(self, name: str) -> Credential:
        """A credential for an unknown user: always the same, and like one made by Kafka's tool."""
        digest = hmac.digest(_SALT_FOR_NOBODY, f"{self._mechanism.name} {name}".encode(), "sha512")
        salt = _in_letters(int.from_bytes(digest) >> 382).encode()
        keys = bytes(new(self._mechanism.digest).digest_size)
        return Credential(salt, keys, keys, self._mechanism.least_iterations)

    def _final(self, message: str, begun: _Begun) -> bytes:
        found = _FINAL.fullmatch(message)
        if found is None:
            raise AuthenticationFailed("not the final message of SCRAM")
        if not hmac.compare_digest(found["nonce"].encode(), begun.nonce.encode()):
            raise AuthenticationFailed("Invalid client nonce in the final client message.")
        proof = b64decode(found["proof"])
        credential, digest = begun.credential, self._mechanism.digest
        said = f"{begun.said},{found['unproven']}".encode()
        signature = hmac.digest(credential.stored_key, said, digest)
        client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=False))
        is_whole = len(proof) == len(signature)
        is_proven = hmac.compare_digest(new(digest, client_key).digest(), credential.stored_key)
        if begun.refusal is not None:
            raise AuthenticationFailed(begun.refusal)
        if not (is_proven and is_whole):
            raise AuthenticationFailed(f"wrong password of {begun.user!r}")
        self.user, self.expires_at_ms, self.is_done = begun.user, begun.expires_at_ms, True
        return b"v=" + b64encode(hmac.digest(credential.server_key, said, digest))


def _in_letters(number: int) -> str:
    """In base 36, as Java writes Kafka's random numbers."""
    found = ""
    while number:
        number, rest = divmod(number, 36)
        found = _LETTERS[rest] + found
    return found or "0"
