"""Which brokers registered and which controllers led, from the table `events`: few rows, so each task gets all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from metrics.replay.events.kafka_events import GONE
from metrics.replay.partitions.terms import Sighting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = ("broker", "controller", "controller_epoch", "deletion", "legacy", "session")
COLUMNS = ("zxid", "part", "time", "kind", "op", "broker", "session", "controller_epoch", "version", "topic",
           "host")  # fmt: skip


def sightings(events: DataFrame) -> list[Sighting]:
    """Every change of brokers, claim, epoch, deletion requests and the legacy znode."""
    from pyspark.sql import functions as f

    return sightings_of(events.where(f.col("kind").isin(*KINDS)).select(*COLUMNS).toArrow().to_pylist())


def sightings_of(rows: Iterable[dict[str, Any]]) -> list[Sighting]:
    """The same, from rows read without Spark."""
    return [
        Sighting(
            r["zxid"], r["kind"], r["op"] not in GONE, r["broker"], r["session"],
            r["controller_epoch"] or 0, r["version"] or 0, r["topic"], round(r["time"].timestamp() * 1000), r["op"],
            r["host"],
        )
        for r in with_ends(sorted(rows, key=lambda r: (r["zxid"], r["part"])))
        if r["op"] != "acl"
    ]  # fmt: skip


def with_ends(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Replace ends of sessions by the ends of their znodes, which servers before 3.6 do not list."""
    owned: dict[tuple[str, int | None], dict[str, Any]] = {}
    for row in rows:
        key = (row["kind"], row["broker"] if row["kind"] == "broker" else None)
        if row["kind"] == "session":
            if row["op"] in GONE:
                for gone in [at for at, owner in owned.items() if owner["session"] == row["session"]]:
                    yield {
                        **owned.pop(gone),
                        "zxid": row["zxid"],
                        "part": row["part"],
                        "time": row["time"],
                        "op": row["op"],
                    }
            continue
        if row["kind"] in ("broker", "controller"):
            if row["op"] in ("create", "known"):
                owned[key] = row
            elif row["op"] in GONE and owned.pop(key, None) is None and row["op"] != "delete":
                continue  # the end of its session showed it already
        yield row
