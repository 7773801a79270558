"""Who may read the HTTP port, and how is it encrypted? A file in the format of Prometheus' exporters.

Source: exporter-toolkit's web-configuration.md: `tls_server_config`, `basic_auth_users`.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import bcrypt
import yaml
from msgspec import Struct, ValidationError, convert, field

from controller.security.failures import UnusableSecurity
from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls import choose_suites
from controller.security.tls.tls_listener import Seen, look
from controller.settings.http import KEY
from zk_layout.codec import one_line

_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_LONGEST_REASON: Final = 1_000
_MOST_REMEMBERED: Final = 100
# Of an unguessable password: checking an unknown user takes as long as a known one.
_UNGUESSABLE: Final = b"$2b$10$q5YHNea7vWd5NbN/kOEqHuDI.EhgO/7QeNy.569CwHS2Q3YdA7mM6"
_HASHED: Final = re.compile(rb"\$2[aby]\$(?:0[4-9]|1[0-6])\$[./A-Za-z0-9]{53}")


class _Tls(Struct, forbid_unknown_fields=True):
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    client_auth_type: str = "NoClientCert"
    client_allowed_sans: list[str] = []
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: list[str] = []


class _File(Struct, forbid_unknown_fields=True):
    tls_server_config: _Tls | None = None
    basic_auth_users: dict[str, str] = field(default_factory=dict)


class WebAccess:
    """The rules in one version of the file.

    Shape:
        `context` is None without TLS. `has_authentication` where access is restricted.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file and the certificates it names.

        Raises:
            UnusableSecurity: says where and what to change.
        """
        try:
            self._take(path)
        except UnusableSecurity as refusal:
            raise UnusableSecurity(one_line(str(refusal), _LONGEST_REASON)) from None
        except Exception as error:  # a library's error about malformed content
            why = (
                "not a text that can be a name or a password"
                if isinstance(error, UnicodeError)
                else "it is not usable YAML"
            )
            raise UnusableSecurity(f"{KEY}={path}: {why} ({type(error).__name__})") from None

    def _take(self, path: Path) -> None:
        found = _read(path)
        self._users = {user: hashed.encode() for user, hashed in found.basic_auth_users.items()}
        _check_hashes(path, self._users)
        self._remembered: dict[bytes, None] = {}
        self._key = os.urandom(32)
        tls = found.tls_server_config
        self._sans = frozenset(tls.client_allowed_sans) if tls is not None else frozenset()
        self.context = None if tls is None else _context(path, tls)
        self.has_authentication = bool(self._users) or (
            self.context is not None and self.context.verify_mode is ssl.CERT_REQUIRED
        )
        named = () if tls is None else (tls.cert_file, tls.key_file, tls.client_ca_file)
        self._paths = (path, *(_beside(path, name) for name in named if name))
        self.seen = self.look()

    def look(self) -> Seen:
        """The state of all its files; if it differs from `seen`, they have to be read again."""
        return look(self._paths)

    def admits(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a client with this header and certificate may read. Takes a while.

        Shape:
            `certificate` is a verified one, as `ssl.SSLSocket.getpeercert` returns it.
        """
        return self._has_name(certificate) and (not self._users or self._is_right(authorization or ""))

    def knows(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether it is known at once that it may: nothing has to be compared, or a check just succeeded."""
        return self._has_name(certificate) and (
            not self._users or self._digest(*_credentials(authorization or "")) in self._remembered
        )

    def _has_name(self, certificate: Mapping[str, Any] | None) -> bool:
        names = (name for _, name in (certificate or {}).get("subjectAltName", ()))
        return not self._sans or not self._sans.isdisjoint(names)

    def _digest(self, user: str, password: bytes) -> bytes:
        """A digest with a key of this version of the file: what is remembered is useless elsewhere, and the time to
        look it up reveals nothing."""
        return hmac.digest(self._key, b"%d:%s:%s" % (len(user), user.encode(), password), "sha256")

    def _is_right(self, authorization: str) -> bool:
        user, password = _credentials(authorization)
        hashed = self._users.get(user)
        # bcrypt ignores any further bytes of a password; hash tools refuse longer ones, too.
        is_right = len(password) <= 72 and bcrypt.checkpw(password, hashed or _UNGUESSABLE)
        if hashed is None or not is_right:
            return False
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[self._digest(user, password)] = None
        return True


def _credentials(authorization: str) -> tuple[str, bytes]:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return "", b""
    try:
        user, _, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return user.decode(), password
    except (binascii.Error, UnicodeDecodeError):
        return "", b""


def _read(path: Path) -> _File:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UnusableSecurity(f"{KEY}={path}: {reason}") from None
    try:
        return convert(yaml.safe_load(text) or {}, _File)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise UnusableSecurity(f"{KEY}={path}: not YAML{where}") from None
    except ValidationError as error:
        hint = "tls_server_config and basic_auth_users are supported, with the keys in docs/security.md"
        raise UnusableSecurity(f"{KEY}={path}: {error}; {hint}") from None


def _check_hashes(path: Path, users: Mapping[str, bytes]) -> None:
    for user, hashed in users.items():
        if not _HASHED.fullmatch(hashed):
            raise UnusableSecurity(
                f"{KEY}={path}: the password of basic_auth_users.{user} is not hashed with bcrypt (cost 4 to 16); "
                "`htpasswd -nBC 10 NAME` does that"
            )


def _context(path: Path, tls: _Tls) -> ssl.SSLContext:
    where = f"{KEY}={path}: tls_server_config"
    versions = [_one_of(where, key, getattr(tls, key), _VERSIONS) for key in ("min_version", "max_version")]
    asked = _one_of(where, "client_auth_type", tls.client_auth_type, _CLIENT_AUTH)
    if not tls.cert_file or not tls.key_file:
        raise UnusableSecurity(f"{where}: cert_file and key_file are needed")
    if asked is not ssl.CERT_NONE and not tls.client_ca_file:
        raise UnusableSecurity(f"{where}: client_auth_type {tls.client_auth_type} needs client_ca_file")
    if tls.client_allowed_sans and asked is not ssl.CERT_REQUIRED:
        raise UnusableSecurity(f"{where}: client_allowed_sans needs client_auth_type RequireAndVerifyClientCert")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if tls.cipher_suites:
        try:
            versions = choose_suites(context, tls.cipher_suites, _between(*versions))
        except UnusableStore as unusable:
            reason = str(unusable).replace("ssl.cipher.suites", "cipher_suites")
            raise UnusableSecurity(f"{where}: {reason.replace('ssl.enabled.protocols', 'min_version')}") from None
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    cert, key = _beside(path, tls.cert_file), _beside(path, tls.key_file)
    _try(f"{where}: cert_file {cert}, key_file {key}", lambda: context.load_cert_chain(cert, key, _no_password))
    context.verify_mode = asked
    if tls.client_ca_file:
        authority = _beside(path, tls.client_ca_file)
        _try(f"{where}: client_ca_file {authority}", lambda: context.load_verify_locations(authority))
    return context


def _between(lowest: ssl.TLSVersion, highest: ssl.TLSVersion) -> list[ssl.TLSVersion]:
    return [version for version in _VERSIONS.values() if lowest <= version <= highest]


def _one_of(where: str, key: str, word: str, known: Mapping[str, Any]) -> Any:
    if word not in known:
        raise UnusableSecurity(f"{where}: {key}: expected one of {', '.join(known)}")
    return known[word]


def _try(what: str, load: Any) -> None:
    try:
        load()
    except ssl.SSLError as error:
        reason = getattr(error, "reason", None)
        raise UnusableSecurity(f"{what}: {reason or 'no certificate or key in PEM'}") from None
    except OSError as error:
        raise UnusableSecurity(f"{what}: {error.strerror}") from None
    except ValueError:
        raise UnusableSecurity(f"{what}: no file can have this name") from None


def _no_password() -> str:
    raise ssl.SSLError(0, "the key is encrypted, and this file has no place for its password")


def _beside(path: Path, name: str) -> Path:
    """A name in the file is relative to the file."""
    return path.parent / name
