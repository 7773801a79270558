"""How far is the deletion of a topic, as the duty for topics keeps account of it?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from controller.core.messages.commands import Command, ReplicaStop, StopReplica
from controller.core.messages.effects import Commit, Create, Delete, Effect
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged
from controller.core.topics.deletion import TopicDeletions
from controller.core.transactions.proposal import Atom, Proposal, topic_subject
from controller.core.turn.duty import Duty
from tests.unit.core.builders import Term, commits, ids, state
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import PartitionId, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.configs import Config, TopicConfigAddress
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

NAME = TopicName("orders")
MARKED_AT = 5000


class Removal(Struct):
    """The next step of a deletion: what goes first, and what is written. Both empty: it waits."""

    effects: Sequence[Effect] = ()
    atoms: tuple[Atom, ...] = ()


WAITS = Removal([])


class Desk(Term):
    """The bookkeeping as the duty for topics uses it."""

    def __init__(self, live: str, *replicas: str, deletes_topics: bool = True) -> None:
        super().__init__(live, deletes_topics=deletes_topics)
        self.deletions = TopicDeletions(self.cluster, self.memory.topics, self.memory.brokers)
        self.zxid = 2000
        if replicas:
            self.assign({p: Assignment(ids(r)) for p, r in enumerate(replicas)})
            for number, r in enumerate(replicas):
                seen = Stat(self._next(), Zxid(self.zxid), ZnodeVersion(0))
                self.fold(present(StateAddress(NAME, PartitionId(number)), state(ids(r)[0], r), seen))

    def _next(self) -> Zxid:
        self.zxid += 1
        return Zxid(self.zxid)

    def assign(self, partitions: dict[int, Assignment], czxid: int = 2000, version: int = 0) -> None:
        stat = Stat(Zxid(czxid), max(Zxid(czxid), self._next()), ZnodeVersion(version))
        self.fold(present(TopicAddress(NAME), Topic({PartitionId(n): a for n, a in partitions.items()}), stat))

    def mark(self, czxid: int = MARKED_AT) -> None:
        self.zxid = czxid
        stat = Stat(Zxid(czxid), Zxid(czxid), ZnodeVersion(0))
        self.fold(present(TopicDeletionAddress(NAME), None, stat))

    def tells(self, *fresh: int) -> list[tuple[int, Command]]:
        self.memory.brokers.updated_in_full.clear()
        self.memory.brokers.updated_in_full.update(dict.fromkeys(ids(",".join(map(str, fresh)))))
        self.deletions.follow(self.changes())
        out = self.out()
        self.deletions.announce(out)
        return [(told.broker, told.command) for told in out.sent]

    def stops(self, *fresh: int) -> dict[int, list[int]]:
        return {
            broker: [stop.partition for stop in command.stops]
            for broker, command in self.tells(*fresh)
            if isinstance(command, StopReplica)
        }

    def answer(self, broker: int, *numbers: int, refused: tuple[int, ...] = ()) -> list[TopicName]:
        command = StopReplica(tuple(ReplicaStop(NAME, n, -2, True) for n in (*numbers, *refused)))
        errors = {TopicPartition(NAME, n): ErrorCode.KAFKA_STORAGE_ERROR for n in refused}
        return self.deletions.hear(Acknowledged(broker, 1, command, ErrorCode.NONE, errors))

    def step(self) -> Removal:
        out = self.out()
        self.deletions.follow(self.changes())
        atoms = self.deletions.next_step(NAME, out)
        return Removal(out.effects, atoms)

    def removal(self, partitions: int) -> list[Commit]:
        """What is sent first once brokers have deleted the logs of so many partitions of one replica."""
        self.mark()
        self.tells()
        self.answer(1, *range(partitions))
        self.read_config()
        out = self.out()
        self.transactions.send(Duty(), (Proposal(topic_subject(NAME), self.step().atoms),), out)
        return commits(out.effects)

    def read_config(self, version: int | None = None) -> None:
        address = TopicConfigAddress(NAME)
        if version is None:
            self.fold(absent(address, self._next()))
        else:
            stat = Stat(self._next(), Zxid(self.zxid), ZnodeVersion(version))
            self.fold(present(address, Config({}), stat))


def deleted(step: Removal) -> list[tuple[str, int]]:
    (atom,) = step.atoms
    writes = (*atom.before, *atom.writes)
    assert all(isinstance(write, Delete) for write in writes)
    return [(w.address.path, w.expected) for w in writes if not isinstance(w, Create)]
