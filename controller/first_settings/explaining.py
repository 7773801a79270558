"""What does the comment above a setting say? What the setting means, and how its value must agree with the brokers'."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controller.settings.providers import concerns_providers
from controller.settings.securing_keys import MECHANISMS, OF_ONE
from controller.settings.table import SETTINGS

_DOCS: Final = {one.key: one.doc for one in SETTINGS}
_SECURING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "connections.max.reauth.ms": "After how long clients have to log in again.",
        "delegation.token.": "The key that the passwords of delegation tokens are made with; the same on all brokers.",
        "principal.builder.class": "How a client's identity becomes its principal; only Kafka's own class works here.",
        "sasl.enabled.mechanisms": "By which mechanisms clients and brokers may log in.",
        "sasl.jaas.config": "The login module: as whom this process logs in at brokers and, with PLAIN, which users "
        "may log in here. Its user needs what a broker's needs: to be a super user, or the right ClusterAction.",
        "sasl.kerberos.": "Kerberos; the keytab needs a principal of this host.",
        "sasl.login.": "How this process gets its tokens.",
        "sasl.oauthbearer.": "Which tokens are accepted, and how this process gets its own.",
        "sasl.server.callback.handler.class": "What checks logins; of Java classes only Kafka's own work here.",
        "sasl.server.max.receive.size": "Longest message before a login, in bytes.",
        "ssl.cipher.suites": "Cipher suites, by Java's names.",
        "ssl.client.auth": "Whether clients need a certificate.",
        "ssl.enabled.protocols": "Versions of TLS.",
        "ssl.endpoint.identification.algorithm": "Whether the name of a server must be in its certificate.",
        "ssl.engine.factory.class": "A Java class cannot run here; only Kafka's own is known.",
        "ssl.key": "The certificate of this process and its key. The path is that on this host, and the certificate "
        "must be valid for {host}: that of a broker fits only if it is.",
        "ssl.principal.mapping.rules": "How the subject of a certificate becomes a principal.",
        "ssl.truststore.": "The authorities that are trusted. A path is that on this host.",
    }
)
"""By the beginnings of keys, for those that docs/settings.md does not list."""


def explained(key: str, host: str) -> str:
    """The comment for a key, as one paragraph. `host` is where the replica is reached.

    >>> explained("listener.name.inside.ssl.client.auth", "")
    'Whether clients need a certificate.'
    """
    if key in _DOCS:
        return _DOCS[key]
    if concerns_providers(key):
        return "Where values are that are not in this file; this process must be able to read them, too."
    bare = OF_ONE.sub("", key)
    mechanism, _, of_mechanism = bare.partition(".")
    bare = of_mechanism if mechanism.upper() in MECHANISMS else bare
    return next(text for start, text in _SECURING.items() if bare.startswith(start)).replace("{host}", host)
