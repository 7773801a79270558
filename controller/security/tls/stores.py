"""Who are we, and whom do we trust? Key stores and trust stores, as Java's tools write them.

The declared type only distinguishes PEM from the two others: like Java, we recognise JKS and PKCS12 by the file's
content. No message contains a password or a key.

Source: Kafka's DefaultSslEngineFactory, KIP-651 (PEM); the format of JKS is that of sun.security.provider.JavaKeyStore.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12
from msgspec import Struct

from controller.settings.security import KeyStore, Secret, StoreType, TrustStore
from zk_layout.codec import one_line

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_SUN_PROTECTION = bytes.fromhex("060a2b060104012a02110101")
_DIGEST = 20
_CERTIFICATES = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(r"-----BEGIN (ENCRYPTED )?PRIVATE KEY-----.*?-----END (ENCRYPTED )?PRIVATE KEY-----", re.DOTALL)


_WORDED = {
    "EE_KEY_TOO_SMALL": "OpenSSL refuses its key as too short; use at least 2048 bits (RSA) or 256 (EC)",
    "CA_KEY_TOO_SMALL": "OpenSSL refuses an authority's key as too short; use at least 2048 bits (RSA) or 256 (EC)",
    "CA_MD_TOO_WEAK": "OpenSSL refuses a certificate signed with SHA-1 or MD5; have it signed with SHA-256",
}


class UnusableStore(Exception):
    """A store that cannot be used; the message names the setting to change."""


@contextmanager
def refusing(setting: str) -> Iterator[None]:
    """Convert every error that libraries raise for malformed bytes.

    Raises:
        UnusableStore: instead of any other error.
    """
    try:
        yield
    except UnusableStore:
        raise
    except Exception as error:
        reason = getattr(error, "reason", None) if isinstance(error, ssl.SSLError) else None
        worded = str(reason).lower().replace("_", " ") if reason else "it is damaged or of an unknown kind"
        raise UnusableStore(f"{setting}: {_WORDED.get(str(reason), worded)}") from None


def place_of(store: KeyStore | TrustStore) -> str:
    """The setting that says where a store is."""
    key = "keystore" if isinstance(store, KeyStore) else "truststore"
    if store.location is not None:
        return f"ssl.{key}.location={one_line(store.location)}"
    return f"ssl.{key}.certificate{'.chain' if isinstance(store, KeyStore) else 's'}"


class Identity(Struct, frozen=True):
    """A private key (PKCS8, DER) and its certificates (DER), our own first."""

    key: Secret
    """The key as PEM, not encrypted: for one call of the library only."""
    chain: tuple[bytes, ...]


class _Entry(Struct, frozen=True):
    chain: tuple[bytes, ...]
    protected_key: bytes | None = None


def read_key_store(store: KeyStore) -> Identity:
    """The key and the certificates of a key store.

    Raises:
        UnusableStore: names the setting to change.
    """
    with refusing(place_of(store)):
        return _identity(store)


def _identity(store: KeyStore) -> Identity:
    if store.type is StoreType.PEM:
        return _pem_identity(store)
    data = _file(store.location, "ssl.keystore.location")
    if store.password is None:
        raise UnusableStore(f"ssl.keystore.password is needed for {store.location}")
    if data.startswith(_JKS_MAGIC):
        return _jks_identity(data, store, store.password)
    try:
        key, own, others = pkcs12.load_key_and_certificates(data, store.password.reveal().encode())
    except (ValueError, UnsupportedAlgorithm):
        raise UnusableStore(
            f"ssl.keystore.password does not open {store.location}, or ssl.keystore.location is no PKCS12 or JKS file"
        ) from None
    if key is None or own is None:
        raise UnusableStore(f"ssl.keystore.location={store.location} has no private key with a certificate")
    return _matching(key, _ordered(own, others), "ssl.keystore.location")


def read_trust_store(store: TrustStore) -> tuple[bytes, ...]:
    """The trusted certificates (DER).

    Raises:
        UnusableStore: names the setting to change.
    """
    with refusing(place_of(store)):
        return _trusted(store)


def _trusted(store: TrustStore) -> tuple[bytes, ...]:
    if store.type is StoreType.PEM:
        text = store.certificates
        setting = "ssl.truststore.certificates" if text is not None else "ssl.truststore.location"
        return _pem_certificates(text if text is not None else _text(store.location, setting), setting)
    data = _file(store.location, "ssl.truststore.location")
    password = store.password
    if data.startswith(_JKS_MAGIC):
        # As in Kafka, the certificate of a private key in a trust store is trusted as well.
        found = tuple(entry.chain[0] for entry in _jks_entries(data, password, "ssl.truststore") if entry.chain)
    else:
        try:
            opened = pkcs12.load_pkcs12(data, password.reveal().encode() if password else None)
        except (ValueError, UnsupportedAlgorithm):
            raise UnusableStore(
                f"ssl.truststore.password does not open {store.location}, or ssl.truststore.location is no PKCS12 or "
                "JKS file"
            ) from None
        held = ([opened.cert] if opened.cert else []) + list(opened.additional_certs)
        found = tuple(_der(one.certificate) for one in held)
    if not found:
        raise UnusableStore(f"ssl.truststore.location={store.location} has no certificate")
    return found


def _file(location: str | None, setting: str) -> bytes:
    if location is None:
        raise UnusableStore(f"{setting} is missing")
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise UnusableStore(f"{setting}={location}: {error.strerror}") from None


def _text(location: str | None, setting: str) -> str:
    return _file(location, setting).decode("latin-1")


def _pem_identity(store: KeyStore) -> Identity:
    if store.location is not None:
        text = _text(store.location, "ssl.keystore.location")
        of_key = of_chain = "ssl.keystore.location"
        chain_text = text
    else:
        of_key, of_chain = "ssl.keystore.key", "ssl.keystore.certificate.chain"
        if store.key is None:
            raise UnusableStore("ssl.keystore.key is missing")
        if store.certificate_chain is None:
            raise UnusableStore("ssl.keystore.certificate.chain is missing")
        text, chain_text = store.key.reveal(), store.certificate_chain
    match = _KEY.search(text)
    if match is None:
        raise UnusableStore(f"{of_key} has no private key in PKCS8 (BEGIN PRIVATE KEY or BEGIN ENCRYPTED PRIVATE KEY)")
    password = store.key_password.reveal().encode() if match[1] and store.key_password else None
    if match[1] and password is None:
        raise UnusableStore("ssl.key.password is needed: the private key is encrypted")
    try:
        key = serialization.load_pem_private_key(match[0].encode("latin-1"), password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        reason = f"ssl.key.password does not open the private key of {of_key}" if match[1] else f"{of_key} is damaged"
        raise UnusableStore(reason) from None
    chain = [x509.load_der_x509_certificate(one) for one in _pem_certificates(chain_text, of_chain)]
    return _matching(key, chain, of_key)


def _pem_certificates(text: str, setting: str) -> tuple[bytes, ...]:
    try:
        found = tuple(
            _der(x509.load_pem_x509_certificate(one.encode("latin-1", "replace")))
            for one in _CERTIFICATES.findall(text)
        )
    except ValueError:
        raise UnusableStore(f"{setting} has a certificate that cannot be read") from None
    if not found:
        raise UnusableStore(f"{setting} has no certificate in PEM")
    return found


def _jks_identity(data: bytes, store: KeyStore, password: Secret) -> Identity:
    keys = [entry for entry in _jks_entries(data, password, "ssl.keystore") if entry.protected_key is not None]
    if not keys:
        raise UnusableStore(f"ssl.keystore.location={store.location} has no private key")
    entry = keys[0]
    assert entry.protected_key is not None
    plain = _without_protection(entry.protected_key, (store.key_password or password).reveal())
    try:
        key = serialization.load_der_private_key(plain, None)
        chain = [x509.load_der_x509_certificate(one) for one in entry.chain]
    except (ValueError, UnsupportedAlgorithm):
        raise UnusableStore(
            f"ssl.keystore.location={store.location} has a key or certificate of an unknown kind"
        ) from None
    return _matching(key, chain, "ssl.keystore.location")


def _jks_entries(data: bytes, password: Secret | None, setting: str) -> list[_Entry]:
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if password is not None:
        expected = hashlib.sha1(password.reveal().encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()
        if not hmac.compare_digest(expected, digest):
            raise UnusableStore(f"{setting}.password is wrong, or the file of {setting}.location is damaged")
    try:
        return _entries(body)
    except (struct.error, IndexError, ValueError):
        raise UnusableStore(f"{setting}.location is a damaged JKS file") from None


def _entries(body: bytes) -> list[_Entry]:
    _, version, count = struct.unpack_from(">III", body)
    at, found = 12, []

    def take(form: str) -> bytes:
        nonlocal at
        (length,) = struct.unpack_from(form, body, at)
        start = at + struct.calcsize(form)
        at = start + length
        if at > len(body):
            raise ValueError("cut off")
        return body[start:at]

    def certificate() -> bytes:
        if version != 1:
            take(">H")
        return take(">I")

    for _ in range(count):
        (tag,) = struct.unpack_from(">I", body, at)
        at += 4
        take(">H")
        at += 8
        if tag == _KEY_ENTRY:
            key = take(">I")
            (length,) = struct.unpack_from(">I", body, at)
            at += 4
            found.append(_Entry(tuple(certificate() for _ in range(length)), key))
        elif tag == _CERTIFICATE_ENTRY:
            found.append(_Entry((certificate(),)))
        else:
            raise ValueError("neither a key nor a certificate")
    return found


def _without_protection(protected: bytes, password: str) -> bytes:
    """Sun's own protection: the key, xor a chain of SHA-1 digests of password and salt."""
    at = protected.find(_SUN_PROTECTION)
    start = protected.find(b"\x05\x00\x04", at) + 3
    if at < 0 or start < 3:
        raise UnusableStore("ssl.keystore.location has a key with an unknown kind of protection")
    size = protected[start]
    content = protected[start + 1 + (size & 0x7F if size & 0x80 else 0) :]
    secret = password.encode("utf-16-be")
    digest, hidden, check = content[:_DIGEST], content[_DIGEST:-_DIGEST], content[-_DIGEST:]
    stream = b""
    while len(stream) < len(hidden):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    plain = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):
        raise UnusableStore("ssl.key.password (without it, ssl.keystore.password) does not open the private key")
    return plain


def _ordered(own: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """The chain of our certificate; other certificates in the store do not belong to it."""
    chain, left = [own], list(others)
    while issuer := next((one for one in left if one.subject == chain[-1].issuer), None):
        chain.append(issuer)
        left.remove(issuer)
    return chain


def _matching(key: PrivateKeyTypes, chain: list[x509.Certificate], setting: str) -> Identity:
    form, plain = serialization.Encoding, serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(form.DER, plain)
    if not chain or public != chain[0].public_key().public_bytes(form.DER, plain):
        raise UnusableStore(f"{setting}: the private key does not belong to the first certificate")
    text = key.private_bytes(form.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Identity(Secret(text.decode()), tuple(_der(one) for one in chain))


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)
