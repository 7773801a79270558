"""How many replicas had to be in sync, for which topic, and when? `min.insync.replicas` as it was set.

ZooKeeper knows the overrides of topics and the cluster-wide setting of run time, but not the brokers' files,
so that their value is an option.

Source: Kafka's ConfigEntityZNode; Partition.effectiveMinIsr (no more can be asked for than there are replicas).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.engine.reduction import ms, whole
from metrics.replay.events.schemas import TIME

COLUMNS = ("zxid", "part", "time", "op", "topic", "path", "min_isr")
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()), pa.field("min_isr", pa.int32()), pa.field("source", pa.string()),
        pa.field("started_at", TIME), pa.field("ended_at", TIME),
    ]
)  # fmt: skip
_RULES = pa.schema(
    [
        pa.field("rule_topic", pa.string()), pa.field("rule_min_isr", pa.int32()), pa.field("since", pa.int64()),
        pa.field("until", pa.int64()),
    ]
)  # fmt: skip
_END = 2**62


class Setting(Struct, frozen=True):
    """The setting of a topic, or of all others if `topic` is None, from one time until another.

    Shape:
        `source` is topic, cluster (`/config/brokers/<default>`) or option; None stands for always.
    """

    topic: str | None
    min_isr: int
    source: str
    started_at: datetime | None = None
    ended_at: datetime | None = None


def settings(events: Iterable[dict[str, Any]], default: int = 1) -> list[Setting]:
    """Every setting in force at some time, from the rows of `events` whose kind is config."""
    by_topic: dict[str | None, list[dict[str, Any]]] = {None: []}
    for event in sorted(events, key=lambda e: (e["zxid"], e["part"])):
        if event["topic"] is not None or event["path"].endswith("/config/brokers/<default>"):
            by_topic.setdefault(event["topic"], []).append(event)
    found = list(_filled(None, _steps(by_topic.pop(None), "cluster"), default))
    for topic in sorted(name for name in by_topic if name is not None):
        found += _steps(by_topic[topic], "topic")
    return found


def _steps(events: Sequence[dict[str, Any]], source: str) -> list[Setting]:
    """From each write that sets it until the next that sets another."""
    steps: list[Setting] = []
    value: int | None = None
    for event in events:
        if event["min_isr"] == value:
            continue
        if value is not None:
            last = steps.pop()
            steps.append(Setting(last.topic, last.min_isr, source, last.started_at, event["time"]))
        value = event["min_isr"]
        if value is not None:
            steps.append(Setting(event["topic"], value, source, event["time"]))
    return steps


def _filled(topic: str | None, steps: Sequence[Setting], default: int) -> Iterator[Setting]:
    """The steps, and between them the default."""
    since: datetime | None = None
    for step in steps:
        yield Setting(topic, default, "option", since, step.started_at)
        yield step
        since = step.ended_at
        if since is None:
            return
    yield Setting(topic, default, "option", since)


def as_table(found: Sequence[Setting]) -> pa.Table:
    """The table `min_isr`."""
    columns = ("topic", "min_isr", "source", "started_at", "ended_at")
    return pa.Table.from_pylist([{name: getattr(s, name) for name in columns} for s in found], schema=SCHEMA)


def in_pieces(timeline: pa.Table, until_ms: int, found: Sequence[Setting]) -> pa.Table:
    """Each row of `partitions`, cut where the setting changed; those that still last end at `until_ms`.

    Adds `min_isr`, no more than there are replicas, when the piece `began` and `ended` (milliseconds), `lasted_ms`,
    whether it `is_open`, that is still lasts (0 or 1), and `is_begin` where it is the row's first piece.
    """
    rules = _rules(found)
    began = ms(timeline["started_at"])
    ended = pc.coalesce(ms(timeline["ended_at"]), pc.max_element_wise(pa.scalar(until_ms, pa.int64()), began))
    has_own = pc.is_in(timeline["topic"], value_set=whole(pc.unique(rules["rule_topic"])))
    keyed = {
        "place": pa.array(range(timeline.num_rows), pa.int64()),
        "rule_topic": pc.if_else(has_own, timeline["topic"], ""),
        "began": began,
        "ended": ended,
    }
    pieces = pa.table(keyed).join(rules, "rule_topic", join_type="inner")
    began, ended, since, until = (pieces[name] for name in ("began", "ended", "since", "until"))
    is_begin = pc.and_(pc.greater_equal(began, since), pc.less(began, until))
    is_later = pc.and_(pc.greater(since, began), pc.less(since, ended))
    piece_began, piece_ended = pc.max_element_wise(began, since), pc.min_element_wise(ended, until)
    pieces = pieces.append_column("is_begin", is_begin).append_column(
        "lasted_ms", pc.subtract(piece_ended, piece_began)
    )
    pieces = pieces.set_column(pieces.schema.get_field_index("began"), "began", piece_began)
    is_last = pc.equal(piece_ended, ended)
    pieces = pieces.set_column(pieces.schema.get_field_index("ended"), "ended", piece_ended).append_column(
        "is_last", is_last
    )
    pieces = pieces.filter(pc.or_(is_begin, is_later))
    rows = timeline.take(pieces["place"])
    count = pc.list_value_length(rows["replicas"])
    asked = pieces["rule_min_isr"]
    least = pc.if_else(pc.fill_null(pc.greater(count, 0), False), pc.min_element_wise(asked, count), asked)
    rows = rows.append_column("min_isr", least).append_column("lasted_ms", pieces["lasted_ms"])
    is_open = pc.and_(pc.is_null(rows["ended_at"]), pieces["is_last"]).cast(pa.int64())
    for name in ("is_begin", "began", "ended"):
        rows = rows.append_column(name, pieces[name])
    return rows.append_column("is_open", is_open)


def _rules(found: Sequence[Setting]) -> pa.Table:
    """The settings over all time, under the topic's name or, for topics that set nothing, an empty one."""
    default = [s for s in found if s.topic is None]
    rows = [("", s.min_isr, *_span(s)) for s in default]
    for topic, settings_of_it in groupby((s for s in found if s.topic is not None), key=lambda s: s.topic):
        own = [(s.min_isr, *_span(s)) for s in settings_of_it]
        rows += [(topic or "", *step) for step in own]
        for since, until in _gaps([(a, b) for _, a, b in own]):
            for value, a, b in ((s.min_isr, *_span(s)) for s in default):
                if max(a, since) < min(b, until):
                    rows.append((topic or "", value, max(a, since), min(b, until)))
    names = [field.name for field in _RULES]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=_RULES)


def _span(setting: Setting) -> tuple[int, int]:
    since = 0 if setting.started_at is None else round(setting.started_at.timestamp() * 1000)
    return since, (_END if setting.ended_at is None else round(setting.ended_at.timestamp() * 1000))


def _gaps(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    at = 0
    for since, until in sorted(spans):
        if since > at:
            yield at, since
        at = max(at, until)
    if at < _END:
        yield at, _END
