"""Which summary and which charts does the report show? One self-contained HTML file."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from importlib.resources import files
from itertools import accumulate
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.audit.verdicts import EXPLAINED, KAFKA, LISTED, VIOLATION
from metrics.replay.commands.jobs import Job, Result
from metrics.replay.engine.bulk import written
from metrics.replay.engine.reduction import Reduction, Source, Summing, grouped, ms, together
from metrics.replay.engine.tasks import Engine
from metrics.replay.files.output import Output
from metrics.replay.tables import health

REPORT = "report.html"
MOST_MOVES = 20_000
MOST_FINDINGS = 500
MOST_ZNODES = 40
LINES = 8
ALARMING = 0.5
POINTS = 600
TOPICS = 40
BUCKETS = 80


Rows = list[dict[str, Any]]


class Summary(Struct, frozen=True):
    """The one-sentence summary, and what was damaged."""

    sentence: str
    damage: tuple[str, ...]


def write_report(engine: Engine, job: Job, result: Result) -> Summary:
    """Write `report.html` below the job's output, from the tables."""
    data = report_data(engine, job.out, result)
    summary = Summary(
        data["sentence"], tuple(f"{d['file']} at byte {d['offset']}: {d['what']}" for d in data["damage"])
    )
    Output(job.out).add(REPORT, page(data).encode())
    return summary


def page(data: dict[str, Any]) -> str:
    """The template with the data inside."""
    template = files("metrics.replay.commands").joinpath("report_template.html").read_text()
    # "</" would end the script that holds the data.
    json = msgspec.json.encode(data).decode().replace("</", "<\\/")
    return template.replace('"THE DATA"', json)


def report_data(engine: Engine, out: str, result: Result) -> dict[str, Any]:
    """Everything that the page shows, small enough for a browser."""
    ask = _Tables(out, result)
    sums = together(engine, out, {
        "span": _span_and_changes(ask), "counts": _counts(ask), "durations": _durations(ask), "moves": _moves(ask),
        "pairs": _pairs(ask), "health": _health(), "shortages": _shortages(ask), "audit": _verdicts(ask),
        "findings": _unexplained(ask),
    })  # fmt: skip
    span, changes = sums["span"]
    data: dict[str, Any] = {
        "span": span,
        "counts": sums["counts"] | sums["durations"],
        "moves": sums["moves"],
        "pairs": sums["pairs"],
        "load": _load(ask),
        "health": sums["health"],
        "changes": changes,
        "shortages": sums["shortages"],
        "controllers": ask.rows("controllers", "broker", *_FROM_TO, "controller_epoch", "vacancy_ms", "ended_by",
                                order=[("from", "ascending")]),
        "brokers": ask.rows("brokers", "broker", *_FROM_TO, "ended_by",
                            order=[("broker", "ascending"), ("from", "ascending")]),
        "topics": ask.rows("topic_health", order=_WORST_TOPICS, most=TOPICS),
        "broker_health": ask.rows("broker_health", order=[("broker", "ascending")]),
        "growth": [_in_ms(row, "full_at", without=("first_at", "last_at"))
                   for row in ask.rows("znode_growth", order=_LARGEST, most=MOST_ZNODES)],
        "sizes": _sizes(ask),
        "znodes": [_in_ms(row, without=("last_at",)) for row in ask.rows("znodes", most=MOST_ZNODES)],
        "audit": sums["audit"],
        "findings": sums["findings"],
        "damage": ask.rows("damage", most=1000),
        "seconds": {name: round(seconds, 1) for name, seconds in result.seconds.items()},
    }  # fmt: skip
    data["sentence"] = sentence(data)
    return data


_GRAVEST = (VIOLATION, LISTED, KAFKA, EXPLAINED)
_FROM_TO = ("started_at", "ended_at")
_SHOWN_AS = {"started_at": "from", "ended_at": "to"}
_LARGEST = [("share", "descending"), ("path", "ascending")]
_WORST_TOPICS = [
    *((name, "descending") for name in ("leaderless_ms", "under_min_isr_ms", "under_replicated_ms", "changes")),
    ("topic", "ascending"),
]


class _Tables:
    """The written tables that the report may read."""

    def __init__(self, out: str, result: Result) -> None:
        self._out = out
        self._there = frozenset(result.tables)

    def rows(
        self, table: str, *columns: str, order: list[tuple[str, str]] | None = None, most: int | None = None
    ) -> list[dict[str, Any]]:
        """The rows of a small table, times in milliseconds as `from` and `to`."""
        if table not in self._there:
            return []
        found = written(self._out, table).to_table(columns=[*columns] or None)
        for number, name in enumerate(found.column_names):
            if name in columns and name in _SHOWN_AS:
                found = found.set_column(number, _SHOWN_AS[name], ms(found[name]))
        found = found.sort_by(order) if order else found
        return list((found if most is None else found.slice(0, most)).to_pylist())

    def summed(self, sources: dict[str, Source], combine: Any) -> Summing[Rows]:
        """The rows of sums over tables of any length."""
        if not self._there >= {*sources}:
            return []
        (found,) = yield [Reduction(sources, combine)]
        return list(found.to_pylist())


def _in_ms(row: dict[str, Any], *times: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The row with times in milliseconds."""
    made = {name: value for name, value in row.items() if name not in without}
    return made | {name: None if row[name] is None else int(row[name].timestamp() * 1000) for name in times}


def sentence(data: dict[str, Any]) -> str:
    """What happened, in one line.

    >>> counts = {"moves": 312, "stalled": 4, "unfinished": 1, "slowest": {"at": "orders-3", "ms": 7_500_000}}
    >>> sentence({"counts": counts, "controllers": [{}, {}], "audit": [], "damage": []})
    '312 moves, 4 stalled, 1 unfinished, the slowest, orders-3, took 2 h 5 min; 1 fail-over.'
    """
    counts = data["counts"]
    parts = [f"{_many(counts['moves'], 'move')}"]
    notable = ("stalled", "unfinished", "cancelled", "superseded")
    parts += [f"{counts[what]} {what}" for what in notable if counts.get(what)]
    if counts.get("slowest"):
        parts.append(f"the slowest, {counts['slowest']['at']}, took {lasted(counts['slowest']['ms'])}")
    more = [f"{_many(max(len(data['controllers']) - 1, 0), 'fail-over')}"]
    bad = {row["verdict"]: 0 for row in data["audit"]}
    for row in data["audit"]:
        bad[row["verdict"]] += row["writes"]
    if data["audit"]:
        more.append(f"{_many(bad.get('violation', 0), 'violation')}, {bad.get('listed', 0)} writes not explained")
    full = data.get("growth") or [{"share": 0}]
    if full[0]["share"] > ALARMING:
        more.append(f"{full[0]['path']} fills {full[0]['share']:.0%} of what ZooKeeper takes")
    if data["damage"]:
        more.append(f"{_many(len(data['damage']), 'damaged place')}")
    return ", ".join(parts) + "; " + "; ".join(more) + "."


def lasted(time_ms: int) -> str:
    """A duration for a person.

    >>> lasted(950), lasted(61_000), lasted(7_500_000), lasted(200_000_000)
    ('950 ms', '1 min 1 s', '2 h 5 min', '2 d 7 h')
    """
    if time_ms < 1000:
        return f"{time_ms} ms"
    seconds = time_ms // 1000
    units = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    for number, (name, size) in enumerate(units):
        if seconds >= size:
            text = f"{seconds // size} {name}"
            rest = units[number + 1 : number + 2]
            if rest and seconds % size // rest[0][1]:
                text += f" {seconds % size // rest[0][1]} {rest[0][0]}"
            return text
    return "0 s"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _span(ask: _Tables) -> Summing[dict[str, Any]]:
    how = {"from": "min", "to": "max", "first_zxid": "min", "last_zxid": "max", "events": "sum"}

    def part(at: str) -> Any:
        def of(rows: pa.Table) -> pa.Table:
            one = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
            columns = [pc.not_equal(rows["op"], "known"), ms(rows[at]), ms(rows[at]), rows["zxid"], rows["zxid"], one]
            return combine(pa.table(columns, names=["is_news", *how]))

        return of

    def combine(rows: pa.Table) -> pa.Table:
        return grouped(rows, ("is_news",), how)

    columns = {"events": "time", "partitions": "started_at"}
    sources = {table: Source(("op", "zxid", at), part(at)) for table, at in columns.items()}
    rows = yield from ask.summed(sources, combine)
    found = {row.pop("is_news"): row for row in rows}
    if True in found:
        return found[True]
    # Of a snapshot alone there is only one moment.
    at, zxid = (found[False]["to"], found[False]["last_zxid"]) if found else (0, 0)
    return {"from": at, "to": at + 1, "first_zxid": zxid, "last_zxid": zxid, "events": 0}


def _counts(ask: _Tables) -> Summing[dict[str, Any]]:
    sums = ("moves", "stalled", "topic_writes", "state_writes")

    def part(rows: pa.Table) -> pa.Table:
        made = [rows["outcome"], pa.repeat(1, rows.num_rows), rows["is_stalled"], rows[sums[2]], rows[sums[3]]]
        numbers = [made[0], *(column.cast(pa.int64()) for column in made[1:])]
        return combine(pa.table(numbers, names=["outcome", *sums]))

    def combine(rows: pa.Table) -> pa.Table:
        return grouped(rows, ("outcome",), dict.fromkeys(sums, "sum"))

    found = yield from ask.summed({"reassignments": Source(("outcome", "is_stalled", *sums[2:]), part)}, combine)
    counts: dict[str, Any] = {row["outcome"]: row["moves"] for row in found}
    return counts | {name: sum(row[name] for row in found) for name in sums}


def _durations(ask: _Tables) -> Summing[dict[str, Any]]:
    """Durations of moves: the median, a high percentile, and the slowest."""

    def part(rows: pa.Table) -> pa.Table:
        one = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
        return combine(rows.append_column("moves", one))

    def combine(rows: pa.Table) -> pa.Table:
        how = {"moves": "sum", "topic": "first", "partition": "first"}
        return grouped(rows, ("duration_ms",), how, order=("topic", "partition"))

    columns, has_ended = ("duration_ms", "topic", "partition"), pc.field("duration_ms").is_valid()
    found = yield from ask.summed({"reassignments": Source(columns, part, has_ended)}, combine)
    if not found:
        return {}
    rows = sorted(found, key=itemgetter("duration_ms"))
    slowest, upto = rows[-1], [*accumulate(row["moves"] for row in rows)]
    ranks = {name: -(-upto[-1] * percent // 100) for name, percent in (("median_ms", 50), ("p99_ms", 99))}
    return {
        "slowest": {"at": f"{slowest['topic']}-{slowest['partition']}", "ms": slowest["duration_ms"]},
        **{name: rows[bisect_left(upto, rank)]["duration_ms"] for name, rank in ranks.items()},
    }


_OF_MOVES = (
    "topic", "partition", "started_at", "ended_at", "outcome", "origin", "from_replicas", "to_replicas",
    "catching_up_ms", "handing_over_ms", "letting_go_ms", "is_stalled", "topic_writes", "state_writes",
    "stalled_because",
)  # fmt: skip


def _moves(ask: _Tables) -> Summing[list[list[Any]]]:
    """The moves that are stalled, have not ended or took longest."""

    def part(rows: pa.Table) -> pa.Table:
        # What has not ended comes before the slowest.
        rank = pc.fill_null(rows["duration_ms"], 2**62)
        made = [ms(rows[name]) if name in _FROM_TO else rows[name] for name in _OF_MOVES]
        return slowest(pa.table([*made, rank], names=[*_OF_MOVES, "rank"]))

    def slowest(rows: pa.Table) -> pa.Table:
        order = [("is_stalled", "descending"), ("rank", "descending"), ("topic", "ascending"),
                 ("partition", "ascending"), ("started_at", "ascending")]  # fmt: skip
        return rows.sort_by(order).slice(0, MOST_MOVES)

    found = yield from ask.summed({"reassignments": Source((*_OF_MOVES, "duration_ms"), part)}, slowest)
    rows = [[row[name] for name in _OF_MOVES] for row in found]
    return sorted(rows, key=lambda row: (row[2], row[0], row[1]))


def _pairs(ask: _Tables) -> Summing[Rows]:
    """How many replicas moved from which broker to which."""

    def part(rows: pa.Table) -> pa.Table:
        moves = zip(rows["removing"].to_pylist(), rows["adding"].to_pylist(), strict=True)
        pairs = [pair for removing, adding in moves for pair in zip(removing or (), adding or (), strict=False)]
        columns = [pa.array([pair[n] for pair in pairs], pa.int32()) for n in (0, 1)]
        return combine(pa.table([*columns, pa.repeat(pa.scalar(1, pa.int64()), len(pairs))], names=names))

    def combine(rows: pa.Table) -> pa.Table:
        return grouped(rows, names[:2], {"count": "sum"})

    names = ["from", "to", "count"]
    found = yield from ask.summed({"reassignments": Source(("removing", "adding"), part)}, combine)
    return sorted(found, key=itemgetter("from", "to"))


def _load(ask: _Tables) -> list[dict[str, Any]]:
    by_broker: dict[int, list[list[int]]] = {}
    for row in ask.rows("broker_load", order=[("broker", "ascending"), ("at", "ascending")]):
        at = int(row["at"].timestamp() * 1000)
        by_broker.setdefault(row["broker"], []).append([at, row["leaders"], row["replicas"]])
    return [{"broker": broker, "points": _thinned(points)} for broker, points in by_broker.items()]


def _thinned(points: list[list[int]]) -> list[list[int]]:
    step = max(1, -(-len(points) // POINTS))
    return points[::step] if step == 1 or points[-1] in points[::step] else [*points[::step], points[-1]]


def _health() -> Summing[list[list[int]]]:
    steps = yield from health.health_steps()
    under = leaderless = moving = 0
    points = []
    for row in steps.to_pylist():
        under += row["under_replicated"]
        leaderless += row["leaderless"]
        moving += row["moving"]
        points.append([row["at"], under, leaderless, moving])
    return _thinned(points)


def _span_and_changes(ask: _Tables) -> Summing[tuple[dict[str, Any], dict[str, Any]]]:
    span = yield from _span(ask)
    changes = yield from _changes_by_topic(ask, span["from"], span["to"])
    return span, changes


def _changes_by_topic(ask: _Tables, begin: int, end: int) -> Summing[dict[str, Any]]:
    width = max((end - begin) // BUCKETS, 1)

    def part(rows: pa.Table) -> pa.Table:
        at = ms(rows["started_at"])
        one = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
        made = pa.table([rows["topic"], pc.divide(pc.subtract(at, begin), width), one], names=["topic", "bucket", "n"])
        return combine(made.filter(pc.greater_equal(at, begin)))

    def combine(rows: pa.Table) -> pa.Table:
        return grouped(rows, ("topic", "bucket"), {"n": "sum"})

    cells = yield from ask.summed(
        {"partitions": Source(("topic", "started_at"), part, pc.field("op") != "known")}, combine
    )
    totals: Counter[str] = Counter()
    for cell in cells:
        totals[cell["topic"]] += cell["n"]
    topics = sorted(totals, key=lambda t: (-totals[t], t))[:TOPICS]
    row_of = {topic: row for row, topic in enumerate(topics)}
    shown = sorted((row_of[c["topic"]], c["bucket"], c["n"]) for c in cells if c["topic"] in row_of)
    return {
        "from": begin, "width": width, "topics": topics, "buckets": BUCKETS, "cells": [[*cell] for cell in shown],
    }  # fmt: skip


def _sizes(ask: _Tables) -> list[dict[str, Any]]:
    """The largest znodes over time."""
    points: dict[str, list[list[int]]] = {}
    for row in ask.rows("znode_sizes", "path", "at", "size_bytes", order=[("at", "ascending")]):
        points.setdefault(row["path"], []).append([int(row["at"].timestamp() * 1000), row["size_bytes"]])
    largest = sorted(points, key=lambda path: (-max(size for _, size in points[path]), path))
    return [{"path": path, "points": points[path]} for path in largest[:LINES]]


def _shortages(ask: _Tables) -> Summing[Rows]:
    """The longest shortages."""

    def longest(rows: pa.Table) -> pa.Table:
        order = [("duration_ms", "descending")]
        order += [(name, "ascending") for name in ("started_at", "kind", "topic", "partition", "broker")]
        return rows.sort_by(order).slice(0, MOST_FINDINGS)

    columns = ("kind", "topic", "partition", "broker", *_FROM_TO, "duration_ms")
    found = yield from ask.summed({"shortages": Source(columns, longest)}, longest)
    return [
        {
            "kind": row["kind"], "duration_ms": row["duration_ms"],
            "on_what": f"broker {row['broker']}" if row["topic"] is None else f"{row['topic']}-{row['partition']}",
            **{_SHOWN_AS[name]: at and int(at.timestamp() * 1000) for name in _FROM_TO for at in (row[name],)},
        }
        for row in found
    ]  # fmt: skip


def _verdicts(ask: _Tables) -> Summing[Rows]:
    """How many writes have each verdict and rule, the gravest first; the example is the first of them."""
    shown = ("why", "ours", "zxid")

    def part(rows: pa.Table) -> pa.Table:
        return combine(rows.append_column("writes", pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)))

    def combine(rows: pa.Table) -> pa.Table:
        how = {"writes": "sum", **dict.fromkeys(shown, "first")}
        return grouped(rows, ("verdict", "what", "rule"), how, order=("zxid", "why"))

    found = yield from ask.summed({"audit": Source(("verdict", "what", "rule", *shown), part)}, combine)
    rows = [
        {"verdict": r["verdict"], "what": r["what"], "rule": r["rule"], "writes": r["writes"], "example": r["why"],
         "ours": r["ours"]}
        for r in found
    ]  # fmt: skip
    return sorted(rows, key=lambda r: (_GRAVEST.index(r["verdict"]), -r["writes"], r["what"], r["rule"]))


def _unexplained(ask: _Tables) -> Summing[Rows]:
    def first(rows: pa.Table) -> pa.Table:
        order = [("verdict", "descending"), ("zxid", "ascending"), ("topic", "ascending"), ("partition", "ascending")]
        return rows.sort_by(order).slice(0, MOST_FINDINGS)

    columns = ("zxid", "time", "what", "topic", "partition", "verdict", "rule", "why", "ours", "session", "broker",
               "host", "controller_epoch")  # fmt: skip
    is_unexplained = pc.field("verdict").isin([VIOLATION, LISTED])
    found = yield from ask.summed({"audit": Source(columns, first, is_unexplained)}, first)
    return [
        {
            "zxid": r["zxid"], "at": int(r["time"].timestamp() * 1000), "what": r["what"],
            "on_what": (r["topic"] or "") if r["partition"] is None else f"{r['topic']}-{r['partition']}",
            "verdict": r["verdict"], "rule": r["rule"], "why": r["why"], "ours": r["ours"] or "",
            "session": None if r["session"] is None else str(r["session"]), "broker": r["broker"], "host": r["host"],
            "controller_epoch": r["controller_epoch"],
        }
        for r in found
    ]  # fmt: skip
