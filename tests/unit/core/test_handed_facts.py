"""A term that is handed what was folded before it began does what it would have done had it folded that itself."""

from __future__ import annotations

import pytest

from controller.core.machine import Machine
from controller.core.messages.effects import Effect
from controller.core.messages.events import Event, Loaded, Observed, Surveyed
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings, TurnBudget
from controller.core.state.cluster import ClusterState
from tests.benchmarks.filling import Shape
from tests.benchmarks.storms import EPOCH, OWN, Rig
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.topics import TopicAddress

AT_ONCE = TurnBudget(folded=1_000_000, followed=1_000_000, decided=1_000_000)


def machine(state: ClusterState | None = None, *, deletes_topics: bool | None = True) -> Machine:
    settings = MachineSettings(own_id=OWN, budget=AT_ONCE, deletes_topics=deletes_topics)
    return Machine(settings, EPOCH, SeededRandom(b"0"), state=state)


def first_turns(made: Machine, *events: Event) -> list[Effect]:
    effects = made.turn(events, 1.0)
    return effects + made.turn((), 2.0)


@pytest.mark.parametrize("deletes_topics", [True, False, None])
def test_what_was_folded_before_counts_like_what_a_term_loads(deletes_topics: bool | None) -> None:
    rig = Rig(Shape(8, 5, 3))
    *load, end = rig.everything()
    gone, doomed = TopicAddress(rig.topic_name(1)), TopicDeletionAddress(rig.topic_name(2))
    load += [
        Observed((absent(gone, Zxid(900_000)),)),
        Observed((present(doomed, None, Stat(Zxid(900_001), Zxid(900_001), ZnodeVersion(0))),)),
    ]
    state = ClusterState()
    for event in load:
        state.fold(event)

    handed = first_turns(machine(state, deletes_topics=deletes_topics), end)

    assert handed == first_turns(machine(deletes_topics=deletes_topics), *load, end)
    assert len(handed) > 10


def test_nothing_follows_from_what_was_folded_before_until_it_is_said_to_be_whole() -> None:
    *load, end = Rig(Shape(4, 5, 3)).everything()
    state = ClusterState()
    for event in load:
        state.fold(event)
    made = machine(state)

    assert first_turns(made, Observed((absent(TopicAddress(TopicName("gone")), Zxid(900_000)),))) == []
    assert first_turns(made, end)


def test_deletions_asked_for_before_a_term_count_as_the_term_has_it() -> None:
    rig = Rig(Shape(2, 1, 1))
    name, state = rig.topic_name(0), ClusterState()
    for event in rig.everything():
        if not isinstance(event, Loaded):
            state.fold(event)
    state.fold(Observed((present(TopicDeletionAddress(name), None, Stat(Zxid(9_000), Zxid(9_000), ZnodeVersion(0))),)))

    for deletes_topics in (True, False, True):
        machine(state, deletes_topics=deletes_topics)
        assert state.topics.views[name].is_queued_for_deletion is deletes_topics


def test_only_what_a_reader_says_unasked_is_folded() -> None:
    with pytest.raises(TypeError, match="is nothing that is read"):
        ClusterState().fold(Surveyed(TopicName("orders"), ()))
