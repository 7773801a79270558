"""Which of the settings decide what is looked at before the first claim?"""

from __future__ import annotations

from controller.connections.broker import Dialer
from controller.preflight.findings import Check
from controller.preflight.inheriting import PROTECTING
from controller.preflight.looking import Door, Preflight
from controller.preflight.own_listeners import OwnDoorDialer
from controller.preflight.sightings import GRANTS, Wanted
from controller.settings import Settings
from controller.wire.versions import parse_wanted


def tolerated(settings: Settings) -> frozenset[Check]:
    """Of which checks the operator has said that they only warn."""
    return frozenset(map(Check, filter(None, str(settings.values["controller.preflight.tolerate"] or "").split(","))))


def wanted_of(settings: Settings, *, is_new_cluster: bool) -> Wanted:
    """What a process with these settings expects of its cluster."""
    claim, listening = settings.claim, settings.listening
    return Wanted(
        claim.own_id,
        claim.zookeeper.connect,
        listening.inter_broker,
        parse_wanted(claim.protocol),
        is_new_cluster,
        listening.for_brokers,
        tolerated(settings),
        str(settings.values["authorizer.class.name"] or ""),
        {key: text for key, text in settings.shown().items() if key in PROTECTING},
        frozenset(endpoint.listener for endpoint in listening.advertised),
        claim.registration.rack,
        claim.zookeeper.security.sets_acl,
        claim.given,
        settings.flag("create.topic.policy.ignore"),
        frozenset(key for key in GRANTS if settings.values[key]),
    )


def preflight_of(settings: Settings, door: Door | None, dialer: Dialer, *, is_new_cluster: bool) -> Preflight:
    """The look of a process with these settings; without a `door` it does not look whether it can be reached.

    `dialer` connects to brokers.
    """
    wanted = wanted_of(settings, is_new_cluster=is_new_cluster)
    tls = {name: secured.tls for name, secured in settings.listening.security.items() if secured.tls is not None}
    ourselves = OwnDoorDialer(tls, wanted.reached_over)
    return Preflight(wanted, settings.listening.advertised, dialer, door, ourselves=ourselves)
