"""What does it cost to observe a large cluster that another controller leads: until it is followed, and per change?"""

from __future__ import annotations

import os
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.interfaces import IAsyncResult
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from controller.lab.ports import free_port
from controller.lab.process import Process
from metrics.measures import PREFIX
from tests.benchmarks.filling import FIRST_EPOCH, Shape
from tests.benchmarks.machine import peak_resident_mib, usage, wait_until_quiet
from tests.benchmarks.stage import Stage
from zk_layout.ids import ControllerEpoch, LeaderEpoch, PartitionId
from zk_layout.znodes import partition_state
from zk_layout.znodes.partition_state import PartitionState, StateAddress

WRITES_A_TRANSACTION = 100
TRANSACTIONS_IN_FLIGHT = 5
OF_LEADERS, OF_CONTROLLER = "a leader's change of its ISR", "a controller's new leader epoch"


class Followed(Struct, frozen=True):
    """Some changes, each of another partition, from the first write until the last is shown.

    Units:
        `per_change_ms` is processor time of the observer.
    """

    kind: str
    changes: int
    written_s: float
    shown_s: float
    per_change_ms: float


class Observed(Struct, frozen=True):
    """One observer.

    Shape:
        `ready_s` is from the start of the process until it follows the cluster, `used_s` its processor time until then,
        `quiet_before` how many processors others kept busy just before, `others_s` their time until the end.
    """

    partitions: int
    ready_s: float
    used_s: float
    peak_mib: float
    peak_after_changes_mib: float
    followed: tuple[Followed, ...]
    quiet_before: float
    others_s: float
    measured_s: float


class Observer:
    """`kafka-zk-controller observe`, as users run it."""

    def __init__(self, zookeeper: str, directory: Path) -> None:
        self.http_port = free_port()
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "controller.properties"
        properties = {
            "zookeeper.connect": zookeeper,
            "broker.id": 901,
            "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
            "inter.broker.protocol.version": "3.9",
            "http.port": self.http_port,
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        argv: list[str | Path] = [sys.executable, "-m", "controller", "observe", "--config", config]
        self.process = Process("observe", argv, directory / "observe.log")

    def page(self, path: str) -> str | None:
        """A page of its HTTP port; None without an answer, or with one that is not 200."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return None

    def measure(self, name: str, **labels: str) -> float:
        """The sum of a measure's samples with these labels."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(self.page("/metrics") or "")
            for sample in family.samples
            if sample.name == PREFIX + name and labels.items() <= sample.labels.items()
        )


def measure(stage: Stage, number: int, *, changes: int, timeout_s: float, patience_s: float) -> Observed:
    """Start an observer, wait until it follows the cluster, and let partitions change.

    Raises:
        TimeoutError: it did not follow in time.
    """
    observer = Observer(stage.server.connect, stage.directory / f"observer-{number}")
    stage.occupy()
    quiet = wait_until_quiet(patience_s)
    measuring = {"ZooKeeper": stage.server.process.pid or 0, "brokers": stage.fleet.pid, "measuring": os.getpid()}
    first = usage(measuring)
    began = time.monotonic()
    observer.process.start()
    try:
        processes = {**measuring, "observer": observer.process.pid or 0}
        _wait(lambda: observer.page("/readyz") is not None, observer, timeout_s)
        ready_s = time.monotonic() - began
        used_s = usage(processes).by_process["observer"]
        loaded_mib = peak_resident_mib(processes["observer"])
        followed = tuple(_changes(stage, observer, number, changes, timeout_s))
        last = usage(processes)
        return Observed(
            partitions=stage.shape.partitions,
            ready_s=round(ready_s, 2),
            used_s=round(used_s, 2),
            peak_mib=round(loaded_mib, 1),
            peak_after_changes_mib=round(peak_resident_mib(processes["observer"]), 1),
            followed=followed,
            quiet_before=round(quiet, 2),
            others_s=round(last.since(first).others_s, 2),
            measured_s=round(last.at - first.at, 2),
        )
    finally:
        observer.process.stop(30)
        stage.zookeeper.delete("/controller")


def _changes(stage: Stage, observer: Observer, number: int, changes: int, timeout_s: float) -> Iterator[Followed]:
    """One after the other: followers leave ISRs, leaders get new epochs, followers come back."""
    epoch = number  # that of the last run

    def is_shrunk() -> bool:
        return observer.measure("under_replicated_partitions") == changes

    def is_compared() -> bool:
        return observer.measure("compared_decisions_total", outcome="step of several") == changes

    def is_whole() -> bool:
        return observer.measure("under_replicated_partitions") == 0

    for kind, leader_epoch, in_sync, is_shown in (
        (OF_LEADERS, epoch, 2, is_shrunk),
        (OF_CONTROLLER, epoch + 1, 2, is_compared),
        (OF_LEADERS, epoch + 1, 3, is_whole),
    ):
        pid = {"observer": observer.process.pid or 0}
        before, began = usage(pid), time.monotonic()
        _write(stage.zookeeper, _states(stage.shape, changes, leader_epoch, in_sync))
        written_s = time.monotonic() - began
        _wait(is_shown, observer, timeout_s)
        shown_s = time.monotonic() - began
        used_s = usage(pid).since(before).by_process["observer"]
        yield Followed(kind, changes, round(written_s, 2), round(shown_s, 2), round(1000 * used_s / changes, 3))


def _states(shape: Shape, changes: int, leader_epoch: int, in_sync: int) -> Iterator[tuple[str, bytes]]:
    every = ((name, number) for name in shape.names for number in range(shape.partitions_per_topic))
    for name, number in islice(every, changes):
        isr = shape.replicas(number)[:in_sync]
        state = PartitionState(isr[0], LeaderEpoch(leader_epoch), ControllerEpoch(FIRST_EPOCH), isr)
        yield StateAddress(name, PartitionId(number)).path, partition_state.encode(state)


def _write(zookeeper: KazooClient, states: Iterator[tuple[str, bytes]]) -> None:
    in_flight: deque[IAsyncResult] = deque()
    while part := list(islice(states, WRITES_A_TRANSACTION)):
        transaction = zookeeper.transaction()
        for path, data in part:
            transaction.set_data(path, data)
        in_flight.append(transaction.commit_async())
        if len(in_flight) > TRANSACTIONS_IN_FLIGHT:
            _finish(in_flight.popleft())
    for pending in in_flight:
        _finish(pending)


def _finish(pending: IAsyncResult) -> None:
    refused = [result for result in pending.get(timeout=120) if isinstance(result, Exception)]
    if refused:
        raise refused[0]


def _wait(is_so: Callable[[], bool], observer: Observer, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert observer.process.is_alive, observer.process.tail(40)
        if time.monotonic() > deadline:
            raise TimeoutError(f"the observer does not follow after {timeout_s:g} s:\n{observer.process.tail(40)}")
        time.sleep(0.1)
