"""How does one replica of our controller run beside a cluster on this machine, and what is its state?"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from controller.lab.ports import free_ports
from controller.lab.process import Process
from metrics.measures import PREFIX

_ANSWER_WITHIN_S = 2.0


class ReplicaSettings(Struct, frozen=True):
    """The settings of one replica.

    Shape:
        `inter_broker_protocol` is the brokers' version, with or without its last number. `more` are further
        settings by key.
    """

    replica_id: int
    zookeeper_connect: str
    inter_broker_protocol: str
    more: Mapping[str, str] = {}


class Replica:
    """One process of the daemon, as `kafka-zk-controller run` starts it."""

    def __init__(self, settings: ReplicaSettings, directory: Path, *, outlives_us: bool = False) -> None:
        """Writes the configuration; `directory` takes it and the log. Starts nothing yet."""
        self.settings = settings
        self.replica_id = settings.replica_id
        self.port, self._http_port = free_ports(2)
        directory.mkdir(parents=True, exist_ok=True)
        self.config_file = directory / f"controller-{self.replica_id}.properties"
        self.config_file.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        argv: list[str | Path] = [sys.executable, "-m", "controller", "run", "--config", self.config_file]
        log_file = directory / f"controller-{self.replica_id}.log"
        self.process = Process(f"controller-{self.replica_id}", argv, log_file, outlives_us=outlives_us)

    @property
    def address(self) -> str:
        """Its Kafka listener."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Its HTTP pages."""
        return f"http://127.0.0.1:{self._http_port}"

    @property
    def is_leading(self) -> bool:
        """Whether it reports that it leads."""
        return self.status().get("is_leader") is True

    def status(self) -> dict[str, Any]:
        """The status it reports; empty if it does not answer."""
        answer = self._ask("/leader")
        return json.loads(answer) if answer else {}

    def figures(self) -> dict[str, float]:
        """Its metrics, by name without the product's prefix and with labels; empty if it does not answer.

        Shape:
            `zookeeper_commits_total{outcome=committed}`; several labels in the order of their names.
        """
        return parse_figures(self._ask("/metrics"))

    def _ask(self, page: str) -> str:
        try:
            with urllib.request.urlopen(self.url + page, timeout=_ANSWER_WITHIN_S) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, OSError):
            return ""

    def _properties(self) -> dict[str, str]:
        release = ".".join(self.settings.inter_broker_protocol.split(".")[:2])
        return {
            "broker.id": str(self.replica_id),
            "zookeeper.connect": self.settings.zookeeper_connect,
            "zookeeper.session.timeout.ms": "6000",
            "listeners": f"PLAINTEXT://{self.address}",
            "inter.broker.protocol.version": release,
            "http.port": str(self._http_port),
            "log.format": "text",
            **self.settings.more,
        }


def parse_figures(exposition: str) -> dict[str, float]:
    """The samples of a `/metrics` page.

    >>> parse_figures('kafka_zk_controller_notices_total{kind="stray"} 2.0')
    {'notices_total{kind=stray}': 2.0}
    """
    found = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            name = sample.name.removeprefix(PREFIX)
            found[f"{name}{{{labels}}}" if labels else name] = sample.value
    return found


def total(figures: Mapping[str, float], name: str) -> float:
    """The sum of a figure over all its labels.

    >>> total({"requests_total{api=a}": 2.0, "requests_total{api=b}": 1.0, "requests_totally": 9.0}, "requests_total")
    3.0
    """
    return sum(value for key, value in figures.items() if key.partition("{")[0] == name)
