"""Which actions are there for each process of the stage?"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from controller.lab.errors import ServerFailed
from controller.lab.kafka_broker import KafkaBroker
from controller.lab.ports import free_ports
from controller.lab.process import Process
from tests.chaos.clock import Clock
from tests.chaos.faults import Side
from tests.chaos.proxy import Link
from tests.ensemble import EnsembleMember

CLIENTS, BROKERS = "CLIENTS", "BROKERS"
SESSION_TIMEOUT_MS = 6000
_COMES_UP_WITHIN_S = 120.0
_LOG_PIPE_BYTES = 4096
_DESCRIPTORS = 1024


def listeners(clients_port: int, brokers_port: int, link: Link) -> dict[str, object]:
    """Clients connect directly, brokers and controllers through a link."""
    return {
        "listeners": f"{CLIENTS}://127.0.0.1:{clients_port},{BROKERS}://127.0.0.1:{brokers_port}",
        "advertised.listeners": f"{CLIENTS}://127.0.0.1:{clients_port},{BROKERS}://127.0.0.1:{link.port}",
        "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{BROKERS}:PLAINTEXT",
        "inter.broker.listener.name": BROKERS,
    }


class Member(ABC):
    """A server process that can be struck and restarted."""

    def __init__(
        self, name: str, process: Process, links: dict[Side, tuple[Link, ...]], clock: Clock | None = None
    ) -> None:
        self.name = name
        self.process = process
        self.links = links
        self.clock = clock
        self._had: dict[int, tuple[int, int]] = {}
        if clock is not None:
            clock.rule(process)

    @abstractmethod
    def spawn(self) -> None:
        """Start it without waiting until it is up."""

    @abstractmethod
    def wait_until_up(self) -> None:
        """Wait until it works.

        Raises:
            ServerFailed: it ended, or took too long.
        """

    def start_again(self) -> None:
        """Start it if it does not run, and once more if it ends at the start, because others may still be down.

        Raises:
            ServerFailed: it ended again, or took too long.
        """
        for is_last in (False, True):
            if not self.process.is_alive:
                self.process.kill()
                self.spawn()
            try:
                self.wait_until_up()
            except ServerFailed:
                if is_last or self.process.is_alive:
                    raise
            else:
                return

    @property
    def how_it_ended(self) -> str:
        """Its name and exit code, for people."""
        return f"{self.name} (exit code {self.process.exit_code})"

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

    def pause(self) -> None:
        """Stop it with SIGSTOP; its connections stay open."""
        self.process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.process.signal(signal.SIGCONT)

    def limit(self, which: int, most: int) -> None:
        """Limit its use of a resource."""
        if self.process.pid is not None and self.process.is_alive:
            had = resource.prlimit(self.process.pid, which)
            self._had.setdefault(which, had)
            resource.prlimit(self.process.pid, which, (most, had[1]))

    def unlimit(self) -> None:
        """Undo the limit, if it is still the same process."""
        for which, had in self._had.items():
            if self.process.pid is not None and self.process.is_alive:
                resource.prlimit(self.process.pid, which, had)
        self._had.clear()

    def virtual_bytes(self) -> int:
        """Its current address space."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[0]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


class EnsembleServer(Member):
    """A ZooKeeper server."""

    def __init__(self, server: EnsembleMember, clock: Clock | None) -> None:
        super().__init__(server.process.name, server.process, {}, clock)
        self.server = server

    def spawn(self) -> None:
        """Start it."""
        self.server.spawn()

    def wait_until_up(self) -> None:
        """Wait until it serves, which takes a majority of the ensemble."""
        self.server.wait_until_serving(_COMES_UP_WITHIN_S)


class Broker(Member):
    """A Kafka broker."""

    def __init__(self, broker: KafkaBroker, links: dict[Side, tuple[Link, ...]], clock: Clock | None) -> None:
        super().__init__(f"broker-{broker.broker_id}", broker.process, links, clock)
        self.broker = broker
        self.id = broker.broker_id
        self.address = broker.address

    def spawn(self) -> None:
        """Start it when its former session is over."""
        self.broker.spawn()

    def wait_until_up(self) -> None:
        """Wait until its log says so."""
        self.broker.wait_until_registered(_COMES_UP_WITHIN_S)


class Controller(Member):
    """A replica of ours, which logs into a pipe that must be read."""

    def __init__(
        self,
        broker_id: int,
        zookeeper: Sequence[Link],
        link_and_port: tuple[Link, int],
        directory: Path,
        clock: Clock | None,
    ) -> None:
        self.id = broker_id
        link, brokers_port = link_and_port
        port, self.http_port = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        directory.mkdir(parents=True, exist_ok=True)
        self.log_file = directory / "controller.log"
        properties: dict[str, object] = {
            "broker.id": broker_id,
            "zookeeper.connect": ",".join(f"127.0.0.1:{way.port}" for way in zookeeper),
            "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
            "inter.broker.protocol.version": "3.9",
            "controller.socket.timeout.ms": 10_000,
            "http.port": self.http_port,
            "leader.imbalance.check.interval.seconds": 10,
            "journal.dir": directory / "journal",
            "log.format": "text",
            **listeners(port, brokers_port, link),
        }
        config = directory / "controller.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self._pipe = LogPipe(directory / "pipe", self.log_file)
        run = f'ulimit -n {_DESCRIPTORS} && exec "$@" >"$0" 2>&1'
        argv = ("sh", "-c", run, self._pipe.path, sys.executable, "-m", "controller", "run", "--config", config)
        process = Process(f"controller-{broker_id}", argv, directory / "process.log")
        super().__init__(process.name, process, {Side.INBOUND: (link,), Side.ZOOKEEPER: tuple(zookeeper)}, clock)

    def spawn(self) -> None:
        """Start it."""
        self.process.start()

    def wait_until_up(self) -> None:
        """Nothing to wait for: the leader is checked elsewhere."""

    def close(self) -> None:
        """It will not be started again."""
        self._pipe.close()

    def block_log(self) -> None:
        """Stop reading its log."""
        self._pipe.stop_reading()

    def unblock_log(self) -> None:
        """Read its log again."""
        self._pipe.read_on()


class LogPipe:
    """A named pipe and a thread that copies from it into a file."""

    def __init__(self, path: Path, into: Path) -> None:
        self.path = path
        os.mkfifo(path)
        # Open for both, so that neither end waits for the other, and no end of file comes between two starts.
        self._reading = os.open(path, os.O_RDWR)
        fcntl.fcntl(self._reading, fcntl.F_SETPIPE_SZ, _LOG_PIPE_BYTES)
        self._is_wanted, self._is_over = threading.Event(), threading.Event()
        self._is_wanted.set()
        self._thread = threading.Thread(target=self._copy, args=(into,), name=f"log of {path.parent}", daemon=True)
        self._thread.start()

    def stop_reading(self) -> None:
        """Stop reading the pipe."""
        self._is_wanted.clear()

    def read_on(self) -> None:
        """Resume reading the pipe."""
        self._is_wanted.set()

    def close(self) -> None:
        """Copy no more."""
        self._is_over.set()
        self._is_wanted.set()
        os.write(self._reading, b"\n")
        self._thread.join(5)

    def _copy(self, into: Path) -> None:
        with into.open("ab", buffering=0) as log:
            while not self._is_over.is_set():
                self._is_wanted.wait()
                log.write(os.read(self._reading, 65_536))
        os.close(self._reading)
