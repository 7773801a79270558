"""Which stage does every contender get? A real ZooKeeper full of partitions, simulated brokers, a vacant claim."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from msgspec import Struct

from controller.lab.zookeeper import ZooKeeperServer, ZooKeeperSettings
from tests.benchmarks.contenders import Contender
from tests.benchmarks.filling import Shape, fill
from tests.benchmarks.fleet import Fleet

PLACEHOLDER_ID = 999
SETTLE_S = 3.0
# Kafka's automatic preferred leader election first runs five seconds after its claim; let it pass.
AFTER_CLAIM_S = 6.0


class Claim(Struct, frozen=True):
    """When `/controller` became vacant, and when the contender's claim was created, as ZooKeeper dates it."""

    vacant_at: float
    claimed_at: float
    zxid: int


class Stage:
    """Everything but the contender. As a context manager it surely ends all processes."""

    def __init__(self, shape: Shape, *, are_leading: bool, heap: str = "3g") -> None:
        self.shape = shape
        self.directory = Path(tempfile.mkdtemp(prefix="kafka-zk-controller-bench-"))
        settings = ZooKeeperSettings(java_options=(f"-Xmx{heap}",), fsync=True)
        self.server = ZooKeeperServer(self.directory / "zookeeper", settings=settings)
        self.zookeeper = KazooClient(self.server.connect, timeout=60)
        self.fill_s = 0.0
        self._are_leading = are_leading
        self._fleet: Fleet | None = None

    def __enter__(self) -> Self:
        try:
            self.server.start()
            self.zookeeper.start()
            self.fill_s = fill(self.zookeeper, self.shape)
            self._fleet = Fleet(self.server.connect, self.shape, are_leading=self._are_leading)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def fleet(self) -> Fleet:
        """The simulated brokers."""
        assert self._fleet is not None
        return self._fleet

    def processes(self, contender: Contender) -> dict[str, int]:
        """The ids of all processes that belong to a measurement."""
        assert contender.process.pid is not None
        return {
            "contender": contender.process.pid,
            "ZooKeeper": self.server.process.pid or 0,
            "brokers": self.fleet.pid,
            "measuring": os.getpid(),
        }

    def enthrone(self, contender: Contender) -> None:
        """Let a contender become the controller, and wait until it is idle.

        Raises:
            TimeoutError: it did not.
        """
        self.occupy()
        contender.start()
        time.sleep(SETTLE_S)
        self.vacate_for(contender)
        self.wait_until_silent(contender, AFTER_CLAIM_S, 600)

    def occupy(self) -> None:
        """Hold `/controller`, so that a contender stands by."""
        deadline = time.monotonic() + 60
        while True:
            try:
                self.zookeeper.create("/controller", _placeholder(), ephemeral=True)
            except NodeExistsError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def replace(self) -> None:
        """Take `/controller` from the contender that holds it; its process lives on."""
        replacing = self.zookeeper.transaction()
        replacing.delete("/controller")
        replacing.create("/controller", _placeholder(), ephemeral=True)
        results = replacing.commit()
        assert not any(isinstance(result, Exception) for result in results), results

    def vacate_for(self, contender: Contender, timeout_s: float = 60.0) -> Claim:
        """Release `/controller` and wait until the contender holds it."""
        vacant_at = time.time()
        self.zookeeper.delete("/controller")
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with suppress(NoNodeError):
                data, stat = self.zookeeper.get("/controller")
                assert json.loads(data)["brokerid"] == contender.broker_id, data
                return Claim(vacant_at, stat.ctime / 1000, stat.czxid)
            time.sleep(0.005)
        raise TimeoutError(f"{contender.name} did not claim /controller:\n{contender.process.tail()}")

    def wait_until_silent(self, contender: Contender, for_s: float, timeout_s: float, *, after_bytes: int = 0) -> None:
        """Wait until no command has arrived for a while, not counting silence before so much of LeaderAndIsr and
        UpdateMetadata."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            assert contender.process.is_alive, contender.process.tail(40)
            progress = self.fleet.progress()
            is_heard = progress.commands and progress.size_bytes >= after_bytes
            if is_heard and time.time() - progress.last_at > for_s:
                return
            time.sleep(0.5)
        raise TimeoutError(f"{contender.name} is not finished after {timeout_s:g} s:\n{contender.process.tail(40)}")

    def dismiss(self, contender: Contender) -> None:
        """End a contender and wait until it is gone."""
        contender.process.stop(30)
        deadline = time.monotonic() + 60
        while self.zookeeper.exists(f"/brokers/ids/{contender.broker_id}") or self.zookeeper.exists("/controller"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{contender.name} is gone but not its session")
            time.sleep(0.2)

    def _end(self) -> None:
        if self._fleet is not None:
            with suppress(EOFError, OSError):
                self._fleet.stop()
        with suppress(Exception):
            self.zookeeper.stop()
            self.zookeeper.close()
        self.server.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def _placeholder() -> bytes:
    """What `/controller` holds while the benchmark keeps it."""
    return json.dumps({"version": 1, "brokerid": PLACEHOLDER_ID, "timestamp": str(int(time.time() * 1000))}).encode()
