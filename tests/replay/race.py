"""Which is faster here: ZooKeeper's own dump of a log, or its whole timeline? `python -m tests.replay.race DIR`.

Both read the same files in the same run, one after the other: TxnLogToolkit prints every transaction to the null
device; the replay writes all tables of the timeline (assignments, ISRs, leaders, moves, brokers, controllers,
sessions), Spark's start included.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from controller.lab.jars import zookeeper_class_path
from controller.lab.java import find_java
from tests.replay.zk_tools import LOG_TOOL

REPLAY = """
import json, os, sys
from concurrent.futures import ThreadPoolExecutor
from metrics.replay import jobs, session
job = jobs.Job((sys.argv[1],), sys.argv[2], tables=jobs.TIMELINE)
with ThreadPoolExecutor(max_workers=1) as pool:
    looking = pool.submit(jobs.look, job, os.cpu_count() or 1)
    spark = session.start(sys.argv[3])
result = jobs.run(spark, job, looked=looking.result())
print(json.dumps({name: round(seconds, 1) for name, seconds in result.seconds.items()}))
spark.stop()
"""


def timed(argv: list[str]) -> tuple[float, float, int, str]:
    """Wall seconds, CPU seconds, the largest Python process in MB, and the last line printed."""
    begun = time.monotonic()
    seen: dict[int, float] = {}
    largest = [0]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        watcher = threading.Thread(target=_watch, args=(process, seen, largest), daemon=True)
        watcher.start()
        output = process.stdout.read().decode() if process.stdout else ""
        process.wait()
        wall = time.monotonic() - begun
        watcher.join()
    if process.returncode:
        raise SystemExit(f"{argv[0]} ended with {process.returncode}")
    return wall, sum(seen.values()), largest[0], (output.strip().splitlines() or [""])[-1]


def _watch(process: subprocess.Popen[bytes], seen: dict[int, float], largest: list[int]) -> None:
    """Spark's processes are not ours to wait for, so what each has used is read while it runs."""
    while process.poll() is None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _group(entry) == process.pid:
                largest[0] = max(largest[0], _python_mb(entry))
                seen[int(entry.name)] = max(seen.get(int(entry.name), 0.0), _cpu_seconds(entry))
        time.sleep(0.1)


def _cpu_seconds(entry: Path) -> float:
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _group(entry: Path) -> int:
    try:
        return os.getsid(int(entry.name))
    except OSError:
        return -1


def _python_mb(entry: Path) -> int:
    try:
        if b"python" not in (entry / "cmdline").read_bytes().split(b"\0")[0]:
            return 0
        return int((entry / "statm").read_text().split()[1]) * 4096 >> 20
    except (OSError, IndexError):
        return 0


def say(text: str) -> None:
    """For people."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(directory: str, masters: list[str]) -> None:
    logs = sorted(Path(directory).glob("log.*"))
    for log in logs:
        log.read_bytes()[:1]  # both find the file in memory
    java = [str(find_java().executable), "-cp", ":".join(map(str, zookeeper_class_path())), LOG_TOOL]
    for log in logs:
        wall, cpu, _, _ = timed(["sh", "-c", '"$@" > /dev/null', "sh", *java, str(log)])
        say(f"TxnLogToolkit  {log.name}: {wall:.1f} s wall, {cpu:.1f} s CPU")
    for master in masters:
        with tempfile.TemporaryDirectory() as out:
            wall, cpu, largest, steps = timed([sys.executable, "-c", REPLAY, directory, out, master])
        say(f"replay {master}: {wall:.1f} s wall, {cpu:.1f} s CPU, largest Python process {largest} MB; {steps}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or ["local[*]"])
