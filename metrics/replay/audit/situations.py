"""Which writes of partitions are alike, so that one of them need be judged for all?

The finding for most writes follows from the state before it - leader, ISR, replicas - what it
wrote, the writer, and the live brokers. That is a write's situation. Situations are far fewer than writes, and columns
find them: each is judged once, by the same rules, for all writes in it. Writes where more
counts, such as a skipped version or what a broker does later, are left to the fold over the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.audit.audit import PartitionAudit, is_foreign
from metrics.replay.audit.verdicts import Finding
from metrics.replay.engine.reduction import whole
from metrics.replay.partitions.moves import Happened
from metrics.replay.partitions.partition_fold import rows_of
from metrics.replay.partitions.terms import Terms

# The partition for which situations are judged; no path, and so no topic, has such a name.
ANY_TOPIC, ANY_PARTITION = "\0", 0
ANYWHERE = f"{ANY_TOPIC}-{ANY_PARTITION}"
_KNOWN, _CREATE, _SET = "known", "create", "set"
_WORD = 62
_LISTS = ("isr", "replicas", "adding", "removing")


class Situations(Struct, frozen=True):
    """The rows of a table that are judged by their situation, and those judged one by one.

    Shape:
        `of_row` has each row's index in `findings`, null if it is judged otherwise or not at all;
        `term` has each row's index in `Terms.all`. A finding's session and time do not hold for all its rows.
        `is_alone` marks rows to be judged one by one, and `is_kept` these and the rows that a fold needs before them.
    """

    findings: Sequence[Finding]
    of_row: Any
    term: Any
    is_alone: Any
    is_kept: Any


def situations(rows: pa.Table, terms: Terms) -> Situations:
    """The situations of rows with the columns of `Happened`, in the order of partitions and time."""
    seen = _Seen(rows, terms)
    number, first = _numbered(seen)
    findings: list[Finding] = []
    place_of: list[int | None] = []
    for found in _judged(rows, seen, first, terms):
        place_of.append(None if found is None else len(findings))
        if found is not None:
            findings.append(found)
    of_row = pa.array(place_of, pa.int32()).take(number)
    is_alone = pc.and_(pc.or_(seen.is_assignment, seen.is_state), pc.is_null(of_row))
    is_alone = pc.and_not(is_alone, seen.is_silent)
    # The fold needs leader, epoch and version, and of ISRs between two changes of the ISR nothing.
    is_plain = pc.and_(pc.and_(seen.is_candidate, pc.invert(is_alone)), seen.is_same_term)
    is_needed = pc.invert(is_plain)
    is_before = pc.and_(_following(is_needed), pc.invert(_following(seen.is_first, at_end=True)))
    folded = pc.unique(seen.partition.filter(is_alone))
    is_kept = pc.and_(pc.is_in(seen.partition, value_set=folded), pc.or_(is_needed, is_before))
    return Situations(findings, of_row, seen.term, is_alone, is_kept)


class _Seen:
    """Columns about each row and the state before it. Places are rows' numbers, -1 for none."""

    def __init__(self, rows: pa.Table, terms: Terms) -> None:
        self._count = rows.num_rows
        self._place = pa.array(range(rows.num_rows), pa.int64())
        column = {name: whole(rows[name]) for name in rows.column_names}
        kind, self.op = column["kind"], column["op"]
        self.is_first = pc.invert(pc.and_(*(_is_as_before(column[name]) for name in ("topic", "partition"))))
        self.partition = pc.cumulative_sum(self.is_first.cast(pa.int64()))
        self._start = pc.fill_null_forward(pc.if_else(self.is_first, self._place, None))
        self.is_state = pc.equal(kind, "state")
        self.is_assignment = pc.equal(kind, "assignment")
        is_deletion = pc.and_(self.is_state, pc.is_null(column["isr"]))
        self.is_silent = pc.and_not(pc.equal(self.op, _KNOWN), is_deletion)
        self.state_before = self._last(pc.and_not(self.is_state, is_deletion), but=is_deletion)
        self.assignment_before = self._last(self.is_assignment, but=is_deletion)
        self._find_changes(column, is_deletion)
        self.term = _terms_of(column["zxid"], terms)
        self.is_candidate = pc.or_(self._alike_states(column, is_deletion, terms), self._alike_assignments(column))
        self.parts = self._parts(column, terms)

    def _find_changes(self, column: dict[str, Any], is_deletion: Any) -> None:
        self._has_state = pc.greater_equal(self.state_before, 0)
        self._had = _at(self.state_before)
        self.leader, self._epoch = (pc.fill_null(column[name], 0) for name in ("leader", "leader_epoch"))
        self._raised = pc.fill_null(pc.subtract(self._epoch, self._epoch.take(self._had)), 0)
        self.leader_before = pc.fill_null(self.leader.take(self._had), 0)
        is_same = pc.and_(pc.equal(self._raised, 0), pc.equal(self.leader, self.leader_before))
        self.is_same_term = pc.and_(pc.and_(self.is_state, self._has_state), is_same)
        is_raise = pc.or_(pc.invert(self._has_state), pc.greater(self._raised, 0))
        announced = self._last(pc.or_(is_deletion, pc.and_(self.is_state, is_raise)))
        is_announced = pc.or_(pc.less(self._last(self.is_assignment), announced), pc.less(self.assignment_before, 0))
        self._is_announced = pc.or_(is_announced, pc.invert(self._has_state))

    def _last(self, mask: Any, but: Any = None) -> Any:
        """The last marked row before each, of the same partition; none if a row marked `but` came since."""
        marked = mask if but is None else pc.or_(mask, but)
        last = _shifted(pc.fill_null_forward(pc.if_else(marked, self._place, None)))
        last = pc.fill_null(pc.if_else(pc.greater_equal(last, self._start), last, None), -1)
        return last if but is None else pc.if_else(pc.fill_null(but.take(_at(last)), False), -1, last)

    def _alike_states(self, column: dict[str, Any], is_deletion: Any, terms: Terms) -> Any:
        """States whose finding depends only on their situation, unless a broker stops cleanly."""
        epochs = pa.array([term.epoch for term in terms.all], pa.int64()).take(self.term)
        controller = pc.fill_null(column["controller_epoch"], 0)
        fell = pc.less(controller, pc.fill_null(controller.take(self._had), 0))
        early = pc.and_(pc.greater(controller, epochs), pc.greater(epochs, 0))
        before = pc.fill_null(column["version"], -1).take(self._had)
        follows = pc.equal(column["version"], pc.add(before, 1))
        is_next = pc.fill_null(pc.or_kleene(follows, pc.less(before, 0)), True)
        # Then the one before goes on.
        is_void = pc.and_not(pc.and_(self.is_assignment, pc.equal(self.op, _CREATE)), _is_some(column["replicas"]))
        is_odd = pc.fill_null(is_void.take(_at(self.assignment_before)), False)
        is_in_order = pc.or_(self.is_same_term, pc.equal(self._raised, 1))
        is_alike = pc.and_(pc.and_not(is_in_order, fell), is_next)
        is_alike = pc.or_(is_alike, pc.invert(self._has_state))
        is_written = pc.is_in(self.op, value_set=pa.array([_CREATE, _SET]))
        is_unwanted = pc.is_in(column["topic"], value_set=pa.array(terms.unwanted, pa.string()))
        is_not = pc.or_(pc.or_(early, is_odd), pc.or_(is_unwanted, is_deletion))
        return pc.and_not(pc.and_(pc.and_(self.is_state, is_written), pc.and_(self._is_announced, is_alike)), is_not)

    def _alike_assignments(self, column: dict[str, Any]) -> Any:
        """Assignments of partitions that are created."""
        return pc.and_(self.is_assignment, pc.and_(_is_some(column["replicas"]), pc.equal(self.op, _CREATE)))

    def _parts(self, column: dict[str, Any], terms: Terms) -> list[Any]:
        """The parts of a situation, each as numbers from 0."""
        had, stood = self._had, _at(self.assignment_before)
        # The assignment with which a row is judged: its own, or the one before a state.
        placed = pc.if_else(self.is_assignment, self._place, stood)
        coded = {name: pc.dictionary_encode(_texts(column[name]), null_encoding="encode") for name in _LISTS}
        lists = {name: codes.indices.cast(pa.int64()) for name, codes in coded.items()}
        leaders = pc.dictionary_encode(self.leader)
        named = [
            (_brokers_of(coded["isr"].dictionary), [lists["isr"], lists["isr"].take(had)]),
            (_brokers_of(coded["replicas"].dictionary), [lists["replicas"].take(placed)]),
            ([[leader] for leader in leaders.dictionary.to_pylist()], [leaders.indices, leaders.indices.take(had)]),
        ]
        return [
            _numbers(self.is_assignment), _numbers(self.op), _numbers(self._has_state),
            _numbers(self.leader), _numbers(self.leader_before), lists["isr"], _numbers(lists["isr"].take(had)),
            _numbers(pc.if_else(self._has_state, self._raised, pc.min_element_wise(self._epoch, 1))),
            *(_numbers(lists[name].take(placed)) for name in _LISTS[1:]), _numbers(column["fence"]),
            _numbers(pc.if_else(self._are_foreign(column["session"], terms), column["session"], None)),
            _of_terms([(bool(term.epoch), term.version) for term in terms.all], self.term),
            *_dead(named, [term.brokers for term in terms.all], self.term),
        ]  # fmt: skip

    def _are_foreign(self, sessions: Any, terms: Terms) -> Any:
        """Whether the writer's session was then neither a controller's nor a broker's."""
        number = pc.dictionary_encode(sessions)
        held = number.dictionary.to_pylist()
        pairs = pc.dictionary_encode(pc.add(pc.multiply(number.indices.cast(pa.int64()), len(terms.all)), self.term))
        found = (divmod(pair, len(terms.all)) for pair in pairs.dictionary.to_pylist())
        foreign = [is_foreign(held[session], terms.all[term]) for session, term in found]
        return pa.array(foreign, pa.bool_()).take(pairs.indices)


def _brokers_of(texts: Any) -> list[list[int]]:
    return [[int(broker) for broker in text.split(",")] if text else [] for text in texts.to_pylist()]


def _of_terms(what: Sequence[Any], term: Any) -> Any:
    """The kind of each row's term, as a number."""
    numbers: dict[Any, int] = {}
    return pa.array([numbers.setdefault(one, len(numbers)) for one in what], pa.int64()).take(term)


def _dead(
    named: Sequence[tuple[list[list[int]], list[Any]]], live: Sequence[Iterable[int]], term: Any
) -> Iterator[Any]:
    """The brokers named by a write or the state before it that were not live: bits, in words of 62 brokers."""
    brokers = sorted({broker for lists, _ in named for one in lists for broker in one})
    for first in range(0, len(brokers), _WORD):
        bit = {broker: 1 << number for number, broker in enumerate(brokers[first : first + _WORD])}
        there = _bits(live, bit).take(term)
        words = [pc.fill_null(_bits(lists, bit).take(rows), 0) for lists, places in named for rows in places]
        yield _numbers(pc.bit_wise_and(reduce(pc.bit_wise_or, words), pc.bit_wise_not(there)))


def _bits(lists: Sequence[Iterable[int]], bit: dict[int, int]) -> Any:
    return pa.array([sum(bit.get(broker, 0) for broker in {*brokers}) for brokers in lists], pa.int64())


def _numbered(seen: _Seen) -> tuple[Any, Any]:
    """The number of each write's situation, null if no other write shares it; and the first row of each situation."""
    number = pc.if_else(seen.is_candidate, 0, None)
    for part in seen.parts:
        count = (pc.max(part).as_py() or 0) + 1
        number = _numbers(pc.add(pc.multiply(number.cast(pa.int64()), count), part), keep_null=True)
    places = pa.table({"number": number, "place": pa.array(range(len(number)), pa.int64())})
    how = [("place", "min"), ("place", "count")]
    places = places.filter(pc.is_valid(number)).group_by("number", use_threads=False).aggregate(how).sort_by("number")
    # A single write is judged faster in the fold.
    is_shared = pc.greater(whole(places["place_count"]), 1)
    shared = pc.if_else(is_shared, pc.subtract(pc.cumulative_sum(is_shared.cast(pa.int64())), 1), None)
    return shared.take(number), whole(places["place_min"]).filter(is_shared)


def _judged(rows: pa.Table, seen: _Seen, first: Any, terms: Terms) -> Iterable[Finding | None]:
    """The finding for each situation, from its first row; None if it depends on more."""
    before = (_happened(rows, places.take(first)) for places in (seen.assignment_before, seen.state_before))
    for stood, event in zip(zip(*before, strict=True), _happened(rows, first), strict=True):
        audit = PartitionAudit(ANY_TOPIC, ANY_PARTITION, terms, {})
        for one in chain(*stood):
            audit.take(one)
        (found,) = map(audit.add, event)
        yield found if audit.is_of_others_too else None


def _happened(rows: pa.Table, places: Any) -> Iterator[tuple[Happened, ...]]:
    """The event at each of these places; None where there is none."""
    is_there = pc.greater_equal(places, 0)
    found = rows_of(rows.take(places.filter(is_there)).to_batches())
    for is_one in is_there.to_pylist():
        yield (next(found)[2],) if is_one else ()


def _terms_of(zxids: Any, terms: Terms) -> Any:
    """`Terms.position` of each."""
    begins = pa.array([term.since + 1 for term in terms.all], pa.int64())
    order = pc.array_sort_indices(pa.concat_arrays([begins, zxids]))  # stable: what begins comes first
    count = len(begins)
    positions = pc.fill_null_forward(pc.if_else(pc.less(order, count), order.cast(pa.int64()), None))
    # Where each row went in that order.
    back = pc.array_sort_indices(order).slice(count)
    return pc.fill_null(positions.take(back), 0)


def _is_as_before(column: Any) -> Any:
    return pc.fill_null(pc.equal(column, _shifted(column)), False)


def _shifted(column: Any) -> Any:
    """Shift by one: each row gets the value of the row before."""
    return pa.concat_arrays([pa.nulls(1, column.type), column.slice(0, len(column) - 1)]) if len(column) else column


def _following(marks: Any, *, at_end: bool = False) -> Any:
    """Shift by one: each row gets the mark of the row after it."""
    return pa.concat_arrays([marks.slice(1), pa.array([at_end])]) if len(marks) else marks


def _at(places: Any) -> Any:
    """Indexes for `take`, null for none."""
    return pc.if_else(pc.less(places, 0), None, places)


def _is_some(lists: Any) -> Any:
    return pc.fill_null(pc.greater(pc.list_value_length(lists), 0), False)


def _texts(lists: Any) -> Any:
    return pc.binary_join(lists.cast(pa.list_(pa.string())), ",")


def _numbers(values: Any, *, keep_null: bool = False) -> Any:
    """Number the values from 0, equal ones alike; null is a value too, unless it is kept."""
    how = "mask" if keep_null else "encode"
    return pc.dictionary_encode(values, null_encoding=how).indices.cast(pa.int64())
