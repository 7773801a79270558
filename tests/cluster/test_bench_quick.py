"""Does every benchmark run, and is this controller clearly faster than Kafka's own?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from controller.lab.errors import JarsUnavailable, JavaUnavailable
from tests.benchmarks import kraft
from tests.benchmarks.contenders import KAFKA, OURS
from tests.benchmarks.measured import read
from tests.benchmarks.suite import QUICK, ROOT


@pytest.mark.thorough  # `make test` runs it by itself: beside other tests it measures them, and they starve
@pytest.mark.timeout(1_500)
def test_small_cases_are_measured_beside_kafkas_controller(tmp_path: Path) -> None:
    """Shares of Kafka's figures in the same minutes are judged, never times."""
    file = tmp_path / "quick.json"
    command = [sys.executable, "-m", "tests.benchmarks", "quick", "--file", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    if "JavaUnavailable" in done.stderr or "JarsUnavailable" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    measured = read(file)
    assert {case.name for case in QUICK} == measured.keys()
    assert all(len(known.of(name)) == 1 for known in measured.values() for name in (OURS, KAFKA))


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_quorum_of_kraft_is_measured() -> None:
    """Another controller of three became active and committed a change."""
    try:
        result = kraft.measure(0.0)
    except (JarsUnavailable, JavaUnavailable) as error:
        pytest.skip(str(error))
    assert 0 < result.decides_s <= result.measured_s
