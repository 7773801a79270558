"""What does a machine decide whose transactions ZooKeeper accepts?"""

from __future__ import annotations

from typing import Any

from controller.core.machine import Machine
from controller.core.messages.effects import Effect, Notice, Set, Wake
from controller.core.messages.events import Committed, Event, Loaded, Observed, Woke
from controller.core.messages.requests import Caller
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from tests.unit.core.builders import EPOCH, OWN, commits, ids, registration
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import BrokerId, PartitionId, TopicId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

CALLER = Caller("PLAINTEXT", "127.0.0.1")
ID = TopicId("AAECAwQFBgcICQoLDA0ODw")
STAT = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))


def topic(name: str, *states: PartitionState, replicas: str = "1,2") -> tuple[Fact, ...]:
    """A topic whose partitions are all on the same brokers."""
    partitions = {PartitionId(n): Assignment(ids(replicas)) for n in range(len(states))}
    of_states = (present(StateAddress(TopicName(name), PartitionId(n)), s, STAT) for n, s in enumerate(states))
    return (present(TopicAddress(TopicName(name)), Topic(partitions, ID), STAT), *of_states)


class Turns:
    """A machine whose transactions ZooKeeper accepts."""

    def __init__(self, *facts: Fact, **settings: Any) -> None:
        self.machine = Machine(MachineSettings(own_id=OWN, **settings), EPOCH, SeededRandom(b"0"))
        self.now, self.zxid = 0.0, 5000
        brokers = tuple(registration(broker) for broker in (OWN, *ids("1,2,3")))
        self.turn(Observed((*brokers, *facts)), Loaded())

    def turn(self, *events: Event) -> list[Effect]:
        """These events, and what follows until nothing is written or due any more."""
        every: list[Effect] = []
        pending = list(events)
        for _ in range(100):
            if not pending:
                return every
            effects = self.machine.turn(pending, self.now)
            every += effects
            pending = [Woke(e.alarm) for e in effects if isinstance(e, Wake) and e.at <= self.now]
            for commit in commits(effects):
                self.zxid += 1
                pending.append(Committed(commit.commit, Zxid(self.zxid)))
        raise RuntimeError("it does not settle")

    def dies(self, broker: int) -> list[Effect]:
        self.zxid += 1
        return self.turn(Observed((absent(BrokerAddress(BrokerId(broker)), Zxid(self.zxid)),)))


def led(effects: list[Effect]) -> dict[str, int]:
    """The leaders written, by path."""
    writes = (write for commit in commits(effects) for write in commit.writes if isinstance(write, Set))
    return {w.address.path: w.value.leader for w in writes if isinstance(w.value, PartitionState)}


def notices(effects: list[Effect], kind: str = "set aside") -> list[str]:
    return [e.text for e in effects if isinstance(e, Notice) and e.kind == kind]


def path(name: str, number: int) -> str:
    return f"/brokers/topics/{name}/partitions/{number}/state"
