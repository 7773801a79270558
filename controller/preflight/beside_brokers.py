"""Does what this process registers fit with the brokers' registrations?

Brokers and clients take it for one more broker, so what it lacks affects them: brokers look for their controller on a
listener of theirs, and place replicas themselves only if all nodes have a rack, or none has.

Source: Kafka's AdminUtils.assignReplicasToBrokers, MetadataCache.getAliveBrokerNode, BrokerToControllerChannelManager.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.preflight.findings import Check, Finding, listed, named, stop, warning
from controller.preflight.sightings import Seen, Wanted
from zk_layout.ids import BrokerId


def rack(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    """If some brokers have a rack and others none, this process makes nothing worse."""
    racks = {broker: one.rack for broker, one in seen.brokers.items()}
    if not racks or (None in racks.values()) == (wanted.rack is None):
        return
    harm = "beside it brokers create no topics, not even __consumer_offsets, and tools place no replicas"
    if wanted.rack is None:
        known = sorted({rack for rack in racks.values() if rack is not None})
        text = f"{_have(list(racks))} a broker.rack, and this process has none: {harm}"
        yield stop(Check.RACK, text, f"set broker.rack to one of {listed(known)}")
    elif set(racks.values()) == {None}:
        text = f"{_have(list(racks))} no broker.rack, and this process has {wanted.rack}: {harm}"
        yield stop(Check.RACK, text, "remove broker.rack")


def listeners(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    """First the listeners on which brokers look for their controller, then those for clients."""
    if not any(wanted.listener in one.listeners for one in seen.brokers.values()):
        return  # a finding of its own
    missed: dict[str, list[BrokerId]] = {}
    for broker, one in seen.brokers.items():
        for name in one.looks_on - wanted.advertised:
            missed.setdefault(name, []).append(broker)
    reporting = sum(1 for one in seen.brokers.values() if one.looks_on)
    hint = "set listeners, and inter.broker.listener.name or control.plane.listener.name, as on the brokers"
    for name, brokers in sorted(missed.items()):
        make = stop if len(brokers) == reporting else warning
        look = "looks for its" if len(brokers) == 1 else "look for their"
        has = f"this process has {listed(sorted(wanted.advertised))}"
        yield make(Check.BROKERS, f"{named(brokers)} {look} controller on listener {name}, and {has}", hint)
    everywhere = frozenset.intersection(*(frozenset(one.listeners) for one in seen.brokers.values()))
    if unknown := sorted(everywhere - wanted.advertised - missed.keys()):
        listener = "a listener" if len(unknown) == 1 else "listeners"
        text = f"all brokers have {listener} {listed(unknown)}, and this process has not"
        where = "it" if len(unknown) == 1 else "them"
        yield warning(
            Check.ADVERTISED,
            f"{text}: clients that connect by {where} find no controller",
            "add the listeners that clients use to listeners and advertised.listeners",
        )


def _have(brokers: Sequence[BrokerId]) -> str:
    return f"{named(brokers)} {'has' if len(brokers) == 1 else 'have'}"
