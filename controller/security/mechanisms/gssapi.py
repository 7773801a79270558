"""GSSAPI: which principal does Kerberos vouch for?

The package `gssapi`, which needs MIT Kerberos, does the cryptography; it is optional and imported only here.

Source: RFC 4752; Kafka's SaslServerAuthenticator and SaslServerCallbackHandler, Java's GssKrb5Server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from controller.security.failures import AuthenticationFailed, UnusableSecurity
from controller.security.jaas import LoginModule
from controller.security.mechanisms.kerberos_names import NoShortName, ShortNames
from controller.security.server_mechanism import ServerMechanism

_NO_PROTECTION = 1
_LARGEST = 65_536
_OFFER = bytes([_NO_PROTECTION]) + _LARGEST.to_bytes(3, "big")


class Context(Protocol):
    """The part of gssapi.SecurityContext that we use."""

    complete: bool
    initiator_name: Any

    def step(self, token: bytes) -> bytes | None: ...

    def wrap(self, message: bytes, encrypt: bool) -> Any: ...

    def unwrap(self, message: bytes) -> Any: ...


class GssapiServer(ServerMechanism):
    """The context is set up in rounds; then client and server agree that messages are neither signed nor encrypted."""

    def __init__(self, context: Callable[[], Context], names: ShortNames) -> None:
        """`context` makes the accepting side of one login."""
        self._make = context
        self._context: Context | None = None
        self._names = names
        self._is_offered = False

    def answer(self, token: bytes) -> bytes:
        """The next token of the context, or the protection levels offered in it.

        Raises:
            AuthenticationFailed: the library rejects the token, or no rule names the principal.
        """
        try:
            return self._answered(token)
        except AuthenticationFailed:
            raise
        except NoShortName as error:
            raise AuthenticationFailed(str(error)) from error
        except Exception as error:  # a C library reports hostile bytes in many ways
            raise AuthenticationFailed(f"Kerberos: {type(error).__name__}: {error}") from error

    def _answered(self, token: bytes) -> bytes:
        if self._context is None:
            self._context = self._make()
        context = self._context
        if not context.complete:
            reply = context.step(token)
            if reply or not context.complete:
                return reply or b""
        elif not self._is_offered and token:
            raise AuthenticationFailed("Kerberos: the client sent bytes where the protocol has none")
        if not self._is_offered:
            self._is_offered = True
            return bytes(context.wrap(_OFFER, False).message)
        chosen = context.unwrap(token).message
        if len(chosen) < 4 or chosen[0] != _NO_PROTECTION:
            raise AuthenticationFailed("Kerberos: the client chose a protection that was not offered")
        # Ignores the identity the client asks for: Kafka uses the principal that Kerberos vouches for.
        self.user = self._names.of(str(context.initiator_name))
        self.is_done = True
        return b""


def accepting(module: LoginModule) -> Callable[[], Context]:
    """Contexts for the principal and keytab of a listener's login module.

    Raises:
        UnusableSecurity: the package `gssapi` is not installed, or the keytab lacks the principal's key.
    """
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise UnusableSecurity(f"GSSAPI needs the Python package gssapi and MIT Kerberos: {error}") from error
    principal, keytab = module.option("principal"), module.option("keyTab")
    name = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
    store = {"keytab": keytab} if keytab else None
    try:
        credentials = gssapi.Credentials(name=name, usage="accept", store=store)
    except gssapi.exceptions.GSSError as error:
        raise UnusableSecurity(f"sasl.jaas.config: no key for the principal in the keytab: {error}") from error
    return lambda: gssapi.SecurityContext(creds=credentials, usage="accept")
