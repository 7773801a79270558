"""Which TLS does a client configure by Kafka's properties `ssl.…`?

Source: Kafka's SslConfigs; KIP-651 (PEM).
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.security.tls.stores import UnusableStore
from controller.settings.security import KeyStore, Secret, StoreType, TlsSettings, TrustStore


def client_tls(properties: Mapping[str, str]) -> TlsSettings:
    """The TLS settings in these properties, with stores of every kind that Java supports.

    Raises:
        UnusableStore: names the setting to change.
    """
    named = properties.get("ssl.enabled.protocols") or properties.get("ssl.protocol") or "TLSv1.2,TLSv1.3"
    enabled = {name.strip() for name in named.split(",")}
    if not enabled <= {"TLSv1.2", "TLSv1.3", "TLS"}:
        raise UnusableStore(f"ssl.enabled.protocols={named}: only TLSv1.2 and TLSv1.3 are supported")
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("", "https"):
        raise UnusableStore(f"ssl.endpoint.identification.algorithm={algorithm}: set it to https, or leave it empty")
    key_store = KeyStore(
        _type(properties, "ssl.keystore.type"),
        properties.get("ssl.keystore.location"),
        _secret(properties, "ssl.keystore.password"),
        _secret(properties, "ssl.key.password"),
        properties.get("ssl.keystore.certificate.chain"),
        _secret(properties, "ssl.keystore.key"),
    )
    trust_store = TrustStore(
        _type(properties, "ssl.truststore.type"),
        properties.get("ssl.truststore.location"),
        _secret(properties, "ssl.truststore.password"),
        properties.get("ssl.truststore.certificates"),
    )
    return TlsSettings(
        key_store if key_store.location or key_store.certificate_chain else None,
        trust_store if trust_store.location or trust_store.certificates else None,
        enabled_protocols=("TLSv1.3",) if enabled == {"TLSv1.3"} else ("TLSv1.2", "TLSv1.3"),
        cipher_suites=tuple(filter(None, (s.strip() for s in properties.get("ssl.cipher.suites", "").split(",")))),
        endpoint_identification_algorithm=algorithm,
    )


def _type(properties: Mapping[str, str], key: str) -> StoreType:
    try:
        return StoreType(properties.get(key, StoreType.JKS).upper())
    except ValueError:
        raise UnusableStore(f"{key}={properties[key]} is not one of {', '.join(StoreType)}") from None


def _secret(properties: Mapping[str, str], key: str) -> Secret | None:
    return Secret(properties[key]) if key in properties else None
