"""How does this process log in at a ZooKeeper server, and which ids does it have there?

Source: ZooKeeper's ZooKeeperSaslClient, SaslServerCallbackHandler, DigestAuthenticationProvider,
X509AuthenticationProvider and KerberosName.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final, Protocol

from msgspec import Struct

from controller.security.failures import UnusableSecurity
from controller.security.jaas import KERBEROS_LOGIN, LoginModule, parse_jaas
from controller.security.mechanisms.digest_md5 import DigestMd5Login
from controller.security.tls.distinguished_name import subject_name
from controller.security.tls.stores import place_of, read_key_store, refusing
from controller.settings.security import Secret, ZooKeeperSecurity
from controller.settings.zookeeper_security import JAAS

DIGEST_LOGIN: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"


class Login(Protocol):
    """Our side of one SASL login."""

    def first_token(self) -> bytes:
        """The token that opens the login."""

    def next_token(self, answer: bytes) -> bytes | None:
        """The token that follows an answer; None at the end."""


class Identity(Struct, frozen=True):
    """The ids under which ZooKeeper knows this process.

    Shape:
        `ids` are `scheme:id` as in ACLs; `schemes` are those where only the servers know our id, because they may
        shorten it.
    """

    ids: frozenset[str] = frozenset()
    schemes: frozenset[str] = frozenset()

    def is_one_of(self, scheme: str, name: str) -> bool:
        """Whether this is certainly one of our ids."""
        return f"{scheme}:{name}" in self.ids


def login_of(security: ZooKeeperSecurity, host: str) -> Login | None:
    """The SASL login at one server; None if no login module is set.

    Raises:
        UnusableSecurity: names the setting to change.
    """
    module = _module(security)
    if module is None:
        return None
    if module.name == DIGEST_LOGIN:
        return DigestMd5Login(_option(module, "username"), Secret(_option(module, "password")))
    from controller.security.client_login import ClientLogin  # 8 MiB that few clusters need

    try:
        return ClientLogin("GSSAPI", module, host=host, service_name=security.service)
    except UnusableSecurity as error:
        raise UnusableSecurity(re.sub(r"(?<!\.)\bsasl\.jaas\.config", JAAS, str(error))) from error


def identity_of(security: ZooKeeperSecurity) -> Identity:
    """The ids this process will have.

    Raises:
        UnusableSecurity, UnusableStore: names the setting to change.
    """
    ids, schemes = set(), set()
    if (module := _module(security)) is not None:
        if module.name == DIGEST_LOGIN:
            ids.add(f"sasl:{_option(module, 'username')}")
        else:
            schemes.add("sasl")
            ids.update(f"sasl:{name}" for name in _shortened(module.option("principal") or ""))
    if security.digest is not None:
        secret = security.digest.reveal()
        user = secret.partition(":")[0]
        hashed = base64.b64encode(hashlib.sha1(secret.encode()).digest()).decode()
        ids |= {f"digest:{user}:{hashed}", f"digest:{user}:x"}  # servers show x instead of a digest
    if security.tls is not None and security.tls.key_store is not None:
        schemes.add("x509")
        own = read_key_store(security.tls.key_store).chain[0]
        with refusing(place_of(security.tls.key_store)):
            ids.add(f"x509:{subject_name(own)}")
    return Identity(frozenset(ids), frozenset(schemes))


def _module(security: ZooKeeperSecurity) -> LoginModule | None:
    if security.jaas is None:
        return None
    module = parse_jaas(security.jaas, JAAS)
    if module.name not in (DIGEST_LOGIN, KERBEROS_LOGIN):
        raise UnusableSecurity(f"{JAAS}: expected {DIGEST_LOGIN} or {KERBEROS_LOGIN}")
    return module


def _option(module: LoginModule, key: str) -> str:
    value = module.option(key)
    if value is None:
        raise UnusableSecurity(f"{JAAS}: option {key} is missing")
    return value


def _shortened(principal: str) -> set[str]:
    """The names servers may derive from a Kerberos principal, with or without its realm and host.

    >>> sorted(_shortened("kafka/b1.example@EXAMPLE"))
    ['kafka', 'kafka/b1.example', 'kafka/b1.example@EXAMPLE', 'kafka@EXAMPLE']
    """
    name, at, realm = principal.partition("@")
    first = name.partition("/")[0]
    return {one for one in (principal, name, first, f"{first}{at}{realm}") if one}
