"""How do clients authenticate at each listener, and as whom does this process connect to brokers? Built from the
settings."""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from controller.brokers.dialing import READ_AHEAD_BYTES, ListenerDialer
from controller.http.access import http_access
from controller.runtime.supervision import Troubles
from controller.security.failures import UnusableSecurity
from controller.security.identity_providers import encrypting
from controller.security.jaas import parse_jaas
from controller.security.listener_mechanisms import Sources, listener_mechanisms
from controller.security.login import Login
from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls_listener import RENEWED, UNUSABLE, ListenerTls, Say
from controller.security.tokens.bearer_tokens import NO_TOKEN, TOKEN_FETCHED
from controller.security.tokens.key_sets import KEYS_FETCHED, NO_KEYS, URL, KeySource
from controller.security.towards_brokers import TowardsBrokers
from controller.server.service import ListenerAccess
from controller.settings import BadSettings, Settings
from controller.settings.listening import Listening
from controller.settings.security import BrokerSecurity, ListenerSecurity, SaslSettings
from controller.zk import client as zookeeper
from zk_layout.znodes.delegation_tokens import Token
from zk_layout.znodes.scram import Credential

_log = structlog.get_logger(__name__)
# For each log line about a renewal: what it concerns, and whether the renewal succeeded.
_CERTIFICATES, _KEYS, _TOKEN = "certificates", "keys for tokens", "token"
_SUBJECTS = {
    RENEWED: (_CERTIFICATES, True),
    UNUSABLE: (_CERTIFICATES, False),
    KEYS_FETCHED: (_KEYS, True),
    NO_KEYS: (_KEYS, False),
    TOKEN_FETCHED: (_TOKEN, True),
    NO_TOKEN: (_TOKEN, False),
}
_REALM = re.compile(r"^\s*default_realm\s*=\s*(\S+)", re.MULTILINE)


class KnownUsers(Protocol):
    """The users who may log in with SCRAM: `controller.following.credentials.CredentialsFollower`."""

    async def is_ready(self) -> None:
        """Wait until users have been read."""

    def user(self, mechanism: str, name: str) -> Credential | None:
        """The credential that verifies a user's password."""

    def token(self, token_id: str) -> Token | None:
        """The delegation token with this id."""


class NoUsers:
    """No user may log in with SCRAM."""

    async def is_ready(self) -> None:
        """Return at once."""

    def user(self, mechanism: str, name: str) -> None:
        """Return None."""

    def token(self, token_id: str) -> None:
        """Return None."""


def check(settings: Settings) -> None:
    """Read every store, login module and HTTP access file once.

    Raises:
        BadSettings: names everything that cannot be used.
    """
    problems: list[str] = []
    listening = settings.listening
    for name, secured in listening.security.items():
        _try(name, partial(_access, listening, secured, NoUsers()), problems)
    for name, towards in listening.towards_brokers.items():
        _try(name, partial(_towards, listening, name, towards, _silent), problems)
    try:
        zookeeper.check(settings.zookeeper.security)
    except (UnusableStore, UnusableSecurity) as error:
        problems.append(str(error))
    try:
        http_access(settings.http)
    except UnusableSecurity as error:
        problems.append(str(error))
    if problems:
        raise BadSettings(tuple(dict.fromkeys(problems)))


def listener_access(
    listening: Listening, users: KnownUsers, troubles: Troubles | None = None
) -> Mapping[str, ListenerAccess]:
    """Authentication and authorization of each listener, by listener name, built from the settings. `troubles` records
    what cannot be renewed.

    Raises:
        UnusableStore, UnusableSecurity, ValueError: `check` reports the same.
    """
    for name, secured in listening.security.items():
        if (
            secured.sasl is not None
            and "OAUTHBEARER" in secured.sasl.enabled_mechanisms
            and URL not in secured.sasl.options_of("OAUTHBEARER")
        ):
            _log.warning("accepting unsigned tokens, which is Kafka's default", listener=name, hint=f"set {URL}")
    return {
        name: _access(listening, secured, users, _saying(troubles, f"listener {name}", _renewed_by(secured)))
        for name, secured in listening.security.items()
    }


def dialer_of(
    listening: Listening, read_ahead_bytes: int = READ_AHEAD_BYTES, troubles: Troubles | None = None
) -> ListenerDialer:
    """How this process connects to brokers. `troubles` records what cannot be renewed.

    Raises:
        UnusableStore, UnusableSecurity: `check` reports the same.
    """
    towards = {
        name: _towards(
            listening, name, secured, _saying(troubles, f"connections to brokers on {name}", _renewed_towards(secured))
        )
        for name, secured in listening.towards_brokers.items()
    }
    return ListenerDialer({name: one for name, one in towards.items() if one is not None}, read_ahead_bytes)


def wants_users(listening: Listening) -> bool:
    """Whether any listener authenticates by SCRAM users or delegation tokens from ZooKeeper."""
    return any(
        mechanism.startswith("SCRAM")
        for secured in listening.security.values()
        if secured.sasl is not None
        for mechanism in secured.sasl.enabled_mechanisms
    )


def _try(listener: str, make: Callable[[], object], problems: list[str]) -> None:
    try:
        make()
    except (UnusableStore, UnusableSecurity, ValueError) as error:
        problems.append(f"listener {listener}: {error}")


def _towards(listening: Listening, name: str, secured: BrokerSecurity, say: Say) -> TowardsBrokers | None:
    """None if brokers do not need it and the login module only says which clients to admit."""
    try:
        return TowardsBrokers(secured, time.monotonic, say)
    except UnusableSecurity:
        if name in listening.for_brokers:
            raise
        return None


def _access(
    listening: Listening, secured: ListenerSecurity, users: KnownUsers, say: Say | None = None
) -> ListenerAccess:
    """Without `say`, no keys for verifying tokens are fetched."""
    tls = None if secured.tls is None else ListenerTls(secured.tls, time.monotonic, say or _silent)
    if secured.sasl is None:
        return ListenerAccess(tls)
    has_users = any(mechanism.startswith("SCRAM") for mechanism in secured.sasl.enabled_mechanisms)
    login = _logins(listening, secured.sasl, users, say)
    return ListenerAccess(tls, login, users.is_ready if has_users else None, secured.sasl.max_receive_bytes)


def _logins(listening: Listening, sasl: SaslSettings, users: KnownUsers, say: Say | None) -> Callable[[], Login]:
    keys, of_tokens = None, sasl.options_of("OAUTHBEARER")
    if URL in of_tokens and "OAUTHBEARER" in sasl.enabled_mechanisms:
        context = _towards_key_set(of_tokens[URL], sasl)
        keys = _no_keys if say is None else KeySource(of_tokens, say, context)
    sources = Sources(_now_ms, users.user, users.token, listening.token_key, keys, _default_realm())
    return partial(Login, listener_mechanisms(sasl, sources), _now_ms, sasl.max_reauth_ms)


def _towards_key_set(url: str, sasl: SaslSettings) -> Callable[[], ssl.SSLContext] | None:
    """The TLS context for fetching the key set, from the options of the listener's login module."""
    jaas = sasl.jaas.get("OAUTHBEARER")
    if jaas is None or not url.lower().startswith("https:"):
        return None
    module = parse_jaas(jaas, "oauthbearer.sasl.jaas.config")
    return encrypting({key: secret.reveal() for key, secret in module.options.items()})


def _no_keys(_: str | None) -> tuple[Mapping[str, object], ...]:
    return ()


def _now_ms() -> int:
    return round(time.time() * 1000)


def _default_realm() -> str:
    """This host's default Kerberos realm, from the first krb5 file that names one; empty if none does."""
    for path in os.environ.get("KRB5_CONFIG", "/etc/krb5.conf").split(os.pathsep):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found = _REALM.search(Path(path).read_text())
            if found is not None:
                return found[1]
    return ""


def _silent(*_: str) -> None:
    """For security that is never renewed."""


def _renewed_by(secured: ListenerSecurity) -> Iterator[str]:
    """What a listener renews."""
    if secured.tls is not None:
        yield _CERTIFICATES
    sasl = secured.sasl
    if sasl is not None and "OAUTHBEARER" in sasl.enabled_mechanisms and URL in sasl.options_of("OAUTHBEARER"):
        yield _KEYS


def _renewed_towards(secured: BrokerSecurity) -> Iterator[str]:
    """What connections to brokers renew."""
    if secured.tls is not None:
        yield _CERTIFICATES
    if secured.mechanism == "OAUTHBEARER":
        yield _TOKEN


def _saying(troubles: Troubles | None, part: str, renewed: Iterable[str]) -> Say:
    """Report renewals of this part of the process to `troubles`."""
    hearing = troubles or Troubles()
    for subject in renewed:
        hearing.expect(f"{part}, {subject}")

    def say(what: str, detail: str) -> None:
        subject, is_well = _SUBJECTS[what]
        if not is_well:
            hearing.wrong(f"{part}, {subject}", what, detail)
            return
        _log.info(what, part=part, detail=detail)
        hearing.right(f"{part}, {subject}")

    return say
