"""Does `make sbom` list exactly what is locked, and does `make audit` fail where nothing could be looked up?"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[2]
WITHIN_S = 900.0
# Port 9 discards; nothing listens there.
NOWHERE = "http://127.0.0.1:9"


def _make(target: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **more}
    argv = ["make", "--no-print-directory", target]
    return subprocess.run(argv, cwd=TOP, env=environment, capture_output=True, text=True, check=False, timeout=WITHIN_S)


def locked() -> set[tuple[str, str]]:
    """Name and version of each package that the lock has for this machine."""
    lines = (TOP / "requirements.lock").read_text("utf-8").splitlines()
    wanted = [Requirement(line.rstrip(" \\")) for line in lines if line[:1].isalnum()]
    here = [each for each in wanted if each.marker is None or each.marker.evaluate()]
    return {(canonicalize_name(each.name), str(each.specifier).removeprefix("==")) for each in here}


@pytest.mark.thorough
@pytest.mark.timeout(WITHIN_S)
def test_the_list_has_what_is_locked_with_licenses() -> None:
    done = _make("sbom")
    assert done.returncode == 0, done.stdout + done.stderr

    listed: dict[str, Any] = json.loads((TOP / "dist/sbom.json").read_text("utf-8"))

    assert listed["bomFormat"] == "CycloneDX"
    assert listed["metadata"]["component"]["name"] == "kafka-zk-controller"
    assert {(canonicalize_name(each["name"]), each["version"]) for each in listed["components"]} == locked()
    assert [each["name"] for each in listed["components"] if not each.get("licenses")] == []


@pytest.mark.thorough
@pytest.mark.timeout(WITHIN_S)
def test_packages_that_were_not_looked_up_are_no_good_news() -> None:
    assert _make(".cache/audit/.ready").returncode == 0

    done = _make("audit", HTTP_PROXY=NOWHERE, HTTPS_PROXY=NOWHERE, https_proxy=NOWHERE, http_proxy=NOWHERE)

    assert done.returncode != 0
    assert "No known vulnerabilities found" not in done.stdout + done.stderr


def test_the_tools_are_locked() -> None:
    text = (TOP / "requirements-audit.lock").read_text("utf-8")
    packages = [block for block in re.split(r"\n(?=\w)", text) if "==" in block.splitlines()[0]]

    assert {"cyclonedx-bom", "pip-audit"} <= {block.partition("==")[0] for block in packages}
    assert [block.splitlines()[0] for block in packages if "--hash=sha256:" not in block] == []
