"""Which is faster: ZooKeeper's own dump of a log, or its whole timeline?

TxnLogToolkit prints every transaction to the null device. The replay is the command that users run, from the start of
its process to its end, Spark's included: what TIMELINE names - assignments, ISRs, leaders, moves, brokers, controllers,
sessions - or all tables, and the report.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types

from controller.lab.jars import zookeeper_class_path
from controller.lab.java import find_java
from metrics.replay.commands.jobs import TIMELINE
from metrics.replay.engine.bulk import written
from metrics.replay.files.indexing import index_of
from tests.benchmarks import big_logs, machine
from tests.replay.zk_tools import LOG_TOOL
from zk_layout.storage.files import named

LOCAL = "local"  # processes of this machine, without Spark; one where only one core may be used (taskset)
_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER: a measurement ends with the last process, not with the first
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_EVERY_S = 0.1


class Replayed(msgspec.Struct, frozen=True):
    """One run of one program over one log.

    Shape:
        `peak_mib` has the largest single process, by what it runs (java, python). `steps` are the replay's own.
    """

    contender: str
    log: str
    log_bytes: int
    wall_s: float
    user_s: float
    system_s: float
    peak_mib: dict[str, float]
    steps: dict[str, float]
    others_s: float


class _Process(msgspec.Struct, frozen=True):
    program: str
    peak_mib: float
    user_s: float
    system_s: float


def make_log(directory: Path, kind: str, count: int) -> Path:
    """A directory with one log, made unless it exists."""
    target = directory / f"{kind}-{count}" / "log.1"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name("unfinished")
        big_logs.write(kind, unfinished, count)
        unfinished.rename(target)
    with target.open("rb") as file:  # so that both read it from memory
        while file.read(8 << 20):
            pass
    return target.parent


def toolkit(directory: Path) -> Replayed:
    """ZooKeeper's own dump."""
    log = directory / "log.1"
    java = [str(find_java().executable), "-cp", ":".join(map(str, zookeeper_class_path())), LOG_TOOL, str(log)]
    with open(os.devnull, "wb") as nowhere:
        return _measured("TxnLogToolkit", log, java, nowhere.fileno())


def replay(directory: Path, master: str, *, is_whole: bool) -> Replayed:
    """All tables and the report, or those of the timeline; then check that no transaction is missing.

    Raises:
        AssertionError: one is.
    """
    log = directory / "log.1"
    tables = [] if is_whole else [word for name in TIMELINE for word in ("--table", name)]
    engine = ["--engine", "local"] if master == LOCAL else ["--engine", "spark", "--master", master]
    with tempfile.TemporaryDirectory() as out, tempfile.TemporaryFile() as said:
        command = [sys.executable, "-m", "controller", "replay", str(directory), "--out", f"{out}/replay"]
        name = f"{'all' if is_whole else 'timeline'}, {master}"
        result = _measured(name, log, [*command, *engine, *tables], said.fileno())
        _assert_complete(log, f"{out}/replay")
        report = (Path(out) / "replay" / "report.html").read_text()
    found = re.search(r'"seconds":(\{[^}]*\})', report)
    steps = msgspec.json.decode(found[1], type=dict[str, float]) if found else {}
    return msgspec.structs.replace(result, steps=steps)


def _assert_complete(log: Path, out: str) -> None:
    file = named(str(log))
    assert file is not None
    zxids = [written(out, table).to_table(columns=["zxid"])["zxid"] for table in ("events", "partitions")]
    seen = pc.count_distinct(pa.chunked_array([chunk for column in zxids for chunk in column.chunks]))
    count = sum(section.count for section in index_of(file).sections)
    assert seen.as_py() == count, f"{count} transactions, but {seen} in the timeline"
    assert written(out, "damage").count_rows() == 0


def _measured(contender: str, log: Path, argv: list[str], output: int) -> Replayed:
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    seen: dict[int, _Process] = {}
    before, used = machine.usage({}), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(argv, stdout=output, stderr=subprocess.DEVNULL, start_new_session=True)
    # Waiting for the process is not enough: with Spark, others outlive it.
    while _are_running(process.pid):
        _look_at(process.pid, seen)
        time.sleep(_EVERY_S)
    elapsed, now = machine.usage({}).since(before), resource.getrusage(resource.RUSAGE_CHILDREN)
    # The usage of Spark's workers cannot be had from its daemon, so the last observed value counts.
    user_s = max(now.ru_utime - used.ru_utime, sum(p.user_s for p in seen.values()))
    system_s = max(now.ru_stime - used.ru_stime, sum(p.system_s for p in seen.values()))
    peaks = sorted((p.program, p.peak_mib) for p in seen.values())
    return Replayed(
        contender=contender,
        log=log.parent.name,
        log_bytes=log.stat().st_size,
        wall_s=round(elapsed.at, 2),
        user_s=round(user_s, 2),
        system_s=round(system_s, 2),
        peak_mib=dict(peaks),  # of each program the largest comes last
        steps={},
        others_s=round(max(0.0, elapsed.busy_s - user_s - system_s), 1),
    )


def _are_running(first: int) -> bool:
    """Whether any child is, or an orphan of one.

    Raises:
        RuntimeError: the first of them failed.
    """
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not pid:
            return True
        if pid == first and status:
            raise RuntimeError(f"the program ended with {os.waitstatus_to_exitcode(status)}")


def _look_at(session: int, seen: dict[int, _Process]) -> None:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.getsid(int(entry.name)) != session:
                continue
            program = Path(os.readlink(entry / "exe")).name
            held = re.search(r"VmHWM:\s+(\d+) kB", (entry / "status").read_text())
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if held is not None:
            used = (int(fields[11]) / _TICKS_A_SECOND, int(fields[12]) / _TICKS_A_SECOND)
            kind = "python" if program.startswith("python") else program
            seen[int(entry.name)] = _Process(kind, round(int(held[1]) / 1024), *used)
