"""How are cases for the rules written down briefly, and what does a duty need to be tested alone?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller.core.clients.authorization import Authorizer, anybody
from controller.core.memory import Memory
from controller.core.messages.effects import Commit, Effect
from controller.core.messages.events import CallId, CommitId
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import Request
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.state.changes import OpenChanges
from controller.core.state.topics import TopicView
from controller.core.state.view import Cluster
from controller.core.steps.change import Case
from controller.core.transactions.owner import facts_below, facts_of
from controller.core.turn.duty import Duty
from controller.core.turn.shared import at_beginning
from zk_layout.catalog import Address
from zk_layout.facts import Fact, Stat, present
from zk_layout.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionId,
    Replicas,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.configs import Config
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

OWN = BrokerId(900)
EPOCH = ControllerEpoch(7)
AT = TopicPartition(TopicName("orders"), PartitionId(0))


class Term:
    """What all duties of a term share, without a machine: facts are folded by hand, and ZooKeeper is the test.

    Shape:
        `settings` are fields of `MachineSettings`. Registered brokers count as let in.
    """

    def __init__(
        self, live: str = "", *, shutting_down: str = "", is_allowed: Authorizer = anybody, **settings: Any
    ) -> None:
        self.settings = MachineSettings(own_id=OWN, **settings)
        self.unanswered: dict[CallId, Request] = {}
        self.memory = Memory(OWN)
        self.shared = at_beginning(self.settings, EPOCH, SeededRandom(b"0"), self.memory, is_allowed)
        self.state, self.cluster = self.shared.state, self.shared.cluster
        self.transactions = self.shared.transactions
        self.now = 0.0
        self.zxid = 1000
        self.fold(*(registration(broker) for broker in (*ids(live), OWN)))
        self.memory.brokers.shutting_down.update(dict.fromkeys(ids(shutting_down)))

    def fold(self, *facts: Fact) -> None:
        """ZooKeeper was read, and no one has followed it yet."""
        self.state.apply_all(facts)
        let_in = self.memory.brokers.brokers
        for broker in [b for b in let_in if b not in self.state.brokers]:
            del let_in[broker]
        let_in.update(self.state.brokers)

    def out(self) -> Outbox:
        """Somewhere to say something now."""
        return Outbox(self.now, self.unanswered)

    def follow(self, duty: Duty) -> list[Effect]:
        """A duty hears what has changed since this was last called."""
        out, changes = self.out(), self.state.take_changes()
        duty.retract(changes, out)
        duty.amend(changes, out)
        duty.follow(changes, out)
        duty.announce(changes, out)
        return out.effects

    def propose(self, duty: Duty) -> list[Effect]:
        """A duty proposes, and what it proposes is sent."""
        out = self.out()
        self.transactions.send(duty, duty.propose(out), out)
        return out.effects

    def accept(self, commit: Commit) -> list[Effect]:
        """ZooKeeper takes a transaction."""
        out = self.out()
        self.zxid += 1
        written, zxid = self.transactions.committed(commit.commit), Zxid(self.zxid)
        self.fold(*facts_of(written, zxid, self._czxid_of), *facts_below(written, zxid))
        self.transactions.settle(out)
        return out.effects

    def refuse(self, commit: Commit | CommitId, *seen: Fact) -> list[Effect]:
        """ZooKeeper does not take a transaction, or no one knows; then these znodes are read."""
        out = self.out()
        self.transactions.failed(commit.commit if isinstance(commit, Commit) else commit, None, out)
        self.transactions.settle(out)
        return out.effects + self.read(*seen)

    def read(self, *seen: Fact) -> list[Effect]:
        """Znodes are read again."""
        out = self.out()
        for fact in seen:
            self.fold(fact)
            self._saw(fact.address, fact, out)
        return out.effects

    def may_not_read(self, address: Address) -> list[Effect]:
        """ZooKeeper does not let us read a znode again."""
        out = self.out()
        self.state.refuse(address.path, "no permission", address)
        self._saw(address, None, out)
        return out.effects

    def _saw(self, address: Address, fact: Fact | None, out: Outbox) -> None:
        for commit, zxid in self.transactions.saw(address, fact, out):
            self.fold(*facts_of(commit, zxid, self._czxid_of))
        self.transactions.settle(out)

    def changes(self) -> OpenChanges:
        """What has changed since this was last called."""
        return self.state.take_changes()

    def _czxid_of(self, name: TopicName) -> Zxid | None:
        held = self.cluster.topics.get(name)
        return None if held is None else held.czxid


def commits(effects: Sequence[Effect]) -> list[Commit]:
    """The transactions among these."""
    return [effect for effect in effects if isinstance(effect, Commit)]


def ids(text: str) -> Replicas:
    """`"1,2"` as replicas."""
    return tuple(BrokerId(int(part)) for part in text.split(",") if part.strip())


def registration(broker: BrokerId, rack: str | None = None, zxid: int | None = None) -> Fact:
    """A broker is there; by default since the zxid of its number."""
    value = Registration((Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker),), rack)
    at = Zxid(broker if zxid is None else zxid)
    return present(BrokerAddress(broker), value, Stat(at, at, ZnodeVersion(1)))


def cluster(live: str, *, unclean: bool = False, shutting_down: str = "") -> Cluster:
    """A cluster in which these brokers are registered, besides ourselves."""
    return Term(live, shutting_down=shutting_down, unclean_election=unclean).cluster


def state(leader: int, isr: str, leader_epoch: int = 3, controller_epoch: int = 6) -> PartitionState:
    """A partition state; by default one that an earlier controller wrote."""
    return PartitionState(BrokerId(leader), LeaderEpoch(leader_epoch), ControllerEpoch(controller_epoch), ids(isr))


def written(leader: int, isr: str, leader_epoch: int = 4) -> PartitionState:
    """The state a rule decided on: by default one leader epoch after `state`."""
    return PartitionState(BrokerId(leader), LeaderEpoch(leader_epoch), EPOCH, ids(isr))


def case(
    replicas: str,
    leader: int | None = None,
    isr: str = "",
    *,
    adding: str = "",
    removing: str = "",
    owed: str = "",
    confirmed: str = "",
    is_unannounced: bool = False,
    is_patience_over: bool = False,
    is_gathering: bool = False,
    config: dict[str, str] | None = None,
) -> Case:
    """One partition of the topic `orders`; without a leader it never had one, without a config none was read."""
    return Case(
        AT,
        TopicView(AT.topic),
        Assignment(ids(replicas), ids(adding), ids(removing)),
        None if leader is None else state(leader, isr),
        is_unannounced=is_unannounced,
        confirmed=frozenset(ids(confirmed)),
        is_patience_over=is_patience_over,
        is_gathering=is_gathering,
        owed=ids(owed),
        config=None if config is None else Config(config),
    )
