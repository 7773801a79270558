"""A cluster in memory that answers the tool as brokers and a controller do."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from controller.reassign.cluster import (
    NOTHING_ADDED,
    Added,
    Answered,
    Configured,
    Directories,
    Edge,
    Kind,
    Listing,
    Mode,
    Move,
    Node,
    PartitionState,
    Settings,
)
from controller.reassign.executing import Clock
from controller.reassign.plans import Replica
from controller.reassign.throttles import FOLLOWER_RATE
from zk_layout.ids import BrokerId, Replicas, RequestId, TopicPartition
from zk_layout.znodes.reassignment_status import MoveProgress, RequestStatus

HOME = "/disk1"


def status(request_id: int) -> RequestStatus:
    """The status of a request of which one move has completed."""
    return RequestStatus(RequestId(request_id), "AlterPartitionReassignments", 0, 0, None, {"completed": 1}, ())


def on(*brokers: int) -> Replicas:
    """Replicas on these brokers."""
    return tuple(map(BrokerId, brokers))


def at(text: str) -> TopicPartition:
    """The partition with this name.

    >>> at("a-b-0")
    TopicPartition(topic='a-b', partition=0)
    """
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))


class SimulatedCluster:
    """Brokers 1 to 4; a move copies `step` bytes at each look, and ends when it has all of them."""

    has_log_dirs = True

    def __init__(self, assignments: Mapping[str, tuple[int, ...]], *, product: str | None = None) -> None:
        self.live: dict[int, Node] = {b: Node("localhost", 9000 + b) for b in (1, 2, 3, 4)}
        self.assignments: dict[TopicPartition, tuple[int, ...]] = {at(k): v for k, v in assignments.items()}
        self.moves: dict[TopicPartition, Move] = {}
        self.progress: dict[TopicPartition, MoveProgress] = {}
        self.product = product
        self.size, self.step = 100, 40
        self.copied: dict[Replica, int] = {}
        self.configs: dict[Configured, dict[str, str]] = {}
        self.refusing: dict[TopicPartition, str] = {}
        self.modes: list[Mode | None] = []
        self.added: list[Added] = []
        self.directory_of: dict[Replica, Directories] = {}
        self.waiting_for_replica: dict[Replica, int] = {}
        self.request: RequestStatus | None = None
        self.looks = 0
        self.ids: dict[str, str] = {}
        self.edges: dict[tuple[Replica, Edge], int] = {}
        self.asked_for_offsets: list[Replica] = []

    def nodes(self) -> dict[Any, Node]:
        return dict(self.live)

    def topics(self, names: Collection[str] | None) -> dict[Any, dict[Any, PartitionState]]:
        found: dict[Any, dict[Any, PartitionState]] = {}
        for partition, replicas in sorted(self.assignments.items()):
            if names is None or partition.topic in names:
                moving = self.moves.get(partition)
                isr = moving.original if moving else replicas
                shown = moving.replicas if moving else replicas
                found.setdefault(partition.topic, {})[partition.partition] = PartitionState(shown, isr, isr[0])
        return found

    def topic_ids(self, names: Collection[str]) -> dict[Any, str]:
        return {name: self.ids[name] for name in names if name in self.ids}

    def listing(self, partitions: Collection[TopicPartition] | None = None, request_id: int | None = None) -> Listing:
        self.looks += 1
        moves = {
            p: Move(m.replicas, m.adding, m.removing, self.progress.get(p))
            for p, m in self.moves.items()
            if partitions is None or p in partitions
        }
        return Listing(moves, self.product, self.request if request_id is not None else None)

    def alter(
        self,
        targets: Mapping[TopicPartition, Any],
        mode: Mode | None = None,
        added: Added = NOTHING_ADDED,
    ) -> Answered:
        self.modes.append(mode)
        self.added.append(added)
        for partition, target in targets.items():
            if partition in self.refusing:
                continue
            old = self.moves.pop(partition, None)
            if target is None:
                continue
            original = old.original if old else self.assignments[partition]
            adding = tuple(b for b in target if b not in original)
            removing = tuple(b for b in original if b not in target)
            if adding or removing:
                self.moves[partition] = Move((*target, *removing), adding, removing)
            else:
                self.assignments[partition] = target
        refused = {p: reason for p, reason in self.refusing.items() if p in targets}
        return Answered(refused, 7 if self.product else None)

    def configure(self, changes: Mapping[Configured, Settings]) -> dict[Configured, str]:
        for of, settings in changes.items():
            for key, value in settings.items():
                if value is None:
                    self.configs.get(of, {}).pop(key, None)
                else:
                    self.configs.setdefault(of, {})[key] = value
        return {}

    def throttles(self, brokers: Collection[BrokerId]) -> dict[BrokerId, int]:
        rates = {b: self.configs.get(Configured(Kind.BROKER, str(b)), {}).get(FOLLOWER_RATE) for b in brokers}
        return {broker: int(rate) for broker, rate in rates.items() if rate is not None}

    def directories(self, replicas: Collection[Replica]) -> dict[Replica, Directories]:
        found: dict[Replica, Directories] = {}
        for replica in replicas:
            partition = TopicPartition(replica.topic, replica.partition)
            if replica.broker not in self.live:
                continue
            if replica in self.directory_of:
                found[replica] = self.directory_of[replica]
            elif replica.broker in self.assignments[partition]:
                found[replica] = Directories(HOME, None, self.size)
            else:
                found[replica] = Directories(HOME, None, self._copy(replica, partition))
        return found

    def offsets(self, replicas: Collection[Replica], edge: Edge) -> dict[Replica, int]:
        self.asked_for_offsets += replicas
        return {replica: self.edges[replica, edge] for replica in replicas if (replica, edge) in self.edges}

    def move_directories(self, targets: Mapping[Replica, str]) -> dict[Replica, str | None]:
        answers: dict[Replica, str | None] = {}
        for replica, directory in targets.items():
            if self.waiting_for_replica.get(replica, 0) > 0:
                self.waiting_for_replica[replica] -= 1
                continue
            answers[replica] = None if directory.startswith("/disk") else "not found in the broker config"
        return answers

    def close(self) -> None:
        """Nothing was opened."""

    def arrive(self, partition: TopicPartition) -> None:
        """Its move is done."""
        self.assignments[partition] = self.moves.pop(partition).target

    def _copy(self, replica: Replica, partition: TopicPartition) -> int:
        done = min(self.size, self.copied.get(replica, 0) + self.step)
        self.copied[replica] = done
        if done == self.size and partition in self.moves:
            self.arrive(partition)
        return done


class Hours:
    """A clock that advances only when a caller sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.clock = Clock(lambda: self.seconds, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.seconds += seconds


def plan_file(directory: Path, targets: Mapping[str, tuple[int, ...]], **log_dirs: tuple[str, ...]) -> Path:
    """A file for `--reassignment-json-file`; log directories are given as `topic_0=(...)`."""
    partitions = []
    for name, replicas in targets.items():
        entry: dict[str, object] = {"topic": at(name).topic, "partition": at(name).partition, "replicas": replicas}
        if (named := log_dirs.get(name.replace("-", "_"))) is not None:
            entry["log_dirs"] = named
        partitions.append(entry)
    path = directory / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path
