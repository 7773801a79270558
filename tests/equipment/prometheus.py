"""Where does a program of Prometheus come from? Debian's package has two: the server, and promtool."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from controller.lab.jars import default_cache_dir

PACKAGE = "prometheus"
DOWNLOAD_WITHIN_S = 120.0


def program(name: str) -> Path:
    """A program of the package, fetched once for each machine and not installed; skip if it cannot be had."""
    kept = default_cache_dir() / name
    if kept.exists():
        return kept
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip(f"without apt-get and dpkg {name} is not fetched")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as directory:
        fetched = _run("apt-get", "download", PACKAGE, cwd=directory)
        packages = sorted(Path(directory).glob("*.deb"))
        if fetched.returncode or not packages:
            pytest.skip(f"{name} cannot be had: `apt-get download {PACKAGE}` failed: {fetched.stderr[-300:]}")
        unpacked = _run("dpkg", "-x", str(packages[0]), ".", cwd=directory)
        assert unpacked.returncode == 0, unpacked.stderr
        Path(directory, "usr", "bin", name).replace(kept)
    return kept


def _run(*command: str, cwd: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=DOWNLOAD_WITHIN_S, check=False)
