"""What happens in the demo where real brokers cannot be had? ZooKeeper and our controllers are still real."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import time
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.demo import checks
from controller.demo.move import Progress, first_plan, has_arrived, next_plan
from controller.demo.narration import MoveView, Narrator
from controller.demo.pair import Change, Pair
from controller.demo.report import Check, Report
from controller.demo.waiting import wait_for
from controller.demo.znodes import Plan, Znodes
from controller.lab.asking import move
from controller.lab.errors import LabError
from controller.lab.simulated_broker import SimulatedBroker, SimulatedSettings
from controller.lab.zookeeper import ZooKeeperServer
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

BROKERS = (1, 2, 3)
TOPIC = "orders"
REPLICATION_DELAY_S = 2.0
_PROTOCOL = "3.9"
_LOOK_EVERY_S = 0.1
_MOVE_WITHIN_S = 60.0


class SimulatedBrokers:
    """Some of them, in a thread of their own, with one session of ZooKeeper."""

    def __init__(
        self,
        zookeeper_connect: str,
        ids: Sequence[int] = BROKERS,
        *,
        counts_only: bool = False,
        session_timeout_s: float = 20.0,
    ) -> None:
        """Nothing runs yet. For `counts_only` see `SimulatedSettings`."""
        self._settings = [
            SimulatedSettings(BrokerId(broker), replication_delay_s=REPLICATION_DELAY_S, counts_only=counts_only)
            for broker in ids
        ]
        self._zookeeper = KazooClient(zookeeper_connect, timeout=session_timeout_s)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="simulated brokers", daemon=True)
        self._brokers: list[SimulatedBroker] = []

    def __enter__(self) -> Self:
        self._zookeeper.start(timeout=30)
        self._thread.start()
        for settings in self._settings:
            self._brokers.append(self._broker(settings, self._zookeeper))
            self._do(self._brokers[-1].start())
        return self

    def _broker(self, settings: SimulatedSettings, zookeeper: KazooClient) -> SimulatedBroker:
        """One of them; subclasses make brokers of another kind."""
        return SimulatedBroker(settings, zookeeper)

    def __exit__(self, *_: object) -> None:
        for broker in self._brokers:
            self._do(broker.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._zookeeper.stop()
        self._zookeeper.close()

    def replicas(self) -> dict[int, set[TopicPartition]]:
        """The replicas each broker would have on disk."""
        return {broker.settings.broker: set(broker.model.disk) for broker in self._brokers}

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


def tell(partitions: int, narrator: Narrator) -> Report:
    """The same story with simulated brokers: take-over of a vacant cluster, a move, SIGKILL, the other finishes."""
    directory = Path(tempfile.mkdtemp(prefix="kafka-zk-controller-"))
    with ExitStack() as at_the_end:
        at_the_end.callback(shutil.rmtree, directory, ignore_errors=True)
        narrator.chapter(f"Starting a real ZooKeeper and {len(BROKERS)} simulated brokers: no data, the same protocol")
        server = at_the_end.enter_context(ZooKeeperServer(directory / "zookeeper"))
        znodes = at_the_end.enter_context(Znodes(server.connect))
        brokers = at_the_end.enter_context(SimulatedBrokers(server.connect))
        pair = Pair(znodes, server.connect, _PROTOCOL, directory)
        at_the_end.callback(pair.end)
        return _SimulatedStory(narrator, znodes, brokers, pair, partitions).tell()


class _SimulatedStory:
    def __init__(
        self, narrator: Narrator, znodes: Znodes, brokers: SimulatedBrokers, pair: Pair, partitions: int
    ) -> None:
        self._narrator, self._znodes, self._brokers, self._pair = narrator, znodes, brokers, pair
        self._before = first_plan(BROKERS, partitions)
        self._after = next_plan(BROKERS, self._before)
        self._report = Report(
            kafka_version="simulated",
            brokers=f"{len(BROKERS)} simulated brokers, a real ZooKeeper, 2 replicas of the controller",
            partitions=partitions,
            started_s=narrator.elapsed_s,
        )

    def tell(self) -> Report:
        narrator, report = self._narrator, self._report
        narrator.chapter("Starting two replicas of our controller, 901 and 902")
        change = self._pair.start()
        report.takeover_s = change.commanding_s
        narrator.say(f"{change.leader.replica_id} leads after {change.commanding_s:.1f} s; the other stands by")
        self._znodes.create_topic(TOPIC, self._before)
        wait_for(lambda: has_arrived(self._znodes.partitions(TOPIC), self._before), "a leader for each partition")
        narrator.chapter(f"Moving {len(self._after)} partitions, half of them first")
        self._move(change)
        self._check()
        narrator.chapter("Stopping everything")
        codes = self._pair.stop()
        clean = bool(codes) and set(codes.values()) == {0}
        report.checks.append(Check("our controller resigned cleanly", clean, str(codes)))
        report.total_s = narrator.elapsed_s
        return report

    def _move(self, change: Change) -> None:
        half = len(self._after) // 2
        first = {p: replicas for p, replicas in self._after.items() if p < half}
        second = {p: replicas for p, replicas in self._after.items() if p >= half}
        started = time.monotonic()
        with MoveView(self._narrator, "simulated brokers") as view:
            self._ask_for(change.leader.address, first)
            self._watch_until(view, half)
            self._ask_for(change.leader.address, second)
            self._report.done_at_kill = self._look().done
            epoch = self._znodes.controller_epoch()
            killed_at = self._pair.kill(change.leader)
            self._narrator.alarm(f"Killed {change.leader.replica_id}, the leader, with SIGKILL")
            successor = self._pair.wait_for_leader(killed_at, other_than=change.leader)
            self._narrator.chapter(f"{successor.leader.replica_id} has taken over {successor.claimed_s:.1f} s after")
            self._report.vacancy_s, self._report.failover_s = successor.claimed_s, successor.commanding_s
            self._report.native_terms_between = self._znodes.controller_epoch() - epoch - 1
            self._watch_until(view, len(self._after))
        self._report.move_s = time.monotonic() - started

    def _ask_for(self, leader: str, plan: Plan) -> None:
        reassignments = tuple(
            PartitionReassignment(TopicPartition(TopicName(TOPIC), PartitionId(p)), tuple(map(BrokerId, replicas)))
            for p, replicas in plan.items()
        )
        answer = move(leader, AlterReassignments(reassignments))
        if answer.error is not ErrorCode.NONE or any(r.error is not ErrorCode.NONE for r in answer.results):
            raise LabError(f"the controller refused the move: {answer}")

    def _watch_until(self, view: MoveView, done: int) -> None:
        deadline = time.monotonic() + _MOVE_WITHIN_S
        while (progress := self._look()).done < done:
            view.show(progress)
            if time.monotonic() > deadline:
                raise LabError(f"the move took more than {_MOVE_WITHIN_S:g} s: {progress.done} partitions are done")
            time.sleep(_LOOK_EVERY_S)
        view.show(progress)

    def _look(self) -> Progress:
        claim = self._znodes.controller()
        return Progress(
            self._after,
            self._znodes.partitions(TOPIC),
            None if claim is None else claim.broker,
            claim is not None and claim.is_ours,
            self._znodes.controller_epoch(),
        )

    def _check(self) -> None:
        self._narrator.chapter("Checking every znode and every broker")
        self._report.checks += checks.of_znodes(self._znodes, TOPIC, self._after)
        wanted: dict[int, set[TopicPartition]] = {broker: set() for broker in BROKERS}
        for p, replicas in self._after.items():
            for replica in replicas:
                wanted[replica].add(TopicPartition(TopicName(TOPIC), PartitionId(p)))
        kept = self._brokers.replicas()
        strays = {b: sorted(map(str, kept[b] ^ wanted[b])) for b in BROKERS if kept[b] != wanted[b]}
        self._report.checks.append(
            Check("no broker keeps a stray replica, none lacks one", not strays, str(strays or ""))
        )
        self._pair.look_at_figures()
        self._report.controllers = self._pair.figures_for_people()
