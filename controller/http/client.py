"""How does a tool query a replica's HTTP port that requires TLS or a user? By a file in the format of Prometheus'
clients.

Source: Prometheus' http_config, which promtool takes as `--http.config.file`: `basic_auth` and `tls_config`.
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, ValidationError, convert

TIMEOUT_S = 5.0


class UnusableFile(ValueError):
    """The file cannot be used; the text says why, and contains no secret."""


class _BasicAuth(Struct, forbid_unknown_fields=True):
    username: str = ""
    password: str = ""
    password_file: str = ""


class _Tls(Struct, forbid_unknown_fields=True):
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    insecure_skip_verify: bool = False


class _File(Struct, forbid_unknown_fields=True):
    basic_auth: _BasicAuth | None = None
    tls_config: _Tls | None = None


def ask(url: str, config: Path | None = None) -> dict[str, Any]:
    """The JSON object at an address. Connects directly, whatever proxy the environment names.

    Raises:
        UnusableFile: `config` cannot be used.
        OSError: no answer, or a status other than 200.
        ValueError: the answer is no JSON object.
    """
    answered = json.loads(read(url, config))
    if not isinstance(answered, dict):
        raise ValueError("the server at this address is not a controller")
    return answered


def read(url: str, config: Path | None = None, most_bytes: int | None = None) -> bytes:
    """What is at an address, or the beginning of it. Connects directly, whatever proxy the environment names.

    Raises:
        UnusableFile: `config` cannot be used.
        OSError: no answer, or a status other than 200.
    """
    found = _File() if config is None else _read(config)
    request = urllib.request.Request(url)
    if found.basic_auth is not None:
        request.add_header("Authorization", f"Basic {_credentials(config, found.basic_auth)}")
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),
        urllib.request.HTTPSHandler(context=_context(config, found.tls_config or _Tls())),
        _NoRedirection(),
    )
    with opener.open(request, timeout=TIMEOUT_S) as answer:
        return bytes(answer.read(most_bytes))


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """A password must not go to another address."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect."""


def _read(config: Path) -> _File:
    try:
        return convert(yaml.safe_load(config.read_text()) or {}, _File)
    except OSError as error:
        raise UnusableFile(f"{config}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UnusableFile(f"{config}: not YAML") from None
    except ValidationError as error:
        raise UnusableFile(f"{config}: {error}; basic_auth and tls_config are supported") from None


def password_in(config: Path) -> str:
    """The password of the file; empty without one.

    Raises:
        UnusableFile: the file cannot be used.
    """
    given = _read(config).basic_auth
    return "" if given is None else _password(config, given)


def _credentials(config: Path | None, given: _BasicAuth) -> str:
    assert config is not None
    return base64.b64encode(f"{given.username}:{_password(config, given)}".encode()).decode()


def _password(config: Path, given: _BasicAuth) -> str:
    password = given.password
    if given.password_file:
        try:
            password = (config.parent / given.password_file).read_text().strip()
        except OSError as error:
            raise UnusableFile(f"{config}: basic_auth.password_file: {error.strerror}") from None
    return password


def _context(config: Path | None, tls: _Tls) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if tls.insecure_skip_verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    beside = Path() if config is None else config.parent
    try:
        if tls.ca_file:
            context.load_verify_locations(beside / tls.ca_file)
        if tls.cert_file:
            context.load_cert_chain(beside / tls.cert_file, beside / tls.key_file if tls.key_file else None)
    except OSError as error:
        raise UnusableFile(f"{config}: tls_config: {error.strerror or error}") from None
    return context
