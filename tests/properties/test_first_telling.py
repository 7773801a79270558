"""Does a term that begins say, count and write the same, whether or not it passes quickly over what is at rest?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from controller.core.announcing.batch import Batch
from controller.core.brokers import duty as brokers_duty
from controller.core.counts import PartitionCounts
from controller.core.machine import Machine
from controller.core.messages.effects import Effect, Wake
from controller.core.messages.events import Again, Event, Loaded, Observed, Woke
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings, TurnBudget
from controller.core.steps.steps import Steps
from tests.properties.clusters import BROKERS, OWN_ID, assignments, registration, some_replicas
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import ControllerEpoch, LeaderEpoch, PartitionId, TopicId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions, ReplicaDeletionsAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

Held = tuple[Assignment, PartitionState | Malformed | None]
STAT = Stat(Zxid(10), Zxid(10), ZnodeVersion(0))

at_rest = some_replicas().map(
    lambda replicas: (Assignment(replicas), PartitionState(replicas[0], LeaderEpoch(3), ControllerEpoch(6), replicas))
)
states = st.builds(
    PartitionState,
    st.sampled_from((-1, *BROKERS)),
    st.just(LeaderEpoch(3)),
    st.just(ControllerEpoch(6)),
    some_replicas(),
)
held = st.one_of(
    at_rest, at_rest, at_rest, st.tuples(assignments(), st.one_of(st.none(), st.just(Malformed("?", 1)), states))
)
topics = st.lists(st.lists(held, min_size=1, max_size=5), min_size=1, max_size=4)
marks = st.sampled_from(("", "", "", "deletion", "owed"))


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


def _begin(facts: Sequence[Fact], followed: int) -> tuple[list[str], Mapping[str, float]]:
    """What a term does until it has nothing more to do at once, without its alarms, and its figures then."""
    settings = MachineSettings(own_id=OWN_ID, budget=TurnBudget(followed=followed))
    machine = Machine(settings, ControllerEpoch(7), SeededRandom(b"any"))
    happened: Sequence[Event] = (Observed(tuple(facts)), Loaded())
    done: list[Effect] = []
    while happened:
        effects = machine.turn(happened, 1.0)
        again = any(isinstance(e, Wake) and e.alarm == Again() for e in effects)
        happened = (Woke(Again()),) if again else ()
        done += (effect for effect in effects if not isinstance(effect, Wake))
    return [repr(effect) for effect in done], machine.figures()


@given(topics, st.lists(marks, min_size=4, max_size=4), st.sets(st.sampled_from(BROKERS)), st.sampled_from((1, 3, 100)))
@example([[(Assignment((BROKERS[0],)), None)]], ["", "", "", ""], set(), 100)
def test_what_is_at_rest_may_be_passed_over(
    partitions: list[list[Held]], marked: list[str], dead: set[int], followed: int
) -> None:
    facts = [registration(broker, 5) for broker in (*BROKERS, OWN_ID) if broker not in dead]
    for index, (of_topic, mark) in enumerate(zip(partitions, marked, strict=False)):
        facts += _facts(of_topic, TopicName(f"topic-{index}"), mark)

    quickly = _begin(facts, followed)
    with (
        patch.object(Batch, "_lists", lambda _: None),
        patch.object(PartitionCounts, "_is_unremarkable", lambda _, __: False),
        patch.object(brokers_duty, "_is_at_rest", lambda _: False),
        patch.object(Steps, "_worth_a_look", lambda _, __, numbers: numbers),
    ):
        plainly = _begin(facts, followed)

    assert quickly == plainly
