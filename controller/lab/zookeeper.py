"""How does a real ZooKeeper server run here? As one plain Java process, on the jars inside PySpark."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from kazoo.client import KazooClient

from controller.lab.jars import zookeeper_class_path
from controller.lab.java import SMALL_SERVER, find_java
from controller.lab.ports import free_port
from controller.lab.process import Process
from controller.lab.server import Server

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %m (%c{1})%n
"""


class ZooKeeperSettings(msgspec.Struct, frozen=True):
    """How servers may differ.

    `max_request_bytes` is ZooKeeper's `jute.maxbuffer`. Without `fsync` a commit survives the end of the process but
    not of the machine. Sessions may ask for two ticks up to two minutes. `config` are further lines of zoo.cfg.
    """

    tick_time_ms: int = 500
    max_request_bytes: int | None = None
    java_options: tuple[str, ...] = SMALL_SERVER
    fsync: bool = False
    config: Mapping[str, object] = {}


class ZooKeeperServer(Server):
    """A standalone ZooKeeper server on 127.0.0.1; restarted on the same directory it keeps its data."""

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        settings: ZooKeeperSettings | None = None,
        *,
        outlives_us: bool = False,
    ) -> None:
        """Port 0 takes a free one. Starts nothing yet."""
        self.data_dir = data_dir
        self.port = port or free_port()
        self._settings = settings or ZooKeeperSettings()
        log_file = data_dir / "zookeeper.log"
        self.process = Process("zookeeper", self._argv(), log_file, outlives_us=outlives_us)

    @property
    def connect(self) -> str:
        """The connect string, without a chroot."""
        return f"127.0.0.1:{self.port}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Start it and wait until it serves requests.

        Raises:
            ServerFailed: It did not start; with the tail of its log.
        """
        self.spawn()
        self.wait_until_serving(timeout_s)

    def spawn(self) -> None:
        """Start it without waiting."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        (self.data_dir / "log4j2.properties").write_text(_LOGGING)
        (self.data_dir / "zoo.cfg").write_text(self._config())
        self.process.start()

    def wait_until_serving(self, timeout_s: float = 60.0) -> None:
        """Wait until it serves requests."""
        self.process.wait_until(lambda: "Mode:" in self.ask("srvr"), timeout_s, waiting_for="it served requests")

    def stop(self) -> None:
        """Stop it cleanly."""
        self.process.stop()

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.process.kill()

    def ask(self, command: str) -> str:
        """The answer to one of ZooKeeper's four-letter commands; empty if it does not answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(command.encode())
                with connection.makefile("rb") as answer:
                    return answer.read().decode()
        except OSError:
            return ""

    def _argv(self) -> list[str | Path]:
        system_properties = {
            "log4j2.configurationFile": str(self.data_dir / "log4j2.properties"),
            "zookeeper.forceSync": "yes" if self._settings.fsync else "no",
            "zookeeper.preAllocSize": "1024",
            "zookeeper.extendedTypesEnabled": "true",
        }
        if self._settings.max_request_bytes is not None:
            system_properties["jute.maxbuffer"] = str(self._settings.max_request_bytes)
        return [
            find_java().executable,
            *self._settings.java_options,
            *(f"-D{key}={value}" for key, value in system_properties.items()),
            "-cp",
            ":".join(map(str, zookeeper_class_path())),
            _MAIN,
            self.data_dir / "zoo.cfg",
        ]

    def _config(self) -> str:
        settings = {
            "dataDir": self.data_dir,
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "tickTime": self._settings.tick_time_ms,
            "minSessionTimeout": 2 * self._settings.tick_time_ms,
            "maxSessionTimeout": 120_000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **self._settings.config,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())


@contextmanager
def zookeeper_client(connect: str, *, within_s: float = 30.0) -> Iterator[KazooClient]:
    """A session with ZooKeeper, like that of a tool, for the time of a `with`.

    Raises:
        KazooTimeoutError: no server answered in time.
    """
    client = KazooClient(connect, timeout=10)
    try:
        client.start(timeout=within_s)
        yield client
    finally:
        client.stop()
        client.close()
