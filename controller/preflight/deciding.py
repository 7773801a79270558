"""Which settings will this process decide by: its operator's, or the brokers'?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.preflight.findings import Check, Finding, listed, named, ok, warning
from controller.preflight.inheriting import POLICY, BrokerSettings, inherited
from controller.preflight.sightings import Seen, Wanted
from zk_layout.ids import BrokerId

SHOWN = 3


def settings(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    """Settings made here apply; otherwise those of the brokers."""
    reported = _reported(seen)
    if not reported:
        yield from _unreported(wanted, seen)
        return
    taken = inherited(reported.values(), wanted.given).shown()
    contradicted, disputed, adopted = [], [], []
    for key, ours in wanted.settings.items():
        holders = _holders(key, reported)
        has = ", ".join(f"{value} on {named(brokers)}" for value, brokers in holders.items())
        if key in wanted.given and len(holders) == 1 and ours.lower() not in holders:
            contradicted.append(f"{key} is {has}, and {ours} here")
        elif key in taken and len(holders) > 1:
            disputed.append(f"{key} is {has}; {taken[key]}, the most protective, is in force")
        elif key in taken and taken[key] != ours:
            adopted.append(f"{key}={taken[key]}")
    if contradicted:
        hint = "a native controller uses the brokers' own; set them alike, unless they are meant to differ"
        yield warning(Check.SETTINGS, "; ".join(contradicted), hint)
    if disputed:
        hint = "set them alike on all brokers, or set here what is to be in force"
        yield warning(Check.SETTINGS, "; ".join(disputed), hint)
    yield from _agreed(reported, adopted, is_all=not (contradicted or disputed))


def policy(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    """A policy is a Java class; this process cannot know what it forbids."""
    judging = {broker: one.policy for broker, one in _reported(seen).items() if one.policy}
    if not judging:
        return
    text = f"{named(judging)} would check new topics with {listed(sorted(set(judging.values())))} ({POLICY}), "
    text += "a Java class that cannot run here: "
    if wanted.ignores_policy:
        yield warning(Check.SETTINGS, f"{text}topics are created without it", "check them in another way")
    else:
        hint = "create topics while a native controller leads, or without the policy: create.topic.policy.ignore=true"
        yield warning(Check.SETTINGS, f"{text}CreateTopics is answered POLICY_VIOLATION", hint)


def _reported(seen: Seen) -> dict[BrokerId, BrokerSettings]:
    return {broker: one.settings for broker, one in sorted(seen.brokers.items()) if one.settings is not None}


def _holders(key: str, reported: Mapping[BrokerId, BrokerSettings]) -> dict[str, list[BrokerId]]:
    """The brokers by value."""
    found: dict[str, list[BrokerId]] = {}
    for broker, one in reported.items():
        if key in one.fixed:
            found.setdefault(one.fixed[key].lower(), []).append(broker)
    return found


def _unreported(wanted: Wanted, seen: Seen) -> Iterator[Finding]:
    unset = [f"{key}={ours}" for key, ours in wanted.settings.items() if key not in wanted.given]
    if unset and any(one.has_answered for one in seen.brokers.values()):
        text = (
            f"no broker reports the settings by which a controller decides; {', '.join(unset[:SHOWN])} … are in force"
        )
        hint = "allow this process to describe the brokers' configs, or set here what brokers have"
        yield warning(Check.SETTINGS, text, hint)


def _agreed(reported: Mapping[BrokerId, BrokerSettings], adopted: list[str], *, is_all: bool) -> Iterator[Finding]:
    if adopted:
        yield ok(Check.SETTINGS, f"in force as on {named(reported)}: {', '.join(adopted)}")
    elif is_all and any(one.fixed for one in reported.values()):
        yield ok(Check.SETTINGS, f"what a controller decides by is set as on {named(reported)}")
