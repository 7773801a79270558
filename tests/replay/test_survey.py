"""Damaged, missing and foreign files are reported."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from metrics.replay.events.kafka_events import known_rows
from metrics.replay.events.splits import plan
from metrics.replay.files.sources import ignored_files, stored_files
from metrics.replay.files.state import NotOneCluster, history_rows, survey, zxid_at
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

EPOCH = 1 << 32


def written(zxid: int, data: bytes = b"", time_ms: int = 0) -> bytes:
    return zk.header(zxid, ops.SET_DATA, time_ms=time_ms or zxid) + zk.set_data("/x", data, 1)


def made(zxid: int) -> bytes:
    return zk.header(zxid, ops.CREATE, time_ms=zxid) + zk.create(f"/made-by-{zxid}")


def log(directory: Path, *bodies: bytes) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / f"log.{int.from_bytes(bodies[0][12:20], 'big'):x}"
    path.write_bytes(zk.log(*bodies, padding=64))
    return path


def said(*directories: Path) -> list[str]:
    history = survey(stored_files(map(str, directories)))
    found = (*history.damage, *plan(history, 1 << 30).damage)
    return [str(damage).replace(f"{directories[0].parent}/", "") for damage in found]


def zxids(*directories: Path) -> list[int]:
    return [row[0] for row in history_rows(survey(stored_files(map(str, directories))), [])]


def test_one_wrong_byte_costs_one_transaction_and_no_other_file(tmp_path: Path) -> None:
    first = log(tmp_path / "a", *map(written, range(1, 50)))
    log(tmp_path / "a", *map(written, range(50, 60)))
    spoilt = bytearray(first.read_bytes())
    spoilt[len(zk.log(written(1), written(2))) + 11] ^= 1  # the length of the third record
    first.write_bytes(spoilt)

    assert zxids(tmp_path / "a") == [1, 2, *range(4, 60)]
    assert [line.partition(": ")[2] for line in said(tmp_path / "a")] == [
        "wrong length or end of record", "1 transaction missing before it, between 0x2 and 0x4",
    ]  # fmt: skip


def test_what_is_damaged_on_one_server_is_taken_from_another(tmp_path: Path) -> None:
    log(tmp_path / "a", *map(written, range(1, 20)))
    damaged = log(tmp_path / "b", *map(written, range(1, 30)))
    spoilt = bytearray(damaged.read_bytes())
    spoilt[len(zk.log(written(1))) + 20] ^= 1
    damaged.write_bytes(spoilt)

    assert zxids(tmp_path / "a", tmp_path / "b") == [*range(1, 30)]
    assert said(tmp_path / "a", tmp_path / "b") == [f"b/log.1 at byte {len(zk.log(written(1)))}: wrong checksum"]


@pytest.mark.parametrize("same", [0, 1, 8])
def test_logs_of_two_clusters_are_refused(tmp_path: Path, same: int) -> None:
    """A cluster may be a copy of another up to some transaction."""
    log(tmp_path / "a", *map(written, range(1, 20)))
    log(tmp_path / "b", *map(written, range(1, same + 1)), *(written(z, b"other") for z in range(same + 1, 10)))

    with pytest.raises(NotOneCluster, match=r"log\.1 and .*/log\.1 are not of one cluster: transaction 0x\w+ differs"):
        survey(stored_files([str(tmp_path / "a"), str(tmp_path / "b")]))


def test_a_digest_that_only_one_server_writes_makes_no_other_cluster(tmp_path: Path) -> None:
    log(tmp_path / "a", *map(written, range(1, 5)))
    log(tmp_path / "b", *(written(z) + zk.digest(z) for z in range(1, 9)))

    assert zxids(tmp_path / "a", tmp_path / "b") == [*range(1, 9)]


def test_snapshots_and_logs_may_lie_apart_below_one_directory(tmp_path: Path) -> None:
    """As /var/lib/zookeeper with data and log in it."""
    for name in ("data", "log"):
        (tmp_path / "zk" / name).mkdir(parents=True)
    log(tmp_path / "zk" / "log" / "version-2", *map(written, range(5, 9)))
    (tmp_path / "zk" / "data" / "version-2").mkdir()
    (tmp_path / "zk" / "data" / "version-2" / "snapshot.4").write_bytes(zk.snapshot([("/", b""), ("/x", b"")], zxid=4))

    assert zxids(tmp_path / "zk") == [*range(5, 9)]
    assert [file.zxid for file in stored_files([str(tmp_path / "zk")])] == [4, 5]


def test_what_txnlogtoolkit_has_recovered_is_read(tmp_path: Path) -> None:
    path = log(tmp_path / "a", *map(written, range(1, 9)))
    path.rename(tmp_path / "a" / "log.1.fixed")

    assert zxids(tmp_path / "a") == [*range(1, 9)]
    assert ignored_files([str(tmp_path / "a")]) == ()


def test_the_servers_own_log_is_no_damaged_log_of_transactions(tmp_path: Path) -> None:
    path = log(tmp_path / "a", *map(written, range(1, 9)))
    for suffix in ("", ".gz"):
        captured = gzip.compress(path.read_bytes()) if suffix else path.read_bytes()
        (tmp_path / "a" / f"incident-7.log.1{suffix}").write_bytes(captured)
    for number in ("1", "2.gz", "3.snappy"):
        (tmp_path / "a" / f"zookeeper.log.{number}").write_bytes(b"2026-11-26 [main] INFO started\n")

    assert said(tmp_path / "a") == []
    assert [file.path.rpartition("/")[2] for file in stored_files([str(tmp_path / "a")])] == [
        "incident-7.log.1", "incident-7.log.1.gz", "log.1",
    ]  # fmt: skip
    assert [path.rpartition(".log.")[2] for path in ignored_files([str(tmp_path / "a")])] == ["1", "2.gz", "3.snappy"]
    # By name, a file is taken for what it is said to be.
    assert "not a transaction log" in said(tmp_path / "a" / "zookeeper.log.1")[0]


def failed(zxid: int, op: int) -> bytes:
    """A multi whose second part failed, and whose first was logged as `op`."""
    parts = (op, zk.create("/x/y")), (ops.ERROR, zk.number(-103))
    return zk.header(zxid, ops.MULTI, time_ms=zxid) + zk.multi(*parts)


def test_a_failed_multi_that_one_server_logged_after_it_had_applied_it_makes_no_other_cluster(tmp_path: Path) -> None:
    log(tmp_path / "a", *map(written, range(1, 5)), failed(5, ops.CREATE))
    log(tmp_path / "b", *map(written, range(1, 5)), failed(5, ops.ERROR), failed(6, ops.CREATE))

    assert zxids(tmp_path / "a", tmp_path / "b") == [1, 2, 3, 4, 5, 5, 6, 6]


def test_a_closed_session_whose_ephemerals_only_one_server_lists_makes_no_other_cluster(tmp_path: Path) -> None:
    end = zk.header(5, ops.CLOSE_SESSION, time_ms=5)
    log(tmp_path / "a", *map(written, range(1, 5)), end)
    log(tmp_path / "b", *map(written, range(1, 5)), end + zk.closed("/x"), written(6))

    assert set(zxids(tmp_path / "a", tmp_path / "b")) == {*range(1, 7)}


def test_what_a_deposed_leader_alone_logged_never_happened(tmp_path: Path) -> None:
    log(tmp_path / "a", *map(written, range(1, 12)))
    log(tmp_path / "b", *map(written, range(1, 10)), written(EPOCH + 1))

    assert zxids(tmp_path / "a", tmp_path / "b") == [*range(1, 10), EPOCH + 1]
    assert said(tmp_path / "a", tmp_path / "b") == [
        "a/log.1 at byte 0: transactions 0xa to 0xb never took effect: the next epoch began without them"
    ]


def test_a_history_that_begins_without_a_snapshot_is_told(tmp_path: Path) -> None:
    log(tmp_path / "a", *map(made, range(5, 9)))

    begins = "a/log.5 at byte 0: the history begins here, at 0x5, and no whole snapshot is from before: "
    assert said(tmp_path / "a") == [begins + "what was there is not known"]
    (tmp_path / "a" / "snapshot.6").write_bytes(zk.snapshot([("/", b"")], zxid=3))
    assert said(tmp_path / "a") == [f"{begins}what was there is not known, but for what a/snapshot.6 shows unchanged"]
    (tmp_path / "a" / "snapshot.2").write_bytes(zk.snapshot([("/", b"")], zxid=2))
    assert said(tmp_path / "a") == ["a/log.5 at byte 0: 2 transactions missing before it, between a/snapshot.2 and 0x5"]
    (tmp_path / "a" / "snapshot.4").write_bytes(zk.snapshot([("/", b"")], zxid=4))
    assert said(tmp_path / "a") == []


def test_a_damaged_snapshot_is_passed_over_for_a_whole_one(tmp_path: Path) -> None:
    log(tmp_path / "a", *map(written, range(5, 9)))
    content = zk.snapshot([("/", b""), ("/a", b"1")], zxid=4)
    (tmp_path / "a" / "snapshot.4").write_bytes(content[:-20])
    (tmp_path / "a" / "version-2").mkdir()
    (tmp_path / "a" / "version-2" / "snapshot.4").write_bytes(content)

    planned = plan(survey(stored_files([str(tmp_path / "a")])), 1 << 30)

    assert planned.splits[0].snapshot is not None
    assert planned.splits[0].snapshot.path.endswith("version-2/snapshot.4")


def test_a_file_that_cannot_be_opened_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from metrics.replay.files import sources

    log(tmp_path / "a", *map(written, range(1, 5)))
    refused = log(tmp_path / "a", *map(written, range(5, 9)))
    opened = sources.open_for_reading

    def refusing(path: str) -> object:
        if path == str(refused):
            raise PermissionError(13, "Permission denied")
        return opened(path)

    monkeypatch.setattr(sources, "open_for_reading", refusing)

    assert said(tmp_path / "a") == ["a/log.5 at byte 0: cannot be read: Permission denied"]
    assert zxids(tmp_path / "a") == [1, 2, 3, 4]


def test_a_wrong_length_hides_nothing_in_a_compressed_log(tmp_path: Path) -> None:
    """The records after it are found only at the file's end."""
    path = log(tmp_path / "a", *map(written, range(1, 20)))
    log(tmp_path / "b", *map(written, range(1, 30)))
    spoilt = bytearray(path.read_bytes())
    spoilt[len(zk.log(written(1))) + 9] = 1
    path.unlink()
    (tmp_path / "a" / "log.1.gz").write_bytes(gzip.compress(spoilt))

    assert zxids(tmp_path / "a") == [1, *range(3, 20)]
    assert zxids(tmp_path / "a", tmp_path / "b") == [*range(1, 30)]


def test_what_is_before_a_wrong_byte_of_a_compressed_log_is_read(tmp_path: Path) -> None:
    path = log(tmp_path / "a", *(written(z, str(z**5).encode() * 40) for z in range(1, 2000)))
    packed = bytearray(gzip.compress(path.read_bytes()))
    path.unlink()
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "a" / "log.1.gz").write_bytes(packed)

    assert len(zxids(tmp_path / "a")) > 900
    assert "cannot be decompressed further" in "\n".join(said(tmp_path / "a"))


def test_times_that_fall_do_not_hide_what_was_before(tmp_path: Path) -> None:
    """A new leader's clock may be behind."""
    log(tmp_path / "a", *(written(z, time_ms=t) for z, t in ((1, 100), (2, 900), (3, 300), (4, 400))))
    for split_bytes in (1, 1 << 30):
        history = survey(stored_files([str(tmp_path / "a")]), split_bytes)

        assert [zxid_at(history, t) for t in (50, 100, 350, 1000)] == [0, 1, 3, 4]


def test_what_each_server_writes_for_itself_when_it_starts_is_no_part_of_the_history() -> None:
    def rows(path: str, version: int, server: int) -> list[tuple[str, int]]:
        shown = (path, b"server.%d" % server, 1, 0, 0, 0, 1000 * server, version, 0, -1, 0, 0)
        return [(row[7], row[1]) for row in known_rows([shown], EPOCH + 1)]

    assert rows("/zookeeper/config", -1, 1) == rows("/zookeeper/config", -1, 2) == []
    assert rows("/zookeeper/config", 0, 1) == [("/zookeeper/config", 1000)]
    assert rows("/config", -1, 1) == [("/config", 1000)]
