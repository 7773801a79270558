"""How do tests run a ZooKeeper with TLS and SASL, and how do its clients log in?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.lab.errors import LabError
from controller.lab.java import SMALL_SERVER
from controller.lab.ports import free_port
from controller.lab.zookeeper import ZooKeeperServer, ZooKeeperSettings
from controller.settings.security import KeyStore, Secret, StoreType, TlsSettings, TrustStore
from tests.cluster.certificates import EXPIRED, TRUST_PASSWORD, Authority

STORE_PASSWORD = "zk-store-s3cret"
PASSWORDS = {"kafka": "kafka-zk-s3cret", "other": "other-zk-s3cret"}
DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
_SASL = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
_X509 = "org.apache.zookeeper.server.auth.X509AuthenticationProvider"


class SecuredZooKeeper:
    """The server: its plain and TLS ports, and the authority that it trusts."""

    def __init__(self, directory: Path, *, client_auth: str = "want", **config: object) -> None:
        """Nothing starts yet; `config` are further lines of zoo.cfg."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.authority = Authority(directory / "stores")
        self.secure_port = free_port()
        users = "".join(f'\n user_{name}="{password}"' for name, password in PASSWORDS.items())
        (directory / "server.jaas").write_text(f"Server {{ {DIGEST_MODULE} required {users}; }};\n")
        self.settings = ZooKeeperSettings(
            java_options=(*SMALL_SERVER, f"-Djava.security.auth.login.config={directory / 'server.jaas'}"),
            config={
                "secureClientPort": self.secure_port,
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location": self.authority.pkcs12("zookeeper", STORE_PASSWORD),
                "ssl.keyStore.password": STORE_PASSWORD,
                "ssl.trustStore.location": self.authority.trusted_jks,
                "ssl.trustStore.password": TRUST_PASSWORD,
                "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
                "ssl.clientAuth": client_auth,
                "authProvider.sasl": _SASL,
                "authProvider.x509": _X509,
                **config,
            },
        )

    @property
    def secure(self) -> str:
        """The connect string of its TLS port."""
        return f"127.0.0.1:{self.secure_port}"

    def keys(self, name: str, *, has_expired: bool = False) -> KeyStore:
        """A new key store for one name."""
        lasts = self.authority.lasts
        self.authority.lasts = EXPIRED if has_expired else lasts
        location = str(self.authority.pkcs12(name, STORE_PASSWORD))
        self.authority.lasts = lasts
        return KeyStore(StoreType.PKCS12, location, Secret(STORE_PASSWORD))

    def tls(self, name: str | None = None) -> TlsSettings:
        """The settings of a TLS connection, with or without a client certificate."""
        trust = TrustStore(StoreType.JKS, str(self.authority.trusted_jks), Secret(TRUST_PASSWORD))
        return TlsSettings(self.keys(name) if name else None, trust)

    def properties(self, user: str | None, *, over_tls: bool = True, certificate: str = "") -> Mapping[str, object]:
        """The same as our settings: Kafka's own, except for the login module."""
        found: dict[str, object] = {"zookeeper.set.acl": "true"}
        if user is not None:
            found["zookeeper.sasl.jaas.config"] = jaas(user).reveal()
        if over_tls:
            found |= self.brokers_tls(certificate)
        return found

    def brokers_tls(self, certificate: str = "") -> Mapping[str, object]:
        """Kafka's own properties for it."""
        found = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.truststore.location": self.authority.trusted_jks,
            "zookeeper.ssl.truststore.password": TRUST_PASSWORD,
        }
        if certificate:
            found |= {
                "zookeeper.ssl.keystore.location": self.authority.pkcs12(certificate, STORE_PASSWORD),
                "zookeeper.ssl.keystore.password": STORE_PASSWORD,
            }
        return found

    def brokers_java(self, version: str) -> tuple[str, ...]:
        """Options of a broker's Java: its login, and the TLS settings for which its version has no properties."""
        tls = {
            "zookeeper.client.secure": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.trustStore.location": self.authority.trusted_jks,
            "zookeeper.ssl.trustStore.password": TRUST_PASSWORD,
        }
        before_2_5 = version.startswith("2.4.")
        return (self.brokers_login(), *(f"-D{key}={value}" for key, value in tls.items() if before_2_5))

    def brokers_login(self) -> str:
        """The option of a broker's Java with its login."""
        file = self.directory / "client.jaas"
        file.write_text(f"Client {{ {jaas('kafka').reveal()} }};\n")
        return f"-Djava.security.auth.login.config={file}"


def jaas(user: str, password: str | None = None) -> Secret:
    """A login module as in a JAAS file."""
    return Secret(f'{DIGEST_MODULE} required username="{user}" password="{password or PASSWORDS[user]}";')


@contextmanager
def running(secured: SecuredZooKeeper) -> Iterator[ZooKeeperServer]:
    """The server alone."""
    try:
        server = ZooKeeperServer(secured.directory / "zookeeper", settings=secured.settings)
    except LabError as error:
        pytest.skip(str(error))
    with server:
        yield server
