"""How does a real Kafka broker run here? As one plain Java process, any version from 2.4 to 3.9."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kazoo.handlers.threading import KazooTimeoutError

from controller.lab.errors import ServerFailed
from controller.lab.jars import kafka_class_path
from controller.lab.java import SMALL_SERVER, find_java
from controller.lab.ports import free_port
from controller.lab.process import Process
from controller.lab.server import Server
from controller.lab.zookeeper import zookeeper_client

# Every broker version from 2.4 on is known to run on these.
NEWEST_JAVA = 25

LOGGING = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %-5p %m (%c{1})%n
log4j.logger.org.apache.zookeeper=WARN
log4j.logger.state.change.logger=INFO
"""

# Small threads, files and waits: three brokers share one machine with everything else.
_SMALL = {
    "num.network.threads": 2,
    "num.io.threads": 3,
    "background.threads": 2,
    "num.recovery.threads.per.data.dir": 1,
    "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,
    "log.index.size.max.bytes": 256 * 1024,
    "offsets.topic.num.partitions": 4,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.num.partitions": 4,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
    "controlled.shutdown.enable": "true",
    "zookeeper.connection.timeout.ms": 30_000,
    "zookeeper.session.timeout.ms": 6_000,
}


class KafkaBroker(Server):
    """A Kafka broker on 127.0.0.1; restarted on the same directory it keeps its data and port."""

    def __init__(  # noqa: PLR0913 - these are what makes one broker different from another
        self,
        broker_id: int,
        version: str,
        zookeeper_connect: str,
        data_dir: Path,
        port: int = 0,
        *,
        overrides: Mapping[str, object] | None = None,
        java_options: Sequence[str] = SMALL_SERVER,
        outlives_us: bool = False,
    ) -> None:
        """Port 0 takes a free one; `overrides` are broker properties. Starts nothing yet.

        Raises:
            JarsUnavailable: The jars of this version cannot be had.
        """
        self.broker_id = broker_id
        self.version = version
        self.port = port or free_port()
        self.data_dir = data_dir
        self.properties = {**_SMALL, **self._identity(zookeeper_connect), **(overrides or {})}
        self._zookeeper_connect = zookeeper_connect
        self._java_options = java_options
        log_file = data_dir / "broker.log"
        self.process = Process(f"broker-{broker_id}", self._argv(), log_file, outlives_us=outlives_us)

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def log_dir(self) -> Path:
        """The directory of its replicas, a folder each."""
        return self.data_dir / "replicas"

    @property
    def replicas(self) -> frozenset[str]:
        """The replicas it keeps on disk, as `topic-partition`; not those about to be deleted.

        A broker whose session expires while it creates a log leaves an empty folder behind, which is not a replica.
        """
        if not self.log_dir.exists():
            return frozenset()
        folders = (folder for folder in self.log_dir.iterdir() if folder.is_dir() and any(folder.glob("*.log")))
        return frozenset(f.name for f in folders if not f.name.endswith(("-delete", "-stray", "-future")))

    def start(self, timeout_s: float = 90.0) -> None:
        """Start it and wait until it is registered in ZooKeeper and accepts connections.

        Raises:
            ServerFailed: It did not start; with the tail of its log.
        """
        self.spawn()
        self.wait_until_registered(timeout_s)

    def spawn(self) -> None:
        """Start it without waiting for it; after a crash, first wait until its old session has expired.

        A broker ends if its id is taken.
        """
        if self.process.pid is not None and not self.process.is_alive:
            self._wait_until_forgotten()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        (self.data_dir / "log4j.properties").write_text(LOGGING)
        lines = (f"{key}={value}\n" for key, value in sorted(self.properties.items()))
        (self.data_dir / "server.properties").write_text("".join(lines))
        self.process.start()

    def wait_until_registered(self, timeout_s: float = 90.0) -> None:
        """Wait until it is registered in ZooKeeper and accepts connections; once, start it again if it ends because its
        session expired while it started.
        """
        try:
            self._wait_until_started(timeout_s)
        except ServerFailed:
            # On a machine that is too busy it may be silent for longer than its session lasts.
            if self.process.is_alive or not self._lost_its_session():
                raise
            self.spawn()
            self._wait_until_started(timeout_s)

    def _wait_until_started(self, timeout_s: float) -> None:
        self.process.wait_until(self._has_started, timeout_s, waiting_for="it was registered in ZooKeeper")

    def _lost_its_session(self) -> bool:
        output = self.process.output_since_start()
        return b"SessionExpiredException" in output or b"ZooKeeperClientExpiredException" in output

    def _has_started(self) -> bool:
        started = f"[KafkaServer id={self.broker_id}] started"
        return started.encode() in self.process.output_since_start()

    def _wait_until_forgotten(self, timeout_s: float = 90.0) -> None:
        deadline = time.monotonic() + timeout_s
        try:
            with zookeeper_client(self._zookeeper_connect, within_s=timeout_s) as zookeeper:
                while zookeeper.exists(f"/brokers/ids/{self.broker_id}"):
                    if time.monotonic() > deadline:
                        raise ServerFailed(f"broker {self.broker_id} remains registered although it does not run")
                    time.sleep(0.1)
        except KazooTimeoutError as error:
            raise ServerFailed(f"ZooKeeper at {self._zookeeper_connect} does not answer") from error

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop it cleanly (SIGTERM): it first asks the controller to move its leaders."""
        self.process.stop(timeout_s)

    def kill(self) -> None:
        """End it at once, as a crash does (SIGKILL)."""
        self.process.kill()

    def become(self, version: str, **properties: object) -> None:
        """From its next start on, run another version or other properties on the same data and port.

        An underscore in a name stands for a dot.

        Raises:
            JarsUnavailable: The jars of this version cannot be had.
        """
        self.version = version
        self.properties.update({name.replace("_", "."): value for name, value in properties.items()})
        self.process.argv = tuple(map(str, self._argv()))

    def _identity(self, zookeeper_connect: str) -> dict[str, object]:
        return {
            "broker.id": self.broker_id,
            "zookeeper.connect": zookeeper_connect,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": self.log_dir,
        }

    def _argv(self) -> list[str | Path]:
        class_path = kafka_class_path(self.version)
        return [
            find_java(newest=NEWEST_JAVA).executable,
            *self._java_options,
            f"-Dlog4j.configuration=file:{self.data_dir / 'log4j.properties'}",
            f"-Dkafka.logs.dir={self.data_dir}",
            "-cp",
            ":".join(map(str, class_path)),
            "kafka.Kafka",
            self.data_dir / "server.properties",
        ]
