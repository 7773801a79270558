"""What was seen of a cluster, and what is its controller to be like? Values only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from controller.preflight.findings import Check
from controller.preflight.inheriting import BrokerSettings
from controller.wire.apis import VersionRange
from controller.wire.versions import InterBrokerProtocol
from controller.zk.rights import Granted
from controller.zk.whereabouts import Lacking, Place
from zk_layout.ids import BrokerId, TopicName
from zk_layout.znodes.brokers import Endpoint


class Wanted(Struct, frozen=True):
    """What the operator has set.

    Shape:
        `protocol` is None where it is to be found out. Brokers are told over `listener`, and reach this process over
        the listeners `reached_over`. What fails of the checks in `tolerated` is only warned about. Where
        `authorizer` is empty, everybody may do everything. `settings` are those by which a controller decides, as they
        are here; `given` are the keys that the operator has set. `advertised` are all our listeners. `sets_acl` is
        zookeeper.set.acl. With `ignores_policy` topics are created without asking the brokers' policy. `grants` are
        those of `GRANTS` that are in force.
    """

    own_id: BrokerId
    zookeeper: str
    listener: str
    protocol: InterBrokerProtocol | None
    is_new_cluster: bool = False
    reached_over: frozenset[str] = frozenset()
    tolerated: frozenset[Check] = frozenset()
    authorizer: str = ""
    settings: Mapping[str, str] = MappingProxyType({})
    advertised: frozenset[str] = frozenset()
    rack: str | None = None
    sets_acl: bool = False
    given: frozenset[str] = frozenset()
    ignores_policy: bool = False
    grants: frozenset[str] = frozenset()


class BrokerSeen(Struct, frozen=True):
    """One registered broker, and what it answered to us.

    Shape:
        `endpoint` is on the listener over which brokers are told, None where it has no such listener. `ranges` are
        None where it did not answer, and `failure` says why. `told` is its own `inter.broker.protocol.version`, empty
        where it refuses to tell; `protocol` is what that means, None also where this controller does not speak it.
        `authorizer` is its own, empty where it has none, and None where that is not known. `settings` are those by
        which a controller decides, None where it does not tell. It looks for its controller on the listeners
        `looks_on`, none where it does not tell. `grants` are those of `GRANTS` that it has.
    """

    listeners: tuple[str, ...]
    endpoint: Endpoint | None
    ranges: Mapping[int, VersionRange] | None = None
    failure: str = ""
    protocol: InterBrokerProtocol | None = None
    told: str = ""
    authorizer: str | None = None
    settings: BrokerSettings | None = None
    looks_on: frozenset[str] = frozenset()
    rack: str | None = None
    grants: frozenset[str] = frozenset()


class AddressTried(Struct, frozen=True):
    """An address at which this process wants to be reached, and what came of a connection to it.

    Shape:
        `failure` is empty where this very process answered. Brokers use the address if `is_for_brokers`.
    """

    endpoint: Endpoint
    is_for_brokers: bool
    failure: str = ""
    whose: str = ""


class Seen(Struct, frozen=True):
    """All of it.

    Shape:
        `elsewhere` are paths of the same ZooKeeper at which a Kafka cluster seems to be. `clash` says who else is
        registered with our id. `assigned` is a topic that has a replica on it, though no controller is known to have
        had it. `registrations` says what is granted of what each broker has created in ZooKeeper.

    Units:
        `ahead_s` is how far in our future something was written to ZooKeeper, in seconds.
    """

    place: Place
    brokers: dict[BrokerId, BrokerSeen]
    elsewhere: tuple[str, ...] = ()
    clash: str | None = None
    assigned: TopicName | None = None
    denied: tuple[Lacking, ...] = ()
    addresses: tuple[AddressTried, ...] = ()
    ahead_s: float = 0.0
    registrations: Mapping[BrokerId, Granted] = MappingProxyType({})
