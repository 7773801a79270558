"""Which of what was seen forbids a claim, and which is worth a warning?

A claim is forbidden where the configuration cannot be right, or where no broker could be led from here: a broker's
native controller is better then. What one broker lacks is a warning: a cluster in trouble needs a controller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from controller.core.clients.authorization import NOT_KNOWN_YET, Withheld
from controller.preflight import beside_brokers, deciding, leaving
from controller.preflight.findings import Check, Finding, Gravity, listed, named, ok, stop, warning
from controller.preflight.sightings import AddressTried, BrokerSeen, Seen, Wanted
from controller.settings.kinds import AUTHORIZERS
from controller.settings.preflight import GRANTS
from controller.wire.versions import OLDEST, InterBrokerProtocol, is_of_a_later_kafka, newest_within
from controller.zk.inspection import Lacking
from controller.zk.rights import Right
from zk_layout.ids import BrokerId

SHOWN = 5
UNNAMED = "an authorizer"
"""Stands for the authorizer of a broker that does not let this process ask its name."""
TOLERABLE_S = 30.0


def judge(wanted: Wanted, seen: Seen) -> tuple[Finding, ...]:
    """All findings, in the order in which an operator would look."""
    rules: tuple[Callable[[Wanted, Seen], Iterable[Finding]], ...] = (
        _cluster,
        leaving.migration,
        _own_id,
        _permissions,
        _owners,
        _brokers,
        beside_brokers.listeners,
        beside_brokers.rack,
        _protocol,
        _authorizer,
        _grants,
        deciding.settings,
        deciding.policy,
        _addresses,
        _clocks,
    )
    return tuple(finding for rule in rules for finding in rule(wanted, seen))


def is_empty(seen: Seen) -> bool:
    """Whether no broker has ever been there."""
    return not (seen.place.has_cluster_id or seen.brokers or seen.place.topics)


def _cluster(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    check, place = Check.CLUSTER, seen.place
    if not is_empty(seen):
        named = f"cluster {place.cluster_id}" if place.cluster_id else "a cluster without a readable /cluster/id"
        if seen.brokers:
            yield ok(check, f"{named}, brokers {listed(seen.brokers)}")
        else:
            yield warning(check, f"{named}, but no broker is registered", "start the brokers")
        return
    where = f"no Kafka cluster is at {wanted.zookeeper}: "
    if place.children is None:
        where += "the chroot does not exist"
    else:
        where += f"it holds {listed(sorted(place.children)) or 'nothing'}, and no /cluster/id"
    if seen.elsewhere:
        where += f"; one is at {' and at '.join(seen.elsewhere)}"
    if wanted.is_new_cluster:
        yield ok(check, f"{where}; a new cluster starts here (--new-cluster)")
    else:
        hint = "set zookeeper.connect as on the brokers, chroot included; for a new cluster start with --new-cluster"
        yield stop(check, where, hint)


def _own_id(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    check, hint = Check.BROKER_ID, "give every replica a broker.id of its own that no broker has"
    if seen.clash is not None:
        yield stop(check, seen.clash, hint)
    elif seen.assigned is not None:
        text = f"topic {seen.assigned} has a replica on {wanted.own_id}, so it is the id of a broker that is down"
        yield stop(check, text, hint)
    else:
        yield ok(check, f"{wanted.own_id} is free")


def _permissions(_: Wanted, seen: Seen) -> Iterator[Finding]:
    check = Check.PERMISSIONS
    if not seen.denied:
        yield ok(check, "ZooKeeper's ACLs let this process read and write what it needs")
    hint = (
        "log in at ZooKeeper as the brokers do (zookeeper.sasl.jaas.config, zookeeper.ssl.keystore.location; "
        "docs/security.md), or give these rights to the id of this process in ZooKeeper; if the servers run with "
        "skipACL, tolerate this check (controller.preflight.tolerate)"
    )
    stops = [d for d in seen.denied if d.is_essential and not d.may_depend]
    others = [d for d in seen.denied if d not in stops]
    if stops:
        yield stop(check, _denials(stops), hint)
    if others:
        yield warning(check, _denials(others), hint)


def _owners(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    """Whether brokers can write what is created here, and others no more than there.

    Under zookeeper.set.acl only the creator of a znode has rights to it. So we have them to what brokers created if
    ZooKeeper takes us for the same id.
    """
    check, found = Check.PERMISSIONS, seen.registrations
    open_ones = sorted(b for b, one in found.items() if Right.WRITE in one.anyone)
    closed = {b: one for b, one in found.items() if b not in open_ones}
    if not wanted.sets_acl:
        if closed:
            protect = f"protect{'s' * (len(closed) == 1)}"
            text = f"{named(sorted(closed))} {protect} what is created in ZooKeeper, and this process does not"
            yield warning(check, text, "set zookeeper.set.acl=true, as on the brokers")
        return
    if open_ones:
        create = f"create{'s' * (len(open_ones) == 1)}"
        text = f"what {named(open_ones)} {create} in ZooKeeper is open to all, and zookeeper.set.acl is true here"
        hint = "they might be unable to write what this process creates: set it to true on all brokers first, or to "
        yield stop(check, text, hint + "false here until then")
    foreign = {b: one for b, one in closed.items() if Right.ADMIN not in one.surely | one.perhaps}
    if foreign:
        owners = sorted({owner for one in foreign.values() for owner in one.others})
        text = f"{named(sorted(foreign))} could not write what this process creates: in ZooKeeper they are "
        yield stop(check, text + (listed(owners) or "another id"), "log in at ZooKeeper as the brokers do")


def _denials(denied: list[Lacking]) -> str:
    texts = []
    for d in denied[:SHOWN]:
        verb = "may let" if d.may_depend else "does not let"
        condition = ", depending on its address, or on its id in ZooKeeper" if d.may_depend else ""
        texts.append(f"ZooKeeper {verb} this process {d.right} {d.path}{condition} ({listed(d.others) or 'no id'} may)")
    more = len(denied) - SHOWN
    return "; ".join(texts) + (f"; and {more} more" if more > 0 else "")


def _brokers(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    check, brokers = Check.BROKERS, seen.brokers
    if not brokers:
        return
    without = {b: s for b, s in brokers.items() if s.endpoint is None}
    mute = {b: s for b, s in brokers.items() if s.endpoint is not None and s.ranges is None}
    if len(without) == len(brokers):
        names = sorted({name for seen_one in brokers.values() for name in seen_one.listeners})
        text = f"no broker has a listener {wanted.listener}; brokers {listed(brokers)} have {listed(names)}"
        yield stop(check, text, "set inter.broker.listener.name and listeners as on the brokers")
        return
    if len(without) + len(mute) == len(brokers):
        text = f"no broker answers on listener {wanted.listener}: {_failures(mute)}"
        hint = _way_in(mute, "the brokers' addresses") + "; trying again"
        yield Finding(check, Gravity.STOP, text, hint, may_pass=True)
        return
    if without:
        hint = "they cannot be led; give them the listener"
        yield warning(check, f"no listener {wanted.listener}: {named(without)}", hint)
    if mute:
        hint = "they are led as soon as they can be reached; " + _way_in(mute, "them")
        yield warning(check, f"no answer: {_failures(mute)}", hint)
    if silent := {b: s for b, s in brokers.items() if s.ranges is not None and not s.has_answered}:
        yield warning(check, f"no answer to DescribeConfigs: {_failures(silent)}", _until_they_report(wanted))
    if not without | mute | silent:
        yield ok(check, f"{named(brokers)} answer{'s' * (len(brokers) == 1)} on listener {wanted.listener}")


def _until_they_report(wanted: Wanted) -> str:
    hint = "they are led, and asked again; until they answer, what they reported before counts"
    return hint if wanted.protocol else f"{hint}, and inter.broker.protocol.version={OLDEST} if they reported none"


def _way_in(mute: Mapping[BrokerId, BrokerSeen], to: str) -> str:
    hint = f"let this host connect to {to}"
    if any(seen.endpoint is not None and seen.endpoint.security_protocol != "PLAINTEXT" for seen in mute.values()):
        hint += ", with a login and a trust store like the brokers' own (docs/security.md)"
    return hint


def _failures(mute: Mapping[BrokerId, BrokerSeen]) -> str:
    texts = [f"broker {b} ({s.failure})" for b, s in sorted(mute.items())]
    return listed(texts)


def _protocol(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    answered = {b: s for b, s in seen.brokers.items() if s.ranges is not None}
    check = Check.PROTOCOL
    ours = wanted.protocol or min((p for p in protocols(seen).values() if p is not None), default=OLDEST)
    complaints = list(_not_understood(answered, ours))
    if complaints:
        texts = [text for _, text in complaints]
        hint = "set inter.broker.protocol.version as on the brokers"
        if newest := min((newest for newest, _ in complaints if newest is not None), default=None):
            hint += f"; the newest that all of them understand is {newest.major}.{newest.minor}"
        yield stop(check, "; ".join(texts[:SHOWN]), hint)
        return
    foreign = {b: s.reported for b, s in answered.items() if s.protocol is None and s.reported}
    if foreign:
        text = listed([f"broker {b} has inter.broker.protocol.version={f}" for b, f in sorted(foreign.items())])
        make = stop if len(foreign) == sum(s.has_answered for s in answered.values()) else warning
        hint = "lower it to 3.9" if any(map(is_of_a_later_kafka, foreign.values())) else "raise it to 2.4 or more"
        yield make(check, f"{text}, which this controller does not support", f"{hint} on the brokers")
    reported = {b: s.protocol for b, s in answered.items() if s.protocol is not None}
    if not reported and foreign:
        return
    if not reported:
        if any(s.has_answered for s in answered.values()):
            text = f"no broker reports its inter.broker.protocol.version; {ours} is used"
            yield warning(check, text, "allow this process to describe the brokers' configs, or compare them yourself")
        return
    oldest, newest = min(reported.values()), max(reported.values())
    if ours < oldest and ours.manner != oldest.manner:
        text = f"inter.broker.protocol.version={ours} is older than on every broker, the oldest being {oldest}"
        yield stop(check, text, f"set it to {oldest}")
    elif ours > newest and ours.manner != newest.manner:
        text = f"inter.broker.protocol.version={ours} is newer than on every broker, the newest being {newest}"
        yield stop(check, text, f"set it to {oldest}, and raise it only when all brokers have been raised")
    elif oldest.manner != newest.manner:
        text = f"brokers have different inter.broker.protocol.versions, from {oldest} to {newest}; {ours} is used"
        yield warning(check, text, "continue the rolling upgrade")
    else:
        how = "determined here" if wanted.protocol is None else f"and {ours} here"
        yield ok(check, f"inter.broker.protocol.version {oldest} on {named(reported)}, {how}")


def protocols(seen: Seen) -> dict[BrokerId, InterBrokerProtocol | None]:
    """The protocol of each registered broker; None for one that has not answered the question about it.

    A broker that refuses to report it counts as having the newest it understands; one that reports an unsupported one,
    as the oldest.
    """
    return {broker: _protocol_of(one) for broker, one in seen.brokers.items()}


def _protocol_of(seen: BrokerSeen) -> InterBrokerProtocol | None:
    if seen.ranges is None or not seen.has_answered:
        return None
    return seen.protocol or (OLDEST if seen.reported else newest_within(seen.ranges))


def _not_understood(
    answered: Mapping[BrokerId, BrokerSeen], ours: InterBrokerProtocol
) -> Iterator[tuple[InterBrokerProtocol | None, str]]:
    for broker, seen in answered.items():
        ranges = seen.ranges or {}
        for api, version in ours.commands.items():
            if api in ranges and version not in ranges[api]:
                text = f"broker {broker} understands {api.name} {ranges[api]}, and inter.broker.protocol.version={ours}"
                yield newest_within(ranges), f"{text} means {version}"
                break


def authorizers(seen: Seen, before: Mapping[BrokerId, str]) -> dict[BrokerId, str]:
    """The authorizer of each registered broker, empty if it has none; one that is known from `before` counts until its
    broker answers."""
    known = {broker: before[broker] for broker in seen.brokers if before.get(broker)}
    return known | _authorizers_reported(seen)


def withheld(wanted: Wanted, reported: Mapping[BrokerId, str]) -> Withheld | None:
    """Why clients must not be served, with these authorizers: they might get here what brokers refuse them."""
    if Check.AUTHORIZER in wanted.tolerated:
        return None
    stricter = _stricter(wanted, reported)
    if stricter:
        return Withheld(_judged_otherwise(wanted, stricter), is_known=True)
    return None if reported or wanted.authorizer else NOT_KNOWN_YET


def _authorizers_reported(seen: Seen) -> dict[BrokerId, str]:
    return {b: s.authorizer for b, s in seen.brokers.items() if s.authorizer is not None}


def _stricter(wanted: Wanted, reported: Mapping[BrokerId, str]) -> dict[BrokerId, str]:
    """The brokers that may refuse what this process allows, as far as their authorizers show."""
    same = (*AUTHORIZERS, UNNAMED) if wanted.authorizer else ()
    return {b: name for b, name in reported.items() if name and name not in same}


def _judged_otherwise(wanted: Wanted, stricter: Mapping[BrokerId, str]) -> str:
    judge = f"{named(stricter)} use{'s' * (len(stricter) == 1)} the authorizer {listed(sorted(set(stricter.values())))}"
    return f"{judge}, and this process {f'uses {wanted.authorizer}' if wanted.authorizer else 'has none'}"


def _authorizer(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    check, ours = Check.AUTHORIZER, wanted.authorizer
    reported = _authorizers_reported(seen)
    judging = {b: name for b, name in reported.items() if name}
    stricter = _stricter(wanted, reported)
    if stricter:
        make = stop if len(stricter) == len(reported) else warning
        hint = "set authorizer.class.name, super.users and allow.everyone.if.no.acl.found as on the brokers"
        if not {*AUTHORIZERS, UNNAMED}.issuperset(stricter.values()):
            hint = f"only {AUTHORIZERS[0]} is supported; to serve clients all the same, tolerate this check"
        yield make(check, f"{_judged_otherwise(wanted, stricter)}: clients are not served", hint)
    elif ours and judging and len(judging) == len(reported):
        yield ok(check, f"{named(reported)} check{'s' * (len(reported) == 1)} requests by ACLs, as this process does")
    elif ours and reported:
        text = f"{named(reported.keys() - judging.keys())} without authorizer.class.name, and here it is {ours}"
        hint = "set it on the brokers, too, or nowhere; without the right ClusterAction brokers are refused here"
        yield warning(check, text, hint)


def _grants(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    """Rights that need no ACL here but do on brokers, or the other way round; values are not shown."""
    judging = {b: s for b, s in seen.brokers.items() if s.authorizer not in (None, "", UNNAMED)}
    for key in GRANTS if wanted.authorizer else ():
        has = {b for b, s in judging.items() if key in s.grants}
        without = judging.keys() - has
        if key in wanted.grants and without:
            text = f"{key} is set here, and not on {named(sorted(without))}: some may do more here than there"
            yield warning(Check.AUTHORIZER, text, "set it as on the brokers")
        elif key not in wanted.given and has:
            text = f"{key} is set on {named(sorted(has))}, and not here: users who need it there are refused here"
            yield warning(Check.AUTHORIZER, text, "set it as on the brokers")


def _addresses(_: Wanted, seen: Seen) -> Iterator[Finding]:
    check = Check.ADVERTISED
    for tried in seen.addresses:
        if not tried.failure:
            who = "this process" if tried.is_proven else "a process, as it seems the replica that runs,"
            yield ok(check, f"{who} answers at {tried.endpoint}")
            continue
        hint = "set advertised.listeners to an address at which brokers and clients reach this process"
        if not tried.whose:
            hint += "; if only this host cannot use it, tolerate this check (controller.preflight.tolerate)"
        make = stop if tried.is_for_brokers else warning
        yield make(check, _failed(tried), hint)


def _failed(tried: AddressTried) -> str:
    if tried.whose:
        return f"{tried.endpoint} is the address of {tried.whose}, not of this process"
    return f"this process is not reached at {tried.endpoint}: {tried.failure}"


def _clocks(_: Wanted, seen: Seen) -> Iterator[Finding]:
    if seen.ahead_s > TOLERABLE_S:
        text = f"a znode was written more than {TOLERABLE_S:.0f} s from now, by the clock of this host"
        yield warning(Check.CLOCKS, text, "synchronise the clocks of this host and of the ZooKeeper servers")
