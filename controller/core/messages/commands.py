"""Which commands are sent to brokers?

Values without protocol versions: `controller.wire.commands` encodes them. One `PartitionView` serves every broker and
both LeaderAndIsr and UpdateMetadata, so that it is encoded once.
"""

from __future__ import annotations

from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import astuple

from zk_layout.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    Replicas,
    TopicId,
    TopicName,
)
from zk_layout.znodes.brokers import Endpoint


class PartitionView(Struct, frozen=True, gc=False):
    """One partition as brokers must see it.

    Shape:
        `controller_epoch` is that of the last controller that changed the state, not the sender's. `replicas`, `adding`
        and `removing` are those in force: a move in its last stage shows only its target. What it was encoded as,
        `compact_head` or `legacy_head`, is kept with it for the next broker, and does not count in comparisons. Never
        `replace` fields of a view: the copy would be sent as the original.
    """

    topic: TopicName
    topic_id: TopicId | None
    partition: PartitionId
    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: Replicas
    partition_epoch: PartitionEpoch
    leader_recovery_state: int
    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()
    offline: Replicas = ()
    compact_head: bytes = b""
    legacy_head: bytes = b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionView) and astuple(self)[:_TOLD] == astuple(other)[:_TOLD]

    def __hash__(self) -> int:
        return hash(astuple(self)[:_TOLD])


# They follow from the other fields.
HEADS: Final = frozenset({"compact_head", "legacy_head"})
_TOLD: Final = len(PartitionView.__struct_fields__) - len(HEADS)


class LiveBroker(Struct, frozen=True):
    """A broker that is alive or shutting down, with all the endpoints it registered."""

    broker: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


class LeaderAndIsr(Struct, frozen=True):
    """Lead or follow these partitions (LeaderAndIsr, 4).

    Shape:
        The log of `partitions` should exist on the broker, that of `new` must be created; a partition is in at most one
        of them, and the broker is a replica of each. `leaders` are the live leaders named in them.
    """

    partitions: tuple[PartitionView, ...]
    new: tuple[PartitionView, ...]
    leaders: tuple[LiveBroker, ...]


class UpdateMetadata(Struct, frozen=True):
    """Learn these partitions and brokers (UpdateMetadata, 6).

    Shape:
        `brokers` is complete: it replaces what the recipient knew. `partitions` are merged into what it knew. The same
        value is sent to all brokers, so it is encoded once.
    """

    partitions: tuple[PartitionView, ...]
    brokers: tuple[LiveBroker, ...]


class ReplicaStop(Struct, frozen=True, gc=False):
    """Stop one replica, and delete its log if `is_deletion`."""

    topic: TopicName
    partition: PartitionId
    leader_epoch: LeaderEpoch
    is_deletion: bool


class StopReplica(Struct, frozen=True):
    """Stop these replicas (StopReplica, 5)."""

    stops: tuple[ReplicaStop, ...]


Command = LeaderAndIsr | UpdateMetadata | StopReplica


def part_count(command: Command) -> int:
    """How many partitions a command is about."""
    match command:
        case LeaderAndIsr(partitions, new):
            return len(partitions) + len(new)
        case UpdateMetadata(partitions):
            return len(partitions)
        case StopReplica(stops):
            return len(stops)
        case _:
            assert_never(command)
