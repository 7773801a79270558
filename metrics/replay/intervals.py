"""For how long did leader, ISR and replicas of a partition stay as they were? Folded within one split.

A split knows the topics as they were at its start, but no states. What it cannot close by itself - the last row of
each partition, and rows before the partition's first state - are edges, to be put together with the other splits';
all other rows are final.
"""

from __future__ import annotations

from typing import Any

from zk_layout.ids import Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

STATE, ASSIGNMENT, GONE = "state", "assignment", "gone"

# replicas, adding, removing, replication factor
Placed = tuple[Replicas | None, Replicas | None, Replicas | None, int | None]
_NOWHERE: Placed = (None, None, None, None)
# leader, leader epoch, controller epoch, ISR, version
State = tuple[int | None, int | None, int | None, Replicas | None, int | None]
_UNKNOWN: State = (None, None, None, None, None)

# key, zxid, part, time_ms, (what, op), session, the state, placed, fence, size
Row = tuple[int, int, int, int, tuple[str, str], int, Any, Any, Any, Any, Any, Placed, int | None, int | None]
COLUMNS = (
    "key", "zxid", "part", "started_at", "what_op", "session", "leader", "leader_epoch", "controller_epoch", "isr",
    "version", "placed", "fence", "size_bytes",
)  # fmt: skip
# key, zxid, part, time_ms, GONE where the partition went
Start = tuple[int, int, int, int, str | None]
_KEY = 0
_STATE_FIELDS = slice(6, 11)


class Intervals:
    """Rows in the order of events; `ended` runs along and has the end of each row, None while it is open.

    Shape:
        `keys` are the partitions by the number in a row's `key`. `starts` has the first thing seen of each
        partition, which ends what an earlier split left open, and each time that it went.
    """

    def __init__(self) -> None:
        self.keys: list[tuple[str, int]] = []
        self.rows: list[Row] = []
        self.ended: list[int | None] = []
        self.starts: list[Start] = []
        self._open: dict[str, int] = {}  # the row that is open, by the path of the state
        self._numbers: dict[tuple[str, int], int] = {}

    def state(  # noqa: PLR0913  # the hottest call of all: millions of times, so nothing is packed for it
        self, path: str, zxid: int, part: int, time_ms: int, kind: tuple[str, str], session: int,
        state: PartitionState, version: int, fence: int | None, size: int,
    ) -> bool:  # fmt: skip
        """A state was written; False, and nothing done, if the split does not know the partition yet."""
        index = self._open.get(path)
        if index is None:
            return False
        rows, ended = self.rows, self.ended
        before = rows[index]
        ended[index] = time_ms
        self._open[path] = len(ended)
        ended.append(None)
        rows.append(
            (
                before[0], zxid, part, time_ms, kind, session, state.leader, state.leader_epoch,
                state.controller_epoch, state.isr, version, before[11], fence, size,
            )
        )  # fmt: skip
        return True

    def first_state(
        self, path: str, whose: tuple[str, int], at: tuple[int, int, int],
        wrote: tuple[tuple[str, str], int, int | None, int], state: State, assignment: Assignment | None,
    ) -> None:  # fmt: skip
        """The first that the split sees of a partition is a state; `at` is zxid, part, time."""
        kind, session, fence, size = wrote
        row = (self._begin(whose, at), *at, kind, session, *state, placed_by(assignment), fence, size)
        self._open_row(path, row)

    def assigned(
        self, path: str, whose: tuple[str, int], at: tuple[int, int, int], wrote: tuple[str, int, int | None],
        now: Assignment | None,
    ) -> None:  # fmt: skip
        """The replicas changed."""
        op, session, fence = wrote
        index = self._open.get(path)
        state: Any = _UNKNOWN
        if index is not None:
            key, state = self.rows[index][_KEY], self.rows[index][_STATE_FIELDS]
            self.ended[index] = at[2]
        else:
            key = self._begin(whose, at)
        self._open_row(path, (key, *at, (ASSIGNMENT, op), session, *state, placed_by(now), fence, None))

    def gone(self, path: str, whose: tuple[str, int], at: tuple[int, int, int], op: str) -> None:
        """The state was deleted, with the partition."""
        index = self._open.pop(path, None)
        if index is not None:
            self.ended[index] = at[2]
        key = self._begin(whose, at, GONE)
        row: Any = (key, *at, (GONE, op), 0, *_UNKNOWN, _NOWHERE, None, None)
        self.rows.append(row)
        self.ended.append(at[2])

    @property
    def closed_count(self) -> int:
        """How many rows have ended."""
        return len(self.rows) - len(self._open)

    def take(self, *, is_last: bool = False) -> tuple[list[Row], list[int | None]]:
        """The rows so far; those still open stay, unless this is the end."""
        rows, ended = self.rows, self.ended
        self.rows, self.ended = [], []
        if not is_last:
            kept = self._open
            self._open = {}
            for path, index in kept.items():
                self._open_row(path, rows[index])
        return rows, ended

    def _open_row(self, path: str, row: Any) -> None:
        self._open[path] = len(self.rows)
        self.rows.append(row)
        self.ended.append(None)

    def _begin(self, whose: tuple[str, int], at: tuple[int, int, int], what: str | None = None) -> int:
        key = self._numbers.get(whose)
        if key is None:
            key = self._numbers[whose] = len(self.keys)
            self.keys.append(whose)
        self.starts.append((key, *at, what))
        return key


def placed_by(assignment: Assignment | None) -> Placed:
    """The replicas of an assignment as a row has them."""
    if assignment is None:
        return _NOWHERE
    return assignment.replicas, assignment.adding, assignment.removing, assignment.replication_factor
