"""How is a listener, or an outgoing connection, secured?

Source: Kafka's SslConfigs, SaslConfigs and BrokerSecurityConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
ENCRYPTED: Final = frozenset({SSL, SASL_SSL})
AUTHENTICATED_BY_SASL: Final = frozenset({SASL_PLAINTEXT, SASL_SSL})


class Secret:
    """A text that must be in no log, no journal, no error and no list of settings; `reveal` it only where it is used.

    >>> Secret("horse staple")
    [hidden]
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


class StoreType(StrEnum):
    """The format of a key store or trust store: `ssl.keystore.type`, `ssl.truststore.type`."""

    JKS = "JKS"
    PKCS12 = "PKCS12"
    PEM = "PEM"


class ClientAuth(StrEnum):
    """Whether clients need a certificate: `ssl.client.auth`."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class KeyStore(Struct, frozen=True):
    """The identity of this process: a file, or in PEM the text itself.

    Shape:
        `certificate_chain` and `key` are `ssl.keystore.certificate.chain` and `ssl.keystore.key`, without `location`.
        `key_password` is `ssl.key.password`.
    """

    type: StoreType = StoreType.JKS
    location: str | None = None
    password: Secret | None = None
    key_password: Secret | None = None
    certificate_chain: str | None = None
    key: Secret | None = None


class TrustStore(Struct, frozen=True):
    """The authorities this process trusts: a file, or in PEM the text itself (`ssl.truststore.certificates`)."""

    type: StoreType = StoreType.JKS
    location: str | None = None
    password: Secret | None = None
    certificates: str | None = None


class TlsSettings(Struct, frozen=True):
    """One side of TLS connections.

    Shape:
        Without `trust_store`, the system's authorities are trusted. `cipher_suites` are Java's names, empty for
        the library's choice. `endpoint_identification_algorithm` is "https", or empty: names are not compared.
    """

    key_store: KeyStore | None = None
    trust_store: TrustStore | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    endpoint_identification_algorithm: str = "https"
    principal_mapping_rules: str = "DEFAULT"


class SaslSettings(Struct, frozen=True):
    """Who may log in on a listener, and how.

    Shape:
        `jaas` is by mechanism, in capitals: `sasl.jaas.config`. `options` are the further keys that begin with
        `sasl.`, without the prefix of a listener or mechanism; `nearer` has all of them for a mechanism that has
        some of its own.

    Units:
        `max_reauth_ms` milliseconds; 0: no client has to log in again. `max_receive_bytes` of a message before a login.
    """

    enabled_mechanisms: tuple[str, ...] = ("GSSAPI",)
    jaas: Mapping[str, Secret] = MappingProxyType({})
    options: Mapping[str, str] = MappingProxyType({})
    max_reauth_ms: int = 0
    max_receive_bytes: int = 524_288
    nearer: Mapping[str, Mapping[str, str]] = MappingProxyType({})

    def options_of(self, mechanism: str) -> Mapping[str, str]:
        """The options in force for one mechanism."""
        return self.nearer.get(mechanism, self.options)


class BrokerSecurity(Struct, frozen=True):
    """As whom this process connects to brokers on one listener.

    Shape:
        `jaas` is the `sasl.jaas.config` of `mechanism`; both only if the protocol has a login.
        `options` are as in `SaslSettings`.
    """

    protocol: str = PLAINTEXT
    tls: TlsSettings | None = None
    mechanism: str = ""
    jaas: Secret | None = None
    options: Mapping[str, str] = MappingProxyType({})


class ListenerSecurity(Struct, frozen=True):
    """How a listener is secured: `tls` if its protocol encrypts, `sasl` if it has a login."""

    protocol: str = PLAINTEXT
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None


class ZooKeeperSecurity(Struct, frozen=True):
    """As whom this process connects to ZooKeeper, and who may write what it creates there.

    Shape:
        `jaas` is the login module of SASL, `service` the first part of the servers' Kerberos principal. `digest` is
        `user:password`, sent to the server as zkCli's `addauth digest` does. With `sets_acl` what is created belongs
        to this process's identity, as with `zookeeper.set.acl` of brokers.
    """

    tls: TlsSettings | None = None
    jaas: Secret | None = None
    service: str = "zookeeper"
    digest: Secret | None = None
    sets_acl: bool = False
