"""The command's output and errors for a person."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from metrics.replay.commands import cli, jobs
from metrics.replay.commands.cli import replay
from metrics.replay.engine import engines
from metrics.replay.engine.engines import Local
from metrics.replay.files.output import Output
from metrics.replay.spark import session
from tests.replay.conftest import CAPTURED
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

FIXTURES = CAPTURED.parent


def asked(*arguments: object) -> Result:
    return CliRunner().invoke(replay, [str(argument) for argument in arguments])


def test_the_state_at_a_time_comes_with_the_way_back_to_it(tmp_path: Path) -> None:
    shown = asked(CAPTURED, "--out", tmp_path, "--as-of", "0x40")

    assert shown.exit_code == 0
    assert shown.stdout.startswith("as of zxid 0x40: 100 topics, 2000 partitions on 11 brokers; 0 moving,")
    written = json.loads((tmp_path / "reassignment-40.json").read_text())
    assert len(written["partitions"]) == 2000


def test_a_difference_is_shown_and_the_way_back_names_only_what_differs(tmp_path: Path) -> None:
    shown = asked(CAPTURED, "--out", tmp_path, "--as-of", 3367, "--diff", 3366)

    assert (
        "bench-00000-0 replicas [1, 2, 3] → [4, 5, 6, 1, 2, 3] (adding [4, 5, 6], removing [1, 2, 3])" in shown.output
    )
    (entry,) = json.loads((tmp_path / "reassignment-d26.json").read_text())["partitions"]
    assert entry == {"topic": "bench-00000", "partition": 0, "replicas": [1, 2, 3]}


def test_a_state_of_which_only_a_part_is_known_says_so(tmp_path: Path) -> None:
    bodies = [zk.header(zxid, ops.CREATE) + zk.create(f"/{zxid}") for zxid in range(5, 9)]
    (tmp_path / "log.5").write_bytes(zk.log(*bodies))
    unknown = "only what was written from 0x5 on is known, for no whole snapshot is from before: 0 topics, 0 partitions"

    shown = asked(tmp_path, "--out", tmp_path / "out", "--as-of", 7, "--diff", 6)

    assert shown.stdout.startswith(f"as of zxid 0x7: {unknown}")
    assert "nothing to go back to at zxid 0x6: no partition is known\n" in shown.stdout
    assert shown.stderr.count("damaged: ") == 1
    assert not (tmp_path / "out").exists()
    (tmp_path / "snapshot.4").write_bytes(zk.snapshot([("/", b"")], zxid=4))
    assert asked(tmp_path, "--out", tmp_path, "--as-of", 7).stdout.startswith("as of zxid 0x7: 0 topics, 0 partitions")


def test_damage_is_told_on_the_way(tmp_path: Path) -> None:
    body = zk.header(1, 1) + zk.create("/brokers")
    (tmp_path / "log.1").write_bytes(zk.log(body, body)[:-1])

    shown = asked(tmp_path, "--out", tmp_path, "--as-of", 1)

    assert f"damaged: {tmp_path}/log.1 at byte {len(zk.log(body))}: torn record" in shown.output


def test_a_directory_with_files_of_a_persons_own_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "mine").write_text("years of work")
    monkeypatch.chdir(tmp_path)

    shown = asked(CAPTURED, "--out", ".")

    assert (shown.exit_code, shown.output) == (
        1, f"Error: {tmp_path} holds what no replay has made (events): choose another directory\n",
    )  # fmt: skip
    assert (tmp_path / "events" / "mine").read_text() == "years of work"


def test_the_way_back_is_kept_beside_the_tables(tmp_path: Path) -> None:
    out = tmp_path / "out"

    asked(CAPTURED, "--out", out, "--as-of", "0x40")
    Output(str(out)).claim(["events"])

    assert sorted(p.name for p in out.iterdir()) == ["reassignment-40.json", "replay.json"]


def test_mistakes_are_answered_in_one_line(tmp_path: Path) -> None:
    for arguments, answer in (
        ((tmp_path,), f"no log.* or snapshot.* of ZooKeeper at {tmp_path}"),
        ((CAPTURED, "--table", "audits"), "there is no table audits"),
        ((CAPTURED, "--since", "yesterday"), "yesterday is no time: write one as 2026-11-21T08:07:00"),
        ((CAPTURED, tmp_path / "none"), f"{tmp_path}/none: no such file or directory"),
        ((CAPTURED, "--as-of", "2020-01-01"), "2020-01-01 is before the history begins: zxid 0x1, at 2026-11-21T08:0"),
        ((CAPTURED, "--as-of", "5", "--diff", "2020-01-01"), "2020-01-01 is before the history begins"),
    ):
        shown = asked(*arguments, "--out", tmp_path / "out")

        assert shown.exit_code == 1
        assert f"Error: {answer}" in shown.output
    for arguments, answer in (
        ((CAPTURED, "--diff", "5"), "--diff needs --as-of"),
        ((CAPTURED, "--engine", "local", "--master", "local[2]"), "--master and --conf are Spark's"),
        ((CAPTURED, "--engine", "local", "--conf", "a=b"), "--master and --conf are Spark's"),
        ((CAPTURED, "--conf", "spark.executor.memory"), "--conf spark.executor.memory: write key=value"),
        ((CAPTURED, "--as-of", "5", "--since", "2026-01-01"), "--as-of shows one state and writes no tables"),
    ):
        shown = asked(*arguments, "--out", tmp_path / "out")

        assert shown.exit_code == 2
        assert f"Error: {answer}" in shown.output
    assert not (tmp_path / "out").exists()


def test_files_that_are_ignored_are_named(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(zk.log(zk.header(1, 1) + zk.create("/brokers")))
    for name in ("log.1.bz2", "snapshot.5.tmp", "myid", "acceptedEpoch", *(f"z{n}" for n in range(5))):
        (tmp_path / name).write_text("")

    shown = asked(tmp_path, "--out", tmp_path / "out", "--as-of", 1)

    assert (
        f"ignored, not named log.* or snapshot.*: {tmp_path}/log.1.bz2, {tmp_path}/snapshot.5.tmp, {tmp_path}/z0, "
        f"{tmp_path}/z1, {tmp_path}/z2 and 2 more\n"
    ) in shown.output


@pytest.mark.parametrize("content", [b"", b"garbage", zk.log()], ids=["empty", "garbage", "header"])
def test_of_a_log_that_holds_nothing_nothing_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log.1").write_bytes(content)

    shown = asked(tmp_path, "--out", tmp_path / "out", "--engine", "local")

    assert shown.exit_code == 1, shown.output
    assert "Error: no log holds a transaction: what happened is not known" in shown.output
    assert (f"({tmp_path}/log.1 at byte 0: " in shown.output) == (content != zk.log())
    assert not (tmp_path / "out" / "report.html").exists()


def test_files_of_two_clusters_are_refused_in_one_line(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.1").write_bytes(zk.log(zk.header(1, 1) + zk.create(f"/{name}")))

    shown = asked(tmp_path / "a", tmp_path / "b", "--out", tmp_path / "out", "--as-of", 1)

    assert shown.exit_code == 1
    assert shown.output.count("\n") == 1
    assert "are not of one cluster: transaction 0x1 differs" in shown.output


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that is installed but never started."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


def test_that_there_is_no_java_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    shown = asked(CAPTURED, "--out", tmp_path / "out", "--engine", "spark")
    assert shown.output == f"Error: Spark needs Java 17 or later, and JAVA_HOME={tmp_path}/none holds none\n"

    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    shown = asked(CAPTURED, "--out", tmp_path / "out", "--master", "local[1]")
    assert shown.output == "Error: Spark needs Java 17 or later: install it, or say in JAVA_HOME where it is\n"
    assert not (tmp_path / "out").exists()


def test_a_little_needs_neither_java_nor_spark(tmp_path: Path) -> None:
    script = """
import sys
from metrics.replay.commands.cli import replay
try:
    replay(sys.argv[1:])
finally:
    print("pyspark" in sys.modules)
"""
    history = FIXTURES / "native" / "kafka-2.4.1"
    argv = [sys.executable, "-c", script, str(history), "--out", str(tmp_path / "out")]

    without_java = {**os.environ, "PATH": "", "JAVA_HOME": str(tmp_path)}
    run_it = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60, env=without_java)

    sentence, places, has_spark = run_it.stdout.splitlines()
    assert sentence.startswith("16 moves, 1 cancelled, the slowest, gone-1, took")
    assert places == f"18 tables and report.html below {tmp_path}/out"
    assert has_spark == "False"


def _while_interrupted(error: Exception) -> Exception:
    """The error that leaves a `with` that Ctrl-C ends, and whose exit fails."""
    error.__context__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize(
    ("failure", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted: there are no tables below {out}\n"),
        (_while_interrupted(RuntimeError("Answer from Java side is empty")), 130, "interrupted: there are no"),
        (_while_interrupted(OSError("not connected")), 130, "interrupted: there are no"),
        (
            RuntimeError("no worker\n\tat org.apache\n\tat scala"),
            1,
            "Error: Spark failed: no worker\nthere are no tables",
        ),
    ],
)
def test_what_ends_a_run_is_said_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: Path, failure: BaseException, code: int, said: str
) -> None:
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(cli, "_on_spark", fail)

    shown = asked(CAPTURED, "--out", tmp_path / "out", "--engine", "spark")

    assert shown.exit_code == code
    assert said.format(out=tmp_path / "out") in shown.output
    assert "at org" not in shown.output


def test_spark_is_started_as_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: Path) -> None:
    started: list[tuple[str, dict[str, str]]] = []

    def start(master: str, settings: dict[str, str]) -> None:
        started.append((master, settings))
        raise RuntimeError("enough")

    monkeypatch.setattr(session, "context", start)

    asked(CAPTURED, "--out", tmp_path / "out", "--conf", "spark.app.name=a=b", "--conf", "spark.task.cpus=1")
    asked(CAPTURED, "--out", tmp_path / "out", "--master", "spark://there:7077")

    assert started == [
        ("local[*]", {"spark.app.name": "a=b", "spark.task.cpus": "1"}), ("spark://there:7077", {}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("brief", "local", "chosen"), [(1 << 30, 1 << 30, 1), (0, 1 << 30, 5), (0, 0, None)],
    ids=["this process", "processes", "Spark"],
)  # fmt: skip
def test_how_much_there_is_to_read_decides_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: Path, brief: int, local: int, chosen: int | None
) -> None:
    asked_for: list[int | None] = []

    def note(cores: int | None) -> None:
        asked_for.append(cores)
        raise ValueError("enough")

    monkeypatch.setattr(cli, "BRIEF_BYTES", brief)
    monkeypatch.setattr(cli, "LOCAL_BYTES", local)
    monkeypatch.setattr(engines, "cores", lambda: 5)
    monkeypatch.setattr(cli, "_here", lambda _, cores: note(cores))
    monkeypatch.setattr(cli, "_with_spark", lambda *_: note(None))

    assert "enough" in asked(CAPTURED, "--out", tmp_path / "out").output
    assert asked_for == [chosen]


def test_a_process_that_was_killed_is_said_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def work(*_: object) -> None:
        with closing(Local(2)) as engine:
            engine.work(end, range(2))

    monkeypatch.setattr(cli, "_here", work)

    shown = asked(CAPTURED, "--out", tmp_path / "out")

    assert shown.exit_code == 1
    assert shown.output == (
        "Error: a process of the replay was killed, perhaps for want of memory; "
        f"there are no tables below {tmp_path / 'out'}\n"
    )


def test_a_time_in_which_nothing_happened_is_refused() -> None:
    def asked_for(**times: int) -> None:
        job = jobs.Job((str(CAPTURED),), "out", **times)  # type: ignore[arg-type]
        jobs.look(job, 2).check(job)

    asked_for(since_ms=0, until_ms=2**50)
    with pytest.raises(ValueError, match="--until is before the history begins, at 2026-11-21T08:0"):
        asked_for(until_ms=1000)
    with pytest.raises(ValueError, match="--since is after the history ends, at 2026-11-21T08:1"):
        asked_for(since_ms=2**42)


def test_what_spark_logs_goes_to_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with session.logged_to(str(tmp_path / "log")):
        try:
            raise RuntimeError("reentrant call")
        except RuntimeError:
            logging.exception("KeyboardInterrupt while sending command.")

    assert "reentrant call" in (tmp_path / "log").read_text()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("place", ["nonsense://a/b", "hdfs://nowhere:1/x"])
def test_a_store_that_cannot_be_reached_is_refused_in_one_line(tmp_path: Path, place: str) -> None:
    for shown in (asked(CAPTURED, "--out", place), asked(place, "--out", tmp_path / "out")):
        assert (shown.exit_code, shown.output.count("\n")) == (1, 1), shown.output
        assert shown.output.startswith(f"Error: {place} cannot be ")
