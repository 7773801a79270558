"""What has a broker set, and what is already there beside it? Values, and the broker's own file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from controller.settings.sources import from_file
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Registration

_KRAFT = ("process.roles", "controller.quorum.voters", "controller.quorum.bootstrap.servers")


class UnusableBroker(ValueError):
    """No controller can be set up from what this broker has; says why, and what to do."""


class BrokerConfiguration(Struct, frozen=True):
    """What one broker has set, by key.

    Shape:
        `hidden` are keys that are set to what the broker does not disclose. `origin` names the file or the broker, for
        people. Its `repr` may contain secrets.
    """

    values: Mapping[str, str]
    origin: str
    hidden: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"BrokerConfiguration(origin={self.origin!r}, …)"


class ClusterSeen(Struct, frozen=True):
    """What ZooKeeper shows of the cluster.

    Shape:
        `registrations` are those of brokers. `taken` are the ids of brokers, of replicas of this controller that run or
        have led, and those that topics place replicas on. `trouble` says why nothing is known.
    """

    registrations: Mapping[BrokerId, Registration] = MappingProxyType({})
    taken: frozenset[BrokerId] = frozenset()
    trouble: str = ""


def configuration_in(path: Path) -> BrokerConfiguration:
    """The configuration in a broker's server.properties.

    Raises:
        UnusableBroker: the file cannot be read, or is not that of a broker in ZooKeeper mode.
    """
    problems: list[str] = []
    given = from_file(path, problems)
    if problems:
        raise UnusableBroker("; ".join(problems))
    return demand_zookeeper(BrokerConfiguration({key: one.text for key, one in given.items()}, str(path)))


def demand_zookeeper(found: BrokerConfiguration) -> BrokerConfiguration:
    """The same configuration.

    Raises:
        UnusableBroker: it is not that of a broker in ZooKeeper mode.
    """
    if kraft := [key for key in _KRAFT if found.values.get(key)]:
        raise UnusableBroker(
            f"{found.origin} sets {', '.join(kraft)}: it is a node of a KRaft cluster, and this controller is for "
            "clusters in ZooKeeper mode"
        )
    if not found.values.get("zookeeper.connect"):
        raise UnusableBroker(f"{found.origin} has no zookeeper.connect: it is not the configuration of a broker")
    return found
