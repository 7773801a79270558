"""Which settings does a controller take from its brokers, where its own operator has said nothing?

A native controller is a broker, and decides by that broker's configuration. Where brokers differ it depends on which of
them leads; here the value counts that protects most.

Source: Kafka's KafkaController, TopicDeletionManager, ZkAdminManager and DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from controller.settings.kinds import Value
from controller.settings.preflight import PROTECTING
from controller.settings.table import SETTINGS
from controller.settings.values import shown
from zk_layout.znodes.configs import UNCLEAN_ELECTION

POLICY = "create.topic.policy.class.name"
_KINDS = {one.key: one.kind for one in SETTINGS}


class BrokerSettings(Struct, frozen=True):
    """What one broker tells of the settings by which a controller decides.

    Shape:
        `fixed` are from its file, or Kafka's defaults; `dynamic` were set at run time for this broker alone. `policy`
        is the class by which it would judge new topics if it were the controller, empty where it has none.
    """

    fixed: Mapping[str, str] = MappingProxyType({})
    dynamic: Mapping[str, str] = MappingProxyType({})
    policy: str = ""


class Inherited(Struct, frozen=True):
    """What is in force because the brokers have it so.

    Shape:
        `values` are by key. `unclean_election` counts for more than what is set at run time for all brokers; it is None
        unless brokers have a value of their own. `policies` are the classes by which new topics would be judged. Before
        brokers `are_heard` nothing is known.
    """

    values: Mapping[str, Value] = MappingProxyType({})
    unclean_election: bool | None = None
    policies: tuple[str, ...] = ()
    are_heard: bool = True

    def shown(self) -> dict[str, str]:
        """What to tell people."""
        own = {} if self.unclean_election is None else {UNCLEAN_ELECTION: self.unclean_election}
        found = {key: shown(key, value) for key, value in {**self.values, **own}.items()}
        return {**found, POLICY: ", ".join(self.policies)} if self.policies else found


def inherited(told: Collection[BrokerSettings], given: frozenset[str]) -> Inherited:
    """What follows from what brokers have told, except for what is `given` here.

    >>> strict, lax = (BrokerSettings({"delete.topic.enable": text}) for text in ("false", "true"))
    >>> inherited([strict, lax], frozenset()).values
    {'delete.topic.enable': False}
    """
    values: dict[str, Value] = {}
    for key, protecting in PROTECTING.items():
        theirs = set(_read(key, (one.fixed for one in told)))
        if theirs and key not in given:
            values[key] = protecting(theirs)
    policies = tuple(sorted({one.policy for one in told if one.policy}))
    return Inherited(values, None if UNCLEAN_ELECTION in given else _unclean(told), policies)


def difference(before: Inherited, now: Inherited) -> str:
    """What has changed, for people.

    >>> difference(Inherited({"num.partitions": 1}), Inherited({"num.partitions": 3}))
    'num.partitions is 3 now, and was 1'
    """
    old, new = before.shown(), now.shown()
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    texts = [f"{key} is {new.get(key, 'not known')} now, and was {old.get(key, 'not known')}" for key in changed]
    return ", ".join(texts) or "they are known now"


def _unclean(told: Collection[BrokerSettings]) -> bool | None:
    """One broker that forbids it for itself is enough; to allow it above all else, each of them has to."""
    own = list(_read(UNCLEAN_ELECTION, (one.dynamic for one in told)))
    if False in own:
        return False
    return True if own and len(own) == len(told) else None


def _read(key: str, told: Iterator[Mapping[str, str]]) -> Iterator[Value]:
    """Those values that can be read; the others are no value that this key can have."""
    for settings in told:
        try:
            yield _KINDS[key].read(settings[key])
        except (KeyError, ValueError):
            continue
