"""Which znodes grow towards ZooKeeper's limit, how fast, and when will they reach it?

A znode, and the list of a parent's children, must fit into one request or answer: `jute.maxbuffer`, about 1 MB. A
topic's znode grows with its partitions and swells while they move; `/brokers/topics` grows with every topic.

Source: ZooKeeper's BinaryInputArchive.maxBuffer (1,048,575 bytes); GetChildrenResponse is a vector of strings, each
with its length in four bytes.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.engine.period import Period
from metrics.replay.engine.reduction import Reduction, Source, Summing, grouped, ms, whole
from metrics.replay.engine.tasks import Part
from metrics.replay.events.kafka_events import GONE
from metrics.replay.events.schemas import TIME
from metrics.replay.tables.znodes import WRITES, with_paths, writes

DEFAULT_LIMIT_BYTES = 0xFFFFF
LARGEST = 100
BUCKETS = 200
_DAY_MS = 86_400_000
# A rate seen in a shorter time says nothing about days, and a forecast beyond the second is no use.
_LEAST_MS, _MOST_DAYS = 60_000, 3650
_PARENTS = {"topic": "/brokers/topics", "config": "/config/topics"}
CHILDREN = " (list of children)"

_SIZED = ("path", "zxid", "part", "at", "size_bytes", "op")
SIZES = pa.schema(
    [
        pa.field("path", pa.string()), pa.field("at", TIME), pa.field("size_bytes", pa.int32()),
        pa.field("last_bytes", pa.int32()), pa.field("share", pa.float64()), pa.field("writes", pa.int64()),
    ]
)  # fmt: skip
GROWTH = pa.schema(
    [
        pa.field("path", pa.string()), pa.field("first_at", TIME), pa.field("last_at", TIME),
        pa.field("first_bytes", pa.int32()), pa.field("last_bytes", pa.int32()), pa.field("largest_bytes", pa.int32()),
        pa.field("limit_bytes", pa.int32()), pa.field("share", pa.float64()), pa.field("writes", pa.int64()),
        pa.field("bytes_a_day", pa.float64()), pa.field("full_at", TIME),
    ]
)  # fmt: skip


def growth(period: Period, limit_bytes: int = DEFAULT_LIMIT_BYTES, largest: int = LARGEST) -> Summing[pa.Table]:
    """The sizes of the largest znodes over time: one row for each znode and each interval in which it was written.

    The largest write in an interval counts, because that is the one that might not have fitted.
    """

    def tops(rows: pa.Table) -> pa.Table:
        sized = grouped(rows, ("path", "topic", "partition", "kind"), {"size_bytes": "max"})
        return most(with_paths(sized))

    def most(rows: pa.Table) -> pa.Table:
        found = grouped(rows, ("path",), {"size_bytes": "max"})
        return found.sort_by([("size_bytes", "descending"), ("path", "ascending")]).slice(0, largest)

    found, parents = yield [Reduction(_writes(period, tops), most), _of_parents(period)]
    lists = _lists(parents, period)
    chosen = most(pa.concat_tables([found, lists.select(found.column_names)]))["path"]
    ours = lists.filter(pc.is_in(lists["path"], value_set=whole(chosen)))

    def ends_of(rows: pa.Table) -> pa.Table:
        return latest(rows.append_column("first", ms(rows["at"])).append_column("last", ms(rows["at"])))

    def latest(rows: pa.Table) -> pa.Table:
        return grouped(rows, ("path",), {"first": "min", "last": "max"})

    seen = yield from _summed_and(_of_chosen(period, chosen, ends_of), latest, ends_of(ours))
    if not seen.num_rows:
        return SIZES.empty_table()
    first, last = pc.min(seen["first"]).as_py(), pc.max(seen["last"]).as_py()
    width = max((last - first) // BUCKETS, 1)

    def pieces_of(rows: pa.Table) -> pa.Table:
        piece = pc.divide(pc.subtract(ms(rows["at"]), first), width)
        writes = pc.not_equal(rows["op"], "known").cast(pa.int64())
        made = rows.append_column("piece", piece).append_column("writes", writes)
        return united(made.append_column("last_bytes", rows["size_bytes"]))

    def united(rows: pa.Table) -> pa.Table:
        how = {
            "at": "max",
            "size_bytes": "max",
            "writes": "sum",
            **dict.fromkeys(("zxid", "part", "last_bytes"), "last"),
        }
        return grouped(rows, ("path", "piece"), how, order=("zxid", "part"))

    sized = yield from _summed_and(_of_chosen(period, chosen, pieces_of), united, pieces_of(ours))
    sized = sized.append_column("share", _share(sized["size_bytes"], limit_bytes))
    return sized.sort_by([("path", "ascending"), ("piece", "ascending")]).select(SIZES.names).cast(SIZES)


def _summed_and(sources: dict[str, Source], combine: Part, more: pa.Table) -> Summing[pa.Table]:
    (found,) = yield [Reduction(sources, combine)]
    return combine(pa.concat_tables([found, more.select(found.column_names).cast(found.schema)]))


def _writes(period: Period, make: Part) -> dict[str, Source]:
    """All writes except those of ACLs, which have no size."""
    return writes(period, lambda rows: make(rows.filter(pc.not_equal(rows["op"], "acl"))))


def _of_chosen(period: Period, chosen: pa.ChunkedArray, make: Part) -> dict[str, Source]:
    """The writes of the chosen paths; a state's path is only composed if its topic has one of them."""
    paths = whole(chosen)
    topics = pa.array({path.split("/")[3] for path in chosen.to_pylist() if path.endswith("/state")}, pa.string())

    def of_paths(rows: pa.Table) -> pa.Table:
        has_path = rows["path"].is_valid()
        rows = with_paths(rows.filter(pc.or_(has_path, pc.is_in(rows["topic"], value_set=topics))))
        return make(rows.filter(pc.is_in(rows["path"], value_set=paths)).select(_SIZED))

    return _writes(period, of_paths)


def _of_parents(period: Period) -> Reduction:
    """Creations and deletions below the parents of topics."""
    kinds = pc.field("kind").isin([*_PARENTS]) & pc.field("topic").is_valid()
    comes_or_goes = pc.field("op").isin([*GONE, "create", "known"])
    until = Period(None, period.until_ms).of("time")
    source = Source(("path", "zxid", "part", "time", "topic", "op"), lambda rows: rows, kinds & comes_or_goes & until)
    return Reduction({"events": source}, lambda rows: rows)


def _lists(rows: pa.Table, period: Period) -> pa.Table:
    """The size of the lists of topics after each creation or deletion of a topic."""
    totals: dict[str, int] = {}
    found = []
    since = period.since_ms or 0
    for row in rows.sort_by([("zxid", "ascending"), ("part", "ascending")]).to_pylist():
        path = row["path"].rpartition("/")[0] + CHILDREN
        entry = len(row["topic"].encode()) + 4
        totals[path] = totals.get(path, 4) + (-entry if row["op"] in GONE else entry)
        if row["time"].timestamp() * 1000 >= since:
            found.append({**row, "path": path, "at": row["time"], "size_bytes": totals[path]})
    return pa.Table.from_pylist(found, schema=pa.schema([WRITES.field(name) for name in _SIZED]))


def forecast(sized: pa.Table, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> pa.Table:
    """From the table `znode_sizes`: how large each znode is, how fast it grows, and when it meets the limit.

    The rate is that of a straight line through the last size of each interval, so that a znode that swells and
    shrinks with every move does not count as growing. Null if it does not grow, or the log is too short to say.
    """
    rows = sized.sort_by([("path", "ascending"), ("at", "ascending")]).to_pylist()
    found = [_grown([*seen], limit_bytes) for _, seen in groupby(rows, key=itemgetter("path"))]
    return pa.Table.from_pylist(sorted(found, key=lambda row: (-row["share"], row["path"])), schema=GROWTH)


def _grown(seen: list[dict[str, Any]], limit_bytes: int) -> dict[str, Any]:
    first, last = seen[0], seen[-1]
    largest = max(row["size_bytes"] for row in seen)
    a_day = _bytes_a_day([(row["at"].timestamp() * 1000, row["last_bytes"]) for row in seen])
    days = (limit_bytes - last["last_bytes"]) / a_day if a_day is not None and a_day > 0 else -1
    return {
        "path": first["path"], "first_at": first["at"], "last_at": last["at"],
        "first_bytes": first["last_bytes"], "last_bytes": last["last_bytes"], "largest_bytes": largest,
        "limit_bytes": limit_bytes, "share": round(largest / limit_bytes, 6),
        "writes": sum(row["writes"] for row in seen), "bytes_a_day": a_day,
        "full_at": last["at"] + timedelta(milliseconds=int(days * _DAY_MS)) if 0 <= days < _MOST_DAYS else None,
    }  # fmt: skip


def _bytes_a_day(points: list[tuple[float, int]]) -> float | None:
    """The slope of the straight line nearest to the points (time in ms, size); None if they lie too close together."""
    if points[-1][0] - points[0][0] < _LEAST_MS:
        return None
    at, size = (sum(values) / len(points) for values in zip(*points, strict=True))
    slope = sum((x - at) * (y - size) for x, y in points) / sum((x - at) ** 2 for x, _ in points)
    return round(float(slope * _DAY_MS), 1)


def _share(sizes: Any, limit_bytes: int) -> Any:
    return pc.round(pc.divide(sizes.cast(pa.float64()), limit_bytes), 6)
