"""A replay into the same directory reads only what is new, and gives what a whole one gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrics.replay.commands.jobs import ALL, Job, look, run
from metrics.replay.engine.engines import Local
from metrics.replay.engine.remembered import Shrinking
from tests.replay.any_files import differing, in_order, rows_of, write_log
from tests.replay.test_any_files import records
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

HALF = 150


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """The first half of a history, replayed."""
    write_log(tmp_path / "logs", records("2.4.1")[:HALF])
    made = Job((str(tmp_path / "logs"),), str(tmp_path / "out"))
    run(Local(), made)
    return made


def assert_whole(job: Job, tmp_path: Path) -> None:
    run(Local(), Job(job.paths, str(tmp_path / "whole"), is_anew=True))
    found, whole = ({n: in_order(rows_of(out, n)) for n in ALL} for out in (job.out, str(tmp_path / "whole")))
    assert not differing(whole, found)


def test_only_new_logs_are_read(job: Job, tmp_path: Path) -> None:
    write_log(tmp_path / "logs", records("2.4.1")[HALF:])

    looked = look(job, 1)
    run(Local(), job, looked=looked)

    assert looked.known is not None
    assert looked.splits[0].pieces[0].first == looked.known.last + 1
    assert {piece.file for split in looked.splits for piece in split.pieces} == {str(tmp_path / "logs" / "log.97")}
    assert_whole(job, tmp_path)


def test_a_log_that_has_grown_is_gone_on_with(job: Job, tmp_path: Path) -> None:
    write_log(tmp_path / "logs", records("2.4.1"))

    looked = look(job, 1)
    run(Local(), job, looked=looked)

    assert looked.known is not None
    assert looked.splits[0].pieces[0].first == looked.known.last + 1
    assert_whole(job, tmp_path)


def test_nothing_new_gives_the_same_again(job: Job, tmp_path: Path) -> None:
    looked = look(job, 1)
    run(Local(), job, looked=looked)

    assert not looked.splits
    assert_whole(job, tmp_path)


def test_what_turns_up_from_before_has_everything_read_anew(tmp_path: Path) -> None:
    write_log(tmp_path / "logs", records("2.4.1")[HALF:])
    job = Job((str(tmp_path / "logs"),), str(tmp_path / "out"))
    run(Local(), job)
    write_log(tmp_path / "logs", records("2.4.1")[:HALF])

    looked = look(job, 1)
    run(Local(), job, looked=looked)

    assert looked.known is None
    assert_whole(job, tmp_path)


def test_a_log_that_was_cut_back_and_written_again_is_read_anew(job: Job, tmp_path: Path) -> None:
    """As ZooKeeper does with transactions that only a deposed leader had logged."""
    path = write_log(tmp_path / "logs", records("2.4.1")[: HALF - 20])
    path.write_bytes(path.read_bytes() + bytes(1000))

    looked = look(job, 1)
    run(Local(), job, looked=looked)

    assert looked.known is None
    assert_whole(job, tmp_path)


def test_what_autopurge_has_deleted_is_not_lost_from_the_tables(job: Job, tmp_path: Path) -> None:
    write_log(tmp_path / "logs", records("2.4.1")[HALF:])
    run(Local(), job)
    tables = {n: rows_of(job.out, n) for n in ALL}
    (tmp_path / "logs" / "log.1").unlink()

    with pytest.raises(Shrinking, match="show the transactions from 0x1 to 0x96, which the files no longer hold: has"):
        run(Local(), job)

    assert {n: rows_of(job.out, n) for n in ALL} == tables
    elsewhere = Job(job.paths, str(tmp_path / "elsewhere"))
    for other in (elsewhere, Job(job.paths, job.out, is_anew=True)):
        run(Local(), other)
        assert len(rows_of(other.out, "events")) < len(tables["events"])


def test_transactions_that_turn_out_never_to_have_taken_effect_are_no_loss(tmp_path: Path) -> None:
    def log(of: str, *zxids: int) -> None:
        (tmp_path / of).mkdir()
        bodies = [zk.header(z, ops.CREATE, time_ms=z) + zk.create(f"/{z}") for z in zxids]
        (tmp_path / of / "log.1").write_bytes(zk.log(*bodies))

    log("a", *range(1, 12))
    job = Job((str(tmp_path / "a"),), str(tmp_path / "out"))
    run(Local(), job)
    log("b", *range(1, 10), (1 << 32) + 1)

    run(Local(), Job((*job.paths, str(tmp_path / "b")), job.out))

    assert [row["zxid"] for row in rows_of(job.out, "events")] == [*range(1, 10), (1 << 32) + 1]


def test_another_chroot_is_another_history(job: Job) -> None:
    assert look(Job(job.paths, job.out, "/kafka"), 1).known is None
    assert look(Job(job.paths, job.out, is_anew=True), 1).known is None
