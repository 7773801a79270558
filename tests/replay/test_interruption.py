"""Ctrl-C while Spark or processes work gives one line, no traceback, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.replay.conftest import CAPTURED

pytestmark = pytest.mark.timeout(600, func_only=False)
# The test run may ignore interruptions, which processes inherit.
_COMMAND = """
import signal
from metrics.replay.commands import cli
signal.signal(signal.SIGINT, signal.default_int_handler)
cli.BRIEF_BYTES = 0
cli.replay()
"""


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_an_interrupted_run_says_so_in_one_line_and_leaves_nothing(tmp_path: Path, engine: str) -> None:
    pytest.importorskip("pyspark")
    out, said = tmp_path / "out", tmp_path / "said"
    (tmp_path / "tmp").mkdir()
    with said.open("wb") as file:
        running = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, str(CAPTURED), "--out", str(out), "--engine", engine],
            stdout=file, stderr=file, start_new_session=True, env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while not (out / "replay-unfinished" / "events").exists():
            assert running.poll() is None, said.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(1 if engine == "spark" else 0.2)  # in the middle of a job
        os.killpg(running.pid, signal.SIGINT)  # like a terminal
        code = running.wait(200)
    finally:
        running.kill()

    text = said.read_text()
    assert (code, text.splitlines()[-1]) == (130, f"interrupted: there are no tables below {out}")
    assert "Traceback" not in text
    assert "ERROR" not in text
    assert not [*out.iterdir()]
    assert not [*(tmp_path / "tmp").glob("replay-*")]
