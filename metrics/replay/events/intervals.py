"""For how long did leader, ISR and replicas of a partition stay unchanged? Folded within one split.

A split knows the topics as they were at its start, but no states. Rows that it cannot close - the last row of
each partition, and rows before the partition's first state - are edges, to be joined with those of other splits;
all other rows are final.

Rows are gathered as columns of numbers, in the order of events, and folded by the group: partitions, states and
replicas are few compared with their writes, so that each is held once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from metrics.replay.events.set_data import LARGEST, Ints
from zk_layout.ids import Replicas
from zk_layout.znodes import partition_state
from zk_layout.znodes.topics import Assignment

STATE, ASSIGNMENT, GONE = "state", "assignment", "gone"

Partition = tuple[str, int]
# replicas, adding, removing, replication factor
Placed = tuple[Replicas | None, Replicas | None, Replicas | None, int | None]
_NOWHERE: Placed = (None, None, None, None)
# leader, leader epoch, controller epoch, ISR
State = tuple[int | None, int | None, int | None, Replicas | None]
_UNKNOWN: State = (None, None, None, None)
# what and op
Kind = tuple[str, str]
# zxid, part, time_ms
At = tuple[int, int, int]
# op, session, fence
By = tuple[str, int, int | None]
# key, zxid, part, time_ms, GONE if the partition was deleted
Start = tuple[int, int, int, int, str | None]

NONE = -(2**63)
# For `state` and `placed`: as in the row of the partition before.
AS_BEFORE = -1
_NOTHING = 0
_MOST_DISTINCT = 100_000
T = TypeVar("T", bound=Hashable)


class Columns(NamedTuple):
    """Rows in the order of events.

    Shape:
        `key`, `kind`, `state` and `placed` number repeated values. `NONE` stands for null, which only `version`,
        `fence` and `size` may be.
    """

    key: Ints
    zxid: Ints
    part: Ints
    time_ms: Ints
    kind: Ints
    session: Ints
    state: Ints
    version: Ints
    placed: Ints
    fence: Ints
    size: Ints

    def at(self, which: Ints | NDArray[np.bool_]) -> Columns:
        """A selection of them."""
        return Columns(*(column[which] for column in self))


_NO_ROWS = Columns(*[np.empty(0, np.int64)] * len(Columns._fields))


class Folded(NamedTuple):
    """Rows that have ended, or all that are left, with the values of their numbers."""

    rows: Columns
    ended_ms: Ints
    keys: Sequence[Partition]
    kinds: Sequence[Kind]
    states: Sequence[State]
    placed: Sequence[Placed]


class Intervals:
    """Gather rows, and fold them.

    Shape:
        `keys` are the partitions by the number in a row's `key`. `starts` has the first event of each
        partition, which closes an earlier split's open row, and each of its deletions.
    """

    def __init__(self) -> None:
        self.starts: list[Start] = []
        self._keys: _Distinct[Partition] = _Distinct()
        self._kinds: _Distinct[Kind] = _Distinct()
        self._states: _Distinct[State] = _Distinct(_UNKNOWN)
        self._written: dict[bytes, int] = {}  # the number of each state, by its data
        self._placed: _Distinct[Placed] = _Distinct(_NOWHERE)
        self._open: set[int] = set()
        self._rows: list[tuple[int, ...]] = []  # not yet columns
        self._gathered: list[Columns] = []
        self._count = 0

    @property
    def keys(self) -> Sequence[Partition]:
        """The partitions by their numbers."""
        return self._keys.values

    def key_of(self, partition: Partition) -> int:
        """The number of a partition."""
        return self._keys.number(partition)

    def kind_of(self, what: str, op: str) -> int:
        """The number of a kind of row."""
        return self._kinds.number((what, op))

    def is_open(self, key: int) -> bool:
        """Whether the partition has an open row."""
        return key in self._open

    def begin(self, key: int, at: At, assignment: Assignment | None) -> int:
        """Start with a partition that was unknown so far; return the number of its replicas."""
        self._open.add(key)
        self.starts.append((key, *at, None))
        return self._placed.number(placed_by(assignment))

    def number_of_state(self, data: bytes) -> int:
        """The number of a written state.

        Raises:
            Undecodable: not a partition state's JSON.
        """
        number = self._written.get(data)
        if number is None:
            state = partition_state.decode(data)
            number = self._states.number((state.leader, state.leader_epoch, state.controller_epoch, state.isr))
            if len(data) <= LARGEST:
                if len(self._written) >= _MOST_DISTINCT:
                    self._written.clear()
                self._written[data] = number
        return number

    def state(self, key: int, at: At, by: By, state: int, version: int, placed: int, size: int) -> None:  # noqa: PLR0913
        """A state was written, to a partition with an open row; `placed` is AS_BEFORE except at its start."""
        op, session, fence = by
        kind = self.kind_of(STATE, op)
        self._rows.append((key, *at, kind, session, state, version, placed, NONE if fence is None else fence, size))

    def states(self, rows: Columns) -> None:
        """States were written to partitions with open rows, before and between the events added since the last call."""
        if (taken := self._take_rows()) is not None:
            rows = joined([rows, taken])
            rows = rows.at(np.lexsort((rows.part, rows.zxid)))
        self._gather(rows)

    def assigned(self, partition: Partition, at: At, by: By, now: Assignment | None) -> None:
        """The replicas changed."""
        op, session, fence = by
        key, state, placed = self.key_of(partition), AS_BEFORE, self._placed.number(placed_by(now))
        if key not in self._open:
            self.begin(key, at, now)
            state = _NOTHING
        kind = self.kind_of(ASSIGNMENT, op)
        row = (key, *at, kind, session, state, NONE, placed, NONE if fence is None else fence, NONE)
        self._rows.append(row)

    def gone(self, partition: Partition, at: At, op: str) -> None:
        """The partition was deleted, with its state."""
        key = self.key_of(partition)
        self._open.discard(key)
        self.starts.append((key, *at, GONE))
        kind = self.kind_of(GONE, op)
        self._rows.append((key, *at, kind, 0, _NOTHING, NONE, _NOTHING, NONE, NONE))

    @property
    def closed_count(self) -> int:
        """The number of rows that have ended."""
        return self._count + len(self._rows) - len(self._open)

    def take(self, *, is_last: bool = False) -> Folded:
        """Take the rows that have ended; at the end all that are left."""
        rows = self._take_rows()
        if rows is not None:
            self._gather(rows)
        folded, ended_ms = self._fold(joined(self._gathered))
        self._gathered, self._count = [], 0
        is_open = ended_ms == NONE
        kinds, states, placed = self._kinds.values, self._states.values, self._placed.values
        if not is_last and is_open.any():
            self._gather(self._goes_on(folded.at(is_open)))
            folded, ended_ms = folded.at(~is_open), ended_ms[~is_open]
        return Folded(folded, ended_ms, self.keys, kinds, states, placed)

    def _take_rows(self) -> Columns | None:
        if not self._rows:
            return None
        rows, self._rows = self._rows, []
        return Columns(*np.array(rows, np.int64).T)

    def _gather(self, rows: Columns) -> None:
        self._gathered.append(rows)
        self._count += len(rows.key)

    def _fold(self, rows: Columns) -> tuple[Columns, Ints]:
        """Rows completed with the state and replicas that they did not change, and with their ends."""
        order = np.argsort(rows.key, kind="stable")
        key, time_ms, kind = rows.key[order], rows.time_ms[order], rows.kind[order]
        # The first row of a partition, and the one after its end, have both.
        state, placed = (_source(column[order]) for column in (rows.state, rows.placed))
        ended_ms = np.full(len(key), NONE, np.int64)
        goes_on = key[1:] == key[:-1]
        ended_ms[:-1][goes_on] = time_ms[1:][goes_on]
        is_gone = np.array([what == GONE for what, _ in self._kinds.values], np.bool_)[kind]
        ended_ms[is_gone] = time_ms[is_gone]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        state, placed = order[state][back], order[placed][back]
        folded = rows._replace(state=rows.state[state], version=rows.version[state], placed=rows.placed[placed])
        return folded, ended_ms[back]

    def _goes_on(self, rows: Columns) -> Columns:
        """The same, without states and replicas that are no longer in force, if there were many."""
        if len(self._states.values) + len(self._placed.values) <= _MOST_DISTINCT:
            return rows
        self._states, state = self._states.only(rows.state)
        self._placed, placed = self._placed.only(rows.placed)
        self._written = {}
        return rows._replace(state=state, placed=placed)


class _Distinct(Generic[T]):
    """Distinct values, numbered in the order in which they came."""

    def __init__(self, *values: T) -> None:
        self.values: list[T] = [*values]
        self._numbers = {value: number for number, value in enumerate(values)}

    def number(self, value: T) -> int:
        """The number of a value, known or new."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number

    def only(self, numbers: Ints) -> tuple[_Distinct[T], Ints]:
        """Only the first value and these, and their new numbers."""
        kept, places = np.unique(np.append(numbers, _NOTHING), return_inverse=True)
        return _Distinct(*(self.values[number] for number in kept)), places[:-1]


def placed_by(assignment: Assignment | None) -> Placed:
    """The replicas of an assignment in a row's form."""
    if assignment is None:
        return _NOWHERE
    return assignment.replicas, assignment.adding, assignment.removing, assignment.replication_factor


def joined(parts: Sequence[Columns]) -> Columns:
    """These rows concatenated."""
    if len(parts) == 1:
        return parts[0]
    return Columns(*map(np.concatenate, zip(_NO_ROWS, *parts, strict=True)))


def _source(numbers: Ints) -> Ints:
    """The index from which each row takes its number: its own, or the last before it that has one."""
    places = np.arange(len(numbers))
    found: Ints = np.maximum.accumulate(np.where(numbers == AS_BEFORE, 0, places))
    return found
