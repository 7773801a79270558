"""What do a Java client's properties mean for ours: how to connect, as whom, with which timeouts?

The file of `--command-config` is the one for Kafka's tools. Each security setting in it is either applied or refused;
settings that only concern other clients are listed and ignored.

Source: Kafka's AdminClientConfig, SslConfigs, SaslConfigs; KIP-651 (PEM).
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from typing import Any

import javaproperties
from msgspec import Struct

from controller.reassign.input_file import File
from controller.reassign.refusals import Unusable
from controller.security.client_login import TokenProvider
from controller.security.failures import UnusableSecurity
from controller.security.jaas import parse_jaas
from controller.security.tls.client_tls import client_tls
from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls import client_context
from controller.security.tokens.token_sources import token_source
from controller.settings.providers import Providers, Unresolved, concerns_providers, redacted
from controller.settings.securing_keys import OWN_TOKEN_KEYS
from controller.settings.security import Secret

DEFAULT_API_TIMEOUT_MS = 60_000
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NUMBERS = {
    "request.timeout.ms": "request_timeout_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "socket.connection.setup.timeout.ms": "socket_connection_setup_timeout_ms",
    "socket.connection.setup.timeout.max.ms": "socket_connection_setup_timeout_max_ms",
}
_WORDS = {
    "client.id": "client_id",
    "client.dns.lookup": "client_dns_lookup",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
_HANDLED = frozenset(
    {
        *_NUMBERS,
        *_WORDS,
        "default.api.timeout.ms",
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        *OWN_TOKEN_KEYS,
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.certificates",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.protocol",
    }
)
_WITHOUT_EFFECT = frozenset({"bootstrap.servers", "retries", "retry.backoff.ms"})
"""Expressed differently, or covered by the timeouts."""
_SECURITY = ("ssl.", "sasl.", "security.")
_NEAR_ENOUGH = 0.8
_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")


class ClientSettings(Struct, frozen=True):
    """How to reach a cluster: arguments of kafka-python, and a timeout. Never shown, because it contains secrets.

    Shape:
        `environment` are variables that the Kerberos library reads: kafka-python passes no keytab to it.
    """

    arguments: dict[str, Any] = {}
    timeout_ms: int = DEFAULT_API_TIMEOUT_MS
    ignored: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}

    @property
    def security_protocol(self) -> str:
        """The security protocol of the listeners that these settings are for."""
        return str(self.arguments.get("security_protocol", "PLAINTEXT"))

    def __repr__(self) -> str:
        return f"ClientSettings(timeout_ms={self.timeout_ms}, …)"


def read_client_properties(file: File) -> ClientSettings:
    """The settings of a file, parsed as Java does.

    Raises:
        Unusable: a setting is unsupported here; the message has the key, never the value of a secret.
    """
    try:
        properties = javaproperties.loads(file.read_bytes().decode("latin-1"))
    except (OSError, ValueError) as error:
        raise Unusable(f"--command-config {file}: {error}") from None
    try:
        found = _resolved(properties)
    except Unusable as error:
        raise Unusable(f"--command-config {file.name}: {error}") from None
    try:
        return client_settings(found)
    except Unusable as error:
        reason = str(error)
        for key, text in found.items():
            reason = reason if text == properties[key] else redacted(reason, text)
        raise Unusable(f"--command-config {file.name}: {reason}") from None


def _resolved(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with the values of `config.providers` in place."""
    providers, found = Providers(properties, os.environ), {}
    for key, text in properties.items():
        if concerns_providers(key):
            continue
        try:
            found[key] = providers.resolve(text) if key in _HANDLED else text
        except Unresolved as error:
            raise Unusable(f"{key}: {error}") from None
    return found


def client_settings(properties: Mapping[str, str]) -> ClientSettings:
    """The settings in these properties.

    >>> found = client_settings({"request.timeout.ms": "5000", "group.id": "billing"})
    >>> found.arguments["request_timeout_ms"], found.ignored
    (5000, ('group.id',))

    Raises:
        Unusable: an invalid value, or unsupported security.
    """
    ignored = tuple(_unknown(key) for key in properties if key not in _HANDLED and key not in _WITHOUT_EFFECT)
    arguments: dict[str, Any] = {to: _number(properties, key) for key, to in _NUMBERS.items() if key in properties}
    arguments |= {to: properties[key] for key, to in _WORDS.items() if key in properties}
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise Unusable(f"security.protocol={protocol} is not one of {', '.join(_PROTOCOLS)}")
    arguments["security_protocol"] = protocol
    if protocol.endswith("SSL"):
        try:
            arguments["ssl_context"] = client_context(client_tls(properties))
        except UnusableStore as unusable:
            raise Unusable(str(unusable)) from None
    if protocol.startswith("SASL"):
        arguments |= _sasl(properties)
    timeout_ms = _number(properties, "default.api.timeout.ms") if "default.api.timeout.ms" in properties else None
    environment = _keytab(properties) if arguments.get("sasl_mechanism") == "GSSAPI" else {}
    return ClientSettings(arguments, timeout_ms or DEFAULT_API_TIMEOUT_MS, ignored, environment)


def _unknown(key: str) -> str:
    """Ignore a key, unless it concerns security or looks like one that should have an effect."""
    near = difflib.get_close_matches(key, sorted(_HANDLED), n=1, cutoff=_NEAR_ENOUGH)
    if key.startswith(_SECURITY):
        closest = difflib.get_close_matches(key, sorted(_HANDLED), n=1, cutoff=0.0)
        raise Unusable(f"{key} is not supported by this tool; the nearest setting that is: {closest[0]}")
    if near:
        raise Unusable(f"{key} is not a setting; did you mean {near[0]}?")
    return key


def _number(properties: Mapping[str, str], key: str) -> int:
    try:
        return int(properties[key])
    except ValueError:
        raise Unusable(f"{key}={properties[key]} is not a whole number") from None


def _sasl(properties: Mapping[str, str]) -> dict[str, Any]:
    mechanism = properties.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in _MECHANISMS:
        raise Unusable(f"sasl.mechanism={mechanism} is not supported by this tool; these are: {', '.join(_MECHANISMS)}")
    found: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism == "GSSAPI":
        return found
    text = properties.get("sasl.jaas.config")
    if text is None:
        needed = "a login module" if mechanism == "OAUTHBEARER" else "username and password"
        raise Unusable(f"sasl.mechanism={mechanism} needs sasl.jaas.config with {needed}")
    if mechanism == "OAUTHBEARER":
        return found | {"sasl_oauth_token_provider": _tokens(text, properties)}
    options = _options(text)
    lacking = [key for key in ("username", "password") if key not in options]
    if lacking:
        raise Unusable(
            f"sasl.jaas.config has no {' and no '.join(lacking)}; expected ...LoginModule required "
            'username="..." password="...";'
        )
    return found | {"sasl_plain_username": options["username"], "sasl_plain_password": options["password"]}


def _tokens(jaas: str, properties: Mapping[str, str]) -> TokenProvider:
    try:
        return TokenProvider(token_source(parse_jaas(Secret(jaas)), properties, _say_nothing))
    except UnusableSecurity as unusable:
        raise Unusable(str(unusable)) from None


def _say_nothing(_: str, __: str) -> None:
    """The caller that asks for a token gets the reason anyway."""


def _keytab(properties: Mapping[str, str]) -> dict[str, str]:
    """The library fetches tickets with it and keeps them in memory; without one, it uses tickets fetched by another
    program."""
    options = _options(properties.get("sasl.jaas.config", ""))
    if options.get("useKeyTab", "").lower() != "true" or "keyTab" not in options:
        return {"KRB5CCNAME": options["ticketCache"]} if "ticketCache" in options else {}
    return {"KRB5_CLIENT_KTNAME": options["keyTab"], "KRB5CCNAME": "MEMORY:"}


def _options(jaas: str) -> dict[str, str]:
    return {key: _unquoted(double, single, bare) for key, double, single, bare in _OPTION.findall(jaas)}


def _unquoted(double: str, single: str, bare: str) -> str:
    return re.sub(r"\\(.)", r"\1", double or single) or bare
