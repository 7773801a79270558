"""What does ZooKeeper say about a cluster's controller and about the partitions of a topic?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from msgspec import Struct

from controller.core.stage import Stage, stage
from zk_layout.ids import BrokerId, ControllerEpoch, PartitionId, TopicName
from zk_layout.znodes import admin, configs, partition_state, topics
from zk_layout.znodes.admin import LegacyMove, LegacyReassignment, LegacyReassignmentAddress
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.configs import Config, TopicConfigAddress
from zk_layout.znodes.controller import (
    ControllerAddress,
    ControllerClaim,
    ControllerEpochAddress,
    decode_claim,
    decode_epoch,
)
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import ROOT, Assignment, Topic, TopicAddress

Plan = Mapping[int, Sequence[int]]
"""Partition → the replicas it has, or must have."""


class PartitionSeen(Struct, frozen=True):
    """One partition as ZooKeeper describes it; without a state it never had a leader."""

    partition: PartitionId
    assignment: Assignment
    state: PartitionState | None

    @property
    def stage(self) -> Stage:
        """Where its move stands."""
        return stage(self.assignment, self.state)


class Znodes:
    """A person's view into the cluster's ZooKeeper, below its chroot; usable from any thread."""

    def __init__(self, connect: str) -> None:
        self._client = KazooClient(connect, timeout=20)

    def __enter__(self) -> Self:
        self._client.start(timeout=30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.stop()
        self._client.close()

    def controller(self) -> ControllerClaim | None:
        """Who holds `/controller`."""
        data = self._read(ControllerAddress().path)
        return None if data is None else decode_claim(data)

    def controller_epoch(self) -> ControllerEpoch:
        """How many controllers there have been."""
        data = self._read(ControllerEpochAddress().path)
        return ControllerEpoch(0) if data is None else decode_epoch(data)

    def is_registered(self, broker: int) -> bool:
        """Whether a broker, or a replica of ours, is registered."""
        return self._client.exists(BrokerAddress(BrokerId(broker)).path) is not None

    def topics(self) -> dict[TopicName, Topic]:
        """All topics."""
        found = {}
        for name in self.children(ROOT):
            data = self._read(TopicAddress(TopicName(name)).path)
            if data is not None:
                found[TopicName(name)] = topics.decode(data)
        return found

    def partitions(self, topic: str) -> tuple[PartitionSeen, ...]:
        """The partitions of one topic, by number; none if there is no such topic."""
        name = TopicName(topic)
        data = self._read(TopicAddress(name).path)
        if data is None:
            return ()
        assignments = topics.decode(data).partitions
        pending = [(p, self._client.get_async(StateAddress(name, p).path)) for p in sorted(assignments)]
        seen = []
        for partition, answer in pending:
            try:
                state = partition_state.decode(answer.get()[0])
            except NoNodeError:
                state = None
            seen.append(PartitionSeen(partition, assignments[partition], state))
        return tuple(seen)

    def create_topic(self, topic: str, plan: Plan, config: Mapping[str, str] | None = None) -> None:
        """Create a topic as Kafka's tools did before there was a request for it: its settings, then its replicas."""
        name = TopicName(topic)
        settings = configs.encode(Config(dict(config or {})))
        self._client.create(TopicConfigAddress(name).path, settings, makepath=True)
        partitions = {PartitionId(p): Assignment(tuple(map(BrokerId, replicas))) for p, replicas in plan.items()}
        self._client.create(TopicAddress(name).path, topics.encode(Topic(partitions)), makepath=True)

    def submit_legacy_move(self, topic: str, plan: Plan) -> None:
        """Ask for a move as old tools do, in one znode.

        Raises:
            NodeExistsError: an earlier one is not done.
        """
        moves = tuple(LegacyMove(TopicName(topic), PartitionId(p), tuple(map(BrokerId, r))) for p, r in plan.items())
        path = LegacyReassignmentAddress().path
        self._client.create(path, admin.encode_reassignment(LegacyReassignment(moves)), makepath=True)

    def has_legacy_move(self) -> bool:
        """Whether moves submitted by old tools are not done yet."""
        return self._client.exists(LegacyReassignmentAddress().path) is not None

    def children(self, path: str) -> tuple[str, ...]:
        """The names below one znode, sorted."""
        return tuple(sorted(self._client.get_children(path)))

    def _read(self, path: str) -> bytes | None:
        try:
            data: bytes = self._client.get(path)[0]
        except NoNodeError:
            return None
        return data
