"""Which storms are there, and how long is the longest turn of each?"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator

from controller.core.commands import LeaderAndIsr, PartitionView
from controller.core.effects import Tell
from controller.core.events import Loaded
from controller.core.requests import (
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    IsrProposal,
    ListReassignments,
    NewTopic,
    PartitionReassignment,
    Request,
    TopicReference,
)
from tests.benchmarks.filling import Shape
from tests.benchmarks.storms import Rig, Storm
from zk_layout.facts import Stat, present
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.admin import LegacyMove, LegacyReassignment, LegacyReassignmentAddress

MOVES = 100_000
LEGACY_MOVES = 20_000
WIDE = 10_000
TOPICS = 2_000
PROPOSALS = 1_000


class Storms:
    """All storms on one cluster, one after the other."""

    def __init__(self, shape: Shape, *, is_encoding: bool = True) -> None:
        """Nothing is loaded."""
        self._rig = Rig(shape, is_encoding=is_encoding)
        self._first, self._second = self._rig.brokers[0], self._rig.brokers[1]
        self._joining: dict[tuple[TopicName, PartitionId], PartitionView] = {}
        self._rig.on_told = self._note_joining

    def all(self) -> Iterator[Storm]:
        """In an order in which each finds what it needs."""
        rig = self._rig
        gc.disable()

        def load() -> None:
            for event in rig.everything():
                rig.emit(event)
                if not isinstance(event, Loaded):
                    rig.run()

        loaded = rig.measure("loading, and telling everybody", load)
        gc.enable()
        gc.freeze()
        yield loaded
        for name, happens, for_s in self._storms():
            yield rig.measure(name, happens, for_s)

    def _storms(self) -> Iterator[tuple[str, Callable[[], None], float]]:
        yield "a broker dies", lambda: self._rig.lose(self._first), 0.0
        yield "it returns", lambda: self._return(self._first), 0.0
        yield "its replicas join", self._join, 0.0
        yield "preferred leaders of all", lambda: self._ask(ElectLeaders(None)), 5.0
        yield "controlled shutdown", lambda: self._ask(ControlledShutdown(self._second)), 5.0
        yield "a bounce", lambda: self._return(self._second), 0.0
        yield "a request of many moves", self._move, 0.0
        yield "listing the moves", lambda: self._ask(ListReassignments(None)), 0.0
        yield "a minute of moving", lambda: None, 60.0
        yield "a broker dies while all moves", lambda: self._rig.lose(self._second), 0.0
        yield "it returns while all moves", lambda: self._return(self._second), 0.0
        yield "the moves end", self._join, 70.0
        yield "a large legacy znode", self._move_by_znode, 10.0
        yield "topics are created", self._create, 5.0
        yield "topics are deleted", self._delete, 40.0
        yield "a wide topic is created", self._create_wide, 5.0
        yield "a wide topic is read", self._read_wide, 5.0
        yield "a wide topic moves", self._move_wide, 5.0
        yield "every broker dies", self._lose_all, 5.0
        yield "every broker returns", self._return_all, 5.0

    def _lose_all(self) -> None:
        for broker in self._rig.brokers:
            self._rig.lose(broker)

    def _return_all(self) -> None:
        for broker in self._rig.brokers:
            self._return(broker)

    def _ask(self, request: Request) -> None:
        self._rig.ask(request)

    def _return(self, broker: BrokerId) -> None:
        self._rig.observe([self._rig.registration(broker, self._rig.next_zxid())])

    def _spread(self, count: int) -> Iterator[tuple[TopicPartition, int]]:
        size = self._rig.shape.partitions_per_topic
        for index in range(min(count, self._rig.shape.partitions)):
            yield TopicPartition(self._rig.topic_name(index // size), PartitionId(index % size)), index

    def _move(self) -> None:
        rig = self._rig
        wanted = tuple(PartitionReassignment(at, self._target(index)) for at, index in self._spread(MOVES))
        rig.ask(AlterReassignments(wanted))

    def _target(self, index: int) -> tuple[BrokerId, ...]:
        return tuple(self._rig.replicas_of(index + 3))

    def _note_joining(self, tell: Tell) -> None:
        if isinstance(tell.command, LeaderAndIsr):
            for seen in (*tell.command.partitions, *tell.command.new):
                if seen.leader == tell.broker:
                    self._joining[seen.topic, seen.partition] = seen

    def _join(self) -> None:
        """Every leader finds all replicas in sync."""
        latest = [v for v in self._joining.values() if len(v.isr) < len(v.replicas)]
        self._joining.clear()
        by_leader: dict[BrokerId, list[IsrProposal]] = defaultdict(list)
        for v in latest:
            isr = tuple(v.replicas)
            by_leader[v.leader].append(
                IsrProposal(TopicReference(v.topic), v.partition, v.leader_epoch, v.partition_epoch, isr)
            )
        for leader, proposals in by_leader.items():
            epoch = self._rig.epoch_of(leader)
            for start in range(0, len(proposals), PROPOSALS):
                self._ask(AlterPartition(leader, epoch, tuple(proposals[start : start + PROPOSALS])))

    def _move_by_znode(self) -> None:
        moves = tuple(LegacyMove(*at, self._rig.replicas_of(i + 6)) for at, i in self._spread(LEGACY_MOVES))
        zxid = Zxid(self._rig.next_zxid())
        fact = present(LegacyReassignmentAddress(), LegacyReassignment(moves), Stat(zxid, zxid, ZnodeVersion(0)))
        self._rig.observe([fact])

    def _create(self) -> None:
        size = self._rig.shape.partitions_per_topic
        new = tuple(NewTopic(TopicName(f"new-{n}"), size, 3) for n in range(TOPICS))
        self._ask(CreateTopics(new))

    def _delete(self) -> None:
        self._ask(DeleteTopics(tuple(TopicReference(TopicName(f"new-{n}")) for n in range(TOPICS))))

    def _create_wide(self) -> None:
        self._ask(CreateTopics((NewTopic(TopicName("wide"), WIDE, 3),)))

    def _read_wide(self) -> None:
        facts = list(self._rig.topic_facts(TopicName("also-wide"), 0, WIDE, self._rig.next_zxid()))
        self._rig.observe(facts)

    def _move_wide(self) -> None:
        ats = (TopicPartition(TopicName("also-wide"), PartitionId(n)) for n in range(WIDE))
        self._ask(AlterReassignments(tuple(PartitionReassignment(at, self._target(at.partition)) for at in ats)))
