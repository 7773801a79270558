"""What does the tool ask of a cluster, whatever way leads there?

The Kafka protocol is one way, ZooKeeper the other, and a simulated cluster the third.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
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
        f"{broker} is a controller, which hosts no replicas: leave it out"
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
    """One move that has not ended. The adding replicas of one that has not begun are not among its replicas."""

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
    """What moves now. `controller` names the product if it is ours, `request` is the status that was asked for."""

    moves: dict[TopicPartition, Move]
    controller: str | None = None
    request: RequestStatus | None = None


class Answered(Struct, frozen=True):
    """What became of a request: a reason for each partition that was refused."""

    refused: dict[TopicPartition, str] = {}
    request_id: int | None = None


class Mode(Enum):
    """How a cancel, or a target that replaces another one, treats copies; Kafka's controllers know none."""

    GENTLE = "gentle"
    FORCED = "forced"


class Kind(Enum):
    """Whose settings; the values are Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


class Configured(NamedTuple):
    """One thing that has settings."""

    kind: Kind
    name: str


class Directories(Struct, frozen=True):
    """Where one broker keeps a replica, and where it is about to; None is "nowhere found"."""

    current: str | None = None
    future: str | None = None
    size_bytes: int | None = None


Settings = Mapping[str, str | None]
"""Settings by name; None removes one."""


class Cluster(Protocol):
    """Every method may raise `Unreachable`."""

    has_log_dirs: bool
    """Whether replicas can be moved between directories this way."""

    def nodes(self) -> dict[BrokerId, Node]:
        """Who is alive."""

    def topics(self, names: Collection[TopicName]) -> dict[TopicName, dict[PartitionId, PartitionState]]:
        """Those of these topics that exist."""

    def listing(self, partitions: Collection[TopicPartition] | None = None, request_id: int | None = None) -> Listing:
        """Of these partitions, or of all, those that move."""

    def alter(self, targets: Mapping[TopicPartition, Replicas | None], mode: Mode | None = None) -> Answered:
        """Begin moves; None cancels one.

        Raises:
            Refused: the whole request.
        """

    def configure(self, changes: Mapping[Configured, Settings]) -> dict[Configured, str]:
        """Change settings; a reason for each thing whose settings could not be changed."""

    def directories(self, replicas: Collection[Replica]) -> dict[Replica, Directories]:
        """Where these replicas are; one on a broker that does not answer is left out."""

    def move_directories(self, targets: Mapping[Replica, str]) -> dict[Replica, str | None]:
        """Ask brokers to keep replicas elsewhere: for each replica None if it begins, else the reason.

        A replica that is not on its broker yet is left out; asking again later may succeed.
        """

    def close(self) -> None:
        """Hang up."""
