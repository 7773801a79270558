"""How many partitions does a turn see for the first time? Those at rest take little, so there may be more of them."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.messages.events import Loaded
from controller.core.state.changes import ByPartition, OpenChanges
from controller.core.state.topics import Partition
from controller.core.turn.at_rest import RESTING_AS_ONE, AtRest
from tests.benchmarks.filling import Shape
from tests.benchmarks.storms import Rig
from zk_layout.ids import TopicName

MOST = 60
MANY, WIDE = Shape(100, 10, 6), Shape(1, 1_000, 6)


def begun(shape: Shape, *, is_broker_lost: bool = False) -> Rig:
    """A term that has read everything and followed nothing."""
    rig = Rig(shape, is_encoding=False)
    for event in rig.everything():
        if not isinstance(event, Loaded):
            rig.emit(event)
    if is_broker_lost:
        rig.lose(rig.brokers[0])
    rig.run()
    state = rig.machine._state
    state.begin()
    rig.machine._shared.cluster.brokers.update(state.brokers)  # type: ignore[attr-defined]  # all are let in
    return rig


def unseen(rig: Rig) -> ByPartition[Partition]:
    return rig.machine._state.changes.unseen


def cut(rig: Rig, *held: str) -> ByPartition[Partition]:
    return AtRest(rig.machine._cluster).cut_unseen(unseen(rig), MOST, {TopicName(name) for name in held})


def count(taken: ByPartition[Any]) -> int:
    return sum(map(len, taken.values()))


@pytest.mark.parametrize("shape", [MANY, WIDE], ids=["many topics", "a wide topic"])
def test_of_partitions_at_rest_several_count_as_one(shape: Shape) -> None:
    rig = begun(shape)

    taken = cut(rig)

    assert MOST * 3 < count(taken) <= MOST * RESTING_AS_ONE
    assert count(taken) + count(unseen(rig)) == 1_000


def test_others_count_alone() -> None:
    rig = begun(MANY, is_broker_lost=True)
    lost = rig.brokers[0]

    taken = cut(rig)

    topics = rig.machine._cluster.topics
    amiss = sum(lost in topics[name].partitions[n].assignment.replicas for name, some in taken.items() for n in some)
    work = amiss + (count(taken) - amiss) / RESTING_AS_ONE
    assert MOST - MANY.partitions_per_topic < work <= MOST + MANY.partitions_per_topic


def test_a_wide_topic_of_others_is_cut_where_it_would_take_too_long() -> None:
    rig = begun(WIDE, is_broker_lost=True)

    assert (count(cut(rig)), count(unseen(rig))) == (MOST, 1_000 - MOST)


def test_nothing_rests_while_a_broker_shuts_down() -> None:
    rig = begun(MANY)
    rig.machine._cluster.shutting_down[rig.brokers[0]] = None  # type: ignore[index]  # as its duty does

    assert count(cut(rig)) == MOST


def test_half_read_topics_stay() -> None:
    rig = begun(MANY)
    first, second = list(unseen(rig))[:2]

    taken = cut(rig, first)

    assert (first in taken, second in taken, first in unseen(rig)) == (False, True, True)


def changes_of(taken: ByPartition[Partition]) -> OpenChanges:
    return OpenChanges(is_initial=True, partitions=taken)


@pytest.mark.parametrize("shape", [MANY, WIDE], ids=["many topics", "a wide topic"])
@pytest.mark.parametrize("is_broker_lost", [False, True])
def test_what_was_cut_rests_as_if_it_were_looked_at_alone(shape: Shape, is_broker_lost: bool) -> None:
    rig = begun(shape, is_broker_lost=is_broker_lost)
    at_rest = AtRest(rig.machine._cluster)
    changes = changes_of(at_rest.cut_unseen(unseen(rig), MOST, ()))

    resting = at_rest.of(changes)

    assert resting == AtRest(rig.machine._cluster).of(changes)
    assert 0 < count(resting) <= count(changes.partitions)
    assert (count(resting) < count(changes.partitions)) is is_broker_lost


def test_what_a_duty_has_taken_away_does_not_rest() -> None:
    rig = begun(MANY)
    at_rest = AtRest(rig.machine._cluster)
    changes = changes_of(at_rest.cut_unseen(unseen(rig), MOST, ()))
    first = next(iter(changes.partitions))
    number, _ = changes.partitions[first].popitem()

    assert number not in at_rest.of(changes)[first]


def test_a_broker_that_was_let_in_since_the_cut_counts() -> None:
    rig = begun(MANY)
    cluster, broker = rig.machine._cluster, rig.brokers[0]
    registered = cluster.brokers.pop(broker)  # type: ignore[attr-defined]  # it is not let in yet
    at_rest = AtRest(cluster)
    changes = changes_of(at_rest.cut_unseen(unseen(rig), MOST, ()))
    assert count(AtRest(cluster).of(changes)) < count(changes.partitions)

    cluster.brokers[broker] = registered  # type: ignore[index]  # it is let in now

    assert count(at_rest.of(changes)) == count(changes.partitions)
