"""Which settings does a controller take from its brokers, where its operator has set none?

A native controller is a broker and decides by that broker's configuration. Where brokers differ, that depends on which
of them leads; here the most protective value applies.

Source: Kafka's KafkaController, TopicDeletionManager, ZkAdminManager and DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from controller.settings.kinds import Value
from controller.settings.preflight import PROTECTING
from controller.settings.table import SETTINGS
from controller.settings.values import shown
from zk_layout.znodes.configs import UNCLEAN_ELECTION

POLICY = "create.topic.policy.class.name"
_KINDS = {one.key: one.kind for one in SETTINGS}
_DEFAULTS = {one.key: one.default for one in SETTINGS if one.key in PROTECTING and one.default is not None}


class BrokerSettings(Struct, frozen=True):
    """What one broker reports of the settings by which a controller decides.

    Shape:
        `fixed` are from its file, or Kafka's defaults; `dynamic` were set at run time for this broker alone. `policy`
        is the class that would check new topics if it were the controller, empty if it has none.
    """

    fixed: Mapping[str, str] = MappingProxyType({})
    dynamic: Mapping[str, str] = MappingProxyType({})
    policy: str = ""


class Inherited(Struct, frozen=True):
    """The settings in force because brokers have them.

    Shape:
        `values` are by key. `unclean_election` overrides what is set at run time for all brokers; it is None unless
        brokers have a value of their own. `policies` are the classes that would check new topics. Before brokers
        `are_known` nothing is known.
    """

    values: Mapping[str, Value] = MappingProxyType({})
    unclean_election: bool | None = None
    policies: tuple[str, ...] = ()
    are_known: bool = True

    def shown(self) -> dict[str, str]:
        """The values to show to people."""
        own = {} if self.unclean_election is None else {UNCLEAN_ELECTION: self.unclean_election}
        found = {key: shown(key, value) for key, value in {**self.values, **own}.items()}
        return {**found, POLICY: ", ".join(self.policies)} if self.policies else found

    def in_force(self) -> Inherited:
        """The same with Kafka's default for what no broker reports: it makes no difference that brokers report it.

        >>> Inherited().in_force() == Inherited({"num.partitions": 1}).in_force()
        True
        """
        return replace(self, values={**_DEFAULTS, **self.values})


def inherited(reported: Collection[BrokerSettings], given: frozenset[str]) -> Inherited:
    """The settings in force after the brokers' reports, without those `given` here.

    >>> strict, lax = (BrokerSettings({"delete.topic.enable": text}) for text in ("false", "true"))
    >>> inherited([strict, lax], frozenset()).values
    {'delete.topic.enable': False}
    """
    values: dict[str, Value] = {}
    for key, protecting in PROTECTING.items():
        theirs = set(_read(key, (one.fixed for one in reported)))
        if theirs and key not in given:
            values[key] = protecting(theirs)
    policies = tuple(sorted({one.policy for one in reported if one.policy}))
    return Inherited(values, None if UNCLEAN_ELECTION in given else _unclean(reported), policies)


def difference(before: Inherited, now: Inherited) -> str:
    """The changes, as text.

    >>> difference(Inherited({"num.partitions": 1}), Inherited({"num.partitions": 3}))
    'num.partitions is 3 now, and was 1'
    """
    old, new = (one.in_force().shown() if before.are_known else one.shown() for one in (before, now))
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    texts = [f"{key} is {new.get(key, 'not known')} now, and was {old.get(key, 'not known')}" for key in changed]
    return ", ".join(texts) or "they are known now"


def _unclean(reported: Collection[BrokerSettings]) -> bool | None:
    """One broker that forbids it for itself is enough; to allow it with priority, each of them has to."""
    own = list(_read(UNCLEAN_ELECTION, (one.dynamic for one in reported)))
    if False in own:
        return False
    return True if own and len(own) == len(reported) else None


def _read(key: str, reported: Iterator[Mapping[str, str]]) -> Iterator[Value]:
    """The readable values; others are not valid for this key."""
    for settings in reported:
        try:
            yield _KINDS[key].read(settings[key])
        except (KeyError, ValueError):
            continue
