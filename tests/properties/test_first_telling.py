"""Does a term that begins say, count and write the same, whether or not it passes quickly over what is at rest?

Most partitions of a cluster are at rest when a term begins, so each duty has a short cut over them. A short cut is
wrong where it passes over one with which something is amiss: so nearly all partitions here are at rest but for a thing
or two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct

from controller.core import machine
from controller.core.announcing.batch import Batch
from controller.core.messages.effects import Commit, Effect, Wake
from controller.core.messages.events import Again, Asked, CallId, CommitId, Committed, Event, Loaded, Observed, Woke
from controller.core.messages.requests import Caller, ControlledShutdown
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings, TurnBudget
from controller.core.steps import steps
from controller.core.turn.at_rest import AtRest
from tests.properties.clusters import BROKERS, OWN_ID, assignments, some_replicas
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.admin import (
    LegacyMove,
    LegacyReassignment,
    LegacyReassignmentAddress,
    PreferredElection,
    PreferredElectionAddress,
    TopicDeletionAddress,
)
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions, ReplicaDeletionsAddress
from zk_layout.znodes.topics import NOTHING, Assignment, Topic, TopicAddress

Held = tuple[Assignment, PartitionState | Malformed | None]
STAT = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))
REGISTERED_AT = 5
FIRST = TopicPartition(TopicName("topic-0"), PartitionId(0))
AMISS = (
    "in another order",
    "led by another",
    "without leader",
    "one not in sync",
    "a stranger in sync",
    "adding",
    "added",
    "removing",
)
MOST_TURNS = 200


class Rest(Struct, frozen=True):
    """What else there is when the term begins, and what comes meanwhile."""

    marks: tuple[str, ...] = ("", "", "", "")
    dead: frozenset[BrokerId] = frozenset()
    controllers: frozenset[BrokerId] = frozenset()
    asked: str = ""
    leaving: BrokerId | None = None


@st.composite
def amiss(draw: st.DrawFn) -> Held:
    """A partition at rest, but for as many as two things."""
    replicas = draw(some_replicas(2))
    other = draw(st.sampled_from([b for b in (*BROKERS, OWN_ID) if b not in replicas]))
    wrong = draw(st.sets(st.sampled_from(AMISS), max_size=2))
    isr, adding, removing = replicas, NOTHING, NOTHING
    leader = replicas[1] if "led by another" in wrong else replicas[0]
    if "without leader" in wrong:
        leader = NO_LEADER
    if "in another order" in wrong:
        isr = isr[::-1]
    if "one not in sync" in wrong:
        isr = isr[:-1]
    if "a stranger in sync" in wrong or "added" in wrong:
        isr = (*isr, other)
    if "removing" in wrong:
        removing = replicas[-1:]
    if "adding" in wrong or "added" in wrong:
        adding, replicas = (other,), (other, *replicas)
    state = PartitionState(leader, LeaderEpoch(3), ControllerEpoch(6), isr)
    return Assignment(replicas, adding, removing), state


states = st.builds(
    PartitionState,
    st.sampled_from((NO_LEADER, *BROKERS)),
    st.just(LeaderEpoch(3)),
    st.just(ControllerEpoch(6)),
    some_replicas(),
)
anything = st.tuples(assignments(), st.one_of(st.none(), st.just(Malformed("?", 1)), states))
held = st.one_of(amiss(), amiss(), amiss(), anything)
topics = st.lists(st.lists(held, min_size=1, max_size=5), min_size=1, max_size=4)
few = st.frozensets(st.sampled_from(BROKERS), max_size=2)
rests = st.builds(
    Rest,
    st.tuples(*[st.sampled_from(("", "", "", "deletion", "owed"))] * 4),
    few,
    st.one_of(st.just(frozenset[BrokerId]()), few),
    st.sampled_from(("", "", "legacy", "preferred")),
    st.sampled_from((None, None, *BROKERS)),
)


def _registered(rest: Rest) -> list[Fact]:
    stat = Stat(Zxid(REGISTERED_AT), Zxid(REGISTERED_AT), ZnodeVersion(1))
    brokers = [broker for broker in (*BROKERS, OWN_ID) if broker not in rest.dead]
    endpoints = {broker: (Endpoint("PLAINTEXT", f"host{broker}", 9092),) for broker in brokers}
    values = {b: Registration(endpoints[b], is_ours=b == OWN_ID or b in rest.controllers) for b in brokers}
    return [present(BrokerAddress(broker), value, stat) for broker, value in values.items()]


def _asked(asked: str) -> list[Fact]:
    if asked == "legacy":
        move = LegacyMove(FIRST.topic, FIRST.partition, BROKERS[:2])
        return [present(LegacyReassignmentAddress(), LegacyReassignment((move,)), STAT)]
    if asked == "preferred":
        return [present(PreferredElectionAddress(), PreferredElection((FIRST,)), STAT)]
    return []


def _facts(partitions: Sequence[Held], name: TopicName, mark: str) -> list[Fact]:
    listed = {PartitionId(n): assignment for n, (assignment, _) in enumerate(partitions)}
    facts = [present(TopicAddress(name), Topic(listed, TopicId(f"{name:A<22}"[:22])), STAT)]
    for number, (_, state) in enumerate(partitions):
        address = StateAddress(name, PartitionId(number))
        facts.append(absent(address, Zxid(10)) if state is None else present(address, state, STAT))
    if mark == "deletion":
        facts.append(present(TopicDeletionAddress(name), None, Stat(Zxid(11), Zxid(11), ZnodeVersion(0))))
    if mark == "owed":
        owed = ReplicaDeletions({PartitionId(0): BROKERS[-2:]}, None)
        facts.append(present(ReplicaDeletionsAddress(name), owed, Stat(Zxid(11), Zxid(11), ZnodeVersion(0))))
    return facts


def _begin(facts: Sequence[Fact], rest: Rest, followed: int) -> tuple[list[str], list[Mapping[str, float]]]:
    """What a term does until it has nothing more to do at once, without its alarms, and its figures on the way.

    Its transactions are accepted, and the figures taken, when it has no more to do without that.
    """
    settings = MachineSettings(own_id=OWN_ID, budget=TurnBudget(followed=followed))
    term = machine.Machine(settings, ControllerEpoch(7), SeededRandom(b"any"))
    happened: list[Event] = [Observed(tuple(facts)), Loaded()]
    if rest.leaving is not None:
        request = ControlledShutdown(rest.leaving, BrokerEpoch(REGISTERED_AT))
        happened.append(Asked(CallId(1), request, Caller("PLAINTEXT", "127.0.0.1")))
    done: list[Effect] = []
    sent: list[CommitId] = []
    figures: list[Mapping[str, float]] = []
    for turn in range(MOST_TURNS):
        effects = term.turn(happened, 1.0)
        done += (effect for effect in effects if not isinstance(effect, Wake))
        sent += (effect.commit for effect in effects if isinstance(effect, Commit))
        if any(isinstance(e, Wake) and e.alarm == Again() for e in effects):
            happened = [Woke(Again())]
            continue
        figures.append(term.figures())
        if not sent:
            return [repr(effect) for effect in done], figures
        happened, sent = [Committed(commit, Zxid(1000 + turn)) for commit in sent], []
    raise RuntimeError(f"it is not done after {MOST_TURNS} turns")


@given(topics, rests, st.sampled_from((1, 3, 100)))
@example([[(Assignment((BROKERS[0],)), None)]], Rest(), 100)
def test_what_is_at_rest_may_be_passed_over(partitions: list[list[Held]], rest: Rest, followed: int) -> None:
    facts = [*_registered(rest), *_asked(rest.asked)]
    for index, (of_topic, mark) in enumerate(zip(partitions, rest.marks, strict=False)):
        facts += _facts(of_topic, TopicName(f"topic-{index}"), mark)

    quickly = _begin(facts, rest, followed)
    with (
        patch.object(Batch, "_lists", lambda _: None),
        patch.object(AtRest, "of", lambda _, __: {}),
        patch.object(steps, "is_sound", lambda *_: False),
        patch.object(steps.Steps, "_worth_a_look", lambda _, __, numbers, ___: numbers),
    ):
        plainly = _begin(facts, rest, followed)

    assert quickly == plainly
