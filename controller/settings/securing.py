"""How is each listener secured, by the keys that are written for all of them or for one?

A key counts for one listener with `listener.name.<listener>.` in front of it and, for SASL, the mechanism behind that;
without both it counts where nothing nearer is written.

Source: Kafka's AbstractConfig.valuesWithPrefixOverride, SslConfigs, SaslConfigs; KIP-103, KIP-226.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from controller.settings import security
from controller.settings.draft import Draft
from controller.settings.securing_keys import MECHANISM, MECHANISMS, OF_ONE, TOKEN_KEYS

_ANOTHER = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
_NOT_FOR_LOGINS = ("sasl.enabled.mechanisms", "sasl.jaas.config")
_JAVA = {
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "ssl.engine.factory.class": "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
}
_E = TypeVar("_E", bound=StrEnum)


class _Written:
    """What is written for one listener, and where."""

    def __init__(self, draft: Draft, listener: str) -> None:
        self._draft = draft
        self._prefix = f"listener.name.{listener.lower()}."

    def key(self, key: str, mechanism: str = "") -> str:
        """Where the value that counts is written."""
        prefixes = [f"{self._prefix}{mechanism.lower()}."] if mechanism else []
        places = [f"{prefix}{key}" for prefix in (*prefixes, self._prefix, "")]
        return next((place for place in places if self._draft.is_given(place)), key)

    def text(self, key: str, mechanism: str = "") -> str | None:
        """The value that counts; None where nothing is written."""
        place = self.key(key, mechanism)
        return self._draft.given[place].text if self._draft.is_given(place) else None

    def or_empty(self, key: str, otherwise: str) -> str:
        """The same, where nothing written for a key means nothing, and not what it is otherwise."""
        places = (f"{self._prefix}{key}", key)
        return next((self._draft.given[place].text for place in places if place in self._draft.given), otherwise)

    def secret(self, key: str, mechanism: str = "") -> security.Secret | None:
        """The same, of what nobody may see."""
        text = self.text(key, mechanism)
        return None if text is None else security.Secret(text)

    def one_of(self, key: str, kind: type[_E], otherwise: _E) -> _E:
        """One of some words; what is none of them is complained about."""
        text = self.text(key)
        if text is None:
            return otherwise
        found = next((one for one in kind if one.value.lower() == text.lower()), None)
        if found is None:
            self._draft.complain(self.key(key), f"expected one of {', '.join(kind)}")
        return found or otherwise

    def several(self, key: str, otherwise: tuple[str, ...], known: Iterable[str] = ()) -> tuple[str, ...]:
        """Words between commas, perhaps only some that are known."""
        text = self.text(key)
        if text is None:
            return otherwise
        words = tuple(word.strip() for word in text.split(",") if word.strip())
        if known and not set(words) <= set(known):
            self._draft.complain(self.key(key), f"expected some of {', '.join(known)}")
            return otherwise
        return words

    def beginning(self, start: str, but_for: Iterable[str], mechanism: str = "") -> Mapping[str, str]:
        """All that counts of the keys that begin so."""
        bare = {OF_ONE.sub("", key).removeprefix(f"{mechanism.lower()}.") for key in self._draft.given}
        found = {key: self.text(key, mechanism) for key in sorted(bare) if key.startswith(start) and key not in but_for}
        return MappingProxyType({key: text for key, text in found.items() if text is not None})


def token_key_of(draft: Draft) -> security.Secret | None:
    """By which the passwords of delegation tokens are made; it is the same on all brokers."""
    given = next((draft.given[key].text for key in TOKEN_KEYS if draft.is_given(key)), None)
    return None if given is None else security.Secret(given)


def broker_security_of(
    draft: Draft, listener: str, secured: security.ListenerSecurity
) -> security.BrokerSecurity | None:
    """As whom this process connects to brokers on a listener; None where it could not log in there.

    Only what was found to be good for the listener counts, and nothing is complained about. Where the mechanism between
    brokers has no login module, another that has one does: clients' requests are passed on over their own listener.
    """
    if secured.sasl is None:
        return security.BrokerSecurity(secured.protocol, secured.tls)
    enabled, written = secured.sasl.enabled_mechanisms, _Written(draft, listener)
    for mechanism in (draft.text(MECHANISM), *_ANOTHER):
        jaas = written.secret("sasl.jaas.config", mechanism)
        if mechanism in enabled and jaas is not None:
            options = written.beginning("sasl.", _NOT_FOR_LOGINS, mechanism)
            return security.BrokerSecurity(secured.protocol, secured.tls, mechanism, jaas, options)
    return None


def demand_login(draft: Draft, listener: str, secured: security.ListenerSecurity) -> None:
    """Complain if brokers cannot be led over this listener."""
    if secured.sasl is None:
        return
    mechanism = draft.text(MECHANISM)
    if mechanism not in secured.sasl.enabled_mechanisms:
        enabled = ", ".join(secured.sasl.enabled_mechanisms)
        draft.complain(
            MECHANISM,
            f"{mechanism} is not among the sasl.enabled.mechanisms of listener {listener}, which are {enabled}; set "
            "both as on the brokers",
        )
    elif mechanism.startswith("SCRAM") and _Written(draft, listener).secret("sasl.jaas.config", mechanism) is None:
        draft.complain(
            f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config",
            f"this process logs in at brokers on listener {listener} with it; set it as on the brokers",
        )


def security_of(draft: Draft, listener: str, protocol: str) -> security.ListenerSecurity:
    """How one listener is secured; what cannot be used becomes a complaint."""
    written = _Written(draft, listener)
    if protocol != security.PLAINTEXT:
        for key, known in _JAVA.items():
            if written.text(key) not in (None, known):
                draft.complain(
                    written.key(key), "a Java class cannot run here; leave it out, if brokers can do without"
                )
    return security.ListenerSecurity(
        protocol,
        _tls(draft, written) if protocol in security.ENCRYPTED else None,
        _sasl(draft, written) if protocol in security.AUTHENTICATED_BY_SASL else None,
    )


def _tls(draft: Draft, written: _Written) -> security.TlsSettings:
    key_store = security.KeyStore(
        written.one_of("ssl.keystore.type", security.StoreType, security.StoreType.JKS),
        written.text("ssl.keystore.location"),
        written.secret("ssl.keystore.password"),
        written.secret("ssl.key.password"),
        written.text("ssl.keystore.certificate.chain"),
        written.secret("ssl.keystore.key"),
    )
    trust_store = security.TrustStore(
        written.one_of("ssl.truststore.type", security.StoreType, security.StoreType.JKS),
        written.text("ssl.truststore.location"),
        written.secret("ssl.truststore.password"),
        written.text("ssl.truststore.certificates"),
    )
    if key_store.location is None and key_store.certificate_chain is None:
        key = written.key("ssl.keystore.location")
        draft.complain(key, "a listener with TLS needs a key store, or in PEM ssl.keystore.certificate.chain and .key")
    trusts_somebody = trust_store.location is not None or trust_store.certificates is not None
    return security.TlsSettings(
        key_store,
        trust_store if trusts_somebody else None,
        written.one_of("ssl.client.auth", security.ClientAuth, security.ClientAuth.NONE),
        written.several("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), ("TLSv1.2", "TLSv1.3")),
        written.several("ssl.cipher.suites", ()),
        written.or_empty("ssl.endpoint.identification.algorithm", "https").lower(),
        written.text("ssl.principal.mapping.rules") or "DEFAULT",
    )


def _sasl(draft: Draft, written: _Written) -> security.SaslSettings:
    mechanisms = written.several("sasl.enabled.mechanisms", ("GSSAPI",), MECHANISMS)
    jaas = {}
    for mechanism in mechanisms:
        found = written.secret("sasl.jaas.config", mechanism)
        if found is not None:
            jaas[mechanism] = found
        elif not mechanism.startswith("SCRAM"):
            key = f"listener.name.*.{mechanism.lower()}.sasl.jaas.config"
            draft.complain(key, f"{mechanism} needs it; a JAAS file of the JVM is not read")
    options = written.beginning("sasl.", _NOT_FOR_LOGINS)
    nearer = {mechanism: written.beginning("sasl.", _NOT_FOR_LOGINS, mechanism) for mechanism in mechanisms}
    return security.SaslSettings(
        mechanisms,
        MappingProxyType(jaas),
        options,
        _number(draft, written, "connections.max.reauth.ms", ("milliseconds", 0, 0)),
        _number(draft, written, "sasl.server.max.receive.size", ("bytes", 1, 524_288)),
        MappingProxyType({name: found for name, found in nearer.items() if found != options}),
    )


def _number(draft: Draft, written: _Written, key: str, kind: tuple[str, int, int]) -> int:
    """Of a unit, at least and otherwise so many."""
    unit, least, usual = kind
    text = written.text(key) or str(usual)
    if not text.isdecimal() or int(text) < least:
        draft.complain(written.key(key), f"expected a number of {unit}, at least {least}")
        return usual
    return int(text)
