"""Which Spark session runs the jobs? A local one that knows the format "zookeeper", or the cluster's."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PROJECT = Path(__file__).resolve().parents[2]

HERE = "local[*]"  # the master that uses all cores of this machine
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


# Java only hands out tasks here, so optimized machine code costs more than it gains: half of a replay's processor time.
_BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def start(master: str = HERE, settings: dict[str, str] | None = None, *, is_brief: bool = False) -> SparkSession:
    """A session with the data source registered; any master but a local one keeps its own addresses.

    `is_brief` is for little SQL.
    """
    return of(context(master, settings, is_brief=is_brief))


def context(master: str = HERE, settings: dict[str, str] | None = None, *, is_brief: bool = True) -> SparkContext:
    """Spark without SQL, which starts in half the time; without `is_brief` for a session that uses SQL later."""
    from pyspark import SparkConf, SparkContext

    # Spark's workers are separate processes and must find this package as well.
    known = os.environ.get("PYTHONPATH", "")
    if str(_PROJECT) not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_PROJECT), known)))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # A busy machine may need longer than the 15 s that Spark's processes wait for each other.
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "120")
    # The launcher is a separate Java that only composes a command line.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _BRIEF)
    chosen = dict(_SETTINGS)
    if master.startswith("local"):
        cores = os.cpu_count() or 1
        chosen["spark.sql.shuffle.partitions"] = str(2 * cores)
    else:
        chosen = {k: v for k, v in chosen.items() if not k.startswith("spark.driver.")}
        if (_PROJECT / "pyproject.toml").exists():  # a checkout, which workers may share
            chosen["spark.executorEnv.PYTHONPATH"] = str(_PROJECT)
    if is_brief:
        chosen["spark.driver.extraJavaOptions"] = _BRIEF
    conf = SparkConf().setMaster(master).setAppName("kafka-zk-controller replay")
    conf.setAll([*{**chosen, **(settings or {})}.items()])
    return SparkContext.getOrCreate(conf)


class NoJava(RuntimeError):
    """Spark runs on Java, and there is none."""


def check_java() -> None:
    """Check that Java is installed.

    Raises:
        NoJava: it is missing.
    """
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise NoJava(f"Spark needs Java 17 or later, and JAVA_HOME={home} holds none")
    if not home and shutil.which("java") is None:
        raise NoJava("Spark needs Java 17 or later: install it, or say in JAVA_HOME where it is")


@contextmanager
def aside(log: int) -> Iterator[None]:
    """Redirect standard error to the file with this number; a Java started meanwhile keeps that."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(log, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def logged_to(log: str) -> Iterator[None]:
    """Send the logs of Spark's Python and Py4J to this file, instead of printing them with tracebacks."""
    kept = logging.FileHandler(log, delay=True)
    root = logging.getLogger()
    root.addHandler(kept)
    try:
        yield
    finally:
        root.removeHandler(kept)
        kept.close()


def end_at_interruption() -> None:
    """Take Ctrl-C back from Spark, which would call Java within the interrupted call."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def of(running: SparkContext) -> SparkSession:
    """A session in a running Spark, with the data source registered."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.config(map=dict(running.getConf().getAll())).getOrCreate()
    register(session)
    return session


def register(session: SparkSession) -> None:
    """Make `format("zookeeper")` known to a session that already runs."""
    from metrics.replay.spark.zookeeper_source import ZooKeeperSource

    session.dataSource.register(ZooKeeperSource)
