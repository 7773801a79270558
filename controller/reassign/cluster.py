"""What does the tool ask of a cluster, over whichever connection?

There are three: the Kafka protocol, ZooKeeper, and a simulated cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from msgspec import Struct

from controller.reassign.plans import Replica, listed, plural
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.reassignment_status import MoveProgress, RequestStatus


class Node(Struct, frozen=True):
    """A live broker, or a controller of ours beside them, which hosts no replicas."""

    host: str
    port: int
    rack: str | None = None
    is_controller: bool = False


def hosting(nodes: Mapping[BrokerId, Node]) -> dict[BrokerId, Node]:
    """The nodes that can have replicas."""
    return {broker: node for broker, node in nodes.items() if not node.is_controller}


def unfit(brokers: Iterable[BrokerId], nodes: Mapping[BrokerId, Node]) -> list[str]:
    """Why replicas cannot be placed on some of these."""
    named = sorted(set(brokers))
    reasons = []
    if unknown := [broker for broker in named if broker not in nodes]:
        alive = listed(sorted(hosting(nodes)))
        reasons.append(f"Unknown broker id{plural(unknown)} {listed(unknown)}; alive are {alive}")
    reasons += [
        f"{broker} is a controller, which hosts no replicas: remove it"
        for broker in named
        if broker in nodes and nodes[broker].is_controller
    ]
    return reasons


class PartitionState(Struct, frozen=True):
    """One partition as clients see it."""

    replicas: Replicas
    isr: Replicas = ()
    leader: BrokerId = BrokerId(-1)


class Move(Struct, frozen=True):
    """One move that has not ended. If it has not begun, its adding replicas are not among its replicas."""

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()
    progress: MoveProgress | None = None

    @property
    def target(self) -> Replicas:
        """The replicas when it is done.

        >>> Move((3, 2, 1), adding=(3,), removing=(1,)).target, Move((1, 2), adding=(3,), removing=(1,)).target
        ((3, 2), (2, 3))
        """
        kept = tuple(r for r in self.replicas if r not in self.removing)
        return kept + tuple(r for r in self.adding if r not in kept)

    @property
    def original(self) -> Replicas:
        """The replicas before it began."""
        return tuple(r for r in self.replicas if r not in self.adding)


class Listing(Struct, frozen=True):
    """The moves in progress. `controller` names the product if it is ours, `request` is the status that was asked
    for."""

    moves: dict[TopicPartition, Move]
    controller: str | None = None
    request: RequestStatus | None = None


class Added(Struct, frozen=True):
    """What a request to start moves says beyond Kafka's schema, to our controller only.

    Units:
        `throttle` in bytes a second; `give_up_ms` is how long a move may wait to begin, 0 being however long.
    Shape:
        `weights` are of the partitions that have one; higher ones begin first.
    """

    throttle: int | None = None
    reason: str | None = None
    give_up_ms: int | None = None
    weights: Mapping[TopicPartition, int] = MappingProxyType({})


NOTHING_ADDED = Added()


class Answered(Struct, frozen=True):
    """The outcome of a request: a reason for each partition that was refused."""

    refused: dict[TopicPartition, str] = {}
    request_id: int | None = None


class Mode(Enum):
    """How a cancellation, or a target that replaces another one, treats copies; Kafka's controllers have no modes."""

    GENTLE = "gentle"
    FORCED = "forced"


class Kind(Enum):
    """Whose settings; the values are Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


class Edge(Enum):
    """An end of a log; the values are Kafka's numbers."""

    END = -1
    START = -2


class Configured(NamedTuple):
    """A resource that has settings."""

    kind: Kind
    name: str


class Directories(Struct, frozen=True):
    """Where one broker keeps a replica, and where it is moving it; None if it was found nowhere."""

    current: str | None = None
    future: str | None = None
    size_bytes: int | None = None


Settings = Mapping[str, str | None]
"""Settings by name; None removes one."""


class Cluster(Protocol):
    """Every method may raise `Unreachable`."""

    has_log_dirs: bool
    """Whether replicas can be moved between directories on this connection."""

    def nodes(self) -> dict[BrokerId, Node]:
        """The live nodes."""

    def topics(self, names: Collection[TopicName] | None) -> dict[TopicName, dict[PartitionId, PartitionState]]:
        """Those of these topics that exist, or all."""

    def topic_ids(self, names: Collection[TopicName]) -> dict[TopicName, str]:
        """The ids of those that have one: brokers give them from 2.8 on."""

    def listing(self, partitions: Collection[TopicPartition] | None = None, request_id: int | None = None) -> Listing:
        """The moves of these partitions, or of all."""

    def alter(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        mode: Mode | None = None,
        added: Added = NOTHING_ADDED,
    ) -> Answered:
        """Start moves; None cancels one. Only our controller knows `mode`, and what is `added`.

        Raises:
            Refused: the whole request.
        """

    def configure(self, changes: Mapping[Configured, Settings]) -> dict[Configured, str]:
        """Change settings; return a reason for each resource whose settings could not be changed."""

    def throttles(self, brokers: Collection[BrokerId]) -> dict[BrokerId, int]:
        """The rates at which these brokers may copy throttled replicas, in bytes a second; leaves out those without
        one, and those that do not say."""

    def directories(self, replicas: Collection[Replica]) -> dict[Replica, Directories]:
        """Where these replicas are; leaves out those on brokers that do not answer."""

    def offsets(self, replicas: Collection[Replica], edge: Edge) -> dict[Replica, int]:
        """Where the logs of these replicas end, or start; leaves out those whose brokers do not tell it."""

    def move_directories(self, targets: Mapping[Replica, str]) -> dict[Replica, str | None]:
        """Ask brokers to move replicas to other directories: for each replica None if it starts, else the reason.

        Leaves out replicas that are not on their broker yet; asking again later may succeed.
        """

    def close(self) -> None:
        """Disconnect."""
