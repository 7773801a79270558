"""For how long were partitions under-replicated, at or under the minimum ISR or leaderless, and what did brokers carry?

All of these are sums over the table `partitions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.engine.reduction import Reduction, Source, Summing, as_time, exploded, grouped, ms, whole
from metrics.replay.events.intervals import GONE
from metrics.replay.events.schemas import TIME
from metrics.replay.tables.min_isr import Setting, in_pieces

# The brokers' default.
DEFAULTS = (Setting(None, 1, "option"),)
_SHORTAGES = ("under_replicated_ms", "at_min_isr_ms", "under_min_isr_ms", "leaderless_ms")
_OF_BROKERS = ("out_of_sync_ms", "catching_up_ms", "leading_ms", "hosting_ms", *_SHORTAGES)
COLUMNS = (
    "topic", "partition", "zxid", "started_at", "ended_at", "what", "leader", "isr", "replicas", "adding", "removing",
    "replication_factor",
)  # fmt: skip
_SECOND_MS = 1000


class Window(Struct, frozen=True):
    """The time to show; longer periods are cut at both ends."""

    since_ms: int | None = None
    until_ms: int | None = None

    def clipped(self, timeline: pa.Table) -> pa.Table:
        """Rows of `partitions`, cut to the window."""
        if self.until_ms is not None:
            end = _at(self.until_ms)
            timeline = timeline.filter(pc.less_equal(timeline["started_at"], end))
            is_inside = pc.fill_null(pc.less_equal(timeline["ended_at"], end), False)
            timeline = _with(timeline, "ended_at", pc.if_else(is_inside, timeline["ended_at"], pa.scalar(None, TIME)))
        if self.since_ms is not None:
            begin = _at(self.since_ms)
            ended = timeline["ended_at"]
            timeline = timeline.filter(pc.or_kleene(pc.is_null(ended), pc.greater_equal(ended, begin)))
            is_before = pc.less(timeline["started_at"], begin)
            timeline = _with(timeline, "started_at", pc.if_else(is_before, begin, timeline["started_at"]))
        return timeline


def topic_health(window: Window, until_ms: int, settings: Sequence[Setting] = DEFAULTS) -> Summing[pa.Table]:
    """How long each topic had partitions under-replicated, at or under the minimum ISR, or leaderless.

    Times are summed over partitions; those that still last count until `until_ms`. `min_isr` is the last
    one in force.
    """

    def part(timeline: pa.Table) -> pa.Table:
        rows = window.clipped(timeline)
        pieces = in_pieces(rows.filter(rows["isr"].is_valid()), until_ms, settings)
        pieces = _with_shortages(pieces)
        pieces = _with(pieces, "changes", pieces["is_begin"].cast(pa.int64()))
        return combine(_with(pieces, "is_later", pc.invert(pieces["is_begin"])))

    def combine(rows: pa.Table) -> pa.Table:
        sums = dict.fromkeys((*_SHORTAGES, "changes"), "sum")
        last = dict.fromkeys(_LATEST, "last")
        return grouped(rows, ("topic", "partition"), sums | last, order=_LATEST)

    (found,) = yield [Reduction({"partitions": Source(COLUMNS, part)}, combine)]
    found = found.append_column("partitions", pa.repeat(pa.scalar(1, pa.int64()), found.num_rows))
    sums = dict.fromkeys(("partitions", *_SHORTAGES), "sum")
    topics = grouped(found, ("topic",), sums | {"min_isr": "last", "changes": "sum"}, order=_LATEST[:3])
    return topics.sort_by("topic")


# In this order the last row has the last setting.
_LATEST = ("zxid", "is_later", "lasted_ms", "min_isr")


def broker_health(window: Window, until_ms: int, settings: Sequence[Setting] = DEFAULTS) -> Summing[pa.Table]:
    """How long replicas on each broker were out of the ISR, how long it led, and what its partitions lacked.

    Times are summed over replicas: a partition counts for each broker that has a replica of it.
    """

    def part(timeline: pa.Table) -> pa.Table:
        rows = window.clipped(timeline)
        rows = rows.filter(pc.and_(rows["isr"].is_valid(), rows["replicas"].is_valid()))
        pieces = _with_shortages(in_pieces(rows, until_ms, settings))
        place, broker = exploded(pieces["replicas"])
        lasted = pieces["lasted_ms"].take(place)
        behind = pc.invert(_contains(pieces["isr"], place, broker))
        is_added = _contains(pieces["adding"], place, broker)
        leads = pc.fill_null(pc.equal(pieces["leader"].take(place), broker), False)
        made = {
            "broker": broker,
            "out_of_sync_ms": _where(pc.and_not(behind, is_added), lasted),
            "catching_up_ms": _where(pc.and_(behind, is_added), lasted),
            "leading_ms": _where(leads, lasted),
            "hosting_ms": lasted,
        }
        return combine(pa.table(made | {name: pieces[name].take(place) for name in _SHORTAGES}))

    def combine(rows: pa.Table) -> pa.Table:
        return grouped(rows, ("broker",), dict.fromkeys(_OF_BROKERS, "sum"))

    (found,) = yield [Reduction({"partitions": Source(COLUMNS, part)}, combine)]
    return found.sort_by("broker")


def broker_load(window: Window) -> Summing[pa.Table]:
    """Leaders and replicas on each broker after each second in which they changed."""

    def part(timeline: pa.Table) -> pa.Table:
        rows = window.clipped(timeline)
        rows = rows.filter(pc.not_equal(rows["what"], GONE))
        ended = rows.filter(rows["ended_at"].is_valid())
        steps = [*_steps(rows, "started_at", 1), *_steps(ended, "ended_at", -1)]
        return combine(pa.concat_tables(steps))

    def combine(rows: pa.Table) -> pa.Table:
        return grouped(rows, ("broker", "at"), {"leaders": "sum", "replicas": "sum"})

    (found,) = yield [Reduction({"partitions": Source(COLUMNS, part)}, combine)]
    changed = pc.or_(pc.not_equal(found["leaders"], 0), pc.not_equal(found["replicas"], 0))
    steps = found.filter(changed).sort_by([("broker", "ascending"), ("at", "ascending")])
    columns = steps.to_pydict()
    for name in ("leaders", "replicas"):
        pairs = zip(columns["broker"], columns[name], strict=True)
        by_broker = groupby(pairs, key=lambda pair: pair[0])
        columns[name] = [total for _, of_one in by_broker for total in accumulate(step for _, step in of_one)]
    return pa.table(columns, schema=steps.schema)


def _steps(rows: pa.Table, at: str, by: int) -> list[pa.Table]:
    """The changes of each broker's load where rows begin, or end."""
    second = pc.floor_temporal(rows[at], unit="second")
    is_led = pc.fill_null(pc.greater_equal(rows["leader"], 0), False)
    led = rows["leader"].filter(is_led)
    place, broker = exploded(rows["replicas"])
    return [
        _load(led, second.filter(is_led), by, 0),
        _load(broker, second.take(place), 0, by),
    ]


def _load(broker: Any, at: Any, leaders: int, replicas: int) -> pa.Table:
    count = len(broker)
    columns = [broker, at, *(pa.repeat(pa.scalar(by, pa.int64()), count) for by in (leaders, replicas))]
    return pa.table(columns, names=["broker", "at", "leaders", "replicas"])


def health_steps() -> Summing[pa.Table]:
    """The changes of the numbers of under-replicated, leaderless and moving partitions, second by second."""
    names = ("under_replicated", "leaderless", "moving")

    def part(timeline: pa.Table) -> pa.Table:
        rows = timeline.filter(pc.and_(timeline["isr"].is_valid(), timeline["replicas"].is_valid()))
        lengths = [pc.fill_null(pc.list_value_length(rows[name]), 0) for name in ("adding", "removing")]
        flags = (
            is_under_replicated(rows),
            pc.fill_null(pc.less(rows["leader"], 0), False),
            pc.greater(pc.add(*lengths), 0),
        )
        steps = []
        for at, by in (("started_at", 1), ("ended_at", -1)):
            moved = [pc.multiply(flag.cast(pa.int64()), by) for flag in flags]
            second = pc.multiply(pc.divide(ms(rows[at]), _SECOND_MS), _SECOND_MS)
            steps.append(pa.table([second, *moved], names=["at", *names]).filter(rows[at].is_valid()))
        return combine(pa.concat_tables(steps))

    def combine(rows: pa.Table) -> pa.Table:
        return grouped(rows, ("at",), dict.fromkeys(names, "sum"))

    (found,) = yield [Reduction({"partitions": Source(COLUMNS, part)}, combine)]
    changed = pc.or_(pc.or_(*(pc.not_equal(found[n], 0) for n in names[:2])), pc.not_equal(found[names[2]], 0))
    return found.filter(changed).sort_by("at")


def is_under_replicated(rows: pa.Table) -> Any:
    """`Assignment.is_under_replicated`, for rows of `partitions`."""
    return pc.fill_null(pc.less(pc.list_value_length(rows["isr"]), rows["replication_factor"]), False)


def _with_shortages(pieces: pa.Table) -> pa.Table:
    lasted, in_sync = pieces["lasted_ms"], pc.list_value_length(pieces["isr"])
    lacks = (
        is_under_replicated(pieces),
        pc.equal(in_sync, pieces["min_isr"]),
        pc.less(in_sync, pieces["min_isr"]),
        pc.less(pieces["leader"], 0),
    )
    for name, when in zip(_SHORTAGES, lacks, strict=True):
        pieces = _with(pieces, name, _where(pc.fill_null(when, False), lasted))
    return pieces


def _where(when: Any, lasted: Any) -> Any:
    return pc.if_else(when, lasted, pa.scalar(0, pa.int64()))


def _contains(lists: Any, place: Any, broker: Any) -> Any:
    """Whether the list at a place has the broker."""
    return pc.is_in(_pairs(place, broker), value_set=whole(_pairs(*exploded(lists))))


def _pairs(place: Any, broker: Any) -> Any:
    return pc.add(pc.shift_left(place.cast(pa.int64()), 32), broker.cast(pa.int64()))


def _with(rows: pa.Table, name: str, values: Any) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.append_column(name, values) if place < 0 else rows.set_column(place, name, values)


def _at(time_ms: int) -> Any:
    return as_time(pa.scalar(time_ms, pa.int64()))
