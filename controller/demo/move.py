"""Which move is requested, with which tool, and how far is it?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from controller.core.stage import Stage
from controller.demo.znodes import PartitionSeen, Plan
from controller.lab.cluster import LocalCluster
from controller.lab.tools import KafkaTools, ToolResult

_FIRST_WITH_BOOTSTRAP_SERVER = (2, 6)
# The tool gives up by itself after a minute without an answer; the rest is for a machine that is slow to start it.
_TOOL_WITHIN_S = 300.0


def first_plan(brokers: Sequence[int], partitions: int) -> Plan:
    """Two replicas for each partition, in turn around the brokers.

    >>> first_plan((1, 2, 3), 2)
    {0: (1, 2), 1: (2, 3)}
    """
    count = len(brokers)
    return {p: (brokers[p % count], brokers[(p + 1) % count]) for p in range(partitions)}


def next_plan(brokers: Sequence[int], plan: Plan) -> Plan:
    """Other brokers for every partition, and another leader: the first replica leaves, and a new one takes its place.

    >>> next_plan((1, 2, 3), {0: (1, 2), 1: (2, 3)})
    {0: (3, 2), 1: (1, 3)}
    """
    return {p: (next(b for b in brokers if b not in replicas), *replicas[1:]) for p, replicas in plan.items()}


class ReassignTool:
    """Kafka's own kafka-reassign-partitions, with the options of the cluster's version."""

    def __init__(self, tools: KafkaTools, bootstrap_servers: str, zookeeper_connect: str, plan_file: Path) -> None:
        self._tools = tools
        self._plan_file = plan_file
        release = tuple(int(part) for part in tools.version.split(".")[:2])
        self.uses_zookeeper = release < _FIRST_WITH_BOOTSTRAP_SERVER
        if self.uses_zookeeper:
            self._access = ("--zookeeper", zookeeper_connect)
        else:
            self._access = ("--bootstrap-server", bootstrap_servers)

    @classmethod
    def of(cls, cluster: LocalCluster, topic: str) -> ReassignTool:
        """The tool of a cluster's version, for moves of one topic."""
        plan_file = cluster.directory / f"move-{topic}.json"
        return cls(cluster.tools, cluster.bootstrap_servers, cluster.zookeeper_connect, plan_file)

    def plan(self, topic: str, plan: Plan) -> None:
        """Write the file for the next calls."""
        partitions = [{"topic": topic, "partition": p, "replicas": list(replicas)} for p, replicas in plan.items()]
        self._plan_file.write_text(json.dumps({"version": 1, "partitions": partitions}))

    def execute(self, *, throttle_bytes_s: int | None = None, more: Sequence[str] = ()) -> ToolResult:
        """`--execute`: start the move."""
        throttle = () if throttle_bytes_s is None else ("--throttle", str(throttle_bytes_s))
        return self._run("--execute", *throttle, *more)

    def verify(self) -> ToolResult:
        """`--verify`: is it done? If so, removes the throttles too."""
        return self._run("--verify")

    def cancel(self) -> ToolResult:
        """`--cancel`: back to the former replicas (2.6 and later)."""
        return self._run("--cancel")

    def list_moves(self) -> ToolResult:
        """`--list`: the moves in progress (2.6 and later)."""
        return self._tools.run("kafka-reassign-partitions", *self._access, "--list", timeout_s=_TOOL_WITHIN_S)

    def command(self, *args: str) -> list[str]:
        """The command as an operator would type it."""
        return ["kafka-reassign-partitions", *self._access, "--reassignment-json-file", str(self._plan_file), *args]

    def _run(self, *args: str) -> ToolResult:
        return self._tools.run(*self.command(*args), timeout_s=_TOOL_WITHIN_S)


class Progress(Struct, frozen=True):
    """How far the move of one topic is, as ZooKeeper and the brokers' disks show it.

    Shape:
        `plan` has the target replicas of each partition; `copied` the share of the log, 0 to 1, that the new
        replicas of a moving partition hold.
    """

    plan: Plan
    partitions: tuple[PartitionSeen, ...]
    controller: int | None
    controller_is_ours: bool
    controller_epoch: int
    copied: Mapping[int, float] = {}

    @property
    def done(self) -> int:
        """How many partitions have completed their move."""
        return sum(
            p.stage is Stage.SETTLED and p.assignment.replicas == tuple(self.plan[p.partition]) for p in self.partitions
        )

    @property
    def is_done(self) -> bool:
        """Whether all have."""
        return self.done == len(self.partitions)

    def count(self, stage: Stage) -> int:
        """How many partitions are at this stage."""
        return Counter(p.stage for p in self.partitions)[stage]


def has_arrived(partitions: Sequence[PartitionSeen], plan: Plan) -> bool:
    """Whether every partition has exactly its target replicas, all in sync and nothing moving."""
    return len(partitions) == len(plan) and all(
        not seen.assignment.is_moving
        and seen.assignment.replicas == tuple(plan[seen.partition])
        and seen.state is not None
        and seen.state.leader in seen.assignment.replicas
        and set(seen.state.isr) == set(seen.assignment.replicas)
        for seen in partitions
    )


def copied_share(cluster: LocalCluster, topic: str, partitions: Sequence[PartitionSeen]) -> dict[int, float]:
    """For each moving partition, the share of the leader's log that its slowest new replica holds."""
    shares = {}
    for seen in partitions:
        assignment = seen.assignment
        if assignment.is_moving and assignment.adding and seen.state is not None:
            name = f"{topic}-{seen.partition}"
            kept = {b: _log_bytes(cluster.brokers[b].log_dir / name) for b in cluster.brokers}
            whole = kept.get(seen.state.leader, 0)
            slowest = min(kept.get(b, 0) for b in assignment.adding)
            shares[int(seen.partition)] = min(1.0, slowest / whole) if whole else 1.0
    return shares


def _log_bytes(replica: Path) -> int:
    total = 0
    for segment in replica.glob("*.log"):
        try:
            total += segment.stat().st_size
        except FileNotFoundError:
            continue
    return total
