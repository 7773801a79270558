"""What the files do not show is not answered: an error says what they do show."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]  # has no types
import pytest
from click.testing import CliRunner, Result

from metrics.replay.commands.cli import replay
from metrics.replay.commands.jobs import check_found
from metrics.replay.engine.bulk import SCHEMAS
from metrics.replay.files.known import NotKnown
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

STATE = b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":%d,"isr":[1,2]}'
TOPIC = b'{"partitions":{"0":[1,2]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","adding_replicas":{},"removing_replicas":{}}'
SHOWN_VERSION = 3  # of every znode in `zk.snapshot`


def asked(*arguments: object) -> Result:
    return CliRunner().invoke(replay, [str(argument) for argument in arguments])


def kafka(root: str = "") -> list[tuple[str, bytes | None]]:
    """The znodes of a cluster with one topic."""
    at = f"{root}/brokers/topics/t"
    parents = [root, f"{root}/brokers", f"{root}/brokers/ids", f"{root}/brokers/topics"]
    return [
        ("/", b""), *((path, b"") for path in parents if path), (at, TOPIC), (f"{at}/partitions", b""),
        (f"{at}/partitions/0", b""), (f"{at}/partitions/0/state", STATE % (1, 0)), (f"{root}/controller_epoch", b"1"),
    ]  # fmt: skip


def written(zxid: int, root: str = "") -> bytes:
    """A new leader."""
    path = f"{root}/brokers/topics/t/partitions/0/state"
    head = zk.header(zxid, ops.SET_DATA, time_ms=1_700_000_000_000 + 1000 * zxid)
    return head + zk.set_data(path, STATE % (2, zxid), SHOWN_VERSION + zxid - 0x64)


@pytest.fixture
def wiped(tmp_path: Path) -> Path:
    """A server that had lost its disk: an empty snapshot of its start, the leader's, and its own log after it."""
    home = tmp_path / "wiped"
    home.mkdir()
    (home / "snapshot.0").write_bytes(zk.snapshot([("/", b"")], zxid=0))
    (home / "snapshot.64").write_bytes(zk.snapshot(kafka(), zxid=0x64))
    (home / "log.65").write_bytes(zk.log(written(0x65), written(0x66)))
    return home


BEFORE = "is before the history begins: zxid 0x64"
AFTER = "is after the history ends: zxid 0x66, at 2023-11-14T22:15:02+00:00; what came later is not known"


@pytest.mark.parametrize(
    ("when", "said"),
    [("0x32", f"0x32 {BEFORE}"), ("2023-11-14", f"2023-11-14 {BEFORE}"), ("0x67", f"0x67 {AFTER}"),
     ("2040-01-01", f"2040-01-01 {AFTER}")],
)  # fmt: skip
def test_neither_before_nor_after_the_history_anything_is_known(wiped: Path, when: str, said: str) -> None:
    out = wiped / "out"
    for shown in (
        asked(wiped, "--out", out, "--as-of", when),
        asked(wiped, "--out", out, "--as-of", "0x66", "--diff", when),
        asked("browse", wiped, "--as-of", when, "--run", "ls"),
        asked("ask", wiped, "t-0", when),
    ):
        assert shown.exit_code == 1
        assert f"Error: {said}" in shown.output
    assert not out.exists()


def test_what_is_between_is_known(wiped: Path) -> None:
    for when in ("0x64", "0x66", "2023-11-14T22:15:02"):
        assert asked(wiped, "--out", wiped / "out", "--as-of", when).stdout.count(" 1 topics, 1 partitions") == 1
    assert "leader 2" in asked("ask", wiped, "t-0", "0x66").output


def test_the_snapshot_of_a_servers_first_start_is_no_state_of_the_cluster(wiped: Path) -> None:
    (wiped / "snapshot.64").unlink()

    shown = asked(wiped, "--out", wiped / "out", "--as-of", "0x65")

    assert shown.stdout.startswith("as of zxid 0x65: only what was written from 0x65 on is known")
    assert asked(wiped, "--out", wiped / "out", "--as-of", "0x32").output.startswith("Error: 0x32 is before the his")


@pytest.mark.parametrize("when", ["0x6a", "2023-11-14T22:15:08"])
def test_of_a_time_in_which_transactions_are_missing_nothing_is_known(wiped: Path, when: str) -> None:
    (wiped / "log.6f").write_bytes(zk.log(written(0x6F)))

    shown = asked(wiped, "--out", wiped / "out", "--as-of", when)

    assert shown.exit_code == 1
    assert "0x66" in shown.output
    assert "0x6f" in shown.output
    after = asked(wiped, "--out", wiped / "out", "--as-of", "0x6f")
    assert (after.exit_code, after.stderr.count("8 transactions missing before it")) == (0, 1)
    assert "8 transactions missing before it" in asked("ask", wiped, "t-0", "0x6f").stderr


def test_of_transactions_missing_after_a_snapshot_nothing_is_known(wiped: Path) -> None:
    (wiped / "snapshot.50").write_bytes((wiped / "snapshot.64").read_bytes())
    (wiped / "snapshot.50").write_bytes(zk.snapshot(kafka(), zxid=0x50))
    (wiped / "snapshot.64").unlink()

    assert "nothing is known of 0x60: the files show what was written up to 0x50, and again from 0x65 on" in (
        asked(wiped, "--out", wiped / "out", "--as-of", "0x60").output
    )
    assert asked(wiped, "--out", wiped / "out", "--as-of", "0x50").exit_code == 0
    assert "20 transactions missing before it" in asked(wiped, "--out", wiped / "out", "--as-of", "0x65").output


def test_snapshots_alone_know_neither_times_nor_what_happened(tmp_path: Path) -> None:
    for zxid in (0x10, 0x64):
        (tmp_path / f"snapshot.{zxid:x}").write_bytes(zk.snapshot(kafka(), zxid=zxid))
    out = tmp_path / "out"

    shown = asked(tmp_path, "--out", out)
    assert (shown.exit_code, out.exists()) == (1, False)
    assert "Error: there is no log, only snapshots: what happened is not known; give the directory of" in shown.output
    assert asked("ask", tmp_path, "t-0", "0x64").exit_code == 1
    shown = asked(tmp_path, "--out", out, "--as-of", "2040-01-01")
    assert (shown.exit_code, "snapshots show zxid 0x64, 0x10" in shown.output) == (1, True)
    assert asked(tmp_path, "--out", out, "--as-of", "0x30").exit_code == 1
    assert asked(tmp_path, "--out", out, "--as-of", "0x10").exit_code == 0


def test_of_what_cannot_be_read_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(b"not of ZooKeeper")
    (tmp_path / "snapshot.5").write_bytes(zk.snapshot(kafka(), zxid=5)[:-30])

    for arguments in (
        (tmp_path,), (tmp_path, "--as-of", "5"), ("browse", tmp_path, "--run", "ls"), ("ask", tmp_path, "t-0", "5"),
    ):  # fmt: skip
        shown = asked(*arguments, *(() if arguments[0] in ("browse", "ask") else ("--out", tmp_path / "out")))

        assert shown.exit_code == 1, arguments
        assert "not a transaction log" in shown.output
    assert not (tmp_path / "out" / "report.html").exists()


def test_of_several_directories_none_may_be_empty(wiped: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "deeper").mkdir(parents=True)
    (tmp_path / "other" / "deeper" / "log.1").write_bytes(zk.log())

    shown = asked(wiped, tmp_path / "other", "--out", tmp_path / "out")

    assert (shown.exit_code, shown.output) == (
        1, f"Error: no log.* or snapshot.* of ZooKeeper at {tmp_path}/other; leave it out, or give the directory that "
        "holds them\n",
    )  # fmt: skip


@pytest.mark.parametrize("is_old", [True, False], ids=["in a snapshot", "in a log"])
def test_kafka_elsewhere_is_named(tmp_path: Path, is_old: bool) -> None:
    if is_old:
        (tmp_path / "snapshot.64").write_bytes(zk.snapshot(kafka("/a/kafka"), zxid=0x64))
    (tmp_path / "log.65").write_bytes(zk.log(written(0x65, "/a/kafka")))
    out = tmp_path / "out"

    assert "elsewhere; give --chroot /a/kafka\n" in asked("ask", tmp_path, "t-0", "0x65").output
    for chroot in ((), ("--chroot", "/kafka")):
        for rest in ((), ("--as-of", "0x65"))[: 1 + is_old]:
            shown = asked(tmp_path, "--out", out, *chroot, *rest)

            assert shown.exit_code == 1
            assert "its znodes are elsewhere; give --chroot /a/kafka\n" in shown.output
    assert not (out / "report.html").exists()
    assert asked(tmp_path, "--out", out, "--chroot", "/a/kafka").exit_code == 0


def test_a_chroot_that_holds_no_kafka_is_refused_and_a_server_without_any_is_read(tmp_path: Path) -> None:
    made = zk.header(1, ops.CREATE) + zk.create("/hbase")
    (tmp_path / "log.1").write_bytes(zk.log(made))

    shown = asked(tmp_path, "--out", tmp_path / "out", "--chroot", "/kafka")

    assert shown.output.count("Error: nothing is known of a Kafka below /kafka: no znode of one is there") == 1
    assert asked(tmp_path, "--out", tmp_path / "out").exit_code == 0
    shown = asked(tmp_path, "--out", tmp_path / "back", "--as-of", "1")
    assert "nothing to go back to at zxid 0x1: no partition is there\n" in shown.stdout
    assert not (tmp_path / "back").exists()


def test_where_nothing_differs_there_is_no_way_back(wiped: Path, tmp_path: Path) -> None:
    shown = asked(wiped, "--out", tmp_path / "out", "--as-of", "0x66", "--diff", "0x65")

    assert "nothing to go back to at zxid 0x65: no partition was to have other replicas\n" in shown.stdout
    assert not (tmp_path / "out").exists()


def test_whether_anything_is_kafkas_is_seen_in_the_footers_of_the_table(wiped: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert asked(wiped, "--out", out).exit_code == 0
    files = [*(out / "partitions").glob("*.parquet")]
    for file in files:
        held = file.read_bytes()
        footer = held[-8 - int.from_bytes(held[-8:-4], "little") :]
        file.write_bytes(footer.rjust(len(held), b"\0"))

    check_found(str(out), "/elsewhere")

    for file in files:
        pq.write_table(SCHEMAS["partitions"].empty_table(), file)
    with pytest.raises(NotKnown, match=r"its znodes are elsewhere; give --chroot /$"):
        check_found(str(out), "/elsewhere")
