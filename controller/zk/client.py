"""How is a client of ZooKeeper made that connects and logs in as the settings say?"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

from kazoo.client import KazooClient

from controller.security.failures import AuthenticationFailed, UnusableSecurity
from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls import client_context
from controller.settings.security import TlsSettings, ZooKeeperSecurity
from controller.zk import kazoo_internals
from controller.zk.kazoo_internals import LoginRefused, Opened
from controller.zk.login import identity_of, login_of
from controller.zk.tls_connection import TlsHandler

_KEY = re.compile(r"\bssl\.key(?:store)?\.password(?: \(without it, ssl\.keystore\.password\))?")
_OTHER_KEY = re.compile(r"(?<!zookeeper\.)\bssl\.")


def client_of(
    connect: str, security: ZooKeeperSecurity, failed: Callable[[str], None] = lambda _: None, **arguments: Any
) -> KazooClient:
    """A client that is not connected yet. `failed` receives, in kazoo's thread, why a connection failed for reasons of
    security. `arguments` are kazoo's own."""
    if security.tls is not None:
        arguments["handler"] = TlsHandler(partial(context_of, security.tls), failed)
    client = KazooClient(connect, **arguments)
    if security.jaas is not None or security.digest is not None:
        kazoo_internals.log_in_first(client, partial(_log_in, security), failed, monotonic)
    return client


def context_of(tls: TlsSettings) -> ssl.SSLContext:
    """TLS towards ZooKeeper, from the stores as they are now.

    Raises:
        UnusableStore: names the setting to change.
    """
    try:
        return client_context(tls)
    except UnusableStore as error:
        text = _KEY.sub("zookeeper.ssl.keystore.password", str(error))
        raise UnusableStore(_OTHER_KEY.sub("zookeeper.ssl.", text)) from None


def check(security: ZooKeeperSecurity) -> None:
    """Read the stores and the login module once.

    Raises:
        UnusableSecurity, UnusableStore: names the setting to change.
    """
    if security.tls is not None:
        context_of(security.tls)
    identity_of(security)
    login_of(security, "localhost")


def _log_in(security: ZooKeeperSecurity, connection: Opened) -> None:
    try:
        login = login_of(security, connection.host)
        token = None if login is None else login.first_token()
        while login is not None and token is not None:
            token = login.next_token(connection.sasl(token))
    except (AuthenticationFailed, UnusableSecurity) as error:
        raise LoginRefused(str(error)) from error
    if security.digest is not None:
        connection.add_auth("digest", security.digest.reveal())
