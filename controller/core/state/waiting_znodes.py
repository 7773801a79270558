"""What is known of a waiting move, and which wait according to the children of `/kafka_zk_controller/waiting_moves`?"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from controller.core.state.changes import OpenChanges
from controller.core.state.topics import TopicView
from zk_layout.facts import Fact
from zk_layout.ids import PartitionId, Replicas, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.waiting_moves import PartNumber, WaitingMove, WaitingMoves, WaitingMovesAddress, part_of


class Door(StrEnum):
    """Through which door a waiting move was asked for."""

    REQUEST = "request"  # recorded in a znode of ours
    LEGACY = "legacy"  # its entry stays in `/admin/reassign_partitions`
    CHILD = "child"  # its child of `/admin/reassignments` stays


class Waiter(Struct, frozen=True):
    """A move that waits; only a request gives it a `weight`."""

    to: Replicas
    order: int
    door: Door
    weight: int = 0


class WaitingPart(Struct, frozen=True):
    """One znode with waiting moves; without `value` it cannot be read, and what it lists is unknown."""

    value: WaitingMoves | None
    version: ZnodeVersion
    mzxid: Zxid

    def moves_of(self, topic: TopicView | None) -> Mapping[PartitionId, WaitingMove]:
        """The moves of this topic: none if they were accepted for another one of its name."""
        return self.value.moves if topic is not None and self.is_of(topic) and self.value is not None else {}

    def is_of(self, topic: TopicView) -> bool:
        """Whether the moves were accepted for this topic: it has the same znode, or in a copied tree the same id."""
        value = self.value
        return value is None or value.czxid == topic.czxid or (value.topic_id or "") == topic.topic_id


NOTHING: Mapping[PartNumber, WaitingPart] = MappingProxyType({})


class WaitingZnodes:
    """The parts as folded from facts, by topic."""

    def __init__(self, changes: OpenChanges) -> None:
        self.changes = changes
        self.parts: dict[TopicName, dict[PartNumber, WaitingPart]] = {}

    def of(self, topic: TopicName) -> Mapping[PartNumber, WaitingPart]:
        """The parts of one topic."""
        return self.parts.get(topic, NOTHING)

    def move(self, topic: TopicView, partition: PartitionId) -> WaitingMove | None:
        """The move for which a partition of this topic waits."""
        part = self.of(topic.name).get(part_of(partition))
        return None if part is None else part.moves_of(topic).get(partition)

    def apply(self, address: WaitingMovesAddress, fact: Fact) -> None:
        """Fold in a fact newer than what is held of the same znode."""
        self.changes.waiting.setdefault(address.topic, {})[address.part] = None
        if fact.stat is not None:
            value = fact.value if isinstance(fact.value, WaitingMoves) else None
            part = WaitingPart(value, fact.stat.version, fact.stat.mzxid)
            self.parts.setdefault(address.topic, {})[address.part] = part
            return
        parts = self.parts.get(address.topic, {})
        parts.pop(address.part, None)
        if not parts:
            self.parts.pop(address.topic, None)
