"""Keys and certificates for tests, made here and now."""

from __future__ import annotations

import datetime
import ssl
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make_identity(pem: Path, common_name: str = "ann") -> Path:
    """A key and the certificate that it signed for itself, for 127.0.0.1, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    local = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    certificate = builder.add_extension(local, critical=False).sign(key, hashes.SHA256())
    unencrypted = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, unencrypted)
    pem.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return pem


def servers(identity: Path, verify: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
    """A server with this identity, which accepts only clients with the same one if it verifies them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity)
    context.verify_mode = verify
    if verify is not ssl.CERT_NONE:
        context.load_verify_locations(identity)
    return context


def clients(
    identity: Path, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, *, shows_it: bool = False
) -> ssl.SSLContext:
    """A client that trusts this identity, and perhaps shows it as its own."""
    context = ssl.create_default_context(cafile=identity)
    context.maximum_version = newest
    if shows_it:
        context.load_cert_chain(identity)
    return context
