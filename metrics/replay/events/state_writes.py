"""Which records only write the state of one partition? They are taken as columns, and all others row by row."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from struct import Struct

import numpy as np

from metrics.replay.events.intervals import AS_BEFORE, NONE, STATE, Columns, Intervals, joined
from metrics.replay.events.kafka_events import Meaning, expected_by
from metrics.replay.events.set_data import KIND_AT, LARGEST, Ints, Repeated, SetData, set_data_of
from zk_layout.codec import Undecodable
from zk_layout.storage import operations
from zk_layout.storage.damage import Damage
from zk_layout.storage.jute import int_at
from zk_layout.storage.txnlog import Bodies, rows_of

_CACHED = 500_000
_OF_TWO = 2
_MOST_REPEATED = 2  # times what a record takes by itself may be taken by its check, which goes with each of its sets
_MULTI, _CHECK, _TWO = (number.to_bytes(4, "big") for number in (operations.MULTI, operations.CHECK, _OF_TWO))
_part_at = Struct(">ii").unpack_from  # what it is, and how long
_REMOVALS = frozenset((operations.DELETE, operations.DELETE_CONTAINER, operations.CLOSE_SESSION))
_NO_STATE = -1


class StateWrites:
    """Gives the records of a split to what they mean and to the intervals, as if each row went there by itself."""

    def __init__(self, meaning: Meaning, intervals: Intervals) -> None:
        """`meaning` has the same intervals."""
        self._meaning, self._intervals = meaning, intervals
        self._keys: dict[bytes, int] = {}

    def add(self, taken: Bodies, file: str, damage: list[Damage]) -> None:
        """Take the next records, in the order of their zxids."""
        places, states = self._states_of(taken.bodies)
        rows = rows_of(_without(taken, places), file, damage)
        gone = self._gone(rows)
        if gone:
            # Where a partition goes, it matters what was written before that and what behind it.
            by_row = np.unique(places[np.isin(states.key, [*gone])])
            rows += rows_of(_only(taken, by_row), file, damage)
            rows.sort(key=_zxid)
            states = states.at(~np.isin(places, by_row))
        told = 0
        for place in self._firsts(states.key):
            at = (int(states.zxid[place]), int(states.part[place]), int(states.time_ms[place]))
            until = bisect_left(rows, at[0], told, key=_zxid)
            self._meaning.add(rows[told:until])
            told = until
            number = int(states.key[place])
            if not self._intervals.is_open(number):
                assignment = self._meaning.assignment(*self._intervals.keys[number])
                states.placed[place] = self._intervals.begin(number, at, assignment)
        self._meaning.add(rows[told:])
        self._intervals.states(states)

    def _states_of(self, bodies: Sequence[bytes]) -> tuple[Ints, Columns]:
        """Which records write states and nothing else, the place of each for each state; and these states."""
        places, states = self._columns(bodies)
        found, records, parts = _parts_of(bodies, _other(places, len(bodies)))
        if not found:
            return places, states
        of_found, more = self._columns(found)
        sets = np.bincount(records)
        records, parts = records[of_found], parts[of_found]
        is_whole = np.bincount(records, minlength=len(sets))[records] == sets[records]
        places = np.concatenate([places, records[is_whole]])
        order = np.argsort(places, kind="stable")
        return places[order], joined([states, more._replace(part=parts).at(is_whole)]).at(order)

    def _columns(self, bodies: Sequence[bytes]) -> tuple[Ints, Columns]:
        """Where the records are that set one state, and these states; where their partitions begin is left open."""
        sets = set_data_of(bodies)
        key = _numbered(sets.path, self._key_of)
        # A transaction of which any path is no text is none.
        is_one = (key != _NO_STATE) & (_numbered(sets.checked, _is_text) == 1)
        sets, key = sets.at(is_one), key[is_one]
        state = _numbered(sets.data(), self._state_of)
        is_one = state != _NO_STATE
        sets, key, state = sets.at(is_one), key[is_one], state[is_one]
        kind, placed = (np.full(len(key), number) for number in (self._intervals.kind_of(STATE, "set"), AS_BEFORE))
        return sets.places, Columns(
            key, sets.zxid, sets.part, sets.time_ms, kind, sets.session, state, sets.version, placed,
            self._fences(sets), sets.size,
        )  # fmt: skip

    def _key_of(self, path: bytes) -> int:
        key = self._keys.get(path)
        if key is None:
            if len(self._keys) >= _CACHED:
                self._keys.clear()
            try:
                partition = self._meaning.partition_of(path.decode())
            except UnicodeDecodeError:  # whoever reads the row says so
                partition = None
            key = self._keys[path] = _NO_STATE if partition is None else self._intervals.key_of(partition)
        return key

    def _state_of(self, data: bytes) -> int:
        try:
            return self._intervals.number_of_state(data)
        except Undecodable:
            return _NO_STATE

    def _firsts(self, key: Ints) -> Sequence[int]:
        """The first write of each partition of which nothing is known, in order."""
        keys, first = np.unique(key, return_index=True)
        return sorted(
            place
            for number, place in zip(keys.tolist(), first.tolist(), strict=True)
            if not self._intervals.is_open(number)
        )

    def _gone(self, rows: Sequence[operations.Row]) -> set[int]:
        """The partitions whose states are deleted."""
        removed = {row[7] for row in rows if row[6] in _REMOVALS}
        return {self._key_of(path.encode()) for path in removed} - {_NO_STATE}

    def _fences(self, sets: SetData) -> Ints:
        """The version of `/controller_epoch` that each write expects."""
        epoch = self._meaning.epoch_path.encode()
        is_fenced = _numbered(sets.checked, lambda path: int(path == epoch)) == 1
        return np.where(is_fenced, expected_by(sets.checked_version), NONE)


def _numbered(texts: Repeated, number_of: Callable[[bytes], int]) -> Ints:
    """The number of each text, asked for once."""
    values, places = texts
    is_used = np.zeros(len(values), np.bool_)
    is_used[places] = True
    numbers = (number_of(value) if used else _NO_STATE for value, used in zip(values, is_used.tolist(), strict=True))
    return np.fromiter(numbers, np.int64, len(values))[places]


def _parts_of(bodies: Sequence[bytes], places: Ints) -> tuple[list[bytes], Ints, Ints]:
    """Each set of those that check, then set more than once, as a record of its own; of which, and its part."""
    found: list[bytes] = []
    records: list[int] = []
    parts: list[int] = []
    for place in places.tolist():
        made = _sets_of(bodies[place])
        found += made
        records += [place] * len(made)
        parts += range(1, len(made) + 1)
    return found, np.array(records, np.int64), np.array(parts, np.int64)


def _sets_of(body: bytes) -> list[bytes]:
    at, size = operations.HEADER_SIZE + 4, len(body)
    if not body.startswith(_MULTI, KIND_AT) or not body.startswith(_CHECK, at):
        return []
    made: list[bytes] = []
    check = b""
    count = int_at(body, operations.HEADER_SIZE)[0]
    for number in range(count if count > _OF_TWO else 0):
        if at + 8 > size:
            return []
        op, length = _part_at(body, at)
        end = at + 8 + length
        if not 0 <= length <= LARGEST or op != (operations.SET_DATA if number else operations.CHECK):
            return []
        if number:
            made.append(check + body[at:end])
        else:
            check = body[: operations.HEADER_SIZE] + _TWO + body[at:end]
            if count * len(check) > _MOST_REPEATED * size:
                return []
        at = end
    return made


def _without(taken: Bodies, places: Ints) -> Bodies:
    """The records at all other places."""
    return _only(taken, _other(places, len(taken.bodies))) if len(places) else taken


def _other(places: Ints, count: int) -> Ints:
    is_other = np.ones(count, np.bool_)
    is_other[places] = False
    return np.flatnonzero(is_other)


def _only(taken: Bodies, places: Ints) -> Bodies:
    """The records at these places."""
    wanted = places.tolist()
    return Bodies([taken.bodies[place] for place in wanted], [taken.offsets[place] for place in wanted])


def _is_text(path: bytes) -> int:
    try:
        path.decode()
    except UnicodeDecodeError:
        return 0
    return 1


def _zxid(row: operations.Row) -> int:
    return row[0]
