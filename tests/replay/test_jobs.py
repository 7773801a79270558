"""The whole replay of a captured log: 2,000 moves by Kafka's own controller."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from metrics.replay.jobs import ALL, Job, Result, all_events, named, read_table, run
from metrics.replay.reassignments import reassignments
from metrics.replay.report import Summary, write_report
from metrics.replay.schemas import PARTITIONS
from tests.replay.conftest import CAPTURED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.timeout(600, func_only=False),
]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replayed")


@pytest.fixture(scope="module")
def result(spark: SparkSession, out: Path) -> Result:
    return run(spark, Job((str(CAPTURED),), str(out)))


@pytest.fixture(scope="module")
def summary(spark: SparkSession, out: Path, result: Result) -> Summary:
    return write_report(spark, Job((str(CAPTURED),), str(out)), result)


def table(spark: SparkSession, result: Result, name: str) -> DataFrame:
    return read_table(spark, result.tables, name)


def test_every_table_is_written(spark: SparkSession, result: Result) -> None:
    assert set(result.tables) == set(ALL)


def test_all_two_thousand_moves_are_found_each_with_its_stages(spark: SparkSession, result: Result) -> None:
    moves = table(spark, result, "reassignments")

    assert moves.select("topic", "partition").distinct().count() == moves.count() == 2000
    whole = moves.where(
        "outcome = 'finished' and origin = 'api' and not is_stalled and topic_writes = 2 and state_writes = 6"
        " and catching_up_ms > 0 and handing_over_ms > 0"
        " and catching_up_ms + handing_over_ms + letting_go_ms = duration_ms"
        " and in_sync_at between started_at and ended_at and size(isr_milestones) = 6"
        " and array_except(to_replicas, element_at(isr_milestones, -1).isr) = array()"
    )
    assert whole.count() == 2000


def test_the_audit_explains_every_write(spark: SparkSession, result: Result) -> None:
    audit = table(spark, result, "audit")
    writes = all_events(spark, result.tables).where("kind not in ('topic')").count()

    counts = {(r.verdict, r.rule): r["count"] for r in audit.groupBy("verdict", "rule").count().collect()}

    assert audit.count() == writes
    assert {verdict for verdict, _ in counts} == {"explained", "kafka's own way"}
    assert counts["kafka's own way", "reassignment"] == 6000
    assert audit.where("verdict = 'kafka''s own way' and ours is null").count() == 0


def test_the_timeline_of_a_partition_has_no_holes(spark: SparkSession, result: Result) -> None:
    timeline = table(spark, result, "partitions").where("topic = 'bench-00007' and partition = 3")
    rows = timeline.orderBy("zxid", "part").collect()

    assert len(rows) == 10
    assert all(a.ended_at == b.started_at for a, b in pairwise(rows))
    assert rows[-1].ended_at is None
    assert set(rows[-1].isr) == set(rows[-1].replicas)


def test_the_moves_are_those_that_spark_finds_in_the_table_of_events(spark: SparkSession, result: Result) -> None:
    events = spark.read.format("zookeeper").option("table", "events").load(str(CAPTURED))
    found, written = reassignments(events), table(spark, result, "reassignments")

    assert found.exceptAll(written).count() == written.exceptAll(found).count() == 0


def test_it_does_not_matter_where_a_log_is_cut(spark: SparkSession, tmp_path: Path, result: Result) -> None:
    log = next(CAPTURED.glob("*.log.1.gz"))
    (tmp_path / "log.1").write_bytes(gzip.decompress(log.read_bytes()).rstrip(b"\0"))
    columns = [c for c in PARTITIONS.names if c not in ("size_bytes", "fence", "session")]

    cut = run(spark, Job((str(tmp_path),), str(tmp_path / "out"), split_bytes=500_000, tables=("reassignments",)))

    assert len(list((tmp_path / "out" / "partitions").glob("*.parquet"))) > 10
    for name, keys in (("partitions", columns), ("reassignments", ["*"])):
        whole, parts = table(spark, result, name).select(keys), table(spark, cut, name).select(keys)
        assert whole.exceptAll(parts).count() == parts.exceptAll(whole).count() == 0


def test_the_brokers_load_adds_up(spark: SparkSession, result: Result) -> None:
    last = table(spark, result, "broker_load").groupBy("broker").agg({"at": "max"}).withColumnRenamed("max(at)", "at")
    rows = table(spark, result, "broker_load").join(last, ["broker", "at"]).collect()

    assert sum(row.leaders for row in rows) == 2000
    assert sum(row.replicas for row in rows) == 6000


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
from metrics.replay.sources import stored_files
from metrics.replay.state import read_log, state_at, survey
from metrics.replay.zookeeper_source import ZooKeeperReader
from metrics.replay.live_directory import LiveDirectoryReader
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
