"""How does a test run the daemon, observe it from outside, and send it requests?"""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from prometheus_client.parser import text_string_to_metric_families

from controller.core.messages.requests import Request
from controller.demo.waiting import wait_for
from controller.lab.ports import free_ports
from controller.lab.process import Process
from metrics.measures import PREFIX
from tests.equipment.any_request import ask

OLD_AND_NEW = pytest.mark.parametrize("cluster", ["3_9", "2_4"], indirect=True)
"""Marks tests for both shared clusters."""

_names = itertools.count(1)


def wait_until(is_so: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
    """Poll until a condition holds; fail with its description."""
    wait_for(lambda: bool(is_so()), what, timeout_s=timeout_s)


def holder(zk: KazooClient) -> int | None:
    """The holder of /controller."""
    found = content(zk, "/controller")
    return int(found["brokerid"]) if found else None


def content(zk: KazooClient, path: str) -> dict[str, Any]:
    """The fields in a znode; empty where there is no znode, which may go at any moment."""
    try:
        data, _ = zk.get(path)
    except NoNodeError:
        return {}
    found: dict[str, Any] = json.loads(data)
    return found


def create_topic(zk: KazooClient, name: str) -> str:
    """Write a topic of one partition on brokers 1 and 2, and wait for the controller to give it a leader.

    Returns the path of its state.
    """
    zk.create(f"/brokers/topics/{name}", b'{"version":1,"partitions":{"0":[1,2]}}')
    state = f"/brokers/topics/{name}/partitions/0/state"
    wait_until(lambda: zk.exists(state), f"{name} had a leader")
    return state


class Replica:
    """One process of the daemon; killed at the end of the `with` if the test has not ended it."""

    def __init__(self, zookeeper: str, directory: Path, broker_id: int = 901, **settings: object) -> None:
        self.broker_id = broker_id
        self.port, self.http_port = free_ports(2)
        descriptors = settings.pop("descriptors", None)  # the limit of open files
        command = str(settings.pop("command", "run"))
        is_new = settings.pop("new_cluster", command == "run")
        flags = ["--new-cluster"] if is_new else []  # many tests have no brokers
        properties: dict[str, object] = {
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": 6000,
            "broker.id": broker_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "inter.broker.protocol.version": "3.9",
            "http.port": self.http_port,
            "log.format": "json",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self.config = config = directory / f"{broker_id}-{next(_names)}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        argv: list[str | Path] = [sys.executable, "-m", "controller", command, "--config", config, *flags]
        if descriptors is not None:
            argv = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *argv]
        self.process = Process(f"replica {broker_id}", argv, config.with_suffix(".log"))

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stderr.write(f"--- the end of {self.process.log_file} ---\n{self.process.tail(40)}\n")
        self.process.stop()

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of one page of its HTTP server; status 0 without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def leader(self) -> dict[str, Any]:
        """The content of `/leader`; empty without an answer."""
        status, text = self.get("/leader")
        return json.loads(text) if status == 200 else {}

    @property
    def phase(self) -> str | None:
        """Its phase, or None."""
        phase = self.leader().get("phase")
        return None if phase is None else str(phase)

    def await_phase(self, phase: str, timeout_s: float = 40.0) -> None:
        """Wait until it leads, or stands by and knows the leader."""

        def is_so() -> bool:
            assert self.process.is_alive, f"it ended with {self.process.exit_code}:\n{self.process.tail(20)}"
            seen = self.leader()
            return seen.get("phase") == phase and bool(seen["is_ready"])

        wait_until(is_so, f"{self.process.name} was {phase}", timeout_s)

    def measure(self, name: str, **labels: str) -> float:
        """The sum of a measure's samples with these labels; the name is that of the sample, without prefix."""
        _, text = self.get("/metrics")
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == PREFIX + name and labels.items() <= sample.labels.items()
        )

    def log(self, offset: int = 0) -> list[dict[str, Any]]:
        """Its log records from a byte offset on; a line that is no record fails."""
        text = self.process.output_since_start()[offset:].decode()
        whole = text[: text.rfind("\n") + 1]
        return [json.loads(line) for line in whole.splitlines()]

    def log_size(self) -> int:
        """The offset of the next record."""
        return len(self.process.output_since_start())

    def complaints(self, offset: int = 0) -> list[dict[str, Any]]:
        """Warnings and errors from a byte offset on."""
        return [record for record in self.log(offset) if record["level"] not in ("debug", "info")]

    @property
    def address(self) -> str:
        """Its address for clients."""
        return f"127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        """A connection to its Kafka listener."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def ask(self, request: Request, version: int = 0, timeout_s: float = 10.0) -> Any:
        """Send one request over a separate connection, and wait for as long as it lets the controller take."""
        allowed_s = getattr(request, "timeout_ms", 0) / 1000
        return ask(self.address, request, version=version, timeout_s=timeout_s + allowed_s)


def command(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run a command; return its exit code, output and errors."""
    run = subprocess.run(
        (sys.executable, "-m", "controller", *arguments, "--output", "json"),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return run.returncode, json.loads(run.stdout or "{}"), run.stderr
