"""Who is measured? A replica of this daemon and a Kafka broker with its own controller, each as a standby at first."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from controller.lab.kafka_broker import KafkaBroker
from controller.lab.ports import free_port
from controller.lab.process import Process

SESSION_TIMEOUT_MS = 18_000  # Kafka's default

# What Kafka's own start script gives a broker.
PRODUCTION_JAVA = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
_PRODUCTION_BROKER = {
    "num.network.threads": 3,
    "num.io.threads": 8,
    "background.threads": 10,
    # So that it ends quickly when it has been measured.
    "controlled.shutdown.enable": "false",
    "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
}


class Contender(Protocol):
    """One process that becomes the controller as soon as `/controller` is free."""

    name: str
    broker_id: int
    port: int

    @property
    def process(self) -> Process:
        """What is measured."""

    def start(self) -> None:
        """Start it and wait until it stands by."""


class Ours:
    """This daemon, as users run it."""

    def __init__(self, zookeeper: str, directory: Path, profile: Path | None = None) -> None:
        """Nothing starts yet. With `profile` it runs under cProfile and is much slower."""
        self.name = "kafka-zk-controller"
        self.broker_id, self.port = 901, free_port()
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "controller.properties"
        properties = {
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
            "broker.id": self.broker_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "inter.broker.protocol.version": "3.9",
            "controller.takeover": "when-vacant",
            "http.port": 0,
            "log.format": "text",
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        profiling: Sequence[str | Path] = ("-m", "cProfile", "-o", profile) if profile else ()
        argv = [sys.executable, *profiling, "-m", "controller", "run", "--config", config]
        self.process = Process(self.name, argv, directory / "controller.log")

    def start(self) -> None:
        """Start it and wait until it stands by."""
        self.process.start()
        self.process.wait_until(
            lambda: b"standing by" in self.process.output_since_start(), 30, waiting_for="it stood by"
        )


class Kafkas:
    """Kafka's own controller, inside a broker without replicas."""

    def __init__(self, zookeeper: str, directory: Path, heap: str = "4g", version: str = "3.9.1") -> None:
        self.name = f"Kafka {version}"
        self.broker_id = 902
        self._broker = KafkaBroker(
            self.broker_id,
            version,
            zookeeper,
            directory,
            overrides=_PRODUCTION_BROKER,
            java_options=(f"-Xmx{heap}", *PRODUCTION_JAVA),
        )
        self.port = self._broker.port

    @property
    def process(self) -> Process:
        """The broker."""
        return self._broker.process

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self._broker.start()
