"""How is one history written as files of any kind: cut anywhere, copied to several servers, damaged?"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from struct import unpack_from
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.dataset as ds  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.audit import audit_table
from metrics.replay.audit.ledger import Run, unbroken
from metrics.replay.engine import bulk
from metrics.replay.events.edges import joined
from metrics.replay.events.splits import plan
from metrics.replay.files.indexing import DEFAULT_RANGE_BYTES
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import survey
from metrics.replay.partitions import lives, reassignments, requested
from metrics.replay.tables import histories, min_isr, requests
from tests.unit.storage import zk_files as zk

Rows = list[dict[str, Any]]
Tables = dict[str, Rows]


def records_of(path: Path) -> list[bytes]:
    """The records of an intact log, each with its checksum and its end."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found, at = [], len(zk.LOG_HEADER)
    while at + 12 < len(content) and (length := unpack_from(">Qi", content, at)[1]):
        found.append(content[at : at + 12 + length + 1])
        at += 12 + length + 1
    return found


def zxid_of(record: bytes) -> int:
    zxid: int = unpack_from(">q", record, 24)[0]
    return zxid


def write_log(directory: Path, records: Sequence[bytes], *, damaged: bytes | None = None, suffix: str = "") -> Path:
    """A log of these records under the name that ZooKeeper would give it."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"log.{zxid_of(records[0]):x}{suffix}"
    content = zk.LOG_HEADER + b"".join(records) + bytes(64) if damaged is None else damaged
    path.write_bytes(gzip.compress(content, 1) if suffix == ".gz" else content)
    return path


class InMemory(bulk.Tables):
    """The tables of a small history, without files."""

    def __init__(self) -> None:
        self._held: dict[str, list[pa.Table]] = {}

    def write(self, table: str, rows: pa.Table) -> None:
        """Add rows to a table."""
        self._held.setdefault(table, []).append(rows)

    def close(self) -> bulk.Attempt:
        """Keep the rows."""
        return ()

    def read(self, table: str) -> Any:
        """Read a table, like `written` from files."""
        empty = [bulk.SCHEMAS[table].empty_table()] if table in bulk.SCHEMAS else []
        return ds.dataset(pa.concat_tables([*empty, *self._held.get(table, ())]))

    def join_edges(self) -> None:
        """Join rows that span two splits."""
        self.write("partitions", joined(self.read("edges").to_table()))


def tables_of(
    paths: Iterable[Path], split_bytes: int, chroot: str = "", range_bytes: int = DEFAULT_RANGE_BYTES
) -> Tables:
    """Every table, computed without Spark."""
    history = survey(stored_files(map(str, paths)), split_bytes, range_bytes=range_bytes)
    planned = plan(history, split_bytes, chroot)
    held = InMemory()
    held.write_damage([*history.damage, *planned.damage])
    for split in planned.splits:
        bulk.carry_out(split, held, chroot, planned.last_writes)
    held.join_edges()
    events = held.read("events").to_table()
    seen = lives.in_order(events)
    found = {
        "events": events,
        "partitions": held.read("partitions").to_table(),
        "damage": held.read("damage").to_table(),
        "brokers": lives.brokers(seen),
        "controllers": lives.controllers(seen),
        "sessions": lives.sessions(seen),
        "min_isr": min_isr.as_table(min_isr.settings(r for r in events.to_pylist() if r["kind"] == "config")),
    }
    for name, schema in ((histories.MOVES, reassignments.SCHEMA), (histories.AUDIT, audit_table.SCHEMA)):
        wanted = histories.Wanted((name,), histories.Window(2**60), histories.terms_of(held.read("events")))
        judged = InMemory()
        judged.write(name, schema.empty_table())
        rows = [histories.history_of(table, held.read(table)) for table in ("events", "partitions")]
        histories.judge(rows, wanted, judged)
        found[name] = judged.read(name).to_table()
    found |= _of_requests(held, unbroken(history.pieces, planned.beginning), found[histories.AUDIT])
    return {name: in_order(table.to_pylist()) for name, table in found.items()}


def _of_requests(held: InMemory, runs: Sequence[Run], audit: pa.Table) -> dict[str, pa.Table]:
    """The tables of requests, and the audit's with what it finds about them."""
    tables, window = (requests.MOVES, requests.AUDIT), requests.Window(2**60)
    ledger, events = held.read("ledger").to_table(), held.read("events")
    assignments = events.to_table(filter=ds.field("kind") == "assignment").select(["topic", "partition"])
    asked = requests.asked_of(ledger, events, runs, window, tables, assignments)
    judged = InMemory()
    judged.write(requests.MOVES, requested.SCHEMA.empty_table())
    judged.write(requests.AUDIT, audit)
    every = pa.concat_tables([requests.wide(table, held.read(table)) for table in ("events", "partitions", "ledger")])
    requests.judge(every, asked, judged)
    return {
        requests.REQUESTS: requests.requests(ledger, asked.terms, window),
        **{table: judged.read(table).to_table() for table in tables},
    }


def rows_of(out: str, name: str) -> Rows:
    """The rows of a written table."""
    return list(bulk.written(out, name).to_table().to_pylist())


def happenings(out: str) -> Rows:
    """All events: the table `events`, and the states in `partitions`."""
    states = (row for row in rows_of(out, "partitions") if row["what"] == "state")
    return [*rows_of(out, "events"), *({**row, "kind": "state", "time": row["started_at"]} for row in states)]


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def differing(a: Tables, b: Tables) -> list[str]:
    """Rows that are only in one of the two, a few of each table."""
    found = []
    for name in a:
        if a[name] != b[name]:
            only_a = [row for row in a[name] if row not in b[name]]
            only_b = [row for row in b[name] if row not in a[name]]
            found += [f"{name}: {len(only_a)} and {len(only_b)} differ", *(f"  - {r}" for r in only_a[:3])]
            found += [f"  + {r}" for r in only_b[:3]]
    return found


def cut_into_logs(records: Sequence[bytes], chosen: Random, most: int = 5) -> list[Sequence[bytes]]:
    places = sorted({0, *(chosen.randrange(len(records)) for _ in range(chosen.randrange(most)))})
    return [records[a:b] for a, b in zip(places, [*places[1:], len(records)], strict=True)]


def overlapping(parts: Sequence[Sequence[bytes]], whole: Sequence[bytes], chosen: Random) -> list[Sequence[bytes]]:
    """Some logs reach into the next one, like those of a server that was cut back."""
    out, at = [], 0
    for part in parts:
        more = chosen.choice((0, 0, chosen.randrange(20)))
        out.append(whole[at : at + len(part) + more])
        at += len(part)
    return out


def spoilt(content: bytes, chosen: Random) -> bytes:
    """Flip a byte, drop bytes, write zeros, or cut the end off."""
    spoiled = bytearray(content)
    at = chosen.randrange(len(content))
    match chosen.randrange(4):
        case 0:
            spoiled[at] ^= 1 << chosen.randrange(8)
        case 1:
            del spoiled[at : at + chosen.randrange(1, 300)]
        case 2:
            hole = chosen.randrange(1, 300)
            spoiled[at : at + hole] = bytes(len(spoiled[at : at + hole]))
        case _:
            del spoiled[max(at, 17) :]
    return bytes(spoiled)


def as_log(records: Sequence[bytes]) -> bytes:
    return zk.LOG_HEADER + b"".join(records) + bytes(64)
