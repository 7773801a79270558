"""Who may read the HTTP port of this process? Access rules from the settings, reloaded when their files change."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from controller.http.web_config import WebAccess
from controller.runtime.supervision import Troubles
from controller.security.failures import UnusableSecurity
from controller.security.tls.tls_listener import Seen
from controller.settings.http import KEY, HttpSettings

PART: Final = "HTTP port"
_log = structlog.get_logger(__name__)


class HttpAccess:
    """The access rules in `http.web.config.file`; an unusable file leaves the last good rules in force.

    So does a file without TLS or users if there were some before: it may be half written, and an accident must not open
    access.
    """

    def __init__(self, path: Path, troubles: Troubles | None = None) -> None:
        """Reads the file. `troubles` records changes that cannot be used.

        Raises:
            UnusableSecurity: says what to change.
        """
        self._path, self._troubles = path, troubles or Troubles()
        self._troubles.expect(PART)
        self._found = WebAccess(path)
        self._seen: Seen | None = self._found.seen

    @property
    def context(self) -> ssl.SSLContext | None:
        """The TLS context; None without encryption."""
        return self._found.context

    @property
    def has_authentication(self) -> bool:
        """Whether access is restricted."""
        return self._found.has_authentication

    def renew(self) -> bool:
        """Read the files again if they have changed. True if other rules are in force now."""
        seen = self._found.look()
        if seen == self._seen:
            return False
        try:
            self._found = self._as_closed(WebAccess(self._path))
        except UnusableSecurity as unusable:
            self._seen = None  # try again: a permission granted later changes no file
            self._troubles.wrong(
                PART, "access rules have changed but cannot be used; the previous ones stay in force", str(unusable)
            )
            return False
        self._seen = self._found.seen
        self._troubles.right(PART)
        _log.info("the HTTP port's access rules were renewed", file=str(self._path))
        return True

    def _as_closed(self, found: WebAccess) -> WebAccess:
        if (self.context is not None and found.context is None) or (
            self.has_authentication and not found.has_authentication
        ):
            raise UnusableSecurity(
                f"{KEY}={self._path} would lift a restriction; restart the process if that is intended"
            )
        return found

    def knows(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a client is known to be allowed; see `WebAccess.knows`."""
        return self._found.knows(authorization, certificate)

    def admits(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a client may read; see `WebAccess.admits`."""
        return self._found.admits(authorization, certificate)


def http_access(settings: HttpSettings, troubles: Troubles | None = None) -> HttpAccess | None:
    """The access rules; None where every client may read, unencrypted. `troubles` records changes that cannot be used.

    Raises:
        UnusableSecurity: says what to change.
    """
    path, host = settings.web_config_file, settings.host
    found = HttpAccess(Path(path), troubles) if path and settings.port else None
    if not settings.port or settings.is_open or _is_local(host):
        return found
    missing = []
    if found is None or found.context is None:
        missing.append("TLS (tls_server_config)")
    if found is None or not found.has_authentication:
        missing.append("users (basic_auth_users) or client certificates (client_auth_type)")
    if missing:
        where = f"{KEY}={path}" if path else KEY
        raise UnusableSecurity(
            f"http.host={host} is reachable from other hosts: add {' and '.join(missing)} to {where}; or listen on "
            "127.0.0.1 only, or set http.open=true if every client may read it"
        )
    return found


def log_openness(settings: HttpSettings, access: HttpAccess | None) -> None:
    """Log once that every client may read."""
    host, port = settings.address
    if port and not _is_local(host) and (access is None or not access.has_authentication):
        _log.warning("every client may read the HTTP port", host=host, port=port, hint=f"set {KEY}")


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
