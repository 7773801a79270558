"""Processes return results in order, and none is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from metrics.replay.engine.processes import Processes

_COMMAND = """
import faulthandler, os, time
from metrics.replay.engine.processes import Processes

def work(n):
    print(os.getpid(), flush=True)
    time.sleep(600)

faulthandler.dump_traceback_later(200)
list(Processes(2).each(work, range(2)))
"""
"""Shows where it is if it has not been killed in time: this test hung once, and did not say where."""


@pytest.fixture
def processes() -> Iterator[Processes]:
    with closing(Processes(2)) as made:
        yield made


def is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_there(pid):
        assert time.monotonic() < deadline, pid
        time.sleep(0.05)


def test_what_comes_of_each_is_in_order(processes: Processes) -> None:
    shared = processes.share({"by": 10})

    assert [*processes.each(lambda n: n * shared.value["by"], range(20))] == [*range(0, 200, 10)]
    assert os.getpid() not in {*processes.each(lambda _: os.getpid(), range(4))}


def test_an_error_ends_them_all_before_it_is_told(processes: Processes) -> None:
    def work(n: int) -> int:
        if n == 2:
            raise ValueError("no more")
        return os.getpid()

    seen: list[int] = []
    with pytest.raises(ValueError, match="no more"):
        seen.extend(processes.each(work, range(9)))

    assert seen
    assert not any(map(is_there, seen))


def test_a_process_that_was_killed_is_an_error(processes: Processes) -> None:
    with pytest.raises(BrokenProcessPool):
        [*processes.each(lambda _: os.kill(os.getpid(), 9), range(4))]


def test_they_end_with_whoever_started_them() -> None:
    with subprocess.Popen([sys.executable, "-c", _COMMAND], stdout=subprocess.PIPE, text=True) as starter:
        try:
            assert starter.stdout is not None
            started = [int(starter.stdout.readline()) for _ in range(2)]
        finally:
            starter.kill()

        for pid in started:
            wait_until_gone(pid)
