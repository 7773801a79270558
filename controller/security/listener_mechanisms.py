"""Which mechanisms does a listener offer, by its settings?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from controller.security.failures import UnusableSecurity
from controller.security.jaas import KERBEROS_LOGIN, OAUTHBEARER_LOGIN, PLAIN_LOGIN, LoginModule, parse_jaas
from controller.security.login import Mechanisms
from controller.security.mechanisms.delegation_tokens import tokens_of
from controller.security.mechanisms.gssapi import GssapiServer, accepting
from controller.security.mechanisms.kerberos_names import KEY as KERBEROS_RULES
from controller.security.mechanisms.kerberos_names import ShortNames
from controller.security.mechanisms.plain import PlainServer
from controller.security.mechanisms.scram import BY_NAME, ScramServer
from controller.security.server_mechanism import ServerMechanism
from controller.security.tokens.oauthbearer import OAuthBearerServer
from controller.security.tokens.signed_tokens import Keys, expectations, signed_tokens
from controller.security.tokens.unsecured_tokens import unsecured_tokens
from controller.settings.security import SaslSettings, Secret
from zk_layout.znodes.delegation_tokens import Token
from zk_layout.znodes.scram import Credential

_HANDLER = "sasl.server.callback.handler.class"
_KAFKA = "org.apache.kafka.common.security."
_SIGNED = frozenset(
    {
        f"{_KAFKA}oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{_KAFKA}oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    }
)
_KNOWN_HANDLERS = _SIGNED | {
    f"{_KAFKA}oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    f"{_KAFKA}plain.internals.PlainServerCallbackHandler",
    f"{_KAFKA}scram.internals.ScramServerCallbackHandler",
}
_USUAL_MODULES = {"PLAIN": PLAIN_LOGIN, "OAUTHBEARER": OAUTHBEARER_LOGIN, "GSSAPI": KERBEROS_LOGIN}


class Sources(Struct, frozen=True):
    """Where mechanisms look up credentials, at each login, so that changes take effect at once.

    Shape:
        `users` gives the credential of a mechanism and user; `tokens` the delegation token of an id. Without `keys`,
        OAUTHBEARER accepts unsigned tokens, as Kafka's default handler does: that is for development.
    """

    now_ms: Callable[[], int]
    users: Callable[[str, str], Credential | None]
    tokens: Callable[[str], Token | None]
    master_key: Secret | None = None
    keys: Keys | None = None
    default_realm: str = ""


def listener_mechanisms(settings: SaslSettings, sources: Sources) -> Mechanisms:
    """What `Login` needs, for every mechanism in `sasl.enabled.mechanisms`.

    Raises:
        UnusableSecurity: a mechanism is unknown, has no login module, or has one with which no login can succeed.
    """
    for mechanism in settings.enabled_mechanisms:
        handler = settings.options_of(mechanism).get(_HANDLER)
        if handler is not None and handler not in _KNOWN_HANDLERS:
            raise UnusableSecurity(
                f"{_HANDLER}: {handler} is a Java class and cannot run here; only Kafka's own handlers are supported"
            )
    return {name: _mechanism(name, settings, sources) for name in settings.enabled_mechanisms}


def _mechanism(name: str, settings: SaslSettings, sources: Sources) -> Callable[[], ServerMechanism]:
    if name in BY_NAME:
        mechanism = BY_NAME[name]
        if name in settings.jaas:
            parse_jaas(settings.jaas[name], _key(name))
        tokens = tokens_of(mechanism, sources.master_key, sources.tokens, sources.now_ms)
        return partial(ScramServer, mechanism, partial(sources.users, name), tokens)
    if name not in _USUAL_MODULES:
        raise UnusableSecurity(f"sasl.enabled.mechanisms: {name} is not supported")
    if name not in settings.jaas:
        raise UnusableSecurity(f"{_key(name)} is missing")
    module = parse_jaas(settings.jaas[name], _key(name))
    if name == "PLAIN":
        return partial(PlainServer, module)
    if name == "OAUTHBEARER":
        return _oauthbearer(module, settings, sources)
    listed = settings.options_of(name).get(KERBEROS_RULES, "DEFAULT")
    names = ShortNames([rule.strip() for rule in listed.split(",")], sources.default_realm)
    return partial(GssapiServer, accepting(module), names)


def _oauthbearer(module: LoginModule, settings: SaslSettings, sources: Sources) -> Callable[[], ServerMechanism]:
    options = settings.options_of("OAUTHBEARER")
    if sources.keys is None:
        if options.get(_HANDLER) in _SIGNED:
            raise UnusableSecurity("sasl.oauthbearer.jwks.endpoint.url is missing: the settings require signed tokens")
        return partial(OAuthBearerServer, unsecured_tokens(module, sources.now_ms))
    return partial(OAuthBearerServer, signed_tokens(expectations(options), sources.keys, sources.now_ms))


def _key(mechanism: str) -> str:
    return f"{mechanism.lower()}.sasl.jaas.config"
