"""What does the chart render, and which of it are the plain manifests?

`python -m tests.deploy.chart` (`make manifests`) writes these.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy.tools import HELM, KUBERNETES

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CHART: Final = DEPLOY / "helm/kafka-zk-controller"
PLAIN: Final = DEPLOY / "kubernetes"
RELEASE: Final = "kafka-zk-controller"
# What helm takes the cluster for; one that Go has built does not know any better.
AS_OF: Final = f"--kube-version={KUBERNETES[0]}"
PROMETHEUS: Final = "--set=podMonitor.enabled=true,prometheusRule.enabled=true"
_MONITORING: Final = ("podmonitor", "prometheusrule")
_HEADER: Final = """\
# Made by `make manifests` from deploy/helm/kafka-zk-controller and its defaults; a test compares.
"""
# Each file, and the arguments that render it.
RENDERINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "controller.yaml": (),
    "monitoring.yaml": (
        PROMETHEUS,
        *(f"--show-only=templates/{name}.yaml" for name in _MONITORING),
    ),
}


def template(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`helm template` of a release; skip without helm."""
    return HELM.run("template", RELEASE, CHART, AS_OF, *arguments)


def rendered(*arguments: str | Path) -> str:
    """The manifests as helm prints them."""
    done = template(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def plain(name: str) -> str:
    """What a file of the plain manifests should have in it."""
    return _HEADER + rendered(*RENDERINGS[name])


def by_kind(manifests: str) -> dict[str, dict[str, Any]]:
    """The manifests; no kind is there twice."""
    found = [manifest for manifest in yaml.safe_load_all(manifests) if manifest]
    kinds = {manifest["kind"]: manifest for manifest in found}
    assert len(kinds) == len(found)
    return kinds


def main() -> None:
    """Write the plain manifests."""
    for name in RENDERINGS:
        (PLAIN / name).write_text(plain(name), "utf-8")


if __name__ == "__main__":
    main()
