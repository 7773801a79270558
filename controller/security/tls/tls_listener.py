"""How does a TLS listener present certificates that are renewed, and explain failed handshakes in the log?"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from controller.security.failures import AuthenticationFailed
from controller.security.tls.distinguished_name import subject_name
from controller.security.tls.principal_mapping import NoRuleApplies, PrincipalMapping
from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls import server_context
from controller.settings.security import TlsSettings

LOOKS_EVERY_S: Final = 5.0
RENEWED: Final = "certificates renewed"
UNUSABLE: Final = "certificates have changed but cannot be used; the previous ones stay in force"

Say = Callable[[str, str], None]
"""Receives what happened, and to which files or why."""

_T = TypeVar("_T")
Seen = tuple[tuple[int, int, int] | None, ...]
"""Each file's identity, size and time of change; None if it does not exist."""

_REASONS = {
    "HTTP_REQUEST": "the client speaks HTTP",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS; check its security.protocol",
    "UNSUPPORTED_PROTOCOL": "the client supports no TLS version that is enabled here",
    "NO_SHARED_CIPHER": "the client supports no cipher suite that is enabled here",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "the client does not support the algorithm of this certificate's key",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, and ssl.client.auth is required",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not trusted",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust this certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not trust this certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not trust this certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client considers this certificate expired",
}


class Renewed(Generic[_T]):
    """A value made from files, and made again when one of them has changed; the last good value stays in use
    meanwhile."""

    def __init__(self, make: Callable[[], _T], paths: Sequence[str], now: Callable[[], float], say: Say) -> None:
        """Makes the value at once. `now` returns seconds; `say` receives each renewal and each failed one.

        Raises:
            UnusableStore: it cannot be made.
        """
        self._make, self._paths = make, tuple(paths)
        self._now, self._say = now, say
        self._seen: Seen | None = look(self._paths)
        self._value = make()
        self._failure = ""
        self._due = now() + LOOKS_EVERY_S

    def get(self) -> _T:
        """The value from the files as they are, or were a few seconds ago, or when they were last good."""
        if self._paths and self._now() >= self._due:
            self._due = self._now() + LOOKS_EVERY_S
            seen = look(self._paths)
            if seen != self._seen:
                self._renew(seen)
        return self._value

    def _renew(self, seen: Seen) -> None:
        """Unusable files are tried again at each look: a permission granted later changes no file."""
        try:
            self._value = self._make()
        except Exception as error:  # whatever is in the files, the last good value stays
            failure = str(error) if isinstance(error, UnusableStore) else f"{type(error).__name__}: {error}"
            if (self._seen, self._failure) != (None, failure):
                self._say(UNUSABLE, failure)
            self._seen, self._failure = None, failure
        else:
            self._seen, self._failure = seen, ""
            self._say(RENEWED, ", ".join(self._paths))


def look(paths: Iterable[str | Path]) -> Seen:
    """The state of files; a different result means that they have to be read again."""
    return tuple(map(_state, paths))


def _state(path: str | Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def files_of(settings: TlsSettings) -> tuple[str, ...]:
    """The files that can change."""
    stores = (settings.key_store, settings.trust_store)
    return tuple(dict.fromkeys(s.location for s in stores if s is not None and s.location is not None))


class ListenerTls:
    """TLS on one listener."""

    def __init__(self, settings: TlsSettings, now: Callable[[], float], say: Say) -> None:
        """Read the stores.

        Raises:
            UnusableStore: names the setting to change.
            ValueError: `ssl.principal.mapping.rules` cannot be read.
        """
        self._mapping = PrincipalMapping(settings.principal_mapping_rules)
        self._context = Renewed(lambda: server_context(settings), files_of(settings), now, say)

    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        return self._context.get()

    def principal(self, certificate: bytes) -> str:
        """The principal of a client certificate (DER), such as User:CN=ann.

        Raises:
            AuthenticationFailed: no mapping rule applies.
        """
        name = subject_name(certificate)
        try:
            return f"User:{self._mapping.user(name)}"
        except NoRuleApplies:
            raise AuthenticationFailed(f"no rule of ssl.principal.mapping.rules applies to {name}") from None

    def reason(self, error: ssl.SSLError) -> str:
        """Why a handshake failed, for the log."""
        known = _REASONS.get(error.reason or "")
        detail = getattr(error, "verify_message", "")
        if known is None:
            return error.reason or str(error)
        return f"{known}: {detail}" if detail else known
