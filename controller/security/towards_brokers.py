"""As whom do we connect to brokers on one listener? `BrokerSecurity` as contexts and logins.

Source: Kafka's ControllerChannelManager and ChannelBuilders.clientChannelBuilder, JaasContext.loadClientContext.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from controller.security.client_login import ClientLogin
from controller.security.jaas import parse_jaas
from controller.security.tls.tls import client_context
from controller.security.tls.tls_listener import Renewed, Say, files_of
from controller.security.tokens.token_sources import token_source
from controller.settings.security import BrokerSecurity


class TowardsBrokers:
    """Our end of connections to brokers on one listener."""

    def __init__(self, settings: BrokerSecurity, now: Callable[[], float], say: Say) -> None:
        """Read stores and login module. `now` counts seconds; `say` hears of renewed certificates and missing tokens.

        Raises:
            UnusableStore, UnusableSecurity: with the setting to be changed.
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
            self.login("")  # what is missing is told at the start

    def context(self) -> ssl.SSLContext | None:
        """For the next connection; None where nothing is encrypted."""
        return None if self._context is None else self._context.get()

    def login(self, host: str) -> ClientLogin | None:
        """For the next connection; None where nobody logs in.

        Raises:
            UnusableSecurity: there is nothing to log in with.
        """
        if self._module is None:
            return None
        return ClientLogin(
            self.mechanism, self._module, host=host, service_name=self._service_name, bearer_token=self._tokens
        )
