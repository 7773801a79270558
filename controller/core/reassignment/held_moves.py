"""Which moves that znodes ask for wait until their throttle is in force?

Their znodes stay, and ask again: no client waits for an answer to an entry of the legacy znode, or to a child of
`/admin/reassignments`, that could be held instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.core.state.changes import Changes
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, Replicas, TopicName, TopicPartition


class HeldMoves:
    """The moves of one term that are asked for, and whether they are held, or may begin.

    Shape:
        `_held` maps a partition to the replicas that it is to have, until it moves there or its znode asks for
        something else. The throttle of those in `_free` is in force; that of those in `_new` is yet to be asked for.
        `_kept` are those of which a replica is listed only because a znode asks for it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._held: dict[TopicPartition, Replicas] = {}
        self._free: dict[TopicPartition, None] = {}
        self._new: dict[TopicPartition, Replicas] = {}
        self._kept: dict[TopicPartition, None] = {}

    def hold(self, at: TopicPartition, target: Replicas) -> bool:
        """Hold a move, unless its throttle is in force by now; return whether it is held."""
        if self._held.get(at) != target:
            self._held[at] = self._new[at] = target
            self._free.pop(at, None)
        return at not in self._free

    @property
    def is_any_new(self) -> bool:
        """Whether there is a move whose throttle is yet to be asked for."""
        return bool(self._new)

    def take_new(self) -> dict[TopicPartition, Replicas]:
        """Take the moves whose throttle is yet to be asked for."""
        new, self._new = self._new, {}
        return new

    def free(self, moves: Iterable[tuple[TopicPartition, Replicas]]) -> Iterator[TopicPartition]:
        """Let these moves begin, unless something else is asked for meanwhile; those that may begin now."""
        for at, target in moves:
            if self._held.get(at) == target:
                self._free[at] = None
                yield at

    def is_asked_for(self, at: TopicPartition, broker: BrokerId) -> bool:
        """Whether a znode asks for a replica on this broker, which is kept in the list as long as it does."""
        is_so = any(broker in (asked or ()) for asked in self._asked_for(at))
        if is_so:
            self._kept[at] = None
        return is_so

    def follow(self, changes: Changes) -> list[TopicName]:
        """Forget what has begun, and what is not asked for any more; the topics whose lists may have to change."""
        for name, gone in changes.gone_topics.items() if self._held else ():
            self._forget(TopicPartition(name, number) for number in gone.partitions)
        for name, numbers in changes.partitions.items() if self._held else ():
            changed = (TopicPartition(name, number) for number in numbers)
            self._forget(at for at in changed if self._has_begun(at))
        asking = self._held if changes.legacy else changes.children
        self._forget([at for at in asking if self._held.get(at) not in self._asked_for(at)])
        kept = [at for at in (self._kept if changes.legacy else changes.children) if at in self._kept]
        for at in kept:
            del self._kept[at]
        return [at.topic for at in kept]

    def _has_begun(self, at: TopicPartition) -> bool:
        held = self._cluster.partition(at)
        return held is not None and held.assignment.target == self._held.get(at)

    def _asked_for(self, at: TopicPartition) -> tuple[Replicas | None, ...]:
        child = self._cluster.child(at)
        return self._cluster.legacy.get(at), None if child is None else child.replicas

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for at in partitions:
            for held in (self._held, self._free, self._new):
                held.pop(at, None)
