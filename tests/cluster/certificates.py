"""Which authority signs certificates in a test, and in which stores do Java and we find them?"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from controller.lab.trust import encode_trust_store

TRUST_PASSWORD = "changeit"
_DAY = datetime.timedelta(days=1)
EXPIRED = datetime.timedelta(hours=-1)


class Authority:
    """One authority, and the folder of its stores. Its certificates are valid for `lasts`."""

    lasts = _DAY

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self._certificate = self._signed(self._name, self._key.public_key(), is_authority=True)
        self.trusted_pem = folder / "trusted.pem"
        self.trusted_pem.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        self.trusted_jks = folder / "trusted.jks"
        self.trusted_jks.write_bytes(encode_trust_store([self._certificate.public_bytes(serialization.Encoding.DER)]))

    def pkcs12(self, name: str, password: str) -> Path:
        """A key store for one name, as Java 8 and later read it."""
        key, certificate = self._issued(name)
        path = self.folder / f"{name}.p12"
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(),
                key,
                certificate,
                [self._certificate],
                serialization.BestAvailableEncryption(password.encode()),
            )
        )
        return path

    def pem(self, name: str, password: str) -> Path:
        """The same as text, with the key encrypted."""
        key, certificate = self._issued(name)
        path = self.folder / f"{name}.pem"
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password.encode()),
        )
        path.write_bytes(text + certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def pem_files(self, name: str) -> tuple[Path, Path]:
        """A certificate and key for one name, as two unencrypted files, as most clients want them."""
        key, certificate = self._issued(name)
        paths = self.folder / f"{name}.certificate.pem", self.folder / f"{name}.key.pem"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return paths

    def _issued(self, name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        key = ec.generate_private_key(ec.SECP256R1())
        words = [(NameOID.COMMON_NAME, name), (NameOID.ORGANIZATION_NAME, "lab")]
        subject = x509.Name([x509.NameAttribute(kind, word) for kind, word in reversed(words)])
        return key, self._signed(subject, key.public_key())

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool = False
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        local = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + self.lasts)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(local), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
