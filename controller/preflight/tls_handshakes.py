"""Would brokers and this replica accept each other's certificates, as far as the settings show? For `run
--check-config`.

Connects nowhere: each listener for brokers completes a handshake in memory with this process in the role of a broker,
which uses the same trust store and the advertised address.
"""

from __future__ import annotations

import ssl

from controller.security.tls.handshake import shake_hands
from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls import client_context, server_context
from controller.settings.listening import Listening

OK = "ok"


def handshakes(listening: Listening) -> dict[str, str]:
    """By TLS listener for brokers: `ok`, or what is missing."""
    found = {}
    for endpoint in listening.advertised:
        name = endpoint.listener
        secured = listening.security.get(name)
        if name in listening.for_brokers and secured and secured.tls:
            try:
                shake_hands(server_context(secured.tls), client_context(secured.tls), endpoint.host)
                found[name] = OK
            except (ssl.SSLError, UnusableStore) as error:
                found[name] = _missing(error, endpoint.host)
    return found


def _missing(error: ssl.SSLError | UnusableStore, host: str) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"the handshake fails: {getattr(error, 'reason', None) or error}"
    reason = error.verify_message
    if "mismatch" in reason or "not valid for" in reason:
        return (
            f"the certificate of ssl.keystore.location is not valid for {host} in advertised.listeners: {reason}; "
            "have one issued with this name or address, or advertise another"
        )
    if "expired" in reason or "not yet valid" in reason:
        return f"the certificate of ssl.keystore.location cannot be used now: {reason}"
    return (
        f"ssl.truststore.location does not trust the authority of ssl.keystore.location: {reason}; if brokers trust "
        "the same authorities, they will not trust this replica either"
    )
