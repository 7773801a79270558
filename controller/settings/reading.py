"""Can what the operator wrote be used? Reads it once, and reports every error at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from controller.settings import listening
from controller.settings.draft import Draft
from controller.settings.elsewhere import IRRELEVANT, IRRELEVANT_PREFIXES, REFUSED
from controller.settings.parts import Settings, settings_of
from controller.settings.providers import PROVIDERS, Providers, Unresolved, concerns_providers
from controller.settings.securing_keys import SECURING, concerns_security
from controller.settings.security import Secret
from controller.settings.sources import Given, from_environment, from_file, from_overrides, nearest
from controller.settings.table import SETTINGS
from controller.settings.values import Values
from controller.settings.zookeeper import zookeeper_of
from controller.settings.zookeeper_security import zookeeper_security_of

_OURS = tuple(setting.key for setting in SETTINGS)
_KNOWN = (*_OURS, *REFUSED, *IRRELEVANT, *SECURING)
_BEGINNINGS = frozenset(key.partition(".")[0] for key in (*_OURS, *REFUSED, *SECURING))
_SURELY_MEANT, _PERHAPS_MEANT = 0.9, 0.75
LISTENER_LIMIT = re.compile(r"^listener\.name\.(?P<name>[^.]+)\.max\.connections$")


class BadSettings(ValueError):
    """The configuration cannot be used; `problems` has one sentence for each error."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def load(
    path: Path | None,
    overrides: Iterable[str],
    environment: Mapping[str, str],
    checks: Mapping[str, Callable[[str], object]] = MappingProxyType({}),
) -> Settings:
    """The settings of a properties file, overridden by the environment, overridden by `key=value` texts.

    `checks` are by key; each raises ValueError, with a reason, for an unusable text.

    Raises:
        BadSettings: lists every error.
    """
    problems: list[str] = []
    in_file = from_file(path, problems) if path is not None else {}
    given = in_file | from_environment(environment, problems) | from_overrides(overrides, problems)
    if _repeats_id(in_file) or _repeats_id(given):
        given.pop("node.id")
    ignored = tuple(sorted(key for key in given if _is_ignored(key) or (key in in_file and _is_of_a_plug_in(key))))
    providers = Providers({key: one.text for key, one in given.items()}, environment)
    given = {
        key: _resolved(key, one, providers, problems)
        for key, one in given.items()
        if key not in ignored and not concerns_providers(key)
    }
    _complain_about_strangers(given, problems)

    draft = Draft(given, problems)
    for key, read in checks.items():
        draft.check(key, read)
    _refuse(draft)
    _check_id(draft)
    _check_standby(draft)
    found = listening.settle(draft)
    towards_zookeeper = zookeeper_security_of(draft)
    most_connections = _listener_limits(draft, {endpoint.listener for endpoint in found.bound})
    if problems:
        raise BadSettings(problems)
    written = {key: one.written for key, one in given.items() if one.written}
    beside = {key: Secret(one.text) for key, one in given.items() if key not in draft.values}
    values = Values(
        MappingProxyType(draft.values),
        frozenset(filter(draft.is_given, given)),
        MappingProxyType(written),
        MappingProxyType(beside),
    )
    return settings_of(values, found, zookeeper_of(values, towards_zookeeper), most_connections, ignored)


def _repeats_id(given: Mapping[str, Given]) -> bool:
    """Whether node.id and broker.id are equal, as Kafka demands where both are there."""
    node, broker = given.get("node.id"), given.get("broker.id")
    return node is not None and broker is not None and node.text == broker.text


def _resolved(key: str, given: Given, providers: Providers, problems: list[str]) -> Given:
    try:
        text = providers.resolve(given.text)
    except Unresolved as why:
        problems.append(f"{given.where}: {key}: {why}")
        return Given("", given.where, written=given.text)
    return given if text == given.text else Given(text, given.where, written=given.text)


def _listener_limits(draft: Draft, listeners: Iterable[str]) -> dict[str, int]:
    """`listener.name.<name>.max.connections`, where Kafka writes the name in lower case."""
    names = {name.lower(): name for name in listeners}
    limits = {}
    for key, given in draft.given.items():
        match = LISTENER_LIMIT.match(key)
        if match is None:
            continue
        name = names.get(match["name"].lower())
        if name is not None and given.text.isdecimal() and int(given.text):
            limits[name] = int(given.text)
        else:
            draft.complain(key, "expected a number, at least 1, for one of the listeners of this process")
    return limits


def _is_ignored(key: str) -> bool:
    """Whether a key does not concern a controller; a near miss of one of ours does."""
    if key in _OURS or key in REFUSED or LISTENER_LIMIT.match(key) or concerns_security(key):
        return False
    if key in IRRELEVANT:
        return True
    is_slip = bool(difflib.get_close_matches(key, (*_OURS, *REFUSED, *SECURING), n=1, cutoff=_SURELY_MEANT))
    return key.startswith(IRRELEVANT_PREFIXES) and not is_slip


def _is_of_a_plug_in(key: str) -> bool:
    """Whether a key belongs to a Java class that runs in brokers: it begins as none of ours does, and resembles none.

    Kafka ignores every key that it does not know. Here a slip in one of ours is an error.

    >>> [_is_of_a_plug_in(key) for key in ("ldap.java.naming.referral", "jmx.port", "broker.racks", "brokr.rack")]
    [True, True, False, False]
    """
    if key in _KNOWN or concerns_security(key) or concerns_providers(key) or key.partition(".")[0] in _BEGINNINGS:
        return False
    return not difflib.get_close_matches(key, (*_KNOWN, PROVIDERS), n=1, cutoff=_PERHAPS_MEANT)


def _complain_about_strangers(given: dict[str, Given], problems: list[str]) -> None:
    problems.extend(
        f"{found.where}: {key}: there is no such setting{nearest(key, _KNOWN)}"
        for key, found in given.items()
        if key not in _KNOWN and not LISTENER_LIMIT.match(key) and not concerns_security(key)
    )


def _refuse(draft: Draft) -> None:
    for key, instead in REFUSED.items():
        if draft.is_given(key) and draft.given[key].text.lower() != "false":
            draft.complain(key, instead)


def _check_standby(draft: Draft) -> None:
    if draft.values["controller.standby.warm"] and draft.text("journal.dir"):
        draft.complain(
            "controller.standby.warm",
            "a journal repeats a term from all that was read after its claim; unset journal.dir, or set this to false",
        )


def _check_id(draft: Draft) -> None:
    broker_id, most = draft.values["broker.id"], draft.values["reserved.broker.max.id"]
    if not draft.values["broker.id.generation.enable"] or broker_id is None or most is None:
        return
    if int(str(broker_id)) > int(str(most)):
        draft.complain(
            "broker.id",
            f"ids above reserved.broker.max.id = {most} are generated for brokers, and one could get this one; take a "
            f"lower id that no broker has, or set broker.id.generation.enable to false if all brokers do",
        )
