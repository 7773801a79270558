"""What would Kubernetes start for one replica: which arguments, environment and files?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from controller.__main__ import main

Manifests = Mapping[str, Mapping[str, Any]]
"""What Kubernetes is given, by kind."""

NAMESPACE = "kafka"
_VARIABLE = re.compile(r"\$\((\w+)\)")
_LABEL = re.compile(r"metadata\.labels\['(.*)'\]")
_SETTINGS = "/etc/kafka-zk-controller/settings"


def container(manifests: Manifests) -> Any:
    """The only container of the replicas."""
    (only,) = manifests["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return only


def ordinals(manifests: Manifests) -> range:
    """The ordinals of its pods."""
    spec = manifests["StatefulSet"]["spec"]
    first = spec["ordinals"]["start"]
    return range(first, first + spec["replicas"])


def environment(manifests: Manifests, ordinal: int) -> dict[str, str]:
    """The variables that a pod's container gets, as the kubelet works them out."""
    name = f"{manifests['StatefulSet']['metadata']['name']}-{ordinal}"
    fields = {"metadata.name": name, "metadata.namespace": NAMESPACE}
    labels = {"apps.kubernetes.io/pod-index": str(ordinal)}
    found: dict[str, str] = {}
    for variable in container(manifests)["env"]:
        if "value" in variable:
            found[variable["name"]] = _VARIABLE.sub(lambda match: found.get(match[1], match[0]), variable["value"])
        else:
            field = variable["valueFrom"]["fieldRef"]["fieldPath"]
            label = _LABEL.fullmatch(field)
            found[variable["name"]] = labels[label[1]] if label else fields[field]
    return found


def checked_settings(manifests: Manifests, ordinal: int, directory: Path) -> dict[str, str]:
    """The settings in force in a pod, as `--check-config` prints them there.

    Files that the pod would have below /etc/kafka-zk-controller are taken from the directory.
    """
    settings = directory / "settings"
    settings.mkdir(exist_ok=True)
    for file, text in manifests["ConfigMap"]["data"].items():
        (settings / file).write_text(text.replace("/etc/kafka-zk-controller", str(directory)), "latin-1")
    arguments = [argument.replace(_SETTINGS, str(settings)) for argument in container(manifests)["args"]]
    asked = CliRunner(env=environment(manifests, ordinal)).invoke(main, [*arguments, "--check-config", "--output=json"])
    assert asked.exit_code == 0, asked.output
    found: dict[str, str] = json.loads(asked.stdout)["settings"]
    return found
