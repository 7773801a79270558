"""As whom do we connect to brokers on one listener? Turns `BrokerSecurity` into contexts and logins.

Source: Kafka's ControllerChannelManager and ChannelBuilders.clientChannelBuilder, JaasContext.loadClientContext.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from controller.security.jaas import parse_jaas
from controller.security.tls.tls import client_context
from controller.security.tls.tls_listener import Renewed, Say, files_of
from controller.security.tokens.token_sources import token_source
from controller.settings.security import BrokerSecurity

if TYPE_CHECKING:
    from controller.security.client_login import ClientLogin


class TowardsBrokers:
    """Our end of connections to brokers on one listener."""

    def __init__(self, settings: BrokerSecurity, now: Callable[[], float], say: Say) -> None:
        """Reads the stores and the login module. `now` returns seconds; `say` receives renewed certificates and missing
        tokens.

        Raises:
            UnusableStore, UnusableSecurity: names the setting to change.
        """
        self.protocol = settings.protocol
        self.mechanism = settings.mechanism
        tls = settings.tls
        self._context = None if tls is None else Renewed(lambda: client_context(tls), files_of(tls), now, say)
        self._module = self._tokens = None
        self._service_name = settings.options.get("sasl.kerberos.service.name")
        if settings.jaas is not None:
            self._module = parse_jaas(settings.jaas, f"{settings.mechanism.lower()}.sasl.jaas.config")
            if settings.mechanism == "OAUTHBEARER":
                self._tokens = token_source(self._module, settings.options, say)
            self.login("")  # reports what is missing at the start

    def context(self) -> ssl.SSLContext | None:
        """The context for the next connection; None without encryption."""
        return None if self._context is None else self._context.get()

    def login(self, host: str) -> ClientLogin | None:
        """The login for the next connection; None if the listener has no login.

        Raises:
            UnusableSecurity: no credentials are set.
        """
        if self._module is None:
            return None
        from controller.security.client_login import ClientLogin  # 8 MiB that few clusters need

        return ClientLogin(
            self.mechanism, self._module, host=host, service_name=self._service_name, bearer_token=self._tokens
        )
