"""Does deploy/compose.yaml start a cluster that is led and scraped, with images that are the user's to name?

Judged without an engine, except for what Compose itself says of the file where it is installed. That it starts is
shown by tests/containers/test_whole_cluster.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from controller.__main__ import main

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
PROMETHEUS = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
TEXT = COMPOSE.read_text("utf-8")
# The images that it demands.
NAMED = {"KAFKA_IMAGE": "kafka:test", "PROMETHEUS_IMAGE": "prometheus:test"}
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def resolved(text: str) -> str:
    """The file with its variables replaced, as Compose does it."""

    def value(match: re.Match[str]) -> str:
        name, kind, other = match.groups()
        return NAMED[name] if kind == "?" else NAMED.get(name, other)

    return VARIABLE.sub(value, text)


SERVICES: dict[str, Any] = yaml.safe_load(resolved(TEXT))["services"]
BROKERS = [name for name in SERVICES if name.startswith("broker-")]
CONTROLLERS = [name for name in SERVICES if name.startswith("controller-")]


def overrides(name: str) -> dict[str, str]:
    """The settings that a broker is started with."""
    argv = [*SERVICES[name]["entrypoint"], *SERVICES[name]["command"]]
    given = argv[argv.index("/dev/null") + 1 :]
    assert given[::2] == ["--override"] * (len(given) // 2)
    return dict(pair.split("=", 1) for pair in given[1::2])


def settings(name: str) -> dict[str, str]:
    """The settings that a replica has, as it prints them itself."""
    head, *arguments = SERVICES[name]["command"]
    environment = SERVICES[name]["environment"]
    asked = CliRunner(env=environment).invoke(main, [head, *arguments, "--check-config", "--output=json"])
    assert asked.exit_code == 0, asked.output
    found: dict[str, str] = json.loads(asked.stdout)["settings"]
    return found


def test_it_has_what_it_says() -> None:
    assert SERVICES.keys() == {"zookeeper", "prometheus", *BROKERS, *CONTROLLERS}
    assert (len(BROKERS), len(CONTROLLERS)) == (3, 2)


def test_images_of_others_are_named_by_the_user() -> None:
    """A default would name somebody's registry."""
    given = {name: kind for name, kind, _ in VARIABLE.findall(TEXT) if name.endswith("_IMAGE")}
    images = set(re.findall(r"^ +image: (.*)$", TEXT, re.MULTILINE))

    assert given == {"KAFKA_IMAGE": "?", "PROMETHEUS_IMAGE": "?", "CONTROLLER_IMAGE": "-"}
    assert all(VARIABLE.fullmatch(image) for image in images)


def test_our_image_is_built_once_and_never_pulled() -> None:
    """Two builds of one image at a time collide where Compose builds in parallel."""
    (builds,) = [name for name in CONTROLLERS if "build" in SERVICES[name]]
    others = [SERVICES[name] for name in CONTROLLERS if name != builds]

    assert SERVICES[builds]["build"]["dockerfile"] == "deploy/Dockerfile"
    assert {service["image"] for service in others} == {SERVICES[builds]["image"]}
    assert all((service["pull_policy"], service["depends_on"]) == ("never", [builds]) for service in others)


def check_addresses(name: str, found: dict[str, str]) -> None:
    """In the network it is reached by its name, from this host at a port of its own, which is the same inside."""
    inside, outside = found["listeners"].split(",")
    port = f"19{int(found['broker.id']):03}"

    assert found["broker.id"] == name.rpartition("-")[2]
    assert outside == f"HOST://0.0.0.0:{port}"
    expected = [inside.replace("0.0.0.0", name), outside.replace("0.0.0.0", "127.0.0.1")]
    assert found["advertised.listeners"].split(",") == expected
    assert SERVICES[name]["ports"] == [f"127.0.0.1:{port}:{port}"]


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_is_reached_by_its_name_and_from_this_host(name: str) -> None:
    found = overrides(name)

    check_addresses(name, found)
    host, _, port = found["zookeeper.connect"].partition("/")[0].partition(":")
    assert port in SERVICES[host]["command"]


@pytest.mark.parametrize("name", CONTROLLERS)
def test_a_replica_takes_its_settings(name: str) -> None:
    found = settings(name)

    check_addresses(name, found)
    assert {found["zookeeper.connect"]} == {overrides(broker)["zookeeper.connect"] for broker in BROKERS}
    assert (found["http.host"], found["http.open"]) == ("0.0.0.0", "true")


@pytest.mark.parametrize("name", CONTROLLERS)
def test_a_replica_may_do_nothing_but_its_work(name: str) -> None:
    service = SERVICES[name]
    keys = ("zookeeper.session.timeout.ms", "controller.drain.timeout.ms", "request.timeout.ms")
    needed_s = sum(int(settings(name)[key]) for key in keys) / 1000 + 10

    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert int(service["stop_grace_period"].removesuffix("s")) >= needed_s


def test_every_replica_is_scraped_and_the_alerts_watch_it() -> None:
    (scraped,) = PROMETHEUS["scrape_configs"]
    (targets,) = (part["targets"] for part in scraped["static_configs"])
    watched = set(re.findall(r'job=~"(.*?)"', (DEPLOY / "alerts.yml").read_text("utf-8")))

    assert targets == [f"{name}:{settings(name)['http.port']}" for name in CONTROLLERS]
    assert watched
    assert all(re.fullmatch(pattern, scraped["job_name"]) for pattern in watched)


def test_prometheus_finds_its_files() -> None:
    mounted = dict(volume.split(":")[:2] for volume in SERVICES["prometheus"]["volumes"])
    (configuration,) = [
        argument.partition("=")[2] for argument in SERVICES["prometheus"]["entrypoint"] if "config.file" in argument
    ]
    inside = {there: (DEPLOY / here) for here, there in mounted.items()}

    assert inside[configuration] == DEPLOY / "prometheus.yml"
    for rules in PROMETHEUS["rule_files"]:
        assert inside[f"{Path(configuration).parent}/{rules}"].is_file()


def test_prometheus_is_published_and_everything_only_here() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}

    assert published.keys() == {"prometheus", *BROKERS, *CONTROLLERS}
    assert published["prometheus"] == ["127.0.0.1:9090:9090"]
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def _has_plugin() -> bool:
    return subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0


def compose() -> Iterator[list[str]]:
    """The ways to run it on this machine."""
    if shutil.which("docker-compose"):
        yield ["docker-compose"]
    if shutil.which("docker") and _has_plugin():
        yield ["docker", "compose"]


def test_compose_takes_it() -> None:
    """Its own check, by the schema that it has."""
    argv = next(compose(), None)
    if argv is None:
        pytest.skip("Docker Compose is not installed")
    argv = [*argv, "--file", str(COMPOSE), "config"]

    done = subprocess.run(argv, env={**os.environ, **NAMED}, capture_output=True, text=True, check=False, timeout=60)
    unnamed = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    rendered = yaml.safe_load(done.stdout)["services"]
    assert rendered.keys() == SERVICES.keys()
    assert {name: rendered[name]["entrypoint"] for name in BROKERS} == {
        name: SERVICES[name]["entrypoint"] for name in BROKERS
    }
    assert unnamed.returncode != 0
    assert "name an image" in unnamed.stderr
