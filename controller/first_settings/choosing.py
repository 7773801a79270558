"""Which of a broker's settings does a controller beside it need, and which does it have for itself?

What a native controller takes from its broker is not among them: a replica asks all brokers for it while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from controller.first_settings.explaining import explained
from controller.first_settings.found import BrokerConfiguration, ClusterSeen
from controller.first_settings.listeners import (
    are_local,
    endpoints,
    is_loopback,
    listener_names,
    ports_of_brokers,
)
from controller.first_settings.page import Line, Section
from controller.settings.elsewhere import REFUSED
from controller.settings.preflight import PROTECTING
from controller.settings.providers import concerns_providers
from controller.settings.securing_keys import MECHANISM, OF_ONE, concerns_security
from controller.settings.table import HTTP_HOST, HTTP_PORT
from controller.settings.zookeeper_table import ZOOKEEPER
from zk_layout.ids import BrokerId

_OF_EACH_PROCESS: Final = (
    "zookeeper.session.timeout.ms",
    "zookeeper.connection.timeout.ms",
    "zookeeper.max.in.flight.requests",
)
TOWARDS_ZOOKEEPER: Final = tuple(one.key for one in ZOOKEEPER if one.is_kafkas and one.key not in _OF_EACH_PROCESS)
_NAMES: Final = (
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "control.plane.listener.name",
)
_RIGHTS: Final = ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")
_IDS: Final = ("broker.id.generation.enable", "reserved.broker.max.id")
_PROTOCOL: Final = "inter.broker.protocol.version"


class Own(Struct, frozen=True):
    """What the new replica has for itself: its id, the host at which it is reached, and its first port."""

    number: BrokerId
    host: str
    first_port: int


class Chosen(Struct, frozen=True):
    """The settings of a new replica.

    Shape:
        `undisclosed` are keys whose values the broker keeps to itself; `warnings` what the operator should know.
    """

    sections: tuple[Section, ...]
    undisclosed: tuple[str, ...]
    warnings: tuple[str, ...]


def choose(found: BrokerConfiguration, seen: ClusterSeen, own: Own) -> Chosen:
    """The settings of a replica beside this broker."""
    names = listener_names(found.values)
    secured = sorted(key for key in {*found.values, *found.hidden} if _secures(key, names))
    sections = (
        Section("Values kept elsewhere", tuple(_taken(found, own, filter(concerns_providers, sorted(found.values))))),
        Section("ZooKeeper: as on the brokers", tuple(_taken(found, own, TOWARDS_ZOOKEEPER))),
        Section("This replica", (*_own_id(seen, own), *_rack(found, seen), *_taken(found, own, _IDS))),
        Section("Listeners: the brokers' names, addresses of this replica", tuple(_listeners(found, seen, own))),
        Section("How listeners are secured: as on the brokers", tuple(_taken(found, own, secured))),
        Section("Who may do what: as on the brokers", tuple(_taken(found, own, _RIGHTS))),
        Section("May be set", _OPTIONAL),
        Section("Left to the brokers: asked of all of them, and followed when they change", text=tuple(_left(found))),
        Section("Not possible here", text=tuple(_refused(found))),
    )
    concerned = (*TOWARDS_ZOOKEEPER, *secured, *_RIGHTS)
    undisclosed = tuple(key for key in concerned if key in found.hidden)
    return Chosen(sections, undisclosed, tuple(_warnings(found, seen, own)))


def _secures(key: str, names: Iterable[str]) -> bool:
    """Whether a key concerns a listener that the replica gets."""
    if key == MECHANISM:
        return True
    if not concerns_security(key):
        return False
    of_one = OF_ONE.match(key) is not None
    return not of_one or key.split(".")[2].upper() in names


def _taken(found: BrokerConfiguration, own: Own, keys: Iterable[str]) -> Iterator[Line]:
    """As the broker has them; what it does not disclose is left for the operator."""
    for key in keys:
        if found.values.get(key):
            yield Line(key, found.values[key], explained(key, own.host))
        elif key in found.hidden:
            comment = f"{explained(key, own.host)} {found.origin} has it, and does not disclose it: fill it in."
            yield Line(key, "", comment, is_set=False)


def _own_id(seen: ClusterSeen, own: Own) -> Iterator[Line]:
    text = explained("broker.id", own.host)
    if not seen.trouble:
        text += " Free when this file was made, unless another replica that has never run was set up with it."
    yield Line("broker.id", str(own.number), text)


def _rack(found: BrokerConfiguration, seen: ClusterSeen) -> Iterator[Line]:
    racks = [one.rack for one in seen.registrations.values()] or [found.values.get("broker.rack") or None]
    named = sorted({rack for rack in racks if rack is not None})
    if named and None not in racks:
        theirs = found.values.get("broker.rack")
        comment = f"{explained('broker.rack', '')} Brokers have {', '.join(named)}; any of them will do."
        yield Line("broker.rack", theirs if theirs in named else named[0], comment)


def _listeners(found: BrokerConfiguration, seen: ClusterSeen, own: Own) -> Iterator[Line]:
    names = listener_names(found.values)
    made = endpoints(names, own.host, own.first_port, ports_of_brokers(found.values, seen))
    for key, value in made.items():
        yield Line(key, value, explained(key, own.host))
    yield from _taken(found, own, _NAMES)


def _left(found: BrokerConfiguration) -> Iterator[str]:
    if protocol := found.values.get(_PROTOCOL):
        yield f"{_PROTOCOL}: {protocol} on this broker; the default here, auto, follows the oldest of all."
    theirs = [f"{key}={found.values[key]}" for key in PROTECTING if found.values.get(key)]
    if theirs:
        yield f"On this broker: {', '.join(theirs)}. Set one here only if the controller is to decide otherwise."


def _refused(found: BrokerConfiguration) -> Iterator[str]:
    for key, instead in REFUSED.items():
        if key != "node.id" and found.values.get(key, "false").lower() not in ("", "false"):
            yield f"{key}={found.values[key]}: {instead}."


def _warnings(found: BrokerConfiguration, seen: ClusterSeen, own: Own) -> Iterator[str]:
    yield from (text.rstrip(".") for text in _refused(found))
    if seen.trouble:
        yield f"whether id {own.number} is free, and which racks brokers have, is not known: {seen.trouble}"
    racks = {one.rack is None for one in seen.registrations.values()}
    if len(racks) > 1:
        yield "some brokers have a broker.rack and others none: brokers place no replicas until all have one, or none"
    servers = found.values["zookeeper.connect"].partition("/")[0].split(",")
    if not is_loopback(own.host) and any(is_loopback(server.strip().rpartition(":")[0]) for server in servers):
        yield "zookeeper.connect names the broker's own host: write it as this replica's host reaches it"
    if is_loopback(own.host) and seen.registrations and not are_local(seen):
        yield f"brokers and clients on other hosts do not reach {own.host}: give --host"


_OPTIONAL: Final = (
    Line(
        "controller.takeover",
        "when-vacant",
        explained("controller.takeover", "") + " For a first try: when-vacant leads only when no broker does.",
        is_set=False,
    ),
    Line("http.host", HTTP_HOST, explained("http.host", ""), is_set=False),
    Line("http.port", str(HTTP_PORT), explained("http.port", ""), is_set=False),
    Line("journal.dir", "/var/lib/kafka-zk-controller/journal", explained("journal.dir", ""), is_set=False),
)
