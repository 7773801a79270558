"""What happens in the demo, chapter by chapter, on a real cluster?"""

from __future__ import annotations

import signal
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import NoReturn

from msgspec import Struct
from rich.console import Console

from controller.demo import checks, keeping
from controller.demo.move import Progress, ReassignTool, copied_share, first_plan, next_plan
from controller.demo.narration import MoveView, Narrator
from controller.demo.pair import Pair
from controller.demo.report import Check, Report
from controller.demo.traffic import Traffic
from controller.demo.waiting import wait_for
from controller.demo.znodes import Znodes
from controller.lab.asking import controller_named_by
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable, LabError
from controller.lab.java import find_java
from controller.lab.kafka_broker import NEWEST_JAVA

TOPIC = "orders"
DATA_BYTES = 30_000_000
MOVE_TAKES_S = 28
FEWEST_PARTITIONS = 2
OK, FAILED, INTERRUPTED = 0, 1, 130

# A throttled move is smooth in small steps; and what is deleted vanishes soon.
BROKER_PROPERTIES = {
    "log.segment.delete.delay.ms": 1000,
    "replica.fetch.max.bytes": 64 * 1024,
    "replica.fetch.response.max.bytes": 256 * 1024,
}
_LINE_LENGTH = 110
_LOOK_EVERY_S = 0.2
_MOVE_WITHIN_S = 150.0


class DemoOptions(Struct, frozen=True):
    """The user's options."""

    kafka_version: str = "3.9.1"
    partitions: int = 12
    keep: bool = False


def main(*, kafka_version: str = "3.9.1", partitions: int = 12, keep: bool = False, output: str = "text") -> int:
    """Run the demo; the exit code.

    Shape:
        With `output` "json" the report is the only thing on stdout, and the story goes to stderr.
    """
    console = Console(stderr=output == "json", highlight=False)
    if not console.is_terminal:
        console.width = _LINE_LENGTH
    narrator = Narrator(console)
    if partitions < FEWEST_PARTITIONS:
        narrator.alarm(f"the leader is killed half-way, so there must be {FEWEST_PARTITIONS} partitions or more")
        return FAILED
    interruption = _Interruption()
    previous = {number: signal.signal(number, interruption) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with interruption:
            report, farewell = _tell(DemoOptions(kafka_version, partitions, keep), narrator)
    except _Interrupted:
        narrator.alarm("interrupted; everything is stopped")
        return INTERRUPTED
    except JavaUnavailable as error:
        narrator.alarm(f"the demo needs Java for ZooKeeper and the brokers: {error}")
        return FAILED
    except LabError as error:
        narrator.alarm(str(error))
        return FAILED
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    _publish(report, narrator, output)
    if farewell:
        console.print(farewell, soft_wrap=True, markup=False)
    return OK if report.passed else FAILED


class _Interrupted(SystemExit):
    """A signal asked the demo to stop.

    An event loop swallows all but SystemExit and KeyboardInterrupt. Not the latter: once it has passed through exec(),
    which dataclasses and named tuples use during import, CPython ends by SIGINT at exit even if it was caught.
    """


class _Interruption:
    """Raises at a signal; and once more at the end if a library swallowed that, or made another error of it.

    kazoo reports everything raised while it wakes its connection as ConnectionClosedError.
    """

    def __init__(self) -> None:
        self._has_come = False

    def __call__(self, _: int, __: FrameType | None) -> NoReturn:
        self._has_come = True
        raise _Interrupted(INTERRUPTED)

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if self._has_come:
            raise _Interrupted(INTERRUPTED) from error


def _tell(options: DemoOptions, narrator: Narrator) -> tuple[Report, str]:
    find_java(newest=NEWEST_JAVA)  # Without Java, not even ZooKeeper runs.
    try:
        cluster = LocalCluster(_cluster_settings(options), progress=narrator.say, outlives_us=options.keep)
    except JarsUnavailable as error:
        from controller.demo import simulated_story

        narrator.alarm(f"{str(error).splitlines()[0]}; continuing with simulated brokers")
        return simulated_story.tell(options.partitions, narrator), ""
    with ExitStack() as at_the_end:
        at_the_end.callback(cluster.stop)
        story = Story(options, cluster, narrator, at_the_end)
        report = story.tell()
        if not options.keep:
            return report, ""
        farewell = keeping.explain(cluster, story.pair, TOPIC)
        at_the_end.pop_all()
        return report, farewell


def _publish(report: Report, narrator: Narrator, output: str) -> None:
    for table in report.tables():
        narrator.console.print(table)
    if report.passed:
        narrator.chapter(f"all {len(report.checks)} checks passed")
    for failure in report.failures:
        narrator.alarm(f"FAILED: {failure.claim} - {failure.found}")
    if output == "json":
        sys.stdout.write(report.as_json() + "\n")


def _cluster_settings(options: DemoOptions) -> ClusterSettings:
    return ClusterSettings(version=options.kafka_version, overrides=BROKER_PROPERTIES)


class Story:
    """The chapters, in order; each adds to the report."""

    def __init__(self, options: DemoOptions, cluster: LocalCluster, narrator: Narrator, at_the_end: ExitStack) -> None:
        """What is opened is closed through `at_the_end`. Starts nothing yet."""
        self._options = options
        self._cluster = cluster
        self._narrator = narrator
        self._at_the_end = at_the_end
        self.znodes = Znodes(cluster.zookeeper_connect)
        self.pair = Pair(
            self.znodes,
            cluster.zookeeper_connect,
            options.kafka_version,
            cluster.directory,
            outlives_us=options.keep,
        )
        brokers = tuple(cluster.brokers)
        self._before = first_plan(brokers, options.partitions)
        self._after = next_plan(brokers, self._before)
        self._tool = ReassignTool.of(cluster, TOPIC)
        self._traffic = Traffic(cluster.bootstrap_servers, TOPIC, options.partitions)
        self.report = Report(
            kafka_version=options.kafka_version,
            brokers=f"{len(brokers)} Kafka brokers {options.kafka_version}, ZooKeeper, 2 replicas of the controller",
            partitions=options.partitions,
        )

    def tell(self) -> Report:
        """Run all chapters."""
        self._start_the_cluster()
        with self.znodes:
            self._take_over()
            self._create_the_topic()
            with self._traffic:
                self._move_and_kill()
            self._check_everything()
            if not self._options.keep:
                self._stop()
        self.report.total_s = self._narrator.elapsed_s
        return self.report

    def _start_the_cluster(self) -> None:
        tell = self._narrator
        tell.chapter(f"Starting a real ZooKeeper and {len(self._cluster.brokers)} real Kafka brokers")
        self._cluster.start()
        self.report.started_s = tell.elapsed_s

    def _take_over(self) -> None:
        tell = self._narrator
        native = wait_for(self.znodes.controller, "a native controller")
        tell.say(f"Kafka's own controller leads: broker {native.broker}, epoch {self.znodes.controller_epoch()}")
        tell.chapter("Starting two replicas of our controller, 901 and 902, beside it")
        self._at_the_end.callback(self.pair.end)
        change = self.pair.start()
        self.report.takeover_s = change.commanding_s
        epoch = self.znodes.controller_epoch()
        tell.say(
            f"{change.leader.replica_id} took over in {change.commanding_s:.1f} s: epoch {epoch}; the other stands by"
        )
        self._check(
            "the native controller has stepped down", self._has_resigned(native.broker), f"broker {native.broker}"
        )
        self._check_named(change.leader.replica_id)

    def _create_the_topic(self) -> None:
        tell, count = self._narrator, self._options.partitions
        tell.chapter(f"Creating topic {TOPIC}: {count} partitions, 2 replicas each, {DATA_BYTES / 1e6:.0f} MB of data")
        self.znodes.create_topic(TOPIC, self._before)
        wait_for(
            lambda: all(p.state is not None and len(p.state.isr) > 1 for p in self.znodes.partitions(TOPIC)),
            "a leader for every partition",
        )
        unit = 2 * DATA_BYTES / (count * (count + 1))
        self._traffic.fill({p: int(unit * (p + 1)) for p in range(count)})
        tell.say(f"our controller elected all leaders; {len(self._traffic.acknowledged):,} records are acknowledged")

    def _move_and_kill(self) -> None:
        tell = self._narrator
        throttle = DATA_BYTES // len(self._cluster.brokers) // MOVE_TAKES_S
        tell.chapter("A producer (acks=all) and a consumer run from now on; every partition gets other brokers")
        tell.say(f"kafka-reassign-partitions --execute --throttle {throttle} …")
        self._tool.plan(TOPIC, self._after)
        started = time.monotonic()
        result = self._tool.execute(throttle_bytes_s=throttle)
        self._check("kafka-reassign-partitions accepted the move", result.exit_code == 0, _last_line(result.output))
        self.report.moved_bytes = DATA_BYTES
        with MoveView(tell, f"Kafka {self._options.kafka_version}") as view, ThreadPoolExecutor(1) as aside:
            self._follow(view, aside, started)

    def _follow(self, view: MoveView, aside: ThreadPoolExecutor, started: float) -> None:
        succession: Future[None] | None = None
        while not (progress := self._look()).is_done:
            view.show(progress)
            if succession is None and 2 * progress.done >= len(progress.partitions):
                self.report.done_at_kill = progress.done
                succession = aside.submit(self._kill_the_leader)
            if time.monotonic() - started > _MOVE_WITHIN_S:
                raise LabError(f"the move took more than {_MOVE_WITHIN_S:g} s: {progress.done} partitions are done")
            time.sleep(_LOOK_EVERY_S)
        self.report.move_s = time.monotonic() - started
        view.show(progress)
        self._check(
            "the leader was killed half-way", succession is not None, f"{self.report.done_at_kill} partitions were done"
        )
        if succession is not None:
            succession.result()
        self._narrator.say(
            f"all {len(progress.partitions)} partitions have moved, {self.report.move_s:.1f} s after asking"
        )

    def _kill_the_leader(self) -> None:
        tell, leader = self._narrator, self.pair.leader
        if leader is None:
            raise LabError("no replica of ours leads in the middle of the move")
        epoch = self.znodes.controller_epoch()
        killed_at = self.pair.kill(leader)
        tell.alarm(f"Killed {leader.replica_id}, the leader, with SIGKILL; its ZooKeeper session lives on for 6 s")
        change = self.pair.wait_for_leader(killed_at, other_than=leader)
        self.report.vacancy_s, self.report.failover_s = change.claimed_s, change.commanding_s
        self.report.native_terms_between = self.znodes.controller_epoch() - epoch - 1
        tell.chapter(f"{change.leader.replica_id} took over {change.claimed_s:.1f} s after the kill, and continues")

    def _look(self) -> Progress:
        seen = self.znodes.partitions(TOPIC)
        claim = self.znodes.controller()
        return Progress(
            self._after,
            seen,
            None if claim is None else claim.broker,
            claim is not None and claim.is_ours,
            self.znodes.controller_epoch(),
            copied_share(self._cluster, TOPIC, seen),
        )

    def _check_everything(self) -> None:
        tell, traffic = self._narrator, self._traffic
        tell.chapter("Checking: kafka-reassign-partitions --verify, every record, every znode, every disk")
        with ThreadPoolExecutor(1) as aside:
            verified = aside.submit(self._tool.verify)
            found = traffic.read_all()
            self.report.checks += checks.of_records(traffic, found)
            self.report.checks.append(checks.of_verification(verified.result(), len(self._after)))
        self.report.checks += checks.of_znodes(self.znodes, TOPIC, self._after)
        self.report.checks += checks.of_disks(self._cluster, self.znodes)
        self.report.acknowledged = len(traffic.acknowledged)
        self.report.found = len(traffic.acknowledged & found)
        self.report.longest_silence_s = traffic.longest_silence_s
        self.pair.look_at_figures()
        self.report.controllers = self.pair.figures_for_people()
        leader = self.pair.leader
        self._check(
            "one of our replicas still leads", leader is not None, "none" if leader is None else str(leader.replica_id)
        )
        if leader is not None:
            self._check_named(leader.replica_id)

    def _stop(self) -> None:
        self._narrator.chapter("Stopping everything")
        codes = self.pair.stop()
        found = ", ".join(f"{replica}: exit code {code}" for replica, code in codes.items())
        self._check("our controller resigned cleanly", bool(codes) and set(codes.values()) == {0}, found)

    def _has_resigned(self, native: int) -> bool:
        log, line = self._cluster.brokers[native].process, f"[Controller id={native}] Resigned"
        try:
            wait_for(lambda: line.encode() in log.output_since_start(), line, timeout_s=10)
        except LabError:
            return False
        return True

    def _check_named(self, leader: int) -> None:
        addresses = [broker.address for broker in self._cluster.brokers.values()]
        try:
            wait_for(lambda: {controller_named_by(a) for a in addresses} == {leader}, "one controller", timeout_s=10)
        except LabError:
            named = {address: controller_named_by(address) for address in addresses}
            self._check(f"every broker names {leader} as the controller", False, str(named))
        else:
            self._check(f"every broker names {leader} as the controller", True, f"{len(addresses)} of {len(addresses)}")

    def _check(self, claim: str, passed: bool, found: str = "") -> None:
        self.report.checks.append(Check(claim, passed, found))


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
