"""The cluster to try it on, as deploy/README.md has it: each command of the page, and what it says that one sees.

Images of others are made here. Ours is built by Compose; its layers are there already, since a build in an engine of
the tests' own reaches no network but that of this machine, and deploy/compose.yaml does not ask for it.
"""

from __future__ import annotations

import json
import re
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import docker
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from msgspec import Struct

from controller.lab.errors import LabError
from controller.lab.ports import free_port
from tests.cluster.replica import wait_until
from tests.containers import engine
from tests.containers.images_of_others import kafka_image, prometheus_image
from tests.deploy.test_compose import compose
from tests.equipment.guide import Command, Guide, Host

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(3600)]
PAGE = engine.TOP / "deploy/README.md"
SECTION = "A cluster to try it on"
VERSION = "3.9.1"
# Of a machine that does much else.
PATIENCE_S = 600.0
OURS = "kafka-zk-controller:whole-cluster"
PROJECT = "whole-cluster"
IDS = {901: 902, 902: 901}
# Brokers and replicas: the last three digits of their ports on this host.
PUBLISHED = (1, 2, 3, *IDS)
TARGETS = [f"controller-{number}:9640" for number in IDS]
ALERTS = engine.TOP / "deploy/alerts.yml"
BOOTSTRAP = re.compile(r"`(127\.0\.0\.1:\S+)`")


class Place(Struct):
    """The host of a user, with what this machine has for the names in the page."""

    guide: Guide
    host: Host
    prometheus: str
    bootstrap: list[str]
    client: Any

    def walk(self, label: str, leader: int = 901) -> None:
        """Run the commands below a label. In the page 901 leads first."""
        self.host.walk([_with_leader(command, leader) for command in self.guide.take(SECTION, label)])

    def clean_up(self) -> None:
        """Remove the cluster, and our image; what the containers logged is shown if the test has failed."""
        (command,) = self.guide.take(SECTION, "The end")
        line = self.host.here(command.line)
        print(self.host.run(line.replace("down --volumes", "logs --tail=30"))[1])  # noqa: T201
        self.host.run(line)
        if self.client.images.list(OURS):
            self.client.images.remove(OURS)

    def asked(self, path: str, **query: str) -> Any:
        """What Prometheus answers; None until it does."""
        url = f"{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def targets(self) -> dict[str, str]:
        """The health of each that is scraped."""
        found = self.asked("targets") or {"activeTargets": []}
        return {each["labels"]["instance"]: each["health"] for each in found["activeTargets"]}

    def alerts(self) -> dict[str, str]:
        """The health of each rule that is loaded."""
        found = self.asked("rules") or {"groups": []}
        return {rule["name"]: rule["health"] for group in found["groups"] for rule in group["rules"]}

    def leaders_scraped(self) -> list[str]:
        """The replicas that say in their metrics that they lead."""
        found = self.asked("query", query="kafka_zk_controller_is_leader == 1") or {"result": []}
        return [each["metric"]["instance"] for each in found["result"]]

    def replicas(self) -> dict[str, Any]:
        """What the engine says of each replica's container, by its service."""
        found = {each.labels["com.docker.compose.service"]: each.attrs for each in self.left()["containers"]}
        return {f"controller-{number}": found[f"controller-{number}"] for number in IDS}

    def are_healthy(self) -> bool:
        """Whether both replicas are, by the health check of the image."""
        return all(attrs["State"].get("Health", {}).get("Status") == "healthy" for attrs in self.replicas().values())

    def left(self) -> dict[str, Any]:
        """What the engine has of the project, and the names of all volumes."""
        mine = {"label": f"com.docker.compose.project={PROJECT}"}
        return {
            "containers": self.client.containers.list(all=True, filters=mine),
            "networks": self.client.networks.list(filters=mine),
            "volumes": {volume.name for volume in self.client.volumes.list()},
        }

    def cluster(self) -> tuple[set[int], int]:
        """The nodes that a client on this host sees, and the controller; nothing until a broker answers."""
        try:
            with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
                found = admin.describe_cluster()
        except KafkaError:
            return set(), -1
        return {each["broker_id"] for each in found["brokers"]}, found["controller_id"]

    def is_led_by(self, *replicas: int) -> bool:
        """Whether clients see all brokers, and one of these as the controller."""
        nodes, controller = self.cluster()
        return controller in replicas and nodes == {1, 2, 3, controller}

    def use(self, topic: str) -> None:
        """Create a topic, write to it and read from it, as a program on this host."""
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            admin.create_topics([NewTopic(topic, num_partitions=6, replication_factor=3)])
        records = [b"%d" % number for number in range(60)]
        with closing(KafkaProducer(bootstrap_servers=self.bootstrap, acks="all")) as producer:
            for number, record in enumerate(records):
                producer.send(topic, record, partition=number % 6).get(timeout=60)
        read: list[bytes] = []
        with closing(KafkaConsumer(topic, bootstrap_servers=self.bootstrap, auto_offset_reset="earliest")) as consumer:

            def is_read() -> bool:
                polled = consumer.poll(timeout_ms=1000).values()
                read.extend(record.value for some in polled for record in some)
                return len(read) >= len(records)

            wait_until(is_read, "all was read", PATIENCE_S)
        assert sorted(read) == sorted(records)


def _with_leader(command: Command, leader: int) -> Command:
    def here(text: str) -> str:
        return re.sub(r"\b90[12]\b", lambda found: str(leader if found[0] == "901" else IDS[leader]), text)

    return Command(here(command.line), None if command.output is None else here(command.output))


def free_prefix() -> str:
    """The first digits of five ports, all of which are free."""
    for prefix in range(20, 60):
        with ExitStack() as stack:
            try:
                for last in PUBLISHED:
                    stack.enter_context(closing(socket.create_server(("127.0.0.1", int(f"{prefix}{last:03}")))))
            except OSError:
                continue
            return str(prefix)
    pytest.skip("no five ports are free that differ in their last three digits alone")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """The images, an engine, Compose."""
    argv = next(compose(), None)
    if argv is None:
        pytest.skip("Docker Compose is not installed")
    with ExitStack() as stack:
        base = stack.enter_context(engine.base_image())
        stack.enter_context(engine.our_image(base))
        try:
            kafka = stack.enter_context(kafka_image(base, VERSION, tmp_path / "kafka"))
        except LabError as error:
            pytest.skip(str(error))
        prometheus = stack.enter_context(prometheus_image(base, tmp_path / "prometheus"))
        prefix, port = free_prefix(), free_port()
        environment = {
            "BASE": base,
            "CONTROLLER_IMAGE": OURS,
            "PORT_PREFIX": prefix,
            "PROMETHEUS_PORT": str(port),
            "COMPOSE_PROJECT_NAME": PROJECT,
            # The builder that has built our image before, where there are two.
            "DOCKER_BUILDKIT": "0",
            "COMPOSE_DOCKER_CLI_BUILD": "0",
        }
        names = {
            "registry.example.org/kafka": kafka,
            "registry.example.org/prometheus": prometheus,
            "deploy/compose.yaml": str(engine.TOP / "deploy/compose.yaml"),
            "docker compose": " ".join(argv),
            # A user has a terminal.
            " exec ": " exec -T ",
        }
        (shown,) = set(BOOTSTRAP.findall(PAGE.read_text("utf-8")))
        bootstrap = shown.replace(":19", f":{prefix}").split(",")
        client = stack.enter_context(closing(docker.from_env()))
        host = stack.enter_context(Host(tmp_path / "host", names, environment))
        place = Place(Guide(PAGE), host, f"http://127.0.0.1:{port}", bootstrap, client)
        # Also where the test has failed, and in an engine that stays.
        stack.callback(place.clean_up)
        yield place


def test_one_command_starts_a_cluster_that_is_led_and_scraped_and_another_one_removes_it(place: Place) -> None:
    volumes = place.left()["volumes"]
    place.walk("")
    wait_until(lambda: place.is_led_by(*IDS), "a replica led three brokers", PATIENCE_S)
    _, leader = place.cluster()
    place.walk("Who leads", leader)

    wait_until(place.are_healthy, "both replicas were healthy", PATIENCE_S)
    for attrs in place.replicas().values():
        allowed = attrs["HostConfig"]
        assert attrs["Config"]["User"] == "10901:10901"
        assert (allowed["ReadonlyRootfs"], allowed["CapDrop"]) == (True, ["ALL"])
    wait_until(lambda: place.targets() == dict.fromkeys(TARGETS, "up"), "both replicas were scraped", PATIENCE_S)
    wait_until(lambda: place.leaders_scraped() == [f"controller-{leader}:9640"], "it led, in Prometheus", PATIENCE_S)
    wait_until(lambda: set(place.alerts().values()) == {"ok"}, "the alerts were evaluated", PATIENCE_S)
    assert list(place.alerts()) == re.findall(r"- alert: (\w+)", ALERTS.read_text("utf-8"))
    place.use("orders")

    place.walk("A failure", leader)
    wait_until(lambda: place.is_led_by(IDS[leader]), "clients knew the other replica", PATIENCE_S)
    place.use("payments")
    wait_until(place.are_healthy, "the killed one was back", PATIENCE_S)
    wait_until(lambda: place.leaders_scraped() == [f"controller-{IDS[leader]}:9640"], "the other led there", PATIENCE_S)
    wait_until(lambda: place.targets() == dict.fromkeys(TARGETS, "up"), "both were scraped again", PATIENCE_S)

    place.walk("The end", leader)
    assert place.left() == {"containers": [], "networks": [], "volumes": volumes}
    assert place.guide.left == set()
