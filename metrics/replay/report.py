"""What does a person want to know first, and what do the pictures show? One self-contained HTML file."""

from __future__ import annotations

from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from metrics.replay import timelines
from metrics.replay.jobs import Job, Result, rows_of
from metrics.replay.output import Output
from metrics.replay.verdicts import EXPLAINED, KAFKA, LISTED, VIOLATION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT = "report.html"
MOST_MOVES = 20_000
MOST_FINDINGS = 500
MOST_ZNODES = 40
LINES = 8
ALARMING = 0.5
POINTS = 600
TOPICS = 40
BUCKETS = 80


class Summary(Struct, frozen=True):
    """The sentence a person wants first, and what was damaged."""

    sentence: str
    damage: tuple[str, ...]


def write_report(spark: SparkSession, job: Job, result: Result) -> Summary:
    """Write `report.html` below the job's output, from the tables that are there."""
    data = report_data(spark, result)
    summary = Summary(
        data["sentence"], tuple(f"{d['file']} at byte {d['offset']}: {d['what']}" for d in data["damage"])
    )
    Output(job.out).add(REPORT, page(data).encode())
    return summary


def page(data: dict[str, Any]) -> str:
    """The template with the data inside."""
    template = files("metrics.replay").joinpath("report_template.html").read_text()
    # "</" would end the script that holds the data.
    json = msgspec.json.encode(data).decode().replace("</", "<\\/")
    return template.replace('"THE DATA"', json)


def report_data(spark: SparkSession, result: Result) -> dict[str, Any]:
    """Everything that the page shows, small enough for a browser."""
    ask = partial(_rows, spark, result)
    data: dict[str, Any] = {
        "span": _span(ask),
        "counts": _counts(ask),
        "moves": _moves(ask),
        "pairs": ask("reassignments", _pairs),
        "load": _load(ask),
        "health": _health(ask),
        "changes": _changes_by_topic(ask),
        "controllers": ask("controllers", _controllers),
        "brokers": ask("brokers", lambda t: t.selectExpr("broker", *_FROM_TO, "ended_by").orderBy("broker", "from")),
        "topics": ask("topic_health", _worst_topics),
        "broker_health": ask("broker_health", lambda t: t.orderBy("broker")),
        "growth": ask("znode_growth", _nearest_the_limit),
        "sizes": _sizes(ask),
        "znodes": ask("znodes", lambda t: t.drop("last_at").limit(MOST_ZNODES)),
        "audit": sorted(ask("audit", _verdicts), key=lambda row: _GRAVEST.index(row["verdict"])),
        "findings": ask("audit", _unexplained),
        "damage": ask("damage", lambda t: t.limit(1000)),
        "seconds": {name: round(seconds, 1) for name, seconds in result.seconds.items()},
    }
    data["sentence"] = sentence(data)
    return data


_GRAVEST = (VIOLATION, LISTED, KAFKA, EXPLAINED)
_FROM_TO = ("unix_millis(started_at) as `from`", "unix_millis(ended_at) as `to`")


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
    """A duration as people say it.

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


def _rows(spark: SparkSession, result: Result, table: str, query: Any) -> list[dict[str, Any]]:
    return rows_of(spark, result.tables, table, query) if table in result.tables else []


def _span(ask: Any) -> dict[str, Any]:
    ends = "unix_millis(min({0})) as `from`", "unix_millis(max({0})) as `to`", "min(zxid) as first_zxid"
    more = "max(zxid) as last_zxid", "count(*) as events"
    spans = []
    for table, column in (("events", "time"), ("partitions", "started_at")):
        columns = [text.format(column) for text in (*ends, *more)]
        spans += ask(table, partial(_selected, columns))
    spans = [span for span in spans if span["events"]]
    if not spans:
        return _moment(ask)
    return {
        "from": min((s["from"] for s in spans), default=0),
        "to": max((s["to"] for s in spans), default=0),
        "first_zxid": min((s["first_zxid"] for s in spans), default=0),
        "last_zxid": max((s["last_zxid"] for s in spans), default=0),
        "events": sum(s["events"] for s in spans),
    }


def _moment(ask: Any) -> dict[str, Any]:
    """Of a snapshot alone there is only one moment."""
    columns = ("unix_millis(max(started_at)) as at", "max(zxid) as zxid")
    (found,) = ask("partitions", lambda t: t.selectExpr(*columns)) or [{}]
    at, zxid = found.get("at") or 0, found.get("zxid") or 0
    return {"from": at, "to": at + 1, "first_zxid": zxid, "last_zxid": zxid, "events": 0}


def _selected(columns: list[str], table: DataFrame) -> DataFrame:
    return table.where("op <> 'known'").selectExpr(*columns)


def _counts(ask: Any) -> dict[str, Any]:
    outcomes = ask("reassignments", lambda t: t.groupBy("outcome").count())
    counts: dict[str, Any] = {row["outcome"]: row["count"] for row in outcomes}
    counts["moves"] = sum(row["count"] for row in outcomes)
    rest = ask(
        "reassignments",
        lambda t: t.selectExpr(
            "count_if(is_stalled) as stalled",
            "max_by(named_struct('at', concat(topic, '-', partition), 'ms', duration_ms), duration_ms) as slowest",
            "cast(percentile_approx(duration_ms, 0.5) as bigint) as median_ms",
            "cast(percentile_approx(duration_ms, 0.99) as bigint) as p99_ms",
            "sum(topic_writes) as topic_writes", "sum(state_writes) as state_writes",
        ),
    )  # fmt: skip
    return counts | (dict(rest[0]) if rest else {})


def _moves(ask: Any) -> list[list[Any]]:
    def query(table: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        chosen = table.orderBy(f.desc("is_stalled"), f.desc_nulls_first("duration_ms")).limit(MOST_MOVES)
        return chosen.selectExpr(
            "topic", "partition", "unix_millis(started_at)", "unix_millis(ended_at)", "outcome", "origin",
            "from_replicas", "to_replicas", "catching_up_ms", "handing_over_ms", "letting_go_ms", "is_stalled",
            "topic_writes", "state_writes", "stalled_because",
        )  # fmt: skip

    rows = [list(row.values()) for row in ask("reassignments", query)]
    return sorted(rows, key=lambda row: (row[2], row[0], row[1]))


def _pairs(table: DataFrame) -> DataFrame:
    zipped = table.selectExpr("inline(arrays_zip(removing, adding)) as (`from`, `to`)")
    return zipped.where("`from` is not null and `to` is not null").groupBy("from", "to").count()


def _load(ask: Any) -> list[dict[str, Any]]:
    rows = ask("broker_load", lambda t: t.selectExpr("broker", "unix_millis(at) as at", "leaders", "replicas"))
    by_broker: dict[int, list[list[int]]] = {}
    for row in sorted(rows, key=lambda r: (r["broker"], r["at"])):
        by_broker.setdefault(row["broker"], []).append([row["at"], row["leaders"], row["replicas"]])
    return [{"broker": broker, "points": _thinned(points)} for broker, points in by_broker.items()]


def _thinned(points: list[list[int]]) -> list[list[int]]:
    step = -(-len(points) // POINTS)
    return points[::step] if step <= 1 or points[-1] in points[::step] else [*points[::step], points[-1]]


def _health(ask: Any) -> list[list[int]]:
    rows = ask("partitions", timelines.health_steps)
    under = leaderless = moving = 0
    points = []
    for row in sorted(rows, key=lambda r: r["at"]):
        under += row["under_replicated"]
        leaderless += row["leaderless"]
        moving += row["moving"]
        points.append([row["at"], under, leaderless, moving])
    return _thinned(points)


def _changes_by_topic(ask: Any) -> dict[str, Any]:
    span = _span(ask)
    begin, end = span["from"] or 0, span["to"] or 0
    width = max((end - begin) // BUCKETS, 1)

    def query(table: DataFrame) -> DataFrame:
        bucket = f"cast((unix_millis(started_at) - {begin}) div {width} as int) as bucket"
        return (
            table.where(f"op <> 'known' and unix_millis(started_at) >= {begin}")
            .selectExpr("topic", bucket)
            .groupBy("topic", "bucket")
            .count()
        )

    cells = ask("partitions", query)
    totals: dict[str, int] = {}
    for cell in cells:
        totals[cell["topic"]] = totals.get(cell["topic"], 0) + cell["count"]
    topics = sorted(totals, key=lambda t: (-totals[t], t))[:TOPICS]
    row_of = {topic: row for row, topic in enumerate(topics)}
    return {
        "from": begin, "width": width, "topics": topics, "buckets": BUCKETS,
        "cells": [[row_of[c["topic"]], c["bucket"], c["count"]] for c in cells if c["topic"] in row_of],
    }  # fmt: skip


def _nearest_the_limit(table: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    shown = table.orderBy(f.desc("share"), "path").limit(MOST_ZNODES)
    return shown.withColumn("full_at", f.unix_millis("full_at")).drop("first_at", "last_at")


def _sizes(ask: Any) -> list[dict[str, Any]]:
    """The largest znodes over time."""

    def query(table: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        top = table.groupBy("path").agg(f.max("size_bytes").alias("top")).orderBy(f.desc("top"), "path").limit(LINES)
        return table.join(f.broadcast(top), "path").selectExpr("path", "top", "unix_millis(at) as at", "size_bytes")

    points: dict[tuple[int, str], list[list[int]]] = {}
    for row in sorted(ask("znode_sizes", query), key=lambda r: r["at"]):
        points.setdefault((-row["top"], row["path"]), []).append([row["at"], row["size_bytes"]])
    return [{"path": key[1], "points": points[key]} for key in sorted(points)]


def _controllers(table: DataFrame) -> DataFrame:
    return table.selectExpr("broker", *_FROM_TO, "controller_epoch", "vacancy_ms", "ended_by").orderBy("from")


def _worst_topics(table: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return table.orderBy(
        f.desc("leaderless_ms"), f.desc("under_min_isr_ms"), f.desc("under_replicated_ms"), f.desc("changes"), "topic"
    ).limit(TOPICS)


def _verdicts(table: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return (
        table.groupBy("verdict", "what", "rule")
        .agg(f.count("*").alias("writes"), f.first("why").alias("example"), f.first("ours").alias("ours"))
        .orderBy("verdict", f.desc("writes"))
    )


def _unexplained(table: DataFrame) -> DataFrame:
    chosen = table.where("verdict in ('violation', 'listed')").selectExpr(
        "zxid", "unix_millis(time) as at", "what", "coalesce(concat(topic, '-', partition), topic, '') as on_what",
        "verdict", "rule", "why", "coalesce(ours, '') as ours",
    )  # fmt: skip
    return chosen.orderBy("verdict", "zxid", ascending=[False, True]).limit(MOST_FINDINGS)
