"""A standalone cluster of Spark's with two workers, from relative paths, with an attempt at a task made twice."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

from metrics.replay.commands.jobs import ALL, Job, run
from metrics.replay.engine.engines import Local
from tests.replay.any_files import differing, in_order, rows_of
from tests.replay.conftest import CAPTURED

PROJECT = Path(__file__).parents[2]
JARS = Path(pyspark.__file__).parent / "jars"
DEPLOY = "org.apache.spark.deploy"

pytestmark = [
    pytest.mark.timeout(600, func_only=False),
    pytest.mark.skipif(
        not (os.environ.get("JAVA_HOME") or shutil.which("java")),
        reason="Spark needs a Java that is installed: the bundled one lacks the module jdk.incubator.vector",
    ),
]


def started(home: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start one of Spark's own servers, with its output in a file."""
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if os.environ.get("JAVA_HOME") else "java"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(JARS.parent),
        "SPARK_SCALA_VERSION": "2.13",
    }
    opened = [f"--add-opens=java.base/{p}=ALL-UNNAMED" for p in ("java.lang", "java.nio", "sun.nio.ch", "java.util")]
    home.mkdir(exist_ok=True)
    with (home / "said").open("wb") as said:
        return subprocess.Popen(
            [str(java), "-Xmx256m", *opened, "-cp", f"{JARS}/*", f"{DEPLOY}.{name}", *arguments],
            cwd=home, env=environment, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
        )  # fmt: skip


def heard(home: Path, pattern: str) -> str:
    for _ in range(600):
        found = re.search(pattern, (home / "said").read_text())
        if found is not None:
            return found[0]
        time.sleep(0.1)
    raise TimeoutError(f"{pattern} is not in {(home / 'said').read_text()[-2000:]}")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster of two workers with one core each."""
    home = tmp_path_factory.mktemp("spark")
    running = [started(home / "master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")]
    try:
        url = heard(home / "master", r"spark://127\.0\.0\.1:\d+")
        for number in (1, 2):
            own = home / f"worker-{number}"
            arguments = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0")
            running.append(started(own, "worker.Worker", *arguments, "--work-dir", str(own), url))
        for number in (1, 2):
            heard(home / f"worker-{number}", "Successfully registered with master")
        yield url
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of ten megabytes."""
    home = tmp_path_factory.mktemp("logs")
    content = gzip.decompress(next(CAPTURED.glob("*.log.1.gz")).read_bytes())
    (home / "data").mkdir()
    (home / "data" / "log.1").write_bytes(content)
    return home


Replay = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def replay(master: str, logs: Path) -> Replay:
    """Run the command in the directory above the logs."""

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "controller", "replay", *arguments, "--master", master]
        memory = ("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1")
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), "SPARK_LOCAL_IP": "127.0.0.1"}
        return subprocess.run(
            [*program, *memory], cwd=logs, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    return command


def test_two_workers_write_the_tables_that_one_process_writes(replay: Replay, logs: Path) -> None:
    """A task that runs longer than others is started twice, and each writes the same."""
    speculation = ("speculation=true", "speculation.quantile=0.1", "speculation.multiplier=1.01")
    settings = [part for one in (*speculation, "speculation.minTaskRuntime=1ms") for part in ("--conf", f"spark.{one}")]

    shown = replay("data", "--out", "out", *settings)
    run(Local(), Job((str(logs / "data"),), str(logs / "here")))

    assert shown.returncode == 0, shown.stderr
    assert "2,000 moves" in shown.stdout
    for table in ALL:
        here, there = (in_order(rows_of(str(logs / at), table)) for at in ("here", "out"))
        assert not differing({table: here}, {table: there})
    assert not [path for path in (logs / "out").rglob("*") if path.name.startswith(".")]
    assert (logs / "out" / "report.html").exists()


def test_a_place_that_workers_do_not_see_is_refused(logs: Path, master: str) -> None:
    """A file that only the driver can open stands for a disk that the workers do not have."""
    program = f"""
from metrics.replay.engine import engines
from metrics.replay.engine.engines import OnSpark
from metrics.replay.spark import session
spark = session.context({master!r}, {{"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}})
engine = OnSpark(spark)
engine.check_reach([{str(logs / "data" / "log.1")!r}])
engines.size_of = lambda path: 1
try:
    engine.check_reach(["/nowhere/log.1"])
finally:
    spark.stop()
"""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "SPARK_LOCAL_IP": "127.0.0.1"}
    shown = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300, check=False
    )

    assert re.search(r"NotShared: Spark's worker on \S+ .* does not see /nowhere/log\.1 as it is here", shown.stderr)
