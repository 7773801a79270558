"""What is measured? A replica of this daemon and a Kafka broker with its own controller, each a standby first."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from controller.lab.kafka_broker import KafkaBroker
from controller.lab.ports import free_port
from controller.lab.process import Process

SESSION_TIMEOUT_MS = 18_000  # Kafka's default
VERSION = "3.9.1"
KRAFT_VERSION = "4.0.0"
OURS, KAFKA, KRAFT = "kafka-zk-controller", f"Kafka {VERSION}", f"KRaft {KRAFT_VERSION}"

# The options of Kafka's own start script.
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
    # So that it ends quickly after the measurement.
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
        """The measured process."""

    def start(self) -> None:
        """Start it and wait until it stands by."""


class Ours:
    """This daemon, as users run it."""

    def __init__(
        self,
        zookeeper: str,
        directory: Path,
        profile: Path | None = None,
        broker_id: int = 901,
        settings: Mapping[str, object] = {},
    ) -> None:
        """With `profile` it runs under cProfile and is much slower. `settings` go before those of every benchmark."""
        self.name = OURS
        self.broker_id, self.port = broker_id, free_port()
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
            **settings,
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        profiling: Sequence[str | Path] = ("-m", "cProfile", "-o", profile) if profile else ()
        argv = [sys.executable, *profiling, "-m", "tests.benchmarks.as_installed", "run", "--config", config]
        self.process = Process(self.name, argv, directory / "controller.log")

    def start(self) -> None:
        """Start it and wait until it stands by."""
        self.process.start()
        self.process.wait_until(
            lambda: b"standing by" in self.process.output_since_start(), 30, waiting_for="it stood by"
        )


class Kafkas:
    """Kafka's own controller, inside a broker without replicas."""

    def __init__(self, zookeeper: str, directory: Path, heap: str = "4g", broker_id: int = 902) -> None:
        self.name = KAFKA
        self.broker_id = broker_id
        self._broker = KafkaBroker(
            self.broker_id,
            VERSION,
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
