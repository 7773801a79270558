"""Do the documented benchmarks run? Small ones, of this controller alone: what they measure is not looked at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = ["--topic-size", "20", "--runs", "1", "--patience", "0", "--output", "json"]


@pytest.mark.parametrize(
    "benchmark",
    [
        "fail-over --partitions 100 --only ours",
        "reassignment --topics 5 --only ours",
        "observe --partitions 100 --changes 40",
        pytest.param("stand-by --partitions 100 --standbys 1", marks=pytest.mark.thorough),
        pytest.param("stand-by --partitions 100 --standbys 1 --recursive", marks=pytest.mark.thorough),
    ],
)
def test_a_benchmark_measures_this_controller(benchmark: str) -> None:
    command = [sys.executable, "-m", "tests.benchmarks", *benchmark.split(), *SMALL]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    if "JavaUnavailable" in done.stderr or "JarsUnavailable" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout[done.stdout.index("{") :])
