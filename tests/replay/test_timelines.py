"""One definition of under-replicated, Kafka's own, in every table, chart and sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrics.replay.commands.as_of import cluster_at
from metrics.replay.commands.jobs import Job, run
from metrics.replay.engine.engines import Local
from metrics.replay.engine.reduction import together
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import survey
from metrics.replay.tables.health import health_steps
from tests.replay.any_files import rows_of, tables_of
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

# replicas, adding, removing, ISR, and whether Kafka calls that under-replicated
CASES = [
    ([1, 2, 3], [], [], [1, 2, 3], False),
    ([1, 2, 3], [], [], [1, 3], True),
    ([3, 4, 1, 2], [3, 4], [1, 2], [1, 2], False),  # nothing has caught up yet, and nothing is lacking
    ([3, 4, 1, 2], [3, 4], [1, 2], [1, 3], False),
    ([3, 4, 1, 2], [3, 4], [1, 2], [1], True),
    ([1, 2, 3], [3], [], [1, 2], False),  # more replicas are requested
    ([1, 2, 3], [], [3], [1, 2], True),  # fewer are, but they still count
]  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Each case as a separate partition, for a second."""
    made: list[tuple[str, bytes]] = [("/brokers", b""), ("/brokers/topics", b"")]
    for number, (replicas, adding, removing, isr, _) in enumerate(CASES):
        data = b'{"version":2,"partitions":{"0":%s},"adding_replicas":{"0":%s},"removing_replicas":{"0":%s}}' % tuple(
            str(ids).replace(" ", "").encode() for ids in (replicas, adding, removing)
        )
        state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":%s}' % str(isr).encode()
        path = f"/brokers/topics/t{number}"
        made += [(path, data), (f"{path}/partitions", b""), (f"{path}/partitions/0", b"")]
        made.append((f"{path}/partitions/0/state", state))
    bodies = [zk.header(z, ops.CREATE, time_ms=1000) + zk.create(path, data) for z, (path, data) in enumerate(made, 1)]
    (tmp_path / "log.1").write_bytes(zk.log(*bodies))
    return tmp_path


def test_the_table_says_how_many_are_to_be_in_sync(log: Path) -> None:
    rows = [row for row in tables_of([log], 1 << 30)["partitions"] if row["what"] == "state"]

    found = {row["topic"]: len(row["isr"]) < row["replication_factor"] for row in rows}
    assert found == {f"t{n}": case[-1] for n, case in enumerate(CASES)}


def test_the_state_at_a_time_counts_them_alike(log: Path) -> None:
    state = cluster_at(survey(stored_files([str(log)])), [])

    assert {at.topic for at in state.under_replicated} == {f"t{n}" for n, case in enumerate(CASES) if case[-1]}


def test_tables_and_charts_count_them_alike(log: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    run(Local(), Job((str(log),), out, until_ms=2000))

    topics = {row["topic"]: row["under_replicated_ms"] > 0 for row in rows_of(out, "topic_health")}
    brokers = sum(row["under_replicated_ms"] for row in rows_of(out, "broker_health"))
    steps = together(Local(), out, {"health": health_steps()})["health"].to_pylist()
    under = sum(row["under_replicated"] for row in steps)

    wanted = {f"t{n}": case[-1] for n, case in enumerate(CASES)}
    assert topics == wanted
    assert brokers == 1000 * sum(len(case[0]) for case in CASES if case[-1])
    assert under == sum(wanted.values())
