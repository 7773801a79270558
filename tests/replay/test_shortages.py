"""Shortages add up to the sums of health."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from metrics.replay.commands.jobs import Job, run
from metrics.replay.engine.engines import Local
from tests.replay.any_files import rows_of
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

NATIVE = Path(__file__).parents[1] / "fixtures" / "native"
CHROOTS = {"2.4.1": "", "2.8.2": "/kafka"}
STATE = "/brokers/topics/t/partitions/0/state"


def state(leader: int, *isr: int) -> bytes:
    ids = ",".join(map(str, isr))
    return b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":1,"isr":[%s]}' % (leader, ids.encode())


def spans(out: str) -> dict[str, list[tuple[Any, ...]]]:
    found = defaultdict(list)
    for row in rows_of(out, "shortages"):
        ended = None if row["ended_at"] is None else row["ended_at"].timestamp()
        found[row["kind"]].append((row["started_at"].timestamp(), ended, row["duration_ms"]))
    return found


@pytest.mark.parametrize("split_bytes", [1, 1 << 30])
def test_writes_that_leave_it_lacking_do_not_break_a_span(tmp_path: Path, split_bytes: int) -> None:
    def changed(data: bytes) -> tuple[int, bytes]:
        return ops.SET_DATA, zk.set_data(STATE, data, 1)

    placed = b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{}}'
    written = [
        (ops.CREATE, zk.create("/brokers/topics/t", placed)),
        (ops.CREATE, zk.create(STATE, state(1, 1, 2))),
        changed(state(1, 1)), changed(state(-1, 1)), changed(state(1, 1)), changed(state(1, 1, 2)),
        (ops.SET_DATA, zk.set_data("/config/topics/t", b'{"version":1,"config":{"min.insync.replicas":"2"}}', 1)),
        changed(state(2, 2)),
        (ops.SET_DATA, zk.set_data("/config/topics/t", b'{"version":1,"config":{"min.insync.replicas":"1"}}', 2)),
        (ops.SET_DATA, zk.set_data("/other", b"", 1)),
    ]  # fmt: skip
    bodies = [zk.header(zxid, op, time_ms=1000 * zxid) + body for zxid, (op, body) in enumerate(written, 1)]
    (tmp_path / "log.1").write_bytes(zk.log(*bodies))
    out = str(tmp_path / "out")

    run(Local(), Job((str(tmp_path / "log.1"),), out, split_bytes=split_bytes))

    assert spans(out) == {
        "under-replicated": [(3, 6, 3000), (8, None, 2000)],
        "leaderless": [(4, 5, 1000)],
        "under min ISR": [(8, 9, 1000)],
    }


@pytest.mark.parametrize("version", CHROOTS)
def test_they_add_up_to_the_sums(tmp_path: Path, version: str) -> None:
    out = str(tmp_path / "out")
    run(Local(), Job((str(NATIVE / f"kafka-{version}"),), out, CHROOTS[version]))

    sums: dict[str, int] = defaultdict(int)
    for row in rows_of(out, "shortages"):
        sums[row["kind"]] += row["duration_ms"]
    topics = rows_of(out, "topic_health")
    for kind, column in (
        ("under-replicated", "under_replicated_ms"), ("under min ISR", "under_min_isr_ms"),
        ("leaderless", "leaderless_ms"),
    ):  # fmt: skip
        assert sums[kind] == sum(row[column] for row in topics), kind
    lives = rows_of(out, "brokers")
    gone = [life for life in lives if life["ended_at"] is not None]
    assert len([row for row in rows_of(out, "shortages") if row["kind"] == "offline broker"]) == len(gone) > 0
