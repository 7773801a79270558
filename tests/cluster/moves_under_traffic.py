"""How are fifty partitions moved under a throttle and under traffic, and how fast were they really copied?

Two brokers hold everything, the third one receives. Throttles are set and changed with the tool alone.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from msgspec import Struct, field

from controller.demo.move import has_arrived
from controller.demo.znodes import Plan, Znodes
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.kafka_broker import KafkaBroker
from controller.lab.process import Process
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, command, content, wait_until
from tests.equipment.java_program import compiled

PARTITIONS = 50
RECORD_BYTES = 10_000
LEAVING, STAYING, RECEIVING = 1, 2, 3
TOPIC = "moved"
WINDOW_S = 11.0
"""Over which brokers average a throttle."""
TAKES_EFFECT_S = WINDOW_S + 1.0
"""After a change; what was copied before it counts for a window."""
LONG_S = 300.0
RECORDS = ("/kafka_zk_controller/throttled_topics", "/kafka_zk_controller/throttled_brokers")
TRAFFIC = "TRAFFIC_MB_S"
"""The variable that asks for another traffic than 20 MB/s, where a machine is too slow for that; the result says so."""
_PROGRAM = Path(__file__).with_name("RecordsInPartitions.java")
_FILL_S = 120.0
_LOOKS_EVERY_S = 1.0
_TOOL = "reassign"


def asked_for() -> float:
    """The traffic that is asked for, in bytes a second."""
    return float(os.environ.get(TRAFFIC, "20")) * 1e6


class Look(Struct, frozen=True):
    """What the receiving broker had at one time: the sizes of all its replicas, and which were in sync before that."""

    at: float
    sizes: tuple[int, ...]
    in_sync: frozenset[int]


class Copied(Struct):
    """Looks at the receiving broker once a second. Replicas in sync are not throttled, and do not count."""

    cluster: LocalCluster
    znodes: Znodes
    file: Path
    looks: list[Look] = field(default_factory=list)
    trouble: list[BaseException] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.thread = threading.Thread(target=self._keep_looking, name="looks", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        if self.thread is not None:
            self.thread.join()
        self.file.write_text("".join(f"{line}\n" for line in self._lines()))

    def rate(self, since: float) -> float:
        """How fast throttled replicas have been copied since then, in bytes a second."""
        assert not self.trouble, self.trouble
        looks = [look for look in self.looks if look.at >= since]
        assert len(looks) > 1, "the replicas were looked at only once"
        left = PARTITIONS - len(looks[-1].in_sync)
        assert left >= PARTITIONS / 2, f"too short to tell: {left} of {PARTITIONS} replicas are still copied"
        copied = sum(_copied(before, after) for before, after in itertools.pairwise(looks))
        return copied / (looks[-1].at - looks[0].at)

    def _lines(self) -> Iterator[str]:
        """What happened in each second: it shows why a rate was missed."""
        for before, after in itertools.pairwise(self.looks):
            seconds, size = after.at - self.looks[0].at, _copied(before, after) / 1e6
            yield f"{seconds:6.1f} s  {size:5.1f} MB  {len(after.in_sync)} in sync"

    def _keep_looking(self) -> None:
        try:
            while not self.is_over.wait(_LOOKS_EVERY_S):
                self.looks.append(self._look())
        except BaseException as error:
            self.trouble.append(error)
            raise

    def _look(self) -> Look:
        seen = self.znodes.partitions(TOPIC)
        in_sync = frozenset(int(p.partition) for p in seen if p.state is not None and RECEIVING in p.state.isr)
        directory = self.cluster.brokers[RECEIVING].log_dir
        sizes = tuple(_size(directory / f"{TOPIC}-{p}") for p in range(PARTITIONS))
        return Look(time.monotonic(), sizes, in_sync)


class Records:
    """Numbered records of an idempotent producer with acks=all, all over the topic, until the end of the `with`."""

    def __init__(self, cluster: LocalCluster, java: Sequence[str], directory: Path, bytes_s: float) -> None:
        self._where = (cluster.bootstrap_servers, TOPIC, str(PARTITIONS))
        self._java, self._ledger, self._log = tuple(java), str(directory / "ledger"), directory / "records.log"
        self.bytes_s = bytes_s
        numbers = map(str, (RECORD_BYTES, int(_FILL_S * bytes_s), int(bytes_s)))
        writing = [*self._java, "write", *self._where, *numbers, self._ledger]
        self.process = Process("records", writing, self._log)

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()

    def is_filled(self) -> bool:
        """Whether what is to be moved was written."""
        return b"filled\n" in self.process.output_since_start()

    def rate(self, since: float) -> float:
        """How much was acknowledged since then, in bytes a second; `since` is a time of day."""
        said = [line.split() for line in self._lines() if line[:1].isdigit()]
        points = [(int(at) / 1000, int(acknowledged)) for at, acknowledged in said if int(at) / 1000 >= since]
        assert len(points) > 1, self.process.tail()
        return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])

    def stop(self) -> None:
        """Write no more; every record is acknowledged or refused then."""
        self.process.stop(LONG_S)
        (ended,) = [line for line in self._lines() if line.startswith("sent")] or [self.process.tail()]
        assert ended.endswith(" refused 0"), f"{ended}:\n{self.process.tail()}"

    def read_back(self) -> dict[str, int]:
        """How many were acknowledged, and how many are lost, there twice, and out of order."""
        reader = Process("reader", [*self._java, "read", *self._where, self._ledger], self._log.with_name("read.log"))
        reader.start()
        wait_until(lambda: not reader.is_alive, "everything was read back", 2 * LONG_S)
        found: dict[str, int] = json.loads(reader.tail(1))
        return found

    def _lines(self) -> list[str]:
        text = self.process.output_since_start().decode()
        return text[: text.rfind("\n") + 1].splitlines()


class Shown(Struct, frozen=True):
    """What the tool showed at a time of day."""

    at: float
    remaining_s: float | None


class Returned(Struct, frozen=True):
    """How long a broker was away until its start, and how long from then on until it was in sync everywhere."""

    away_s: float
    in_sync_s: float

    @property
    def slowness(self) -> float:
        """Seconds until it was in sync for each second away: it missed the more, the longer Java took to start."""
        return self.in_sync_s / self.away_s

    def __str__(self) -> str:
        return f"in sync after {self.in_sync_s:.1f} s ({self.away_s:.0f} s away)"


class Moves:
    """One cluster and its records, before, during and after the moves."""

    def __init__(self, cluster: LocalCluster, zk: KazooClient, znodes: Znodes, records: Records, where: Path) -> None:
        self.cluster, self.zk, self.znodes, self.records, self.directory = cluster, zk, znodes, records, where
        self.copied = Copied(cluster, znodes, where / "looks.txt")
        self.figures: list[str] = []
        self.began = time.monotonic()
        self.traffic = 0.0
        self.settings_before: dict[str, Any] = {}
        self.plan: Plan = {p: tuple(RECEIVING if b == LEAVING else b for b in r) for p, r in placed().items()}
        self._file = where / "moves.json"
        moves = [{"topic": TOPIC, "partition": p, "replicas": list(r)} for p, r in self.plan.items()]
        self._file.write_text(json.dumps({"version": 1, "partitions": moves}))

    def replica(self, broker_id: int) -> Replica:
        """A replica of this controller, not started yet."""
        return Replica(
            self.cluster.zookeeper_connect,
            self.directory,
            broker_id,
            new_cluster=False,
            inter_broker_protocol_version="auto",
        )

    def say(self, what: str) -> None:
        """Note how long it took: in `moves.txt`; shown where the test fails, or with -s."""
        line = f"{time.monotonic() - self.began:6.1f} s  {what}"
        print(line)  # noqa: T201 - the log of the moves
        with (self.directory / "moves.txt").open("a") as log:
            log.write(f"{line}\n")

    def conclude(self, case: str) -> None:
        """Read everything back, and write the line of figures, also to `figures.txt`."""
        self.records.stop()
        read = self.records.read_back()
        slow = "" if self.traffic > 0.9 * asked_for() else ", for which this machine is too slow"
        head = f"{self.cluster.version} {case}: traffic {self.traffic / 1e6:.1f} of {asked_for() / 1e6:.0f} MB/s{slow}"
        kept = f"{read['acknowledged']:,} records acknowledged, {read['lost']} lost"
        line = "; ".join([head, *self.figures, kept, f"load {os.getloadavg()[1]:.1f}"])
        sys.stderr.write(f"\n{line}\n")
        (self.directory / "figures.txt").write_text(f"{line}\n")
        assert read["acknowledged"] * RECORD_BYTES >= _FILL_S * asked_for(), read
        assert (read["lost"], read["twice"], read["disordered"]) == (0, 0, 0), read

    def note(self, figure: str) -> None:
        """Have a figure in the line."""
        self.figures.append(figure)
        self.say(figure)

    # ---- the moves ------------------------------------------------------------------------------------------

    def measure_traffic(self) -> None:
        """How much traffic there is before anything moves; throttles are above it, for new data is copied, too."""
        since = time.time()
        time.sleep(WINDOW_S)
        self.traffic = self.records.rate(since)
        self.settings_before = self.settings()

    def times_traffic(self, factor: float) -> int:
        """A throttle: so many times the traffic that there is."""
        return int(factor * self.traffic)

    def begin(self, throttle: int) -> None:
        """Begin all moves."""
        self._execute(throttle)
        self.say(f"all moves have begun at {throttle / 1e6:.1f} MB/s")

    def change(self, throttle: int) -> None:
        """Have them go on at another rate."""
        self._execute(throttle, "--additional")
        self.say(f"throttled to {throttle / 1e6:.1f} MB/s")

    def _execute(self, throttle: int, *more: str) -> None:
        plan = ("--reassignment-json-file", str(self._file))
        code, document, complaints = self.tool("--execute", *plan, "--throttle", str(throttle), *more)
        assert code == 0, complaints
        assert len(document["started"]) == PARTITIONS, document

    def verify(self) -> None:
        """Have the tool look whether all is done, and remove throttles."""
        code, document, complaints = self.tool("--verify", "--reassignment-json-file", str(self._file))
        assert (code, document["is_complete"]) == (0, True), complaints

    def tool(self, *options: str) -> tuple[int, dict[str, Any], str]:
        """Run `kafka-zk-controller reassign`."""
        return command(_TOOL, "--bootstrap-server", self.cluster.bootstrap_servers, *options)

    def keeps_to(self, throttle: int, what: str) -> None:
        """From now on, for two windows, it is copied at that rate on average."""
        since, traffic_since = time.monotonic(), time.time()
        time.sleep(2 * WINDOW_S + _LOOKS_EVERY_S)
        rate, traffic = self.copied.rate(since), self.records.rate(traffic_since)
        self.note(f"{what} {rate / 1e6:.1f} of {throttle / 1e6:.1f} MB/s (traffic {traffic / 1e6:.1f})")
        assert 0.8 * throttle < rate < 1.2 * throttle, f"{what}: {rate / throttle:.0%} of the throttle"

    def await_resumed(self) -> None:
        """Wait until the new controller has taken up every move: Kafka's own begins a leader epoch for each in turn."""
        epoch, began = self.znodes.controller_epoch(), time.monotonic()
        wait_until(lambda: self._all_are_of(epoch), "all moves were taken up", LONG_S)
        self.note(f"the native controller took up all moves in {time.monotonic() - began:.0f} s")

    def _all_are_of(self, epoch: int) -> bool:
        seen = self.znodes.partitions(TOPIC)
        return all(p.state is not None and p.state.controller_epoch >= epoch for p in seen)

    def is_over(self) -> bool:
        """Whether nothing moves any more."""
        return not content(self.zk, f"/brokers/topics/{TOPIC}").get("adding_replicas")

    def await_arrival(self) -> None:
        """Wait until every partition has its new replicas, all in sync."""
        wait_until(lambda: has_arrived(self.znodes.partitions(TOPIC), self.plan), "all had moved", 2 * LONG_S)
        self.say("all have moved")

    # ---- settings -------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """All settings of topics and brokers in ZooKeeper that are not empty."""
        paths = (f"{root}/{name}" for root in ("/config/topics", "/config/brokers") for name in self._below(root))
        found = ((path, content(self.zk, path).get("config")) for path in paths)
        return {path: config for path, config in found if config}

    def await_no_throttle(self) -> None:
        """Wait until settings are as they were before, and nothing is owed to them."""
        wait_until(lambda: self.settings() == self.settings_before, f"settings were {self.settings_before}")
        wait_until(lambda: not any(map(self._below, RECORDS)), "nothing was owed to settings any more")

    def _below(self, path: str) -> list[str]:
        try:
            children: list[str] = self.zk.get_children(path)
        except NoNodeError:
            return []
        return children

    # ---- a broker that fails --------------------------------------------------------------------------------

    def fail_and_return(self, away_s: float) -> Returned:
        """Kill the broker that stays, start it again, and wait until it is in sync everywhere."""
        broker = self.cluster.brokers[STAYING]
        began = time.monotonic()
        broker.kill()
        wait_until(lambda: not self._in_sync(broker), "the others went on without it", LONG_S)
        time.sleep(max(0.0, began + away_s - time.monotonic()))
        broker.start()
        started = time.monotonic()
        wait_until(lambda: self._in_sync(broker) == PARTITIONS, "it was in sync again", LONG_S)
        returned = Returned(started - began, time.monotonic() - started)
        self.say(f"a broker has returned: {returned}")
        return returned

    def _in_sync(self, broker: KafkaBroker) -> int:
        seen = self.znodes.partitions(TOPIC)
        return sum(p.state is not None and broker.broker_id in p.state.isr for p in seen)

    # ---- what the tool shows --------------------------------------------------------------------------------

    @contextmanager
    def watched(self) -> Iterator[Process]:
        """Follow the moves with the tool; they have to be complete in the end."""
        options = ("--bootstrap-server", self.cluster.bootstrap_servers, "--progress", "--interval", "2")
        argv = [sys.executable, "-m", "controller", _TOOL, *options, "--output", "json"]
        process = Process("progress", argv, self.directory / "progress.log")
        process.start()
        try:
            yield process
            wait_until(lambda: not process.is_alive, "the tool saw the end", LONG_S)
            assert process.exit_code == 0, process.tail()
        finally:
            process.kill()


def shown_by(process: Process) -> list[Shown]:
    """What a tool that follows moves has shown so far."""
    text = process.output_since_start().decode()
    lines = text[: text.rfind("\n") + 1].splitlines()
    documents = [json.loads(line) for line in lines if line.startswith("{")]
    return [Shown(datetime.fromisoformat(d["at"]).timestamp(), d["remaining_seconds"]) for d in documents if "at" in d]


def placed() -> Plan:
    """Where the partitions are at first; two brokers lead evenly."""
    return {p: (LEAVING, STAYING) if p % 2 else (STAYING, LEAVING) for p in range(PARTITIONS)}


def _copied(before: Look, after: Look) -> int:
    return sum(after.sizes[p] - before.sizes[p] for p in range(PARTITIONS) if p not in before.in_sync)


def _size(directory: Path) -> int:
    total = 0
    for segment in directory.glob("*.log"):
        try:
            total += segment.stat().st_size
        except FileNotFoundError:
            continue
    return total


@contextmanager
def filled(version: str, directory: Path) -> Iterator[Moves]:
    """Three brokers, led by nobody of ours yet; the topic is filled, and there is traffic."""
    try:
        cluster = LocalCluster(ClusterSettings(version=version, broker_ids=(LEAVING, STAYING, RECEIVING)))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with ExitStack() as stack:
        stack.enter_context(cluster)
        zk = stack.enter_context(zookeeper_client(cluster.zookeeper_connect))
        znodes = stack.enter_context(Znodes(cluster.zookeeper_connect))
        _, java = stack.enter_context(compiled(_PROGRAM, version))
        znodes.create_topic(TOPIC, placed(), {"retention.ms": "86400000", "min.insync.replicas": "1"})
        wait_until(lambda: has_arrived(znodes.partitions(TOPIC), placed()), "the topic was led", LONG_S)
        records = stack.enter_context(Records(cluster, java, directory, asked_for()))
        moves = Moves(cluster, zk, znodes, records, directory)
        wait_until(records.is_filled, "the topic was filled", LONG_S)
        moves.say(f"{PARTITIONS} partitions have {_FILL_S * asked_for() / 1e9:.2f} GB")
        time.sleep(2.0)
        moves.measure_traffic()
        moves.copied = stack.enter_context(moves.copied)
        yield moves
