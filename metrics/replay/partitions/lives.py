"""Which brokers were live, and which controller led, and when? Lives of brokers, terms of controllers, sessions.

These are few even in a long history, so they are folded here in one place and not by Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.events.kafka_events import GONE
from metrics.replay.events.schemas import TIME

KINDS = ("broker", "controller", "controller_epoch", "session")
COLUMNS = ("zxid", "part", "time", "session", "op", "kind", "broker", "controller_epoch", "version")

_LIFE: tuple[tuple[str, Any], ...] = (
    ("broker", pa.int32()), ("session", pa.int64()), ("started_at", TIME), ("ended_at", TIME),
    ("duration_ms", pa.int64()), ("started_zxid", pa.int64()), ("ended_zxid", pa.int64()), ("ended_by", pa.string()),
)  # fmt: skip
BROKERS = pa.schema([pa.field(name, kind) for name, kind in _LIFE])
CONTROLLERS = BROKERS.append(pa.field("controller_epoch", pa.int32())).append(pa.field("vacancy_ms", pa.int64()))
SESSIONS = pa.schema(
    [
        pa.field("session", pa.int64()),
        pa.field("opened_at", TIME),
        pa.field("closed_at", TIME),
        pa.field("timeout_ms", pa.int32()),
    ]
)

_Event = dict[str, Any]
_APPEARS = frozenset({"create", "known"})


def in_order(events: pa.Table) -> list[_Event]:
    """The events of the table `events` that matter here, oldest first."""
    rows = events.select(COLUMNS).to_pylist()
    return sorted((r for r in rows if r["kind"] in KINDS), key=lambda r: (r["zxid"], r["part"]))


def brokers(events: Sequence[_Event]) -> pa.Table:
    """One row for each life of a broker: when its registration appeared and vanished."""
    found: list[_Event] = []
    for broker in sorted({e["broker"] for e in events if e["kind"] == "broker" and e["broker"] is not None}):
        found += _lives(events, "broker", broker)
    return pa.Table.from_pylist(found, schema=BROKERS)


def controllers(events: Sequence[_Event]) -> pa.Table:
    """One row for each term of a controller: who held `/controller`, in which epoch, and how long it was vacant before.

    The epoch is raised in the transaction that claims, or in the one before.
    """
    terms = _lives(events, "controller")
    epochs = [(e["zxid"], e["controller_epoch"]) for e in events if e["kind"] == "controller_epoch"]
    before: datetime | None = None
    for term in terms:
        known = [epoch for zxid, epoch in epochs if zxid <= term["started_zxid"] and epoch is not None]
        term["controller_epoch"] = known[-1] if known else None
        term["vacancy_ms"] = None if before is None else _ms_between(before, term["started_at"])
        before = term["ended_at"]
    return pa.Table.from_pylist(terms, schema=CONTROLLERS)


def sessions(events: Sequence[_Event]) -> pa.Table:
    """One row for each ZooKeeper session that the log shows opened or closed."""
    found: dict[int, _Event] = {}
    for event in events:
        if event["kind"] != "session":
            continue
        row = found.setdefault(event["session"], {"session": event["session"]})
        if event["op"] == "open":
            row["opened_at"], row["timeout_ms"] = event["time"], event["version"]
        else:
            row["closed_at"] = event["time"]
    return pa.Table.from_pylist(list(found.values()), schema=SESSIONS)


def _lives(events: Iterable[_Event], kind: str, broker: int | None = None) -> list[_Event]:
    """Each life of a znode, from its creation to its end, which may only show as the end of its session."""
    found: list[_Event] = []
    is_open = False
    for event in events:
        if event["kind"] != kind or (broker is not None and event["broker"] != broker):
            is_its_session = event["kind"] == "session" and is_open and event["session"] == found[-1]["session"]
            if not is_its_session or event["op"] not in GONE:
                continue
        if is_open and event["op"] in _APPEARS | GONE:
            life = found[-1]
            life["ended_at"], life["ended_zxid"], life["ended_by"] = event["time"], event["zxid"], event["op"]
            life["duration_ms"] = _ms_between(life["started_at"], event["time"])
            is_open = False
        if event["op"] in _APPEARS:
            is_open = True
            found.append(
                {
                    "broker": event["broker"], "session": event["session"], "started_at": event["time"],
                    "ended_at": None, "duration_ms": None, "started_zxid": event["zxid"], "ended_zxid": None,
                    "ended_by": None,
                }
            )  # fmt: skip
    return found


def _ms_between(a: datetime, b: datetime) -> int:
    return max(0, round((_utc(b) - _utc(a)).total_seconds() * 1000))


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
