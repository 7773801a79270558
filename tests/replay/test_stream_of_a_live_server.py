"""The stream follows a real server while it writes, while its log rolls over, and after a pause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from controller.lab.errors import LabError
from controller.lab.zookeeper import ZooKeeperServer
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import history_rows, survey
from tests.replay.zk_load import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.timeout(600, func_only=False),
]
Parts = Counter[tuple[int, int]]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZooKeeperServer]:
    """A server that starts a new log after 100 to 200 transactions."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dzookeeper.snapCount=200")
    try:
        made = ZooKeeperServer(tmp_path / "zookeeper")
    except LabError as error:
        pytest.skip(str(error))
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    with made as running:
        yield running


class Follower:
    """A stream into Parquet files; restarted, it continues from its checkpoint."""

    def __init__(self, spark: SparkSession, data: Path, home: Path) -> None:
        self._spark, self._data, self._home = spark, data, home

    def start(self) -> StreamingQuery:
        """Start, and wait for its first batch, for which Spark allows its Python worker only ten seconds."""
        from pyspark.errors import StreamingQueryException

        for _ in range(10):
            stream = self._started()
            try:
                stream.processAllAvailable()
            except StreamingQueryException as failed:
                if "failed to connect back" not in str(failed):
                    raise
            else:
                return stream
        pytest.skip("the machine is too busy: Spark's Python worker never started within ten seconds")

    def _started(self) -> StreamingQuery:
        rows = self._spark.readStream.format("zookeeper").load(str(self._data)).select("zxid", "part")
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(self._home / "checkpoint"))
        return writer.start(str(self._home / "followed"))

    def seen(self) -> Parts:
        rows = self._spark.read.parquet(str(self._home / "followed")).collect()
        return Counter((row.zxid, row.part) for row in rows)


def write(address: str, path: str, count: int = 300) -> None:
    """Single writes and transactions of two parts, in turn."""
    client = connect(address)
    client.ensure_path(path)
    for first in range(0, count, 50):
        pending = []
        for number in range(first, first + 50, 2):
            pending.append(client.set_async(path, b"%d" % number))
            both = client.transaction()
            both.check(path, -1)
            both.create(f"{path}/n{number}", b"x" * number)
            pending.append(both.commit_async())
        for answer in pending:
            answer.get(timeout=60)
    client.stop()
    client.close()


def on_disk(data: Path) -> Parts:
    history = survey(stored_files([str(data)]))
    return Counter((row[0], row[5]) for row in history_rows(history, []))


def logs(data: Path) -> int:
    return len([file for file in stored_files([str(data)]) if file.kind == "log"])


def test_nothing_is_lost_or_given_twice_while_a_server_writes(
    spark: SparkSession, server: ZooKeeperServer, tmp_path: Path
) -> None:
    data = server.data_dir
    write(server.connect, "/before")
    follower = Follower(spark, data, tmp_path)
    stream = follower.start()
    try:
        writing = Thread(target=write, args=(server.connect, "/meanwhile", 600))
        writing.start()
        stream.processAllAvailable()
        while_writing = follower.seen()
        writing.join()
        stream.processAllAvailable()
        assert while_writing <= follower.seen() == on_disk(data)
    finally:
        stream.stop()
    rolled_before = logs(data)

    write(server.connect, "/without-it")
    stream = follower.start()
    try:
        write(server.connect, "/again")
        stream.processAllAvailable()
    finally:
        stream.stop()

    assert follower.seen() == on_disk(data)
    assert set(follower.seen().values()) == {1}
    assert 1 < rolled_before < logs(data)
