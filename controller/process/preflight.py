"""Which checks does a process with these settings run before its first claim?"""

from __future__ import annotations

from controller.connections.broker import Dialer
from controller.preflight.findings import Check
from controller.preflight.looking import OwnListeners, Preflight
from controller.preflight.own_listeners import OwnListenerDialer
from controller.preflight.sightings import Wanted
from controller.settings import Settings
from controller.wire.versions import parse_wanted


def wanted_of(settings: Settings, *, is_new_cluster: bool) -> Wanted:
    """What a process with these settings expects of its cluster."""
    claim, listening, compared = settings.claim, settings.listening, settings.preflight
    return Wanted(
        claim.own_id,
        claim.zookeeper.connect,
        listening.inter_broker,
        parse_wanted(claim.protocol),
        is_new_cluster,
        listening.for_brokers,
        frozenset(map(Check, compared.tolerated)),
        compared.authorizer,
        compared.decided_by,
        frozenset(endpoint.listener for endpoint in listening.advertised),
        claim.registration.rack,
        claim.zookeeper.security.sets_acl,
        claim.given,
        settings.term.ignores_policy,
        compared.grants,
    )


def preflight_of(
    settings: Settings, own_listeners: OwnListeners | None, dialer: Dialer, *, is_new_cluster: bool
) -> Preflight:
    """The checks of a process with these settings; without `own_listeners` they skip whether brokers can reach it.

    `dialer` connects to brokers.
    """
    listening, wanted = settings.listening, wanted_of(settings, is_new_cluster=is_new_cluster)
    tls = {name: secured.tls for name, secured in listening.security.items() if secured.tls is not None}
    ourselves = OwnListenerDialer(tls, wanted.reached_over)
    return Preflight(wanted, listening.advertised, dialer, own_listeners, ourselves=ourselves)
