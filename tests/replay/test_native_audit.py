"""Real brokers' logs leave nothing unexplained; killed brokers are distinguished from stopped ones."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from metrics.replay.audit.audit import findings
from metrics.replay.partitions.moves import Happened
from metrics.replay.partitions.sightings import COLUMNS, KINDS, sightings_of
from metrics.replay.partitions.terms import Terms
from tests.replay.any_files import Rows, Tables, tables_of

FIXTURES = Path(__file__).parents[1] / "fixtures" / "native"


@pytest.fixture(scope="module", params=[("2.4.1", ""), ("2.8.2", "/kafka")], ids=["2.4.1", "2.8.2"])
def tables(request: pytest.FixtureRequest) -> Tables:
    version, chroot = request.param
    return tables_of([FIXTURES / f"kafka-{version}"], 1 << 30, chroot)


def happened(row: dict[str, Any]) -> Happened:
    lists = ("isr", "replicas", "adding", "removing")
    values = {name: tuple(v) if name in lists and (v := row.get(name)) is not None else row.get(name) for name in row}
    known = {name: values.get(name) for name in Happened._fields}
    return Happened(**{**known, "time_ms": round(row["time"].timestamp() * 1000)})


def of_partitions(tables: Tables) -> Rows:
    states = [
        {**row, "kind": "state", "time": row["started_at"], "replicas": None, "adding": None, "removing": None}
        for row in tables["partitions"]
        if row["what"] == "state"
    ]
    others = [row for row in tables["events"] if row["kind"] in ("state", "assignment", "legacy_move")]
    rows = [row for row in (*states, *others) if row["topic"] is not None and row["partition"] is not None]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["zxid"], row["part"]))


def test_every_write_of_a_partition_is_explained(tables: Tables) -> None:
    seen = [{name: row[name] for name in COLUMNS} for row in tables["events"] if row["kind"] in KINDS]
    terms = Terms(sightings_of(seen))
    found = [
        finding
        for (topic, partition), rows in groupby(of_partitions(tables), key=lambda row: (row["topic"], row["partition"]))
        for finding in findings(topic, partition, [happened(row) for row in rows], terms)
    ]

    assert [f for f in found if f.verdict in ("listed", "violation")] == []
    assert sum(f.rule == "shutdown" for f in found) >= 2
    assert len(found) > 100


def test_a_broker_that_was_stopped_ends_otherwise_than_those_that_were_killed(tables: Tables) -> None:
    lives = sorted((row for row in tables["brokers"] if row["ended_by"]), key=lambda row: row["ended_zxid"])

    assert [row["ended_by"] for row in lives] == ["expire", "expire", "close", "expire", "expire"]
