"""Is the chart sound, does it render what its values say, and does it refuse values that it does not know?"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy import pod
from tests.deploy.chart import AS_OF, CHART, DEPLOY, PLAIN, PROMETHEUS, RENDERINGS, by_kind, plain, rendered, template
from tests.deploy.tools import HELM, KUBERNETES, invalid
from tests.unit.connections.certificates import make_identity

SECURED = DEPLOY / "helm/sasl-ssl-scram.yaml"
# One value of each kind that the defaults leave out.
EVERYTHING: dict[str, Any] = {
    "image": {"repository": "registry.example.org/controller", "tag": "1.2.3"},
    "imagePullSecrets": [{"name": "registry"}],
    "listeners": [
        {"name": "PLAINTEXT", "port": 9095},
        {"name": "OUTSIDE", "port": 9096, "advertisedHost": "$(POD_NAME).example.org", "advertisedPort": 443},
    ],
    "settings": {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "reassign.partitions.status.min.retention.ms": 86400000,
        "delete.topic.enable": False,
    },
    "secrets": ["one.with.dots"],
    "http": {"webConfigSecret": "web"},
    "antiAffinity": "preferred",
    "zoneSpread": "",
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "controllers", "operator": "Exists"}],
    "priorityClassName": "system-cluster-critical",
    "networkPolicy": {
        "clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "monitoring": [],
        "egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}],
    },
    "podMonitor": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "endpoint": {"basicAuth": {"username": {"name": "scraper", "key": "user"}}},
    },
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "serviceAccount": {"annotations": {"why": "a test"}},
    "podAnnotations": {"why": "a test"},
    "podLabels": {"team": "streams"},
    "extraArgs": ["--new-cluster"],
    "extraEnv": [{"name": "KRB5_CONFIG", "value": "/keytabs/krb5.conf"}],
    "extraVolumes": [{"name": "keytabs", "secret": {"secretName": "keytabs"}}],
    "extraVolumeMounts": [{"name": "keytabs", "mountPath": "/keytabs", "readOnly": True}],
    "volumeClaimTemplates": [
        {
            "metadata": {"name": "journal"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    ],
    "nameOverride": "leader",
    "fullnameOverride": "payments-leader",
}


def values(directory: Path, found: object) -> str:
    """An option with these values."""
    file = directory / "values.yaml"
    file.write_text(yaml.safe_dump(found))
    return f"--values={file}"


def test_helm_finds_nothing_wrong(tmp_path: Path) -> None:
    for arguments in ((), (f"--values={SECURED}",), (values(tmp_path, EVERYTHING),)):
        done = HELM.run("lint", "--strict", AS_OF, CHART, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", RENDERINGS)
def test_the_plain_manifests_are_the_chart_with_its_defaults(name: str) -> None:
    assert (PLAIN / name).read_text("utf-8") == plain(name), "run `make manifests`"


@pytest.mark.parametrize("kubernetes", KUBERNETES)
def test_kubernetes_knows_every_field(kubernetes: str, tmp_path: Path) -> None:
    several = ((PROMETHEUS,), (f"--values={SECURED}",), (values(tmp_path, EVERYTHING),))

    assert invalid("".join(rendered(*arguments) for arguments in several), kubernetes) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("podManagementPolicy:", "podManagementPolicies:"), ("podMetricsEndpoints:", "podMetricEndpoints:")],
)
def test_a_mistyped_field_would_be_noticed(right: str, wrong: str) -> None:
    manifests = rendered(PROMETHEUS)
    assert right in manifests
    assert wrong.rstrip(":") in invalid(manifests.replace(right, wrong), KUBERNETES[0])


def test_values_decide_what_a_replica_does(tmp_path: Path) -> None:
    found = {**EVERYTHING, "firstBrokerId": 1_000_001, "replicas": 3}
    found["settings"] = {**found["settings"], "reserved.broker.max.id": 2_000_000}
    for name in ("secrets", "http"):
        del found[name]

    manifests = by_kind(rendered(values(tmp_path, found)))

    assert pod.ordinals(manifests) == range(1_000_001, 1_000_004)
    settings = pod.checked_settings(manifests, 1_000_003, tmp_path)
    assert settings["broker.id"] == "1000003"
    assert settings["reassign.partitions.status.min.retention.ms"] == "86400000"
    assert settings["delete.topic.enable"] == "false"
    assert settings["advertised.listeners"] == (
        f"PLAINTEXT://payments-leader-1000003.payments-leader.{pod.NAMESPACE}.svc:9095,"
        "OUTSIDE://payments-leader-1000003.example.org:443"
    )


def test_the_secured_example_finds_its_secrets(tmp_path: Path) -> None:
    manifests = by_kind(rendered(f"--values={SECURED}"))
    mounted = {mount["mountPath"].rpartition("/")[2] for mount in pod.container(manifests)["volumeMounts"]}
    assert mounted == {"settings", "controller-tls", "controller-login"}
    for secret in mounted - {"settings"}:
        (tmp_path / "secrets" / secret).mkdir(parents=True)
    identity = make_identity(tmp_path / "secrets/controller-tls/tls-combined.pem")
    (tmp_path / "secrets/controller-tls/ca.crt").write_bytes(identity.read_bytes().partition(b"KEY-----\n")[2])
    (tmp_path / "secrets/controller-login/password").write_text("c0rrect;horse=battery")

    settings = pod.checked_settings(manifests, 903, tmp_path)

    assert settings["advertised.listeners"].startswith("INTERNAL://kafka-zk-controller-903.")
    assert settings["super.users"] == "User:kafka;User:controller"


def test_a_web_config_closes_the_port_to_strangers(tmp_path: Path) -> None:
    manifests = by_kind(rendered(PROMETHEUS, "--set=http.webConfigSecret=web"))
    properties = manifests["ConfigMap"]["data"]["controller.properties"]

    assert "http.web.config.file=/etc/kafka-zk-controller/web/web-config.yml" in properties.splitlines()
    assert "http.open" not in properties
    probes = [pod.container(manifests)[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert {probe["scheme"] for probe in probes} == {"HTTPS"}
    assert manifests["PodMonitor"]["spec"]["podMetricsEndpoints"][0]["scheme"] == "https"


def test_the_command_of_the_documentation_can_be_run() -> None:
    (block,) = re.findall(
        r"^```\n(helm install .*?)^```", (DEPLOY / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    command, action, release, chart, *options = shlex.split(block.replace("\\\n", " "))
    assert (command, action) == ("helm", "install")

    done = HELM.run("template", release, DEPLOY.parent / chart, AS_OF, *options)

    assert done.returncode == 0, done.stderr
    assert 'image: "registry.example.org/kafka-zk-controller:' in done.stdout


def test_changed_settings_restart_the_replicas() -> None:
    pods = [
        by_kind(rendered(*arguments))["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]
        for arguments in ((), ("--set=settings.log\\.level=debug",), ())
    ]

    assert pods[0] == pods[2] != pods[1]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("replica=3", "replica"),
        ("zookeeper.connect=", "zookeeper"),
        ("settings.broker\\.id=1", "broker.id"),
        ("settings.http\\.open=true", "http.open"),
        ("antiAffinity=hard", "antiAffinity"),
        ("firstBrokerId=-1", "firstBrokerId"),
        ("listeners[0].name=PLAINTEXT", "port"),
        ("secrets[0]=Not_A_Name", "secrets"),
        ("podMonitor.enabled=true,podMonitor.endpoint.path=/x", "path"),
    ],
)
def test_an_unknown_value_is_refused_by_name(wrong: str, named: str) -> None:
    done = template(f"--set={wrong}")

    assert done.returncode != 0
    assert named in done.stderr


def test_every_default_is_a_known_value() -> None:
    """The schema has no value without a default, but for what a subchart is given."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))

    assert schema["properties"].keys() - {"global"} == defaults.keys()
    for name, value in schema["properties"].items():
        if "properties" in value:
            assert value["properties"].keys() == defaults[name].keys()
            assert value["additionalProperties"] is False
