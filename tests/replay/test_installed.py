"""The installed package has all files that the replay needs, without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

pytest.importorskip("pyarrow")

CHECKOUT = Path(__file__).parents[2]
NATIVE = CHECKOUT / "tests" / "fixtures" / "native" / "kafka-2.4.1"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel."""
    home = tmp_path_factory.mktemp("package")
    built = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(home), str(CHECKOUT))
    subprocess.run([sys.executable, "-m", "pip", *built], check=True, timeout=120)
    with ZipFile(next(home.glob("*.whl"))) as wheel:
        wheel.extractall(home / "site")
    return home / "site"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((str(NATIVE), "--out", "out"), "18 tables and report.html below"),
        ((str(NATIVE), "--out", "out", "--as-of", "0x100"), "to go back to zxid 0x100: kafka-reassign-partitions"),
        (("ask", str(NATIVE), "orders-0", "2026-11-21T19:13:21.300"), "moved from [1, 2] to [3, 2]"),
        (("browse", str(NATIVE), "--run", "ls /brokers"), "topics/"),
    ],
)
def test_the_installed_command_needs_no_checkout(
    package: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    script = "import sys, metrics; print(metrics.__file__); from controller.__main__ import main; main(sys.argv[1:])"
    away = {**os.environ, "PYTHONPATH": str(package)}

    answer = subprocess.run(
        [sys.executable, "-c", script, "replay", *arguments],
        cwd=tmp_path, env=away, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip

    assert answer.stdout.startswith(f"{package}/metrics/")
    assert said in answer.stdout
    if said.startswith("18 tables"):
        assert (tmp_path / "out" / "report.html").stat().st_size > 50_000
