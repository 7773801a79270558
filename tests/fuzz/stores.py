"""Is every mutated store and web-config either loaded or refused by one clear error?

Key stores and trust stores of each kind (PEM, PKCS12, JKS) and web-configs are mutated: their bytes, the certificates
and keys inside them, and what they say. Each is loaded, or is refused by the one error that callers catch, which names
the setting in one line and shows no secret.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import itertools
import json
import struct
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random

import bcrypt
import click
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates as pkcs12
from cryptography.x509.oid import NameOID
from msgspec import Struct

from controller.http.web_config import WebAccess
from controller.security.failures import UnusableSecurity
from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls import client_context, server_context
from controller.settings.security import KeyStore, Secret, StoreType, TlsSettings, TrustStore, ZooKeeperSecurity
from controller.zk.client import check
from tests.fuzz.mutations import hostile, scrambled

PASSWORD = "store-pass"
WEB_PASSWORD = b"horse-staple"
_JKS = b"\xfe\xed\xfe\xed"
_DAY = datetime.timedelta(days=1)
_ENDS = datetime.datetime(2040, 1, 1, tzinfo=datetime.UTC)
_RSA_WITH_SHA1, _RSA_WITH_SHA256 = (bytes.fromhex(f"06092a864886f70d0101{n}") for n in ("05", "0b"))
_SUN = bytes.fromhex("300e060a2b060104012a021101010500")

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Broken(AssertionError):
    """An input had another outcome than allowed; the text says which."""


class Pair(Struct, frozen=True):
    """A key (PKCS8) and its certificate, both DER."""

    key: bytes
    certificate: bytes


@cache
def pairs() -> Mapping[str, Pair]:
    """Pairs by kind: sound ones, and those that OpenSSL refuses."""
    sound = _pair(rsa.generate_private_key(65537, 2048))
    return {
        "ec": _pair(ec.generate_private_key(ec.SECP256R1())),
        "rsa": sound,
        "short": _pair(rsa.generate_private_key(65537, 1024)),
        "sha1": Pair(sound.key, sound.certificate.replace(_RSA_WITH_SHA256, _RSA_WITH_SHA1)),
    }


def _pair(key: _Key) -> Pair:
    # Not self-signed: OpenSSL does not check self-signatures.
    name, authority = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in ("me", "authority"))
    builder = x509.CertificateBuilder(authority, name, key.public_key(), 1, _ENDS - 10_000 * _DAY, _ENDS)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
    return Pair(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()), certificate)


def pem(pair: Pair) -> bytes:
    """Key and certificate in one file."""
    parts = (("PRIVATE KEY", pair.key), ("CERTIFICATE", pair.certificate))
    return b"".join(
        b"-----BEGIN %s-----\n%s-----END %s-----\n" % (what.encode(), base64.encodebytes(der), what.encode())
        for what, der in parts
    )


def jks(pair: Pair) -> bytes:
    """A Java key store with the key and its certificate, and the certificate as one that is trusted."""
    secret, salt = PASSWORD.encode("utf-16-be"), b"s" * 20
    stream, digest = b"", salt
    while len(stream) < len(pair.key):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    hidden = bytes(one ^ other for one, other in zip(pair.key, stream, strict=False))
    content = salt + hidden + hashlib.sha1(secret + pair.key).digest()
    octets = b"\x04\x82" + struct.pack(">H", len(content)) + content
    inner = _SUN + octets
    protected = b"\x30\x82" + struct.pack(">H", len(inner)) + inner
    certificate = struct.pack(">H", 5) + b"X.509" + struct.pack(">I", len(pair.certificate)) + pair.certificate
    head = struct.pack(">H", 2) + b"me" + bytes(8)
    key = struct.pack(">I", len(protected)) + protected
    own = struct.pack(">I", 1) + head + key + struct.pack(">I", 1) + certificate
    return signed(_JKS + struct.pack(">II", 2, 2) + own + struct.pack(">I", 2) + head + certificate)


def signed(body: bytes) -> bytes:
    """Add the digest that confirms the password and the content."""
    return body + hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


@cache
def sound_stores() -> Mapping[str, bytes]:
    """Stores of each kind, including those that OpenSSL refuses."""
    found: dict[str, bytes] = {}
    for name, pair in pairs().items():
        found |= {f"{name}.pem": pem(pair), f"{name}.jks": jks(pair)}
        certificate = x509.load_der_x509_certificate(pair.certificate)
        key = _loaded(pair.key)
        # Slow to open on purpose, so with little of it.
        protection = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(1).build(PASSWORD.encode())
        found[f"{name}.p12"] = pkcs12(b"me", key, certificate, None, protection)
        trusted = [PKCS12Certificate(certificate, b"me")]
        found[f"{name}-trusted.p12"] = serialize_java_truststore(trusted, protection)
    protected = BestAvailableEncryption(PASSWORD.encode())
    locked = _loaded(pairs()["rsa"].key).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protected)
    found["locked.pem"] = locked + pem(pairs()["rsa"]).partition(b"-----END PRIVATE KEY-----\n")[2]
    return found


def _loaded(der: bytes) -> _Key:
    key = load_der_private_key(der, None)
    assert isinstance(key, _Key)
    return key


def store(random: Random) -> bytes:
    """A mutated store."""
    name = random.choice(sorted(sound_stores()))
    whole, pair = sound_stores()[name], pairs()[random.choice(sorted(pairs()))]
    kind = random.random()
    if kind < 0.1:
        return whole
    if kind < 0.4:
        return scrambled(random, whole)
    if random.random() < 0.5:
        pair = Pair(scrambled(random, pair.key), pair.certificate)
    if random.random() < 0.7:
        pair = Pair(pair.key, scrambled(random, pair.certificate))
    if kind < 0.7:
        return pem(pair)
    made = jks(pair)
    return signed(scrambled(random, made[:-20])) if kind > 0.85 else made


SOUND_WEB: Mapping[str, object] = {
    "tls_server_config": {
        "cert_file": "ec.pem",
        "key_file": "ec.pem",
        "client_ca_file": "ec.pem",
        "client_auth_type": "VerifyClientCertIfGiven",
        "client_allowed_sans": [],
        "min_version": "TLS12",
        "max_version": "TLS13",
        "cipher_suites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
    },
    "basic_auth_users": {"ann": bcrypt.hashpw(WEB_PASSWORD, bcrypt.gensalt(4)).decode()},
}
ODD_WEB = (
    "a: &a [*a]",
    "&a {basic_auth_users: *a}",
    "basic_auth_users: 2001-99-99",
    "basic_auth_users: {2001-01-01: x}",
    "basic_auth_users: {? [a, b] : x}",
    "basic_auth_users: {<<: x}",
    "? {a: b}\n: c",
    "x: !!int 0x",
    "x: !!float a",
    "x: !!timestamp a",
    "x: !!binary a",
    "x: !!python/object:os.system a",
    "x: " + "1" * 5000,
    "x: 190:20:30:60:70" * 3,
    "[" * 5000,
    "{a: " * 5000,
    "- " * 5000,
    "a:\n" + "".join(" " * n + "a:\n" for n in range(1, 900)),
    "\x00",
    "\ufeff",
    "tls_server_config: {cert_file: 'a\\0b', key_file: 'a'}",
    'tls_server_config: {cert_file: "a\\0b", key_file: "a\\0b"}',
    'tls_server_config: {cert_file: "\\ud800", key_file: "."}',
    "tls_server_config: {cert_file: '.', key_file: '.'}",
    "tls_server_config: {cert_file: '" + "n" * 300 + "', key_file: '" + "n/" * 3000 + "'}",
    "basic_auth_users: {ann: $2b$04$" + "." * 53 + "}",
    "basic_auth_users: {ann: $2b$00$" + "." * 53 + "}",
    "basic_auth_users: {ann: $2b$99$" + "." * 53 + "}",
    'basic_auth_users: {"\\ud800": "$2b$04$' + "." * 53 + '"}',
)


def web_config(random: Random) -> bytes:
    """A mutated web-config."""
    kind = random.random()
    if kind < 0.15:
        return random.choice(ODD_WEB).encode("utf-8", "surrogatepass")
    if kind < 0.3:
        odd = (".", "missing", "a\0b", "a\ud800", "/dev/null", "/proc/self/mem")
        file = random.choice((*sorted(sound_stores()), *odd))
        tls = {"cert_file": file, "key_file": file} | ({"client_ca_file": file} if random.random() < 0.5 else {})
        return json.dumps({"tls_server_config": tls}).encode()
    return hostile(random, json.dumps(SOUND_WEB).encode())


class Tried(Struct):
    """The outcomes."""

    loaded: int = 0
    refused: int = 0
    slowest_s: float = 0.0


class Trial:
    """Tries one after the other, in a directory."""

    def __init__(self, seed: int, directory: Path) -> None:
        """The same for the same seed, but for the keys."""
        self._random = Random(seed)
        self._directory = directory
        self.tried = Tried()
        for name, content in sound_stores().items():
            (directory / name).write_bytes(content)

    def run(self, count: int) -> None:
        """So many.

        Raises:
            Broken: one was neither loaded nor refused by the one error for that.
        """
        for _ in range(count):
            if self._random.random() < 0.6:
                self._try("store", store(self._random), self._load)
            else:
                self._try("web.yml", web_config(self._random), self._load_web)

    def _try(self, name: str, content: bytes, load: Callable[[Path], str]) -> None:
        path = self._directory / name
        path.write_bytes(content)
        began = time.monotonic()
        try:
            load(path)
        except (UnusableStore, UnusableSecurity) as refusal:
            self.tried.refused += 1
            self._check(str(refusal), content)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise Broken(f"{type(error).__name__}: {error!s:.300}; by {name} = {content[:2000]!r}") from error
        else:
            self.tried.loaded += 1
        self.tried.slowest_s = max(self.tried.slowest_s, time.monotonic() - began)

    def _load(self, path: Path) -> str:
        kind = self._random.choice(list(StoreType))
        password = Secret(PASSWORD) if self._random.random() < 0.9 else None
        settings = TlsSettings(
            KeyStore(kind, str(path), password, password) if self._random.random() < 0.7 else None,
            TrustStore(kind, str(path), password) if self._random.random() < 0.7 else None,
        )
        if settings.key_store is not None and self._random.random() < 0.5:
            server_context(settings)
        elif self._random.random() < 0.5:
            client_context(settings)
        else:
            check(ZooKeeperSecurity(tls=settings))
        return path.name

    def _load_web(self, path: Path) -> str:
        found = WebAccess(path)
        for credentials in (b"ann:" + WEB_PASSWORD, b"ann:x", b":", b"\xff"):
            found.admits("Basic " + base64.b64encode(credentials).decode(), None)
        return path.name

    def _check(self, reason: str, content: bytes) -> None:
        if not any(name in reason for name in ("ssl.", "http.web.config.file")):
            raise Broken(f"{reason!r} names no setting; by {content[:2000]!r}")
        if PASSWORD in reason or "\n" in reason or not reason.isprintable():
            raise Broken(f"{reason!r} is not one line without a secret; by {content[:2000]!r}")


def try_stores(seed: int, count: int) -> Tried:
    """So many stores and web-configs.

    Raises:
        Broken: a promise was broken.
    """
    with tempfile.TemporaryDirectory() as directory:
        trial = Trial(seed, Path(directory))
        trial.run(count)
    return trial.tried


@click.command()
@click.option("--stores", default=10_000, help="How many to try.")
@click.option("--seed", default=0, help="Where to begin.")
@click.option("--minutes", type=float, help="Continue with the next seed for this long.")
def command(stores: int, seed: int, minutes: float | None) -> None:
    """Load mutated key stores, trust stores and web-configs."""
    until = time.monotonic() + (minutes or 0.0) * 60
    for number in itertools.count(seed):
        tried = try_stores(number, stores)
        click.echo(
            f"seed {number}: {tried.loaded} loaded, {tried.refused} refused with the setting, nothing else; "
            f"the slowest took {tried.slowest_s:.2f} s"
        )
        if time.monotonic() >= until:
            break
