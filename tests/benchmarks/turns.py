"""Which storms are there, and how long is the longest turn of each?"""

from __future__ import annotations

import gc
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from controller.core.elections.duty import Rebalance
from controller.core.messages.commands import LeaderAndIsr, PartitionView
from controller.core.messages.effects import Tell
from controller.core.messages.events import Loaded, Woke
from controller.core.messages.requests import (
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Growth,
    IsrProposal,
    ListReassignments,
    NewTopic,
    PartitionReassignment,
    Request,
    TopicReference,
)
from controller.runtime.journal import Journal
from tests.benchmarks.filling import Shape
from tests.benchmarks.storms import Rig, Storm
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.admin import LegacyMove, LegacyReassignment, LegacyReassignmentAddress, TopicDeletionAddress
from zk_layout.znodes.notifications import LogDirEvent, LogDirEventAddress
from zk_layout.znodes.partition_state import StateAddress

MOVES = 100_000
LEGACY_MOVES = 20_000
WIDE, WIDEST = 15_000, 40_000
WIDE_TOPIC, READ_TOPIC, WIDEST_TOPIC = TopicName("wide"), TopicName("also-wide"), TopicName("widest")
TOPICS = 2_000
PROPOSALS = 1_000


LOADING = "loading, and telling everybody"
NEEDS: dict[str, tuple[str, ...]] = {
    "a broker dies": (),
    "controlled shutdown": ("a broker dies",),
    "it returns": ("a broker dies",),
    "its replicas join": ("it returns",),
    "a bounce": (),
    "preferred leaders of all": ("its replicas join", "a bounce"),
    "a log directory fails": (),
    "a request of many moves": (),
    "listing the moves": ("a request of many moves",),
    "a minute of moving": ("a request of many moves",),
    "a broker dies while all moves": ("a request of many moves",),
    "it returns while all moves": ("a broker dies while all moves",),
    "the moves end": ("a request of many moves",),
    "many cancellations": (),
    "a large legacy znode": (),
    "topics are created": (),
    "topics are deleted": ("topics are created",),
    "topics are deleted by znodes": (),
    "topics are deleted without a broker": (),
    "a wide topic is created": (),
    "a wide topic grows": ("a wide topic is created",),
    "a wide topic is deleted": ("a wide topic is created",),
    "a wide topic is read": (),
    "more moves than a znode holds": ("a wide topic is read",),
    "a wide topic moves": ("a wide topic is read",),
    "the wide topic's moves end": ("a wide topic moves",),
    "every broker bounces": (),
    "every broker shuts down": (),
    "every broker dies": (),
    "every broker returns": ("every broker dies",),
    "a broker bounces, and its leaders are balanced": (),
}


def needed(names: Iterable[str]) -> set[str]:
    """These storms and all that they need."""
    every: set[str] = set()
    for name in names:
        every |= {name} | needed(NEEDS.get(name, ()))
    return every


class Storms:
    """Storms on one cluster, one after the other."""

    def __init__(self, shape: Shape, *, is_encoding: bool = True, journal: Path | None = None) -> None:
        """The journal of every turn goes to the directory `journal`."""
        self._rig = Rig(shape, is_encoding=is_encoding)
        if journal is not None:
            self._rig.journal = Journal(journal, sys.exit)
        self._first, self._second = self._rig.brokers[0], self._rig.brokers[1]
        self._joining: dict[tuple[TopicName, PartitionId], PartitionView] = {}
        self._rig.on_told = self._note_joining

    @staticmethod
    def names() -> tuple[str, ...]:
        """All storms, each after those that it needs."""
        return (LOADING, *NEEDS)

    def measured(self, only: Collection[str] = ()) -> Iterator[Storm]:
        """Run these storms and those that they need; without names, all."""
        rig = self._rig
        gc.disable()

        def load() -> None:
            for event in rig.everything():
                rig.emit(event)
                if not isinstance(event, Loaded):
                    rig.run()

        loaded = rig.measure(LOADING, load)
        gc.enable()
        gc.freeze()
        yield loaded
        wanted = needed(only) if only else dict.fromkeys(NEEDS)
        for name, (happens, for_s) in self._storms().items():
            if name in wanted:
                yield rig.measure(name, happens, for_s)

    def _storms(self) -> dict[str, tuple[Callable[[], None], float]]:
        return {
            "a broker dies": (lambda: self._rig.lose(self._first), 0.0),
            "controlled shutdown": (lambda: self._ask(ControlledShutdown(self._second)), 5.0),
            "it returns": (lambda: self._return(self._first), 0.0),
            "its replicas join": (self._join, 0.0),
            "a bounce": (lambda: self._return(self._second), 0.0),
            "preferred leaders of all": (lambda: self._ask(ElectLeaders(None)), 5.0),
            "a log directory fails": (self._fail_log_directory, 5.0),
            "a request of many moves": (self._move, 0.0),
            "listing the moves": (lambda: self._ask(ListReassignments(None)), 0.0),
            "a minute of moving": (lambda: None, 60.0),
            "a broker dies while all moves": (lambda: self._rig.lose(self._second), 0.0),
            "it returns while all moves": (lambda: self._return(self._second), 0.0),
            "the moves end": (self._join, 70.0),
            "many cancellations": (self._cancel, 70.0),
            "a large legacy znode": (self._move_by_znode, 10.0),
            "topics are created": (self._create, 5.0),
            "topics are deleted": (self._delete, 40.0),
            "topics are deleted by znodes": (self._delete_by_znodes, 40.0),
            "topics are deleted without a broker": (self._delete_without_broker, 40.0),
            "a wide topic is created": (self._create_wide, 5.0),
            "a wide topic grows": (self._grow_wide, 5.0),
            "a wide topic is deleted": (lambda: self._ask(DeleteTopics((TopicReference(WIDE_TOPIC),))), 40.0),
            "a wide topic is read": (self._read_wide, 5.0),
            "more moves than a znode holds": (lambda: self._move_wide(WIDEST_TOPIC, WIDEST), 5.0),
            "a wide topic moves": (lambda: self._move_wide(READ_TOPIC, WIDE), 5.0),
            "the wide topic's moves end": (self._join, 70.0),
            "every broker bounces": (self._return_all, 5.0),
            "every broker shuts down": (self._shut_all_down, 60.0),
            "every broker dies": (self._lose_all, 5.0),
            "every broker returns": (self._return_all, 5.0),
            "a broker bounces, and its leaders are balanced": (self._unbalance, 5.0),
        }

    def _lose_all(self) -> None:
        for broker in self._rig.brokers:
            self._rig.lose(broker)

    def _return_all(self) -> None:
        for broker in self._rig.brokers:
            self._return(broker)

    def _unbalance(self) -> None:
        self._return(self._second)
        self._rig.run()
        self._join()
        self._rig.run()
        self._rig.emit(Woke(Rebalance()))

    def _shut_all_down(self) -> None:
        for broker in self._rig.brokers:
            self._ask(ControlledShutdown(broker, self._rig.epoch_of(broker)))

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

    def _delete_by_znodes(self) -> None:
        zxid = Zxid(self._rig.next_zxid())
        names = [self._rig.topic_name(n) for n in range(self._rig.shape.topics // 4)]
        self._rig.observe([present(TopicDeletionAddress(n), None, Stat(zxid, zxid, ZnodeVersion(0))) for n in names])

    def _delete_without_broker(self) -> None:
        topics = self._rig.shape.topics
        self._rig.lose(self._second)
        self._rig.run()
        names = [self._rig.topic_name(n) for n in range(topics // 2, topics)]
        self._ask(DeleteTopics(tuple(map(TopicReference, names))))
        self._rig.run(10.0)
        self._return(self._second)

    def _create_wide(self) -> None:
        self._ask(CreateTopics((NewTopic(WIDE_TOPIC, WIDE, 3),)))

    def _grow_wide(self) -> None:
        self._ask(CreatePartitions((Growth(WIDE_TOPIC, WIDEST, None),)))
        self._rig.run()
        zxid = Zxid(self._rig.zxid)  # the reader reports the topic's changed znode
        self._rig.observe(absent(StateAddress(WIDE_TOPIC, PartitionId(n)), zxid) for n in range(WIDE, WIDEST))

    def _fail_log_directory(self) -> None:
        """Half of a broker's replicas go offline."""
        third = self._rig.brokers[2]

        def failing(tell: Tell) -> Iterable[TopicPartition]:
            if tell.broker != third or not isinstance(tell.command, LeaderAndIsr):
                return ()
            listed = (*tell.command.partitions, *tell.command.new)
            return (TopicPartition(seen.topic, seen.partition) for seen in listed if seen.partition % 2)

        self._rig.failing = failing
        zxid = Zxid(self._rig.next_zxid())
        stat = Stat(zxid, zxid, ZnodeVersion(0))
        self._rig.observe([present(LogDirEventAddress("log_dir_event_0000000001"), LogDirEvent(third), stat)])
        self._rig.run()
        self._rig.failing = lambda _: ()

    def _cancel(self) -> None:
        wanted = tuple(PartitionReassignment(at, self._target(index)) for at, index in self._spread(MOVES))
        self._ask(AlterReassignments(wanted))
        self._rig.run()
        self._ask(AlterReassignments(tuple(PartitionReassignment(at, None) for at, _ in self._spread(MOVES))))

    def _read_wide(self) -> None:
        for name, size in ((READ_TOPIC, WIDE), (WIDEST_TOPIC, WIDEST)):
            self._rig.observe(self._rig.topic_facts(name, 0, size, self._rig.next_zxid()))
            self._rig.run()

    def _move_wide(self, name: TopicName, size: int) -> None:
        ats = (TopicPartition(name, PartitionId(n)) for n in range(size))
        self._ask(AlterReassignments(tuple(PartitionReassignment(at, self._target(at.partition)) for at in ats)))
