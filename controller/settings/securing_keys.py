"""Which keys say how a listener is secured?"""

from __future__ import annotations

import re
from typing import Final

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

SSL_KEYS: Final = frozenset(
    {
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""The keys of `ssl.` that have an effect here."""

OWN_TOKEN_KEYS: Final = frozenset(
    {
        "sasl.login.callback.handler.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
"""The keys by which a client of OAUTHBEARER gets its tokens."""

SASL_KEYS: Final = OWN_TOKEN_KEYS | frozenset(
    {
        "connections.max.reauth.ms",
        "principal.builder.class",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.server.callback.handler.class",
        "sasl.server.max.receive.size",
    }
)
"""The keys of SASL, and of client identities, that have an effect here."""

TOKEN_KEYS: Final = ("delegation.token.secret.key", "delegation.token.master.key")
"""The newer name first; both mean the same."""

MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"

SECURING: Final = (*sorted(SSL_KEYS | SASL_KEYS), *TOKEN_KEYS)
"""All of them, as they are written for all listeners."""

OF_ONE: Final = re.compile(r"^listener\.name\.[^.]+\.")


def concerns_security(key: str) -> bool:
    """Whether a key says how listeners are secured, one of them or all.

    >>> concerns_security("listener.name.inside.scram-sha-512.sasl.jaas.config"), concerns_security("ssl.provider")
    (True, False)
    """
    bare = OF_ONE.sub("", key)
    mechanism, _, of_mechanism = bare.partition(".")
    if bare != key and mechanism.upper() in MECHANISMS and of_mechanism in SASL_KEYS:
        return True
    return bare in SSL_KEYS or bare in SASL_KEYS or key in TOKEN_KEYS
