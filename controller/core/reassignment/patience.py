"""For which move is room kept that was passed over too often?

A move that needs several places may find room at each of them, but never at all of them together, while others that
need fewer come and go. One such move at a time collects its places as they become free.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.core.reassignment.places import ROOM, THE_CLUSTER, Places, Room
from zk_layout.ids import TopicPartition


class Patience:
    """The move that collects places, if there is one."""

    def __init__(self, room: Room, is_possible: Callable[[Places], bool]) -> None:
        """`is_possible` tells whether nothing but room keeps a move with these places from beginning."""
        self._room = room
        self._is_possible = is_possible
        self._found: tuple[TopicPartition, Places] | None = None

    def lost(self, at: TopicPartition, places: Places) -> None:
        """A move was passed over often enough. The first one counts until it has begun."""
        if self._found is None and self._is_possible(places):
            self._found = at, places
            self._room.collect(tuple(place for place in places if place.kind in ROOM))

    def next(self) -> tuple[TopicPartition, Places] | None:
        """Take the move, once it has room everywhere; its places are free then, for it."""
        found = self._found
        if found is None:
            return None
        if not self._is_possible(found[1]):
            self.forget(found[0])
            return None
        if not self._room.has_collected or self._room.is_full(THE_CLUSTER):
            return None
        self.forget(found[0])
        return found

    def forget(self, at: TopicPartition) -> None:
        """Keep no room for a move that does not wait any more, or for something else."""
        if self._found is not None and self._found[0] == at:
            self._found = None
            self._room.stop_collecting()
