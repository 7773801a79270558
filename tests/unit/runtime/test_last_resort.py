"""Does a process that hangs end all the same, and show where it is when asked?"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from controller.runtime import stacks

WAITS = """
import os, sys, threading
from controller import logs
from controller.runtime.last_resort import LastResort
logs.configure("info", "json")
last = LastResort()
last.end_within({first}, 3)
{then}
threading.Event().wait({waits})
"""


def ended(first: float, then: str = "", waits: float = 60.0) -> tuple[int, str, float]:
    """Exit code, log and time of a process that hangs."""
    began = time.monotonic()
    script = WAITS.format(first=first, then=then, waits=waits)
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    return answer.returncode, answer.stderr, time.monotonic() - began


def test_a_process_that_does_not_end_is_ended_and_says_so() -> None:
    code, log, took_s = ended(0.2)

    assert (code, took_s < 30) == (3, True)
    assert "did not end by itself" in log


def test_a_later_word_replaces_an_earlier_one() -> None:
    assert ended(50.0, "last.end_within(0.2, 4)")[0] == 4


def test_one_that_ends_by_itself_is_left_alone() -> None:
    assert ended(0.1, "last.cancel()", waits=0.5)[:2] == (0, "")


def test_where_tasks_and_threads_are_can_be_seen() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        tasks = [asyncio.create_task(waits()) for _ in range(3)]
        await asyncio.sleep(0)
        (place, count), *_ = stacks.of_tasks()
        assert count == 3
        assert "waits (test_last_resort.py:" in place
        assert any(name == "MainThread" and "of_threads" in place for name, place in stacks.of_threads())
        for task in tasks:
            task.cancel()

    asyncio.run(story())
