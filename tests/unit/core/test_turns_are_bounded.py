"""However much happens at once, a turn does a bounded part of it, and the next one goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from controller.core.commands import LeaderAndIsr, StopReplica, UpdateMetadata
from controller.core.effects import Answer, Commit, Effect, Tell
from controller.core.events import Observed
from controller.core.requests import AlterReassignments, ListReassignments, PartitionReassignment
from controller.core.settings import TurnBudget
from tests.benchmarks.filling import Shape
from tests.benchmarks.storms import Rig
from zk_layout.ids import PartitionId, TopicName, TopicPartition

SHAPE = Shape(60, 10, 6)
BUDGET = TurnBudget(folded=120, followed=60, greeted=80, measured=40, decided=30)
# One topic, transaction or request more than the budget may be begun.
SLACK = 30


class Counted(Rig):
    """A rig that notes how much each turn wrote and told anybody at most."""

    def __init__(self) -> None:
        super().__init__(SHAPE, is_encoding=False, budget=BUDGET)
        self.written = self.told = 0
        self.first_commit = self.first_greeting = 0

    def turned(self, effects: Iterable[Effect]) -> None:
        written, told = 0, dict.fromkeys(self.brokers, 0)
        for effect in effects:
            if isinstance(effect, Commit):
                written += len(effect.operations)
            elif isinstance(effect, Tell):
                told[effect.broker] += _partitions(effect)
        self.written, self.told = max(self.written, written), max(self.told, *told.values())


def _partitions(tell: Tell) -> int:
    match tell.command:
        case LeaderAndIsr(partitions, new):
            return len(partitions) + len(new)
        case UpdateMetadata(partitions):
            return len(partitions)
        case StopReplica(stops):
            return len(stops)


@pytest.fixture
def rig() -> Counted:
    rig = Counted()
    for event in rig.everything():
        rig.emit(event)
    rig.run()
    return rig


def _return(rig: Rig) -> None:
    rig.observe([rig.registration(rig.brokers[0], rig.next_zxid())])


def _move(rig: Rig) -> None:
    wanted = tuple(
        PartitionReassignment(TopicPartition(rig.topic_name(t), PartitionId(n)), rig.replicas_of(t * 10 + n + 3))
        for t in range(SHAPE.topics)
        for n in range(SHAPE.partitions_per_topic)
    )
    rig.ask(AlterReassignments(wanted))


def _read_wide(rig: Rig) -> None:
    rig.observe(rig.topic_facts(TopicName("wide"), 0, 400, rig.next_zxid()))


def test_at_the_beginning_everybody_hears_of_everything_bit_by_bit_and_of_nothing_twice(rig: Counted) -> None:
    assert rig.told <= 2 * BUDGET.followed
    assert rig.storm.turns > SHAPE.partitions // BUDGET.followed
    assert rig.heard_by_broker() == {broker: SHAPE.partitions for broker in rig.brokers}


@pytest.mark.parametrize(
    "happens", [lambda rig: rig.lose(rig.brokers[0]), _move, _read_wide], ids=["a death", "a request", "a wide topic"]
)
def test_no_turn_decides_or_tells_more_than_its_budget(rig: Counted, happens: Callable[[Rig], None]) -> None:
    rig.written = rig.told = 0

    happens(rig)
    rig.run()

    assert rig.written <= 3 * (BUDGET.decided + SLACK)
    assert 0 < rig.told <= 2 * BUDGET.followed + 2 * BUDGET.greeted


def test_a_broker_that_returns_is_greeted_bit_by_bit_with_everything_once(rig: Counted) -> None:
    rig.lose(rig.brokers[0])
    rig.run()
    rig.forget_what_was_heard()
    rig.told = 0

    _return(rig)
    rig.run()

    assert rig.told <= 2 * BUDGET.followed + 2 * BUDGET.greeted
    hosted = sum(rig.brokers[0] in rig.replicas_of(i) for i in range(SHAPE.partitions))
    assert SHAPE.partitions <= rig.heard_by_broker()[rig.brokers[0]] <= SHAPE.partitions + hosted


def test_a_long_list_of_moves_takes_several_turns_and_is_answered_once(rig: Counted) -> None:
    _move(rig)
    rig.run()
    turns = rig.storm.turns

    call = rig.ask(ListReassignments(None))
    rig.run()

    reply = rig.replies[call]
    assert len(reply.moves) == SHAPE.partitions  # type: ignore[union-attr]
    assert rig.storm.turns - turns >= SHAPE.partitions // BUDGET.measured


def test_facts_of_one_event_are_folded_in_several_turns_and_followed_together() -> None:
    rig = Counted()
    for event in rig.everything():
        rig.emit(event)
    rig.run()
    facts = tuple(rig.topic_facts(TopicName("wide"), 0, 400, rig.next_zxid()))

    first = rig.machine.turn((Observed(facts),), rig.now)
    assert [type(effect).__name__ for effect in first] == ["Wake"]
    assert TopicName("wide") in rig.machine._cluster.topics
    assert not any(isinstance(effect, (Tell, Commit, Answer)) for effect in first)
