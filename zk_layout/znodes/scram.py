"""How does a user's configuration hold a SCRAM credential?

It holds keys by which brokers check a password. Nobody can log in with them, but whoever has them can try out
passwords, and pose as a broker: they are secrets, too.

Source: RFC 5802 section 3; Kafka's ScramMechanism, ScramFormatter and ScramCredentialUtils (KIP-84, KIP-554).
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from hashlib import new
from types import MappingProxyType
from typing import Final

from msgspec import Struct


class Mechanism(Struct, frozen=True):
    """A kind of SCRAM; `digest` is the name of its hash."""

    name: str
    digest: str
    least_iterations: int = 4_096


MECHANISMS: MappingProxyType[int, Mechanism] = MappingProxyType(
    {1: Mechanism("SCRAM-SHA-256", "sha256"), 2: Mechanism("SCRAM-SHA-512", "sha512")}
)
"""By Kafka's numbers."""

MOST_ITERATIONS: Final = 16_384


def credential(mechanism: Mechanism, salt: bytes, salted_password: bytes, iterations: int) -> str:
    """The credential as a setting, whose name is that of the mechanism.

    >>> credential(MECHANISMS[1], b"salt", b"password", 4096)[:25]
    'salt=c2FsdA==,stored_key='

    Raises:
        ValueError: without a password there is no credential.
    """
    if not salted_password:
        raise ValueError("the salted password is empty")
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.digest)
    stored_key = new(mechanism.digest, client_key).digest()
    server_key = hmac.digest(salted_password, b"Server Key", mechanism.digest)
    fields = {"salt": salt, "stored_key": stored_key, "server_key": server_key}
    spelt = [f"{name}={b64encode(value).decode()}" for name, value in fields.items()]
    return ",".join([*spelt, f"iterations={iterations}"])
