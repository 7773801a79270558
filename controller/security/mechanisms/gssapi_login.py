"""GSSAPI: how do we prove our identity to a broker, with a keytab or with tickets that another program fetched?

These calls may block on the Kerberos server; make them on a thread of their own.

Source: RFC 4752; Java's GssKrb5Client and Krb5LoginModule, whose options these are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from controller.security.failures import AuthenticationFailed, UnusableSecurity
from controller.security.jaas import LoginModule

_NO_PROTECTION = 1


class Context(Protocol):
    """The part of gssapi.SecurityContext that we use."""

    @property
    def complete(self) -> bool:
        """Whether both sides have authenticated."""

    def step(self, token: bytes | None = None) -> bytes | None: ...

    def wrap(self, message: bytes, encrypt: bool) -> Any: ...

    def unwrap(self, message: bytes) -> Any: ...


class GssapiLogin:
    """Our side of one login, without signing or encryption of messages, which Kafka never offers."""

    def __init__(self, context: Callable[[], Context]) -> None:
        """`context` makes the initiating side; contacts no server yet."""
        self._make = context
        self._context: Context | None = None
        self._next: bytes = b""
        self._has_chosen = self._is_done = False

    def auth_bytes(self) -> bytes:
        """The next token to send.

        Raises:
            AuthenticationFailed: there is no ticket; with the library's reason.
        """
        if self._context is None:
            try:
                self._context = self._make()
                self._next = self._context.step() or b""
            except Exception as error:  # a C library raises many kinds
                raise AuthenticationFailed(f"no ticket for the broker: {_one_line(error)}") from error
        return self._next

    def receive(self, answer: bytes) -> None:
        """Process the broker's token.

        Raises:
            AuthenticationFailed: it is not the broker that the ticket is for, or offers nothing that we accept.
        """
        try:
            self._receive(answer)
        except AuthenticationFailed:
            raise
        except Exception as error:  # a C library raises many kinds
            raise AuthenticationFailed(f"the broker's token is refused: {_one_line(error)}") from error

    def _receive(self, answer: bytes) -> None:
        if self._context is None:
            raise AuthenticationFailed("the broker answered before it was asked")
        if not self._context.complete:
            self._next = self._context.step(answer) or b""
        elif not self._has_chosen:
            offer = self._context.unwrap(answer).message
            if len(offer) != 4 or not offer[0] & _NO_PROTECTION:
                raise AuthenticationFailed("the broker requires signed or encrypted messages, which Kafka never does")
            # No message is wrapped later, so the largest size is 0; the ticket says who we are.
            self._next = bytes(self._context.wrap(bytes([_NO_PROTECTION, 0, 0, 0]), False).message)
            self._has_chosen = True
        else:
            self._is_done = True

    def is_done(self) -> bool:
        """Whether the broker has answered the last token."""
        return self._is_done

    def is_authenticated(self) -> bool:
        """Whether it accepted us: otherwise it would have refused the last token."""
        return self._is_done


def initiating(module: LoginModule, service_name: str, host: str) -> Callable[[], Context]:
    """Contexts for the principal of a login module, towards a service on a host.

    Tickets fetched with a keytab are kept in memory, for all logins with it, and renewed before they expire.

    Raises:
        UnusableSecurity: the package `gssapi` is not installed, or the module names neither keytab nor ticket cache.
    """
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise UnusableSecurity(f"GSSAPI needs the Python package gssapi and MIT Kerberos: {error}") from error
    principal, store = module.option("principal"), _store(module)

    def made() -> Context:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
        service = gssapi.Name(f"{service_name}@{host}", gssapi.NameType.hostbased_service)
        credentials = gssapi.Credentials(name=name, usage="initiate", store=store or None)
        return gssapi.SecurityContext(  # type: ignore[no-any-return]  # untyped library
            name=service, creds=credentials, usage="initiate", mech=gssapi.MechType.kerberos
        )

    return made


def _store(module: LoginModule) -> dict[str, str]:
    """Where the library finds tickets, or what it fetches them with."""
    keytab = module.option("keyTab")
    if _says_yes(module, "useKeyTab") and keytab:
        if not os.access(keytab, os.R_OK):
            raise UnusableSecurity("sasl.jaas.config: the file that keyTab names cannot be read")
        return {"client_keytab": keytab, "ccache": f"MEMORY:{module.option('principal') or ''} {keytab}"}
    if _says_yes(module, "useTicketCache"):
        cache = module.option("ticketCache")
        return {"ccache": cache} if cache else {}
    raise UnusableSecurity(
        "sasl.jaas.config: Kerberos needs useKeyTab=true with keyTab and principal, or useTicketCache=true"
    )


def _says_yes(module: LoginModule, option: str) -> bool:
    return (module.option(option) or "").lower() == "true"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
