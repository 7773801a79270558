"""How does this process connect to its own listeners? Up to the point where a listener answers, without authenticating.

A listener answers ApiVersions before a login. On listeners for brokers, the certificate is checked as by a broker with
this process's trust store; on others only clients can judge, and their trust stores are unknown.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Collection, Mapping
from math import inf

from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls import client_context
from controller.settings.security import TlsSettings
from zk_layout.znodes.brokers import Endpoint


class OwnListenerDialer:
    """Connections to our own listeners."""

    def __init__(self, tls: Mapping[str, TlsSettings], judged: Collection[str]) -> None:
        """`tls` is by listener; the `judged` ones must have a certificate that brokers can trust."""
        self._tls = tls
        self._judged = judged

    async def open_connection(self, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """One new connection, not authenticated.

        Raises:
            OSError: the port is closed, or brokers would not trust the certificate.
        """
        settings = self._tls.get(endpoint.listener)
        if settings is None:
            return await asyncio.open_connection(endpoint.host, endpoint.port)
        try:
            context = client_context(settings)
        except UnusableStore as unusable:
            raise ConnectionError(str(unusable)) from None
        if endpoint.listener not in self._judged:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context, server_hostname=endpoint.host)

    def lasts_s(self, writer: asyncio.StreamWriter) -> float:  # noqa: ARG002 (no login)
        """For ever."""
        return inf


class ListenersOfRunningReplica:
    """In place of our own listeners, those of a replica that runs already. Which process answers there is not known."""

    def expect(self, client_id: str) -> Callable[[], bool]:  # noqa: ARG002 (another process sees it)
        """No client comes to this process."""
        return lambda: False
