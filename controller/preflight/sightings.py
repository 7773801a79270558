"""What was seen of a cluster, and what should its controller be like? Values only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from controller.core.candidacy.migrating import MigrationPhase
from controller.preflight.findings import Check
from controller.preflight.inheriting import BrokerSettings
from controller.wire.apis import VersionRange
from controller.wire.versions import InterBrokerProtocol
from controller.zk.inspection import Lacking, Place
from controller.zk.rights import Granted
from zk_layout.ids import BrokerId, TopicName
from zk_layout.znodes.brokers import Endpoint


class Wanted(Struct, frozen=True):
    """What the operator has set.

    Shape:
        `protocol` is None if it is to be determined. Brokers are commanded over `listener`, and reach this process over
        the listeners `reached_over`. Failures of the checks in `tolerated` are only warnings. If `authorizer` is empty,
        every client may do everything. `settings` are those by which a controller decides, as they are here; `given`
        are the keys that the operator has set. `advertised` are all our listeners. `sets_acl` is zookeeper.set.acl.
        With `ignores_policy`, topics are created without the brokers' policy. `grants` are those of `GRANTS` in force.
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
        `endpoint` is on the listener for commands, None if it has no such listener. `ranges` are None if it did not
        answer at all; then, or if it did not answer what its settings are, `failure` says why. `reported` is its own
        `inter.broker.protocol.version`, empty if refused; `protocol` is its meaning, None also if this controller does
        not support it. `authorizer` is its own, empty if it has none, and None if that is not known. `settings` are
        those by which a controller decides, None if it does not report them. It looks for its controller on the
        listeners `looks_on`, none if it does not report them.
        `grants` are those of `GRANTS` that it has. It `migrates` if it says that it waits for a KRaft quorum; None if
        it does not answer.
    """

    listeners: tuple[str, ...]
    endpoint: Endpoint | None
    ranges: Mapping[int, VersionRange] | None = None
    failure: str = ""
    protocol: InterBrokerProtocol | None = None
    reported: str = ""
    authorizer: str | None = None
    settings: BrokerSettings | None = None
    looks_on: frozenset[str] = frozenset()
    rack: str | None = None
    grants: frozenset[str] = frozenset()
    migrates: bool | None = None

    @property
    def has_answered(self) -> bool:
        """Whether it answered all that it was asked; a refusal is an answer."""
        return self.ranges is not None and not self.failure


class AddressTried(Struct, frozen=True):
    """An address that this process advertises, and the outcome of a connection to it.

    Shape:
        `failure` is empty if this very process answered; or some process, if it is not `is_proven` which. Brokers use
        the address if `is_for_brokers`.
    """

    endpoint: Endpoint
    is_for_brokers: bool
    failure: str = ""
    whose: str = ""
    is_proven: bool = True


class Seen(Struct, frozen=True):
    """Everything seen in one look.

    Shape:
        `elsewhere` are paths of the same ZooKeeper at which a Kafka cluster seems to be. `clash` is another process
        registered with our id. `assigned` is a topic that has a replica on it, though no controller is known to have
        had it. `registrations` has the ACL of what each broker has created in ZooKeeper. `migration` is the phase of
        one to KRaft. Of the brokers that are registered, or were until recently, `migrating` have said last that they
        wait for a quorum, and `staying` that they do not. `hosts` have replicas; they are read only where no more than
        they could be missing.

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
    migration: MigrationPhase = MigrationPhase.NONE
    migrating: frozenset[BrokerId] = frozenset()
    staying: frozenset[BrokerId] = frozenset()
    hosts: frozenset[BrokerId] = frozenset()
