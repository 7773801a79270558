"""How does a whole cluster run on this machine? ZooKeeper, brokers, and our own processes beside them."""

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from controller.lab.errors import LabError
from controller.lab.jars import Progress, kafka_class_path
from controller.lab.java import SMALL_SERVER, find_java
from controller.lab.kafka_broker import KafkaBroker
from controller.lab.ports import free_ports
from controller.lab.process import Process
from controller.lab.server import Server
from controller.lab.tools import KafkaTools
from controller.lab.zookeeper import ZooKeeperServer, ZooKeeperSettings


class ClusterSettings(msgspec.Struct, frozen=True):
    """What it is made of.

    `chroot` starts with a slash or is empty. `overrides` are broker properties, `java_options` the brokers'.
    """

    version: str = "3.9.1"
    broker_ids: tuple[int, ...] = (1, 2, 3)
    chroot: str = ""
    overrides: Mapping[str, object] = {}
    java_options: tuple[str, ...] = SMALL_SERVER
    zookeeper: ZooKeeperSettings = ZooKeeperSettings()


class LocalCluster(Server):
    """A ZooKeeper server and Kafka brokers, started together and surely stopped together.

    As a context manager it also stops everything after an error or Ctrl-C. A directory given by the caller is kept;
    otherwise a temporary one is removed. With `outlives_us` all processes stay when this one ends without `stop`.
    """

    def __init__(
        self,
        settings: ClusterSettings | None = None,
        *,
        directory: Path | None = None,
        progress: Progress = lambda _: None,
        outlives_us: bool = False,
    ) -> None:
        """Nothing starts yet, but missing jars are downloaded.

        Raises:
            JavaUnavailable: No Java was found.
            JarsUnavailable: The jars of this version cannot be had.
        """
        self.settings = settings or ClusterSettings()
        self.version = self.settings.version
        self.tools = KafkaTools(self.version)
        self.processes: dict[str, Process] = {}
        self._progress = progress
        self._outlives_us = outlives_us
        kafka_class_path(self.version, progress=progress)
        find_java()  # before the directory is made, so that nothing stays behind
        self._is_temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="kafka-zk-controller-"))
        zookeeper_port, *ports = free_ports(1 + len(self.settings.broker_ids))
        self.zookeeper = ZooKeeperServer(
            self.directory / "zookeeper", zookeeper_port, self.settings.zookeeper, outlives_us=outlives_us
        )
        self.brokers = {
            broker_id: KafkaBroker(
                broker_id,
                self.version,
                self.zookeeper_connect,
                self.directory / f"broker-{broker_id}",
                port,
                overrides=self._overrides(),
                java_options=self.settings.java_options,
                outlives_us=outlives_us,
            )
            for broker_id, port in zip(self.settings.broker_ids, ports, strict=True)
        }

    @property
    def zookeeper_connect(self) -> str:
        """The connect string with the chroot."""
        return self.zookeeper.connect + self.settings.chroot

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses as clients take them."""
        return ",".join(broker.address for broker in self.brokers.values())

    def start(self) -> None:
        """Start ZooKeeper, then all brokers at the same time, and wait for all.

        Raises:
            ServerFailed: One did not come up; with the tail of its log.
        """
        self._progress("starting ZooKeeper")
        self.zookeeper.start()
        self._progress(f"starting {len(self.brokers)} brokers {self.version}")
        self.start_brokers(self.brokers)

    def start_brokers(self, broker_ids: Iterable[int]) -> None:
        """Start these brokers at the same time and wait until all are registered."""
        brokers = [self.brokers[broker_id] for broker_id in broker_ids]
        for broker in brokers:
            broker.spawn()
        for broker in brokers:
            broker.wait_until_registered()
            self._progress(f"broker {broker.broker_id} is up")

    def start_process(self, name: str, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> Process:
        """Start a process of our own beside the servers; it is stopped with the cluster, before the brokers.

        Raises:
            ServerFailed: It cannot be started, or one of that name runs.
        """
        if name in self.processes and self.processes[name].is_alive:
            raise LabError(f"a process {name} runs already")
        process = Process(name, argv, self.directory / f"{name}.log", env=env, outlives_us=self._outlives_us)
        self.processes[name] = process
        process.start()
        return process

    def stop(self) -> None:
        """Stop everything; brokers are killed, since nobody needs their good order any more."""
        for process in self.processes.values():
            process.stop()
        self.kill()

    def kill(self) -> None:
        """End everything at once."""
        for process in (*self.processes.values(), *self._servers()):
            process.kill()
        if self._is_temporary:
            with suppress(OSError):
                shutil.rmtree(self.directory)

    def _servers(self) -> list[Process]:
        return [*(broker.process for broker in self.brokers.values()), self.zookeeper.process]

    def _overrides(self) -> dict[str, object]:
        replicas = min(3, len(self.settings.broker_ids))
        return {
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": max(1, replicas - 1),
            **self.settings.overrides,
        }
