"""Which waiting move begins next?

Moves that take room at the same places form a group, in the order of their ranks. A group stands behind
one place: one without room, or a broker that is absent, else any of its own. So what becomes free concerns only the
groups that stand there.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from msgspec import Struct, field

from controller.core.reassignment.places import ANYWHERE, INTO, OUT, Place, Places
from zk_layout.ids import TopicPartition

Obstacle = Callable[[Places], Place | None]
Closed = Callable[[Place], bool]
PassedOver = Callable[[TopicPartition, Places], None]
Rank = tuple[int, ...]
"""Lower ranks come first."""

LEFT_OVER = 100
"""So many entries that count no longer may be in a heap, if they are not more than those that count."""
PATIENCE = 10
"""How often a move is passed over that finds room at one of its places and not at another."""


class _Group(Struct, eq=False):
    """Moves with the same places; those that left it are passed over when they come first."""

    places: Places
    behind: Place
    heap: list[tuple[Rank, TopicPartition]] = field(default_factory=list)
    size: int = 0
    passed_over: int = 0


class Lines:
    """All waiting moves that may begin, as far as room and brokers allow."""

    def __init__(self, obstacle: Obstacle, is_closed: Closed, passed_over: PassedOver) -> None:
        """Begin empty. `obstacle` is the place behind which moves with these places must wait, and `is_closed` tells
        whether a place still is one. `passed_over` is called with moves that have lost patience.
        """
        self._passed_over = passed_over
        self._obstacle = obstacle
        self._is_closed = is_closed
        self._of: dict[TopicPartition, tuple[Rank, Places]] = {}
        self._groups: dict[Places, _Group] = {}
        # By place, the groups behind it, as a heap of their first ranks.
        self._lines: dict[Place, list[tuple[Rank, Places]]] = {}
        # Places that may be open, as a heap of the first ranks behind them.
        self._open: list[tuple[Rank, Place]] = []
        self.sizes: dict[Place, int] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, at: TopicPartition) -> bool:
        return at in self._of

    def stand(self, at: TopicPartition, rank: Rank, places: Places) -> None:
        """Let a move wait, which does not wait yet."""
        self._of[at] = rank, places
        group = self._groups.get(places)
        if group is None:
            group = self._groups[places] = _Group(places, self._place_for(places))
        heappush(group.heap, (rank, at))
        group.size += 1
        if len(group.heap) > 2 * group.size + LEFT_OVER:
            group.heap = [*dict.fromkeys(held for held in group.heap if self._of.get(held[1]) == (held[0], places))]
            heapify(group.heap)
        self.sizes[group.behind] = self.sizes.get(group.behind, 0) + 1
        if group.heap[0][1] == at:
            self._line_up(group)

    def stands(self, at: TopicPartition, rank: Rank, places: Places) -> bool:
        """Whether a move waits just like that."""
        return self._of.get(at) == (rank, places)

    def places(self, at: TopicPartition) -> Places:
        """Where a move that waits would take room."""
        return self._of[at][1]

    def leave(self, at: TopicPartition) -> None:
        """Let a move wait no longer, if it does."""
        held = self._of.pop(at, None)
        if held is not None:
            self._shrink(self._groups[held[1]])

    def open(self, place: Place) -> None:
        """A place may have room again, or a broker may have returned."""
        first = self._first(place)
        if first is not None:
            heappush(self._open, (first[0], place))

    def open_all(self) -> None:
        """Any place may have room: the limits have changed."""
        for place in tuple(self._lines):
            self.open(place)

    def waited_for(self, *kinds: str) -> list[Place]:
        """The places of these kinds behind which moves wait."""
        return [place for place in self._lines if place.kind in kinds]

    def next(self, has_room: Callable[[], bool]) -> tuple[TopicPartition, Places] | None:
        """Take the first move that has room everywhere; None if there is none, or the cluster has no room.

        Groups that wait for something else than what they stand behind are put there, once for all their moves.
        """
        while self._open and has_room():
            _, place = heappop(self._open)
            first = self._first(place)
            if first is None or self._is_closed(place):
                continue
            heappop(self._lines[place])
            group = self._groups[first[1]]
            obstacle = self._obstacle(group.places)
            if obstacle is not None and obstacle != place:
                self._pass_over(group)
                self._move(group, obstacle)
                self.open(place)
                continue
            _, at = heappop(group.heap)
            group.passed_over = 0
            del self._of[at]
            self._shrink(group)
            if group.size:
                self._line_up(group)
            self.open(place)
            return at, group.places
        return None

    def _pass_over(self, group: _Group) -> None:
        group.passed_over += 1
        if group.passed_over >= PATIENCE:
            self._passed_over(group.heap[0][1], group.places)

    def _place_for(self, places: Places) -> Place:
        home = next((place for place in places if place.kind in (INTO, OUT)), Place(ANYWHERE))
        return self._obstacle(places) or home

    def _line_up(self, group: _Group) -> None:
        """Enter a group into the line behind its place by its first move; an earlier entry of it counts no longer."""
        rank = self._first_of(group)
        if rank is None:
            return
        line = self._lines.setdefault(group.behind, [])
        heappush(line, (rank, group.places))
        if len(line) > 2 * len(self._groups) + LEFT_OVER:
            behind = (self._groups.get(places) for places in dict.fromkeys(places for _, places in line))
            line[:] = [(one.heap[0][0], one.places) for one in behind if one is not None and one.behind == group.behind]
            heapify(line)
        if not self._is_closed(group.behind):
            heappush(self._open, (rank, group.behind))
            if len(self._open) > 2 * len(self._lines) + LEFT_OVER:
                self._open = []
                self.open_all()

    def _move(self, group: _Group, to: Place) -> None:
        self.sizes[group.behind] -= group.size
        if not self.sizes[group.behind]:
            del self.sizes[group.behind]
        self.sizes[to] = self.sizes.get(to, 0) + group.size
        group.behind = to
        self._line_up(group)

    def _shrink(self, group: _Group) -> None:
        group.size -= 1
        self.sizes[group.behind] -= 1
        if not self.sizes[group.behind]:
            del self.sizes[group.behind]
        if not group.size:
            del self._groups[group.places]

    def _first_of(self, group: _Group) -> Rank | None:
        """The rank of a group's first move; moves that have left it, or stand again elsewhere, are dropped."""
        heap = group.heap
        while heap and self._of.get(heap[0][1]) != (heap[0][0], group.places):
            heappop(heap)
        return heap[0][0] if heap else None

    def _first(self, place: Place) -> tuple[Rank, Places] | None:
        """The first group behind a place; entries that count no longer are dropped."""
        line = self._lines.get(place)
        while line:
            rank, places = line[0]
            group = self._groups.get(places)
            if group is not None and group.behind == place:
                first = self._first_of(group)
                if first == rank:
                    return line[0]
                if first is not None and first > rank:
                    heappop(line)
                    heappush(line, (first, places))
                    continue
            heappop(line)
        self._lines.pop(place, None)
        return None
