"""Which clusters can there be? Strategies for small ones, as facts and as a folded `Term`."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from controller.core.state.view import Cluster
from controller.core.steps.change import Case
from tests.unit.core.builders import OWN, Term
from zk_layout.facts import Fact, Stat, present
from zk_layout.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionId,
    Replicas,
    SessionId,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.configs import Config
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

OWN_ID = OWN
TOPIC = TopicName("orders")
AT = TopicPartition(TOPIC, PartitionId(0))
BROKERS = tuple(BrokerId(b) for b in range(1, 7))


def some_replicas(minimum: int = 1) -> st.SearchStrategy[Replicas]:
    """Distinct brokers in any order."""
    return st.lists(st.sampled_from(BROKERS), min_size=minimum, max_size=4, unique=True).map(tuple)


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    """An assignment that Kafka's arithmetic can lead to: settled, or moving from somewhere to somewhere."""
    original, target = draw(some_replicas()), draw(some_replicas())
    if draw(st.booleans()):
        return Assignment(original)
    leaving = tuple(r for r in original if r not in target)
    return Assignment(target + leaving, tuple(r for r in target if r not in original), leaving)


@dataclass(frozen=True)
class Situation:
    """One partition, and who lives."""

    assignment: Assignment
    state: PartitionState
    live: Replicas
    leaving: Replicas
    unclean: bool

    def term(self) -> Term:
        """As the controller has folded it, in the term of controller epoch 7."""
        term = Term(unclean_election=self.unclean)
        term.fold(*(registration(broker, 1) for broker in self.live))
        term.fold(topic({PartitionId(0): self.assignment}, 10), state(self.state, 11))
        term.memory.brokers.shutting_down.update(dict.fromkeys(self.leaving))
        return term

    def cluster(self) -> Cluster:
        """What rules see of it."""
        return self.term().cluster

    def case(self, cluster: Cluster) -> Case:
        """As a rule sees it when the topic's settings, of which there are none, have just been read."""
        return Case(AT, cluster.topics[TOPIC], self.assignment, self.state, config=Config({}))

    def is_online(self, broker: BrokerId) -> bool:
        """Whether a broker lives and means to stay."""
        return broker in self.live and broker not in self.leaving


def registration(broker: BrokerId, zxid: int) -> Fact:
    """A broker is there."""
    value = Registration((Endpoint("PLAINTEXT", f"host{broker}", 9092),))
    stat = Stat(Zxid(zxid), Zxid(zxid), ZnodeVersion(1), SessionId(7))
    return present(BrokerAddress(broker), value, stat)


def topic(partitions: dict[PartitionId, Assignment], zxid: int, czxid: int = 10) -> Fact:
    """A topic's znode."""
    stat = Stat(Zxid(czxid), Zxid(zxid), ZnodeVersion(zxid - czxid))
    return present(TopicAddress(TOPIC), Topic(partitions), stat)


def state(value: PartitionState, zxid: int, partition: int = 0) -> Fact:
    """A state znode."""
    stat = Stat(Zxid(11), Zxid(zxid), ZnodeVersion(zxid - 11))
    return present(StateAddress(TOPIC, PartitionId(partition)), value, stat)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Any partition with any ISR of its replicas and any set of live brokers."""
    assignment = draw(assignments())
    isr = draw(st.lists(st.sampled_from(assignment.replicas), min_size=1, unique=True).map(tuple))
    leader = draw(st.sampled_from((*isr, BrokerId(-1))))
    live = draw(st.lists(st.sampled_from(BROKERS), unique=True).map(tuple))
    leaving = draw(st.lists(st.sampled_from(live), unique=True, max_size=2).map(tuple)) if live else ()
    held = PartitionState(leader, LeaderEpoch(draw(st.integers(0, 9))), ControllerEpoch(4), isr)
    return Situation(assignment, held, live, leaving, draw(st.booleans()))
