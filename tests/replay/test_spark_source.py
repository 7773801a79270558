"""The format "zookeeper": splits, filters, damage, snapshots, and a directory that grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")

Read = Callable[..., "DataFrame"]
STATE = "/brokers/topics/orders/partitions/%d/state"


def state(leader: int, epoch: int, isr: list[int]) -> bytes:
    return b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":%d,"isr":%s}' % (
        leader, epoch, str(isr).replace(" ", "").encode(),
    )  # fmt: skip


def written(zxid: int, path: str = "/x", data: bytes = b"", version: int = 1) -> bytes:
    return zk.header(zxid, ops.SET_DATA, time_ms=1_700_000_000_000 + zxid * 1000) + zk.set_data(path, data, version)


@pytest.fixture
def read(spark: SparkSession, tmp_path: Path) -> Read:
    def read(table: str = "transactions", **options: Any) -> DataFrame:
        return spark.read.format("zookeeper").option("table", table).options(**options).load(str(tmp_path))

    return read


def zxids(rows: DataFrame) -> list[int]:
    return sorted(row.zxid for row in rows.select("zxid").collect())


def test_a_log_cut_into_many_splits_gives_each_row_once(read: Read, tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(zk.log(*(written(z) for z in range(1, 501)), padding=4096))

    rows = read(splitBytes=1000)

    assert rows.rdd.getNumPartitions() > 20
    assert zxids(rows) == list(range(1, 501))


def test_logs_that_overlap_give_each_transaction_once(read: Read, tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(zk.log(*(written(z) for z in range(1, 11))))
    (tmp_path / "log.6").write_bytes(zk.log(*(written(z) for z in range(6, 16))))

    assert zxids(read()) == list(range(1, 16))


def test_only_the_splits_that_a_filter_wants_are_read(read: Read, tmp_path: Path) -> None:
    paths = ["/brokers/ids/1", "/config/x"]
    (tmp_path / "log.1").write_bytes(zk.log(*(written(z, paths[z % 2]) for z in range(1, 501))))
    rows = read(splitBytes=1000)

    some = rows.where("zxid > 400 and zxid <= 420 and path like '/brokers/%'")
    by_time = rows.where("time >= timestamp_millis(1700000000000 + 490000)")

    assert zxids(some) == list(range(402, 421, 2))
    assert some.rdd.getNumPartitions() < 5
    assert zxids(by_time) == list(range(490, 501))


def test_the_same_of_two_servers_is_read_once_and_in_order(read: Read, tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    (tmp_path / "log.1").write_bytes(zk.log(*(written(z) for z in range(1, 11))))
    (tmp_path / "version-2" / "log.1").write_bytes(zk.log(*(written(z) for z in range(1, 16))))

    assert zxids(read()) == list(range(1, 16))


def test_damage_and_gaps_are_rows_of_a_table(read: Read, tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(zk.log(written(1), written(2))[:-3])
    (tmp_path / "log.5").write_bytes(zk.log(written(5)))

    found = {(Path(row.file).name, row.offset, row.what) for row in read("damage").collect()}

    assert found == {
        ("log.1", len(zk.log(written(1))), "torn record: the file ends inside it"),
        ("log.5", 0, "3 transactions missing before it, between 0x1 and 0x5"),
    }
    assert zxids(read()) == [1, 5]


def test_znodes_are_those_of_the_snapshot_with_the_log_behind_it(read: Read, tmp_path: Path) -> None:
    (tmp_path / "snapshot.9").write_bytes(zk.snapshot([("/", b""), ("/a", b"old"), ("/b", b"kept")], zxid=9))
    (tmp_path / "log.a").write_bytes(zk.log(written(10, "/a", b"new", 4), written(11, "/a", b"newer", 5)))

    assert {row.path: bytes(row.data) for row in read("znodes").collect()} == {
        "/": b"", "/a": b"newer", "/b": b"kept",
    }  # fmt: skip
    assert {row.path: row.version for row in read("znodes", asOf=10).collect()}["/a"] == 4


def test_events_know_what_a_snapshot_shows_of_the_time_before_the_log(read: Read, tmp_path: Path) -> None:
    znodes = [("/", b""), (STATE % 0, state(1, 3, [1, 2])), ("/brokers/topics/orders", b'{"partitions":{"0":[1,2]}}')]
    (tmp_path / "snapshot.9").write_bytes(zk.snapshot(znodes, zxid=9))
    (tmp_path / "log.a").write_bytes(zk.log(written(10, STATE % 0, state(2, 4, [2]), 4)))

    rows = read("events").where("kind in ('state', 'assignment')").orderBy("zxid", "kind").collect()

    assert [(r.op, r.kind, r.leader, r.isr, r.replicas) for r in rows] == [
        ("known", "assignment", None, None, [1, 2]),
        ("known", "state", 1, [1, 2], None),
        ("set", "state", 2, [2], None),
    ]


def test_a_chroot_is_taken_off(read: Read, tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(zk.log(written(1, "/kafka" + STATE % 7, state(1, 0, [1])), written(2, STATE % 8)))

    (row,) = read("events", chroot="/kafka").where("kind = 'state'").collect()

    assert (row.topic, row.partition) == ("orders", 7)


def started(spark: SparkSession, directory: Path, attempts: int = 3) -> StreamingQuery:
    """A stream that has read what is there.

    Spark gives a stream's Python process ten seconds to start, which no setting changes: on a busy machine it takes
    longer now and then, and what a user does is to start the stream again.
    """
    rows = spark.readStream.format("zookeeper").load(str(directory)).writeStream.format("memory")
    stream = rows.queryName("followed").option("checkpointLocation", str(directory / "checkpoint")).start()
    try:
        stream.processAllAvailable()
    except StreamingQueryException as error:
        stream.stop()
        if attempts == 1 or "failed to connect back" not in str(error):
            raise
        return started(spark, directory, attempts - 1)
    return stream


def test_a_stream_follows_a_log_that_grows_and_rolls_over(spark: SparkSession, tmp_path: Path) -> None:
    first, second = tmp_path / "log.1", tmp_path / "log.4"
    whole = zk.log(written(1), written(2))
    half = zk.record(written(3))
    first.write_bytes(whole + half[:20] + bytes(500))
    stream = started(spark, tmp_path)
    try:
        assert zxids(spark.table("followed")) == [1, 2]

        first.write_bytes(whole + half + bytes(500))
        stream.processAllAvailable()
        assert zxids(spark.table("followed")) == [1, 2, 3]

        second.write_bytes(zk.log(written(4), written(5)) + bytes(100))
        stream.processAllAvailable()
        assert zxids(spark.table("followed")) == [1, 2, 3, 4, 5]
    finally:
        stream.stop()


def test_an_unknown_table_is_refused_with_the_names_of_all(read: Read, tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(zk.log(written(1)))

    with pytest.raises(Exception, match="choose one of transactions, znodes, events, damage"):
        read("topics").count()
