"""When was a partition under-replicated, under its minimum ISR or without a leader, or a broker offline?

Source: `health`, which sums up the same; `lives`, for brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.engine.reduction import Reduction, Source, Summing, as_time, whole
from metrics.replay.events.schemas import TIME
from metrics.replay.tables.health import COLUMNS, Window, is_under_replicated
from metrics.replay.tables.min_isr import Setting, in_pieces

UNDER_REPLICATED, UNDER_MIN_ISR, LEADERLESS, OFFLINE = (
    "under-replicated", "under min ISR", "leaderless", "offline broker",
)  # fmt: skip
SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string()), pa.field("topic", pa.string()), pa.field("partition", pa.int32()),
        pa.field("broker", pa.int32()), pa.field("started_at", TIME), pa.field("ended_at", TIME),
        pa.field("duration_ms", pa.int64()), pa.field("started_zxid", pa.int64()),
    ]
)  # fmt: skip
_KEYS = ("kind", "topic", "partition")
_SPAN = ("began", "ended", "is_open", "zxid")


def shortages(window: Window, until_ms: int, settings: Sequence[Setting], lives: pa.Table) -> Summing[pa.Table]:
    """One row for each uninterrupted shortage, oldest first; one that still lasts has no end.

    `lives` is the table `brokers`.
    """

    def part(timeline: pa.Table) -> pa.Table:
        rows = window.clipped(timeline)
        pieces = in_pieces(rows.filter(rows["isr"].is_valid()), until_ms, settings)
        in_sync = pc.list_value_length(pieces["isr"])
        lacks = (
            (UNDER_REPLICATED, is_under_replicated(pieces)),
            (UNDER_MIN_ISR, pc.less(in_sync, pieces["min_isr"])),
            (LEADERLESS, pc.less(pieces["leader"], 0)),
        )
        return combine(pa.concat_tables([_lacking(pieces, kind, pc.fill_null(when, False)) for kind, when in lacks]))

    (found,) = yield [Reduction({"partitions": Source(COLUMNS, part)}, combine)]
    lasted = pc.subtract(found["ended"], found["began"])
    made = {
        "kind": found["kind"], "topic": found["topic"], "partition": found["partition"],
        "broker": pa.nulls(found.num_rows, pa.int32()), "started_at": as_time(found["began"]),
        "ended_at": pc.if_else(pc.greater(found["is_open"], 0), pa.scalar(None, TIME), as_time(found["ended"])),
        "duration_ms": lasted, "started_zxid": found["zxid"],
    }  # fmt: skip
    partitions = pa.table(made).select(SCHEMA.names).cast(SCHEMA).filter(pc.greater(lasted, 0))
    offline = pa.Table.from_pylist(_offline(lives.to_pylist(), until_ms), schema=SCHEMA)
    order = [(name, "ascending") for name in ("started_at", "kind", "topic", "partition", "broker")]
    return pa.concat_tables([partitions, window.clipped(offline)]).sort_by(order)


def _lacking(pieces: pa.Table, kind: str, when: Any) -> pa.Table:
    rows = pieces.select(["topic", "partition", *_SPAN]).filter(when)
    return rows.append_column("kind", pa.repeat(pa.scalar(kind), rows.num_rows))


def combine(rows: pa.Table) -> pa.Table:
    """Merge spans that meet.

    >>> of_one = {"kind": "k", "topic": "t", "partition": 0, "is_open": 0, "zxid": 9}
    >>> spans = [{**of_one, "began": a, "ended": b} for a, b in ((5, 7), (1, 3), (3, 4))]
    >>> combine(pa.Table.from_pylist(spans)).select(["began", "ended"]).to_pylist()
    [{'began': 1, 'ended': 4}, {'began': 5, 'ended': 7}]
    """
    if not rows.num_rows:
        return rows.select([*_KEYS, *_SPAN])
    whose = np.zeros(rows.num_rows, np.int64)
    for name in _KEYS:
        number = pc.dictionary_encode(whole(rows[name])).indices.to_numpy()
        whose = whose * (int(number.max()) + 1) + number
    began, ended, is_open, zxid = (rows[name].to_numpy() for name in _SPAN)
    order = np.lexsort((ended, began, whose))
    whose, began, ended = whose[order], began[order], ended[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (whose[1:] != whose[:-1]) | (ended[:-1] < began[1:])
    first = np.flatnonzero(is_new)
    made = {name: rows[name].take(pa.array(order[first])) for name in _KEYS}
    made |= {
        "began": pa.array(began[first]),
        "ended": pa.array(np.maximum.reduceat(ended, first)),
        "is_open": pa.array(np.maximum.reduceat(is_open[order], first)),
        "zxid": pa.array(np.minimum.reduceat(zxid[order], first)),
    }
    return pa.table(made)


def _offline(lives: Sequence[dict[str, Any]], until_ms: int) -> list[dict[str, Any]]:
    """The times between two lives of a broker, and after its last."""
    found: list[dict[str, Any]] = []
    for broker in sorted({life["broker"] for life in lives}):
        own = sorted((life for life in lives if life["broker"] == broker), key=lambda life: int(life["started_zxid"]))
        for life, following in pairwise([*own, None]):
            if life is None or life["ended_at"] is None:
                continue
            back = following["started_at"] if following else None
            until = back.timestamp() * 1000 if back else until_ms
            lasted = max(0, round(until - life["ended_at"].timestamp() * 1000))
            found.append(
                {
                    "kind": OFFLINE, "broker": broker, "started_at": life["ended_at"], "ended_at": back,
                    "duration_ms": lasted, "started_zxid": life["ended_zxid"],
                }
            )  # fmt: skip
    return found
