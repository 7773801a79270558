"""Which authorities does this machine trust, in the form a Java runtime reads?

A runtime from a Python package knows only the public authorities, not those added to this machine.
"""

import hashlib
import os
import ssl
import struct
from pathlib import Path

# The format of a Java key store ("JKS"): magic, version 2, count, then one entry per trusted certificate.
_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
_PASSWORD = "changeit"  # Java's well-known default; a list of public certificates holds no secret


def authorities_as_java_trust_store(path: Path) -> Path:
    """Write the authorities this machine trusts as a Java trust store."""
    path.write_bytes(encode_trust_store(_trusted_certificates()))
    return path


def encode_trust_store(certificates: list[bytes]) -> bytes:
    """A trust store holding these certificates (DER)."""
    body = struct.pack(">III", _MAGIC, _VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack(">I", _TRUSTED_CERTIFICATE) + _utf(f"authority-{number}") + struct.pack(">Q", 0)
        body += _utf("X.509") + struct.pack(">I", len(certificate)) + certificate
    digest = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body)
    return body + digest.digest()


def _utf(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded


def _trusted_certificates() -> list[bytes]:
    context = ssl.create_default_context()
    for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT"):
        if (bundle := os.environ.get(variable)) and Path(bundle).is_file():
            context.load_verify_locations(bundle)
    for bundle in (
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/cert.pem",
    ):
        if Path(bundle).is_file():
            context.load_verify_locations(bundle)
    return context.get_ca_certs(binary_form=True)
