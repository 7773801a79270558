"""Which programs check what is in `deploy`, in which versions, and where do they come from?

`make charts` (`python -m tests.deploy.tools`) builds them with Go and unpacks the schemas, once for each machine, where
the lab keeps its jars. Tests skip what is missing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from msgspec import Struct

from controller.lab.jars import default_cache_dir

BUILD_WITHIN_S: Final = 1800.0
RUN_WITHIN_S: Final = 60.0
SCHEMAS: Final = ("kubernetes-validate", "1.37.0", "85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9")
# The oldest that Chart.yaml takes, and the newest of the package.
KUBERNETES: Final = ("1.28.0", "1.37.0")
KINDS: Final = (
    "statefulset-apps-v1",
    "service-v1",
    "serviceaccount-v1",
    "configmap-v1",
    "networkpolicy-networking-v1",
    "poddisruptionbudget-policy-v1",
)
OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
OPERATOR_KINDS: Final = ("podmonitor", "prometheusrule")
_REFERENCE: Final = re.compile(r'"#/\$defs/([^"]+)"')
# A test runs them for a moment: compilation is what takes time.
_QUICKLY: Final = ("-gcflags=all=-N -l", "-ldflags=-s -w")


class Tool(Struct, frozen=True):
    """A program that Go builds from a module."""

    name: str
    package: str
    version: str

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return _kept() / f"{self.name}-{self.version}"

    def build(self) -> None:
        """Build it, unless it is there."""
        if self.path.exists():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.path.parent) as directory:
            environment = {**os.environ, "GOBIN": directory, "CGO_ENABLED": "0"}
            argv = ["go", "install", *_QUICKLY, f"{self.package}@{self.version}"]
            subprocess.run(argv, env=environment, check=True, timeout=BUILD_WITHIN_S)
            Path(directory, self.name).replace(self.path)

    def run(self, *arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run it, or skip the test if it is not there."""
        if not self.path.exists():
            pytest.skip(f"there is no {self.name}: `make charts` builds it where Go is installed")
        argv = [self.path, *arguments]
        return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=RUN_WITHIN_S, check=False)


HELM: Final = Tool("helm", "helm.sh/helm/v3/cmd/helm", "v3.22.0")
KUBECONFORM: Final = Tool("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform", "v0.8.0")


def invalid(manifests: str, kubernetes: str) -> str:
    """What kubeconform has against these manifests; fields that a kind does not have count. Empty if nothing."""
    folder = _schemas_of(kubernetes)
    if not folder.exists():
        pytest.skip("there are no schemas of Kubernetes: `make charts` fetches them")
    template = f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    done = KUBECONFORM.run("-strict", "-summary", "-schema-location", template, stdin=manifests)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _kept() -> Path:
    return default_cache_dir() / "charts"


def _schemas_of(kubernetes: str) -> Path:
    return _all_schemas() / kubernetes


def _all_schemas() -> Path:
    return _kept() / f"schemas-{SCHEMAS[1]}-{OPERATOR.rpartition('@')[2]}"


def _unpack_schemas() -> None:
    """Write each schema that is needed as one file that refers to no other."""
    folder = _all_schemas()
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as directory:
        package = zipfile.ZipFile(_wheel(Path(directory)))
        monitoring = dict(_operator_schemas())
        whole = Path(directory, "whole")
        for version in KUBERNETES:
            (whole / version).mkdir(parents=True)
            inside = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict"
            definitions = json.loads(package.read(f"{inside}/_definitions.json"))["$defs"]
            for kind in KINDS:
                text = package.read(f"{inside}/{kind}.json").decode().replace("/api/_definitions.json#", "#")
                schema = json.loads(text)
                del schema["$id"]
                schema["$defs"] = _reachable(schema, definitions)
                (whole / version / f"{kind}.json").write_text(json.dumps(schema))
            for kind, schema in monitoring.items():
                (whole / version / f"{kind}.json").write_text(json.dumps(schema))
        whole.replace(folder)


def _reachable(schema: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions that a schema refers to, also by way of others."""
    found: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        for name in _REFERENCE.findall(json.dumps(waiting.pop())):
            if name not in found:
                found[name] = definitions[name]
                waiting.append(found[name])
    return found


def _wheel(directory: Path) -> Path:
    """The package of Kubernetes' schemas, fetched into a directory."""
    name, version, digest = SCHEMAS
    wanted = directory / "wanted.txt"
    wanted.write_text(f"{name}=={version} --hash=sha256:{digest}\n")
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*argv, f"--dest={directory}", f"--requirement={wanted}"], check=True)
    (wheel,) = directory.glob("*.whl")
    return wheel


def _operator_schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    """The kinds of Prometheus' operator, from what it installs in a cluster."""
    argv = ["go", "mod", "download", "-json", OPERATOR]
    module = Path(json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)["Dir"])
    for kind in OPERATOR_KINDS:
        text = (module / f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}s.yaml").read_text()
        (version,) = [one for one in yaml.safe_load(text)["spec"]["versions"] if one["name"] == "v1"]
        yield f"{kind}-monitoring-v1", _strict(version["schema"]["openAPIV3Schema"])


def _strict(schema: Any) -> Any:
    """The schema, allowing no properties but its own; Kubernetes has no schema of its own for metadata there."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict):
        found.setdefault("additionalProperties", False)
    return found


def main() -> None:
    """Bring what is missing."""
    if shutil.which("go") is None:
        raise SystemExit("there is no Go to build helm and kubeconform with")
    HELM.build()
    KUBECONFORM.build()
    _unpack_schemas()


if __name__ == "__main__":
    main()
