"""As whom does this process connect to ZooKeeper, and with which encryption?

Source: Kafka's KafkaConfig and ZkConfigs (KIP-515), KafkaServer.initZkClient; ZooKeeper's KeyStoreFileType.
"""

from __future__ import annotations

from pathlib import PurePath

from controller.settings.draft import Draft
from controller.settings.security import KeyStore, Secret, StoreType, TlsSettings, TrustStore, ZooKeeperSecurity

SET_ACL = "zookeeper.set.acl"
JAAS = "zookeeper.sasl.jaas.config"
_KEY_STORE, _TRUST_STORE = "zookeeper.ssl.keystore", "zookeeper.ssl.truststore"
_IDENTIFICATION = "zookeeper.ssl.endpoint.identification.algorithm"
_BY_NAME = {".jks": StoreType.JKS, ".p12": StoreType.PKCS12, ".pem": StoreType.PEM}


def zookeeper_security_of(draft: Draft) -> ZooKeeperSecurity:
    """Build it from the keys `zookeeper.…`; invalid settings become complaints."""
    tls = _tls(draft) if draft.values["zookeeper.ssl.client.enable"] else None
    found = ZooKeeperSecurity(
        tls,
        _secret(draft, JAAS),
        draft.text("zookeeper.sasl.client.username"),
        _secret(draft, "zookeeper.digest.credentials"),
        sets_acl=draft.values[SET_ACL] is True,
    )
    if found.sets_acl and found.jaas is None and (tls is None or tls.key_store is None):
        draft.complain(
            SET_ACL,
            f"without an identity that brokers have, too, they could not write what is created here; set {JAAS}, or "
            f"zookeeper.ssl.client.enable and {_KEY_STORE}.location, as on the brokers",
        )
    return found


def _tls(draft: Draft) -> TlsSettings:
    protocol = draft.text("zookeeper.ssl.protocol")
    enabled = draft.text("zookeeper.ssl.enabled.protocols") or ("TLSv1.2,TLSv1.3" if protocol == "TLS" else protocol)
    suites = draft.text("zookeeper.ssl.cipher.suites")
    return TlsSettings(
        _key_store(draft),
        _trust_store(draft),
        enabled_protocols=tuple(enabled.split(",")),
        cipher_suites=tuple(filter(None, (suite.strip() for suite in suites.split(",")))),
        endpoint_identification_algorithm=draft.text(_IDENTIFICATION),
    )


def _key_store(draft: Draft) -> KeyStore | None:
    location, password = draft.text(f"{_KEY_STORE}.location"), _secret(draft, f"{_KEY_STORE}.password")
    if not location:
        return None
    kind = _type(draft, _KEY_STORE, location)
    # One password serves for both here; a key in a Java store may have another one elsewhere, but not with ZooKeeper.
    return KeyStore(kind, location, password, password if kind is StoreType.PEM else None)


def _trust_store(draft: Draft) -> TrustStore | None:
    location = draft.text(f"{_TRUST_STORE}.location")
    if not location:
        return None
    return TrustStore(_type(draft, _TRUST_STORE, location), location, _secret(draft, f"{_TRUST_STORE}.password"))


def _type(draft: Draft, store: str, location: str) -> StoreType:
    written = draft.text(f"{store}.type")
    if written:
        return StoreType(written)
    found = _BY_NAME.get(PurePath(location).suffix.lower())
    if found is None:
        draft.complain(f"{store}.type", "the file's name does not show the format; set it to JKS, PKCS12 or PEM")
    return found or StoreType.JKS


def _secret(draft: Draft, key: str) -> Secret | None:
    value = draft.values[key]
    return value if isinstance(value, Secret) else None
