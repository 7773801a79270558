"""GSSAPI: how do we show a broker who we are, by a keytab or by the tickets that somebody else has fetched?

Whatever asks the Kerberos server waits for it; call these on a thread of their own.

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
    """What is needed of gssapi.SecurityContext."""

    @property
    def complete(self) -> bool:
        """Whether both ends know each other."""

    def step(self, token: bytes | None = None) -> bytes | None: ...

    def wrap(self, message: bytes, encrypt: bool) -> Any: ...

    def unwrap(self, message: bytes) -> Any: ...


class GssapiLogin:
    """Our side of one login; that messages are neither signed nor encrypted is all that Kafka offers."""

    def __init__(self, context: Callable[[], Context]) -> None:
        """`context` makes the initiating side; nothing is asked of anybody yet."""
        self._make = context
        self._context: Context | None = None
        self._next: bytes = b""
        self._has_chosen = self._is_done = False

    def auth_bytes(self) -> bytes:
        """What to send next.

        Raises:
            AuthenticationFailed: there is no ticket; with the library's reason.
        """
        if self._context is None:
            try:
                self._context = self._make()
                self._next = self._context.step() or b""
            except Exception as error:  # of a C library
                raise AuthenticationFailed(f"no ticket for the broker: {_one_line(error)}") from error
        return self._next

    def receive(self, answer: bytes) -> None:
        """What the broker has said.

        Raises:
            AuthenticationFailed: it is not the broker that the ticket is for, or offers nothing that we take.
        """
        try:
            self._receive(answer)
        except AuthenticationFailed:
            raise
        except Exception as error:  # of a C library
            raise AuthenticationFailed(f"the broker's token is refused: {_one_line(error)}") from error

    def _receive(self, answer: bytes) -> None:
        if self._context is None:
            raise AuthenticationFailed("an answer before a question")
        if not self._context.complete:
            self._next = self._context.step(answer) or b""
        elif not self._has_chosen:
            offer = self._context.unwrap(answer).message
            if len(offer) != 4 or not offer[0] & _NO_PROTECTION:
                raise AuthenticationFailed("the broker wants every message signed or encrypted, as Kafka never does")
            # No message is wrapped later, so that none may be larger than nothing; who we are says the ticket.
            self._next = bytes(self._context.wrap(bytes([_NO_PROTECTION, 0, 0, 0]), False).message)
            self._has_chosen = True
        else:
            self._is_done = True

    def is_done(self) -> bool:
        """Whether the broker has answered the last token."""
        return self._is_done

    def is_authenticated(self) -> bool:
        """Whether it knows us: it would have refused the last token otherwise."""
        return self._is_done


def initiating(module: LoginModule, service_name: str, host: str) -> Callable[[], Context]:
    """Contexts for the principal of a login module, towards a service on a host.

    Tickets that a keytab has brought are kept in memory, for all logins with it, and fetched again before they end.

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
