"""Do the plain manifests start replicas that can lead, apart from one another, watched and restricted?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from controller.http.server import OPEN_PATHS
from tests.deploy import pod
from tests.deploy.chart import DEPLOY, PLAIN, by_kind

CONTROLLER = by_kind((PLAIN / "controller.yaml").read_text("utf-8"))
MONITORING = by_kind((PLAIN / "monitoring.yaml").read_text("utf-8"))
POD = CONTROLLER["StatefulSet"]["spec"]["template"]
LABELS = POD["metadata"]["labels"]
CONTAINER = pod.container(CONTROLLER)
PORTS = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}


def selects(selector: Mapping[str, str]) -> bool:
    """Whether a pod of the controller is meant."""
    return bool(selector) and selector.items() <= LABELS.items()


@pytest.mark.parametrize("ordinal", pod.ordinals(CONTROLLER))
def test_a_replica_has_the_id_and_the_name_of_its_pod(ordinal: int, tmp_path: Path) -> None:
    found = pod.checked_settings(CONTROLLER, ordinal, tmp_path)

    service = CONTROLLER["Service"]["metadata"]["name"]
    assert found["broker.id"] == str(ordinal)
    assert found["listeners"] == "PLAINTEXT://:9095"
    assert found["advertised.listeners"] == f"PLAINTEXT://{service}-{ordinal}.{service}.{pod.NAMESPACE}.svc:9095"
    assert CONTROLLER["StatefulSet"]["spec"]["serviceName"] == service
    assert {"listener-0": 9095, "http": int(found["http.port"])} == PORTS


def test_a_replica_is_in_dns_before_it_is_ready() -> None:
    """It looks for itself at its advertised address first, and only then may lead."""
    spec = CONTROLLER["Service"]["spec"]

    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert selects(spec["selector"])


def test_a_standby_is_told_from_a_sick_replica() -> None:
    probes = {name: CONTAINER[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}

    assert {probe["path"] for probe in probes.values()} == OPEN_PATHS
    assert probes["readinessProbe"]["path"] == "/readyz"
    assert {probe["port"] for probe in probes.values()} <= PORTS.keys()


def test_a_replica_has_the_time_to_hand_leadership_over(tmp_path: Path) -> None:
    found = pod.checked_settings(CONTROLLER, 901, tmp_path)
    keys = ("zookeeper.session.timeout.ms", "controller.drain.timeout.ms", "request.timeout.ms")

    needed_s = sum(int(found[key]) for key in keys) / 1000 + 10
    assert POD["spec"]["terminationGracePeriodSeconds"] >= needed_s


def test_no_replica_waits_for_another_or_shares_its_node() -> None:
    assert CONTROLLER["StatefulSet"]["spec"]["podManagementPolicy"] == "Parallel"
    (apart,) = POD["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert selects(apart["labelSelector"]["matchLabels"])
    (spread,) = POD["spec"]["topologySpreadConstraints"]
    assert selects(spread["labelSelector"]["matchLabels"])
    budget = CONTROLLER["PodDisruptionBudget"]["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert selects(budget["selector"]["matchLabels"])


def test_a_replica_may_do_nothing_but_its_work() -> None:
    """What Kubernetes' profile `restricted` demands, and a read-only root."""
    of_pod, of_container = POD["spec"]["securityContext"], CONTAINER["securityContext"]
    user = re.search(r"^USER (\d+):(\d+)$", (DEPLOY / "Dockerfile").read_text("utf-8"), re.MULTILINE)

    assert user is not None
    assert (of_pod["runAsUser"], of_pod["runAsGroup"]) == (int(user[1]), int(user[2]))
    assert of_pod["runAsNonRoot"] is True
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert of_container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert POD["spec"]["automountServiceAccountToken"] is False
    assert CONTROLLER["ServiceAccount"]["automountServiceAccountToken"] is False


def test_no_service_is_taken_for_a_setting() -> None:
    """A Service kafka-zk-controller-x would be a variable KAFKA_ZK_CONTROLLER_X_SERVICE_HOST, an unknown setting."""
    assert POD["spec"]["enableServiceLinks"] is False


def test_only_prometheus_reads_the_http_port() -> None:
    spec = CONTROLLER["NetworkPolicy"]["spec"]
    rules = {rule["ports"][0]["port"]: rule.get("from") for rule in spec["ingress"]}

    assert selects(spec["podSelector"]["matchLabels"])
    assert rules.keys() == PORTS.keys()
    assert rules["listener-0"] is None
    assert rules["http"] == [
        {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}
    ]


def test_metrics_are_scraped_as_a_job_that_the_alerts_watch() -> None:
    spec = MONITORING["PodMonitor"]["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    jobs = re.findall(r'job=~"(.*?)"', (DEPLOY / "alerts.yml").read_text("utf-8"))

    assert selects(spec["selector"]["matchLabels"])
    assert PORTS.keys() >= {endpoint["port"]}
    (job,) = [label["replacement"] for label in endpoint["relabelings"] if label["targetLabel"] == "job"]
    assert jobs
    assert all(re.fullmatch(pattern, job) for pattern in jobs)


def test_the_alert_rules_are_those_of_the_file() -> None:
    assert MONITORING["PrometheusRule"]["spec"] == yaml.safe_load((DEPLOY / "alerts.yml").read_text("utf-8"))
