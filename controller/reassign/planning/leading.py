"""Which replica comes first, so that brokers lead evenly? Reorders replicas, which copies nothing.

A broker that is preferred too often passes partitions on along a shortest path of brokers that share partitions, to one
that is preferred too rarely.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise

from controller.reassign.planning.board import NO_RACK, Board


class Leading:
    """The preferred leaders of a board, and which broker could take over from which."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._counts = [0] * len(board.ids)
        self._passable: list[dict[int, dict[int, None]]] = [{} for _ in board.ids]
        for partition, replicas in enumerate(board.replicas):
            if replicas:
                self._counts[replicas[0]] += 1
                if not board.fixed[partition]:
                    self._offer(partition, replicas)

    def run(self) -> None:
        """Bring every member to the mean, rounded up or down, as far as replicas allow."""
        led = sum(self._counts[broker] for broker in self._board.members)
        few, many = led // len(self._board.members), -(-led // len(self._board.members))
        for above, below in ((many, few), (many, many), (few, few)):
            for broker in self._by_count():
                self._pass_on(broker, above, below)

    def _by_count(self) -> Sequence[int]:
        return sorted(self._board.members, key=lambda broker: (-self._counts[broker], broker))

    def _pass_on(self, broker: int, above: int, below: int) -> None:
        while self._counts[broker] > above:
            path = self._path(broker, below)
            if path is None:
                return
            links = list(pairwise(path))
            number = min(len(self._passable[source][target]) for source, target in links)
            number = min(number, self._counts[broker] - above, below - self._counts[path[-1]])
            for source, target in links:
                for partition in list(islice(self._passable[source][target], number)):
                    self._prefer(partition, source, target)

    def _path(self, start: int, below: int) -> list[int] | None:
        """The shortest way to a broker that is preferred less often than `below`."""
        came_from: dict[int, int] = {start: start}
        waiting = deque((start,))
        while waiting:
            broker = waiting.popleft()
            for target, partitions in self._passable[broker].items():
                if not partitions or target in came_from:
                    continue
                came_from[target] = broker
                if self._counts[target] < below:
                    return _traced(came_from, target)
                waiting.append(target)
        return None

    def _prefer(self, partition: int, source: int, target: int) -> None:
        replicas = self._board.replicas[partition]
        for other in replicas[1:]:
            self._passable[source].get(other, {}).pop(partition, None)
        replicas.remove(target)
        replicas.insert(0, target)
        self._counts[source] -= 1
        self._counts[target] += 1
        self._offer(partition, replicas)

    def _offer(self, partition: int, replicas: Sequence[int]) -> None:
        for other in replicas[1:]:
            if self._board.rack_of[other] != NO_RACK:
                self._passable[replicas[0]].setdefault(other, {})[partition] = None


def _traced(came_from: Mapping[int, int], end: int) -> list[int]:
    path = [end]
    while came_from[path[-1]] != path[-1]:
        path.append(came_from[path[-1]])
    return path[::-1]
