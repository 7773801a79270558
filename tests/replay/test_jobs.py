"""The whole replay of a captured log: 2,000 moves by Kafka's own controller."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from metrics.replay.commands.jobs import ALL, Job, Result, look, named, run
from metrics.replay.commands.report import Summary, report_data, write_report
from metrics.replay.engine.engines import Local, OnSpark
from metrics.replay.engine.tasks import Engine
from metrics.replay.partitions.reassignments import reassignments
from metrics.replay.spark.timelines import all_events, read_table
from tests.replay.any_files import Rows, Tables, differing, happenings, in_order, rows_of
from tests.replay.conftest import CAPTURED
from tests.replay.test_any_files import CHROOTS, damaged_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.timeout(600, func_only=False),
]

# Of Spark, for all tables and the report: it was 97, and 24 while each sum was a job.
MOST_JOBS = 9


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replayed")


@pytest.fixture(scope="module")
def result(out: Path) -> Result:
    return run(Local(), Job((str(CAPTURED),), str(out)))


@pytest.fixture(scope="module")
def summary(out: Path, result: Result) -> Summary:
    return write_report(Local(), Job((str(CAPTURED),), str(out)), result)


@pytest.fixture
def rows(out: Path, result: Result) -> Callable[[str], Rows]:
    return partial(rows_of, str(out))


def test_every_table_is_written(result: Result) -> None:
    assert set(result.tables) == set(ALL)


def test_all_two_thousand_moves_are_found_each_with_its_stages(rows: Callable[[str], Rows]) -> None:
    moves = rows("reassignments")

    assert len({(m["topic"], m["partition"]) for m in moves}) == len(moves) == 2000
    for m in moves:
        assert (m["outcome"], m["origin"], m["is_stalled"]) == ("finished", "api", False)
        assert (m["topic_writes"], m["state_writes"], len(m["isr_milestones"])) == (2, 6, 6)
        assert m["catching_up_ms"] > 0
        assert m["handing_over_ms"] > 0
        assert m["catching_up_ms"] + m["handing_over_ms"] + m["letting_go_ms"] == m["duration_ms"]
        assert m["started_at"] <= m["in_sync_at"] <= m["ended_at"]
        assert {*m["to_replicas"]} <= {*m["isr_milestones"][-1]["isr"]}


def test_the_audit_explains_every_write(rows: Callable[[str], Rows], out: Path) -> None:
    audit = rows("audit")
    counts = Counter((row["verdict"], row["rule"]) for row in audit)

    assert len(audit) == sum(event["kind"] != "topic" for event in happenings(str(out)))
    assert {verdict for verdict, _ in counts} == {"explained", "kafka's own way"}
    assert counts["kafka's own way", "reassignment"] == 6000
    assert [row for row in audit if row["verdict"] == "kafka's own way" and row["ours"] is None] == []


def test_the_timeline_of_a_partition_has_no_holes(rows: Callable[[str], Rows]) -> None:
    ours = [row for row in rows("partitions") if (row["topic"], row["partition"]) == ("bench-00007", 3)]
    timeline = sorted(ours, key=itemgetter("zxid", "part"))

    assert len(timeline) == 10
    assert all(a["ended_at"] == b["started_at"] for a, b in pairwise(timeline))
    assert timeline[-1]["ended_at"] is None
    assert {*timeline[-1]["isr"]} == {*timeline[-1]["replicas"]}


def test_the_brokers_load_adds_up(rows: Callable[[str], Rows]) -> None:
    last = {row["broker"]: row for row in sorted(rows("broker_load"), key=itemgetter("at"))}

    assert sum(row["leaders"] for row in last.values()) == 2000
    assert sum(row["replicas"] for row in last.values()) == 6000


def jobs_of(spark: SparkSession) -> list[int]:
    return list(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def everything(engine: Engine, job: Job) -> Tables:
    """All tables, and the report's data."""
    result = run(engine, job)
    tables = {name: in_order(rows_of(job.out, name)) for name in result.tables}
    return {**tables, "report": [{**report_data(engine, job.out, result), "seconds": None}]}


def in_the_middle(job: Job) -> Job:
    """The same for the middle third of the time."""
    times = [split.times_ms for split in look(job, 1).splits if split.pieces]
    first, last = min(times)[0], max(times)[1]
    third = (last - first) // 3
    return structs.replace(job, since_ms=first + third, until_ms=last - third, out=f"{job.out}-middle")


def test_all_engines_give_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """From cut, copied and damaged files, for the whole time and a part of it, read in several splits."""
    chosen = Random(1)
    (tmp_path / "files").mkdir()
    version = damaged_files(tmp_path / "files", chosen)
    job = Job((str(tmp_path / "files"),), f"{tmp_path}/local", CHROOTS[version], split_bytes=10_000)

    with closing(Local(2)) as processes:
        for asked in (job, in_the_middle(job)):
            here = everything(Local(), asked)
            assert not differing(here, everything(OnSpark(spark), structs.replace(asked, out=f"{asked.out}-spark")))
            assert not differing(here, everything(processes, structs.replace(asked, out=f"{asked.out}-processes")))


def test_both_engines_give_the_same_of_two_thousand_moves(
    spark: SparkSession, tmp_path: Path, out: Path, result: Result
) -> None:
    log = next(CAPTURED.glob("*.log.1.gz"))
    (tmp_path / "log.1").write_bytes(gzip.decompress(log.read_bytes()).rstrip(b"\0"))

    before = len(jobs_of(spark))
    cut = everything(OnSpark(spark), Job((str(tmp_path),), str(tmp_path / "out"), split_bytes=500_000))

    assert len(jobs_of(spark)) - before <= MOST_JOBS
    assert len(list((tmp_path / "out" / "partitions").glob("*.parquet"))) > 10
    whole = {name: in_order(rows_of(str(out), name)) for name in result.tables}
    assert not differing(whole, {name: cut[name] for name in whole})


def test_the_moves_are_those_that_spark_finds_in_the_table_of_events(spark: SparkSession, result: Result) -> None:
    events = spark.read.format("zookeeper").option("table", "events").load(str(CAPTURED))
    found, written = reassignments(events), read_table(spark, result.tables, "reassignments")

    assert found.exceptAll(written).count() == written.exceptAll(found).count() == 0


def test_events_and_the_states_among_partitions_are_one_table(spark: SparkSession, result: Result) -> None:
    events = read_table(spark, result.tables, "events")
    states = read_table(spark, result.tables, "partitions").where("what = 'state'")

    together = all_events(spark, result.tables)

    assert together.columns == events.columns
    assert together.count() == events.count() + states.count()
    assert together.where("kind = 'state' and leader is not null").count() == states.count() > 0


def test_the_report_is_one_file_that_asks_nothing_of_the_network(out: Path, summary: Summary) -> None:
    html = (out / "report.html").read_text()

    assert summary.sentence in html
    assert summary.sentence.startswith("2,000 moves, the slowest, bench-00048-12, took 25 s; 0 fail-overs;")
    assert not re.search(r"""(src|href)\s*=|url\(|https?://|fetch\(|import\s""", html)


def test_the_names_of_tables_are_checked() -> None:
    assert named(["audit"]) == ("audit",)
    with pytest.raises(ValueError, match="there is no table audits"):
        named(["audits"])


def test_nothing_is_opened_for_writing_while_a_directory_is_read() -> None:
    script = f"""
import os, sys
opened = []
def watch(event, arguments):
    if not arguments or not str(arguments[0]).startswith({str(CAPTURED)!r}):
        return
    if event == "open":
        opened.append(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))
    elif event.startswith(("os.rename", "os.remove", "os.truncate", "os.unlink", "os.chmod")):
        opened.append(-1)
sys.addaudithook(watch)
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import state_at, survey
from metrics.replay.spark.zookeeper_source import ZooKeeperReader
from metrics.replay.spark.live_directory import LiveDirectoryReader
history = survey(stored_files([{str(CAPTURED)!r}]))
state_at(history, [])
for table in ("transactions", "znodes", "events", "damage"):
    reader = ZooKeeperReader({{"path": {str(CAPTURED)!r}}}, table)
    for partition in reader.partitions():
        list(reader.read(partition))
live = LiveDirectoryReader({{"path": {str(CAPTURED)!r}}}, "events")
live.partitions(live.initialOffset(), live.latestOffset(live.initialOffset(), None))
print(len(opened), sum(map(bool, opened)))
"""
    run_it = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    opened, for_writing = map(int, run_it.stdout.split())

    assert opened > 8
    assert for_writing == 0
