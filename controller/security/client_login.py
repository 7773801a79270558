"""What do we say when we log in at a broker ourselves?

The mechanisms are kafka-python's, but for GSSAPI, which knows no keytab there; what Kafka's own clients do beyond them
is added here: names with a comma or an equals sign in SCRAM, and delegation tokens.

Source: Kafka's SaslClientAuthenticator, ScramSaslClient, ScramLoginModule, PlainLoginModule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient

from controller.security.failures import AuthenticationFailed, UnusableSecurity
from controller.security.jaas import LoginModule
from controller.security.mechanisms.gssapi_login import GssapiLogin, initiating
from controller.security.tokens.token_sources import TokenSource

T = TypeVar("T")
_SUPPORTED = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"})


class ClientLogin:
    """Our side of one login: `first_token`, then `next_token` for each answer until it is None.

    Shape:
        After None the login `is_done`: the server has said all that the mechanism wants of it. One that `asks_others`
        waits for a Kerberos server or an identity provider in between, and is not for the event loop's thread.
    """

    def __init__(
        self,
        mechanism: str,
        module: LoginModule,
        *,
        host: str = "",
        service_name: str | None = None,
        bearer_token: TokenSource | None = None,
    ) -> None:
        """Nothing is sent yet. `service_name` is `sasl.kerberos.service.name`.

        Raises:
            UnusableSecurity: an option is missing, or a package.
        """
        if mechanism not in _SUPPORTED:
            raise UnusableSecurity(f"sasl.mechanism: {mechanism} is not supported")
        self.asks_others = mechanism in ("GSSAPI", "OAUTHBEARER")
        arguments: dict[str, Any] = {}
        if mechanism == "GSSAPI":
            service = _needed(service_name or module.option("serviceName"), "sasl.kerberos.service.name")
            self._exchange: Any = GssapiLogin(initiating(module, service, host))
        elif mechanism == "OAUTHBEARER":
            arguments = {"sasl_oauth_token_provider": TokenProvider(_needed(bearer_token, "a token source"))}
            self._exchange = get_sasl_mechanism(mechanism)(sasl_mechanism=mechanism, **arguments)
        else:
            arguments = _user_and_password(mechanism, module)
            self._exchange = get_sasl_mechanism(mechanism)(sasl_mechanism=mechanism, **arguments)
        if isinstance(self._exchange, SaslMechanismScram) and _is_token(module):
            self._exchange._scram_client = _TokenClient(
                arguments["sasl_plain_username"], arguments["sasl_plain_password"], mechanism
            )
        self.is_done = False

    def first_token(self) -> bytes:
        """What to send after the handshake."""
        return self._said()

    def next_token(self, answer: bytes) -> bytes | None:
        """What to send after this answer; None for nothing more.

        Raises:
            AuthenticationFailed: the server does not keep to the mechanism, or does not know the password itself.
        """
        try:
            self._exchange.receive(answer)
        except AuthenticationFailed:
            raise
        except Exception as error:  # kafka-python lets through whatever its parsing meets
            raise AuthenticationFailed(f"the broker's answer is not understood: {type(error).__name__}") from error
        if not self._exchange.is_done():
            return self._said()
        if not self._exchange.is_authenticated():
            raise AuthenticationFailed("the broker did not accept the login")
        self.is_done = True
        return None

    def _said(self) -> bytes:
        try:
            return bytes(self._exchange.auth_bytes())
        except AuthenticationFailed:
            raise
        except Exception as error:  # of a token source
            raise AuthenticationFailed(f"no token for the broker: {type(error).__name__}") from error


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc,unused-ignore]  # untyped library
    """A token source as kafka-python wants it; the extensions belong to the token that was asked for before."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._extensions: Mapping[str, str] = {}

    def token(self) -> str:
        """One for the next login."""
        token, self._extensions = self._source()
        return token

    def extensions(self) -> Mapping[str, str]:
        """What to send with it (KIP-342)."""
        return self._extensions


class _TokenClient(ScramClient):  # type: ignore[misc,unused-ignore]  # untyped library
    """Says that its name is a delegation token's id."""

    def first_message(self) -> bytes:
        extension = b",tokenauth=true"
        message: bytes = super().first_message()
        self.auth_message += extension
        return message + extension


def _user_and_password(mechanism: str, module: LoginModule) -> dict[str, str]:
    user = _needed(module.option("username"), "sasl.jaas.config: option username")
    password = _needed(module.option("password"), "sasl.jaas.config: option password")
    if mechanism != "PLAIN":
        user = user.replace("=", "=3D").replace(",", "=2C")
    return {"sasl_plain_username": user, "sasl_plain_password": password}


def _is_token(module: LoginModule) -> bool:
    return (module.option("tokenauth") or "").lower() == "true"


def _needed(value: T | None, name: str) -> T:
    if value is None:
        raise UnusableSecurity(f"{name} is missing")
    return value
