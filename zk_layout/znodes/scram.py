"""How does a user's configuration hold a SCRAM credential?

It holds keys by which brokers check a password. They do not suffice for a login, but their owner can try out
passwords, and pose as a broker: they are secrets, too.

Source: RFC 5802 section 3; Kafka's ScramMechanism, ScramFormatter and ScramCredentialUtils (KIP-84, KIP-554).
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from hashlib import new, pbkdf2_hmac
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
_FIELDS: Final = frozenset({"salt", "stored_key", "server_key", "iterations"})


class Credential(Struct, frozen=True):
    """The keys that check a password; never shown."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "[hidden]"


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


def parse_credential(mechanism: Mechanism, spelt: str) -> Credential:
    """Parse the credential in a setting.

    >>> key = "0" * 43 + "="
    >>> parse_credential(MECHANISMS[1], f"salt=c2FsdA==,stored_key={key},server_key={key},iterations=4096")
    [hidden]

    Raises:
        ValueError: not a credential of this mechanism; the text of the error does not show it.
    """
    fields = dict(field.partition("=")[::2] for field in spelt.split(","))
    if fields.keys() != _FIELDS:
        raise ValueError(f"a credential of {mechanism.name} has salt, stored_key, server_key and iterations")
    try:
        salt, stored_key, server_key = (
            b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        iterations = int(fields["iterations"])
    except ValueError:
        raise ValueError(f"a credential of {mechanism.name} is not in Base64, or its iterations no number") from None
    if iterations < 1 or {len(stored_key), len(server_key)} != {new(mechanism.digest).digest_size}:
        raise ValueError(f"a credential of {mechanism.name} has keys of another size, or no iterations")
    return Credential(salt, stored_key, server_key, iterations)


def credential_of(mechanism: Mechanism, password: bytes, salt: bytes, iterations: int) -> Credential:
    """The credential of this password, as `credential` spells it."""
    salted = pbkdf2_hmac(mechanism.digest, password, salt, iterations)
    return parse_credential(mechanism, credential(mechanism, salt, salted, iterations))
