"""What lost brokers led gets other leaders before any ISR becomes smaller that they only followed in."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from controller.core.messages.commands import UpdateMetadata
from controller.core.messages.effects import Commit, Effect, Read, Set, Tell
from controller.core.messages.events import Conflicted
from controller.core.settings import TurnBudget
from tests.benchmarks.filling import Shape
from tests.benchmarks.storms import Rig
from zk_layout.facts import Stat, present
from zk_layout.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionId,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.partition_state import PartitionState, StateAddress

SHAPE = Shape(30, 10, 5)
BUDGET = TurnBudget(folded=120, followed=60, decided=30, hosted=25)
FIRST, SECOND = BrokerId(1), BrokerId(2)
A_FEW_TURNS = 4


class Noting(Rig):
    """Notes in which turn each state is written, and announced to each broker.

    Shape:
        The next `refused` transactions are conflicts. While `is_silent`, ZooKeeper answers none.
    """

    def __init__(self, budget: TurnBudget = BUDGET) -> None:
        super().__init__(SHAPE, is_encoding=False, budget=budget)
        self.turns = 0
        self.written: list[tuple[int, TopicPartition, PartitionState]] = []
        self.announced: list[tuple[int, BrokerId, TopicPartition]] = []
        self.refused = 0
        self.is_silent = False
        self.on_told = self._note_told
        for event in self.everything():
            self.emit(event)
        self.run()
        self.announced.clear()

    def turned(self, effects: Iterable[Effect]) -> None:
        self.turns += 1
        for effect in effects:
            if isinstance(effect, Commit):
                for write in effect.writes:
                    if isinstance(write, Set) and isinstance(write.address, StateAddress):
                        at = TopicPartition(write.address.topic, write.address.partition)
                        assert isinstance(write.value, PartitionState)
                        self.written.append((self.turns, at, write.value))

    def _note_told(self, tell: Tell) -> None:
        if isinstance(tell.command, UpdateMetadata):
            seen = tell.command.partitions
            self.announced += ((self.turns, tell.broker, TopicPartition(v.topic, v.partition)) for v in seen)

    def _commit(self, commit: Commit) -> None:
        if self.is_silent:
            return
        if self.refused:
            self.refused -= 1
            self.emit(Conflicted(commit.commit, commit.writes[0].address, "bad version"))
        else:
            super()._commit(commit)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Read) and isinstance(effect.addresses[0], StateAddress):
            address = effect.addresses[0]
            held = self.machine._cluster.topics[address.topic].partitions[address.partition]
            stat = Stat(Zxid(2_000), Zxid(2_000), ZnodeVersion(held.epoch))
            self.observe([present(address, held.state, stat)])
        else:
            super()._carry_out(effect)

    def led_by(self, *brokers: BrokerId) -> set[TopicPartition]:
        """What these brokers lead."""
        return {
            TopicPartition(topic.name, number)
            for topic in self.machine._cluster.topics.values()
            for number, held in topic.partitions.items()
            if held.state is not None and held.state.leader in brokers
        }

    def take_turns(self, count: int) -> None:
        """Let so many turns pass."""
        for _ in range(count):
            self._turn()


@pytest.fixture
def rig() -> Noting:
    return Noting()


def assert_first_led_then_followed(rig: Noting, led: set[TopicPartition], since: int = 0) -> None:
    """Each of these has another leader in ZooKeeper, and at each broker, before what was only followed changes."""
    elected = [turn for turn, at, _ in rig.written if at in led and turn > since]
    shrunk = [turn for turn, at, _ in rig.written if at not in led and turn > since]
    assert not rig.led_by(FIRST)
    assert elected[-1] > elected[0] + A_FEW_TURNS, "more than a turn can do"
    assert max(elected) <= min(shrunk)
    told = {at for turn, _, at in rig.announced if turn <= min(shrunk) + 1}
    assert told >= led


def test_what_a_lost_broker_led_comes_before_what_it_only_followed(rig: Noting) -> None:
    led = rig.led_by(FIRST)
    rig.lose(FIRST)
    rig.run()

    assert_first_led_then_followed(rig, led)
    assert len(rig.written) == SHAPE.partitions * SHAPE.replication // SHAPE.brokers


def test_what_several_lost_brokers_led_comes_before_what_any_of_them_only_followed(rig: Noting) -> None:
    led = rig.led_by(FIRST, SECOND)
    rig.lose(FIRST)
    rig.lose(SECOND)
    rig.run()

    assert_first_led_then_followed(rig, led)


def test_what_the_next_lost_broker_led_comes_before_the_rest_of_the_one_before(rig: Noting) -> None:
    led_before = rig.led_by(FIRST)
    rig.lose(FIRST)
    while all(at in led_before for _, at, _ in rig.written):
        rig._turn()
    rig.lose(SECOND)
    rig._turn()
    led, since = rig.led_by(SECOND), rig.turns
    rig.run()

    assert_first_led_then_followed(rig, led, since)
    assert not rig.led_by(SECOND)


def test_a_broker_that_returns_meanwhile_changes_nothing_about_the_order_and_is_let_in(rig: Noting) -> None:
    led = rig.led_by(FIRST)
    rig.lose(FIRST)
    rig.take_turns(2)
    rig.observe([rig.registration(FIRST, rig.next_zxid())])
    while rig._queue and FIRST not in rig.machine._cluster.brokers:
        rig._turn()

    assert len({at for _, at, _ in rig.written}) == SHAPE.partitions * SHAPE.replication // SHAPE.brokers
    assert_first_led_then_followed(rig, led)
    rig.run()
    assert FIRST in rig.machine._cluster.brokers


def test_elections_that_were_refused_beside_another_still_come_before_what_was_only_followed() -> None:
    rig = Noting(replace(BUDGET, hosted=1_000))  # all is due from the first turn on
    led = rig.led_by(FIRST)
    rig.lose(FIRST)
    while len(rig.written) < len(led) // 2:
        rig._turn()
    rig.refused = 1
    rig.run()

    elected = [turn for turn, at, _ in rig.written if at in led]
    shrunk = [turn for turn, at, _ in rig.written if at not in led]
    assert len(elected) > len(led)
    assert len({turn for turn in shrunk if turn < max(elected)}) <= 2  # the turns until the refusals were known


def test_a_partition_that_a_lost_broker_comes_to_lead_between_the_passes_is_not_left_to_it(rig: Noting) -> None:
    rig.lose(FIRST)
    rig.take_turns(3)
    name, number = rig.topic_name(0), PartitionId(3)  # followed by the lost broker: its leader wrote this before
    state = PartitionState(FIRST, LeaderEpoch(4), ControllerEpoch(6), (FIRST, BrokerId(4)))
    rig.observe([present(StateAddress(name, number), state, Stat(Zxid(2_000), Zxid(2_001), ZnodeVersion(1)))])
    rig._versions[StateAddress(name, number).path] = 1
    rig.run()

    assert not rig.led_by(FIRST)


def test_what_is_written_in_time_is_announced_once(rig: Noting) -> None:
    rig.lose(FIRST)
    rig.run(20.0)

    told = [at for _, broker, at in rig.announced if broker == SECOND]
    assert len(told) == len(set(told)) == len(rig.written)


def test_what_zookeeper_does_not_take_in_time_is_announced_as_it_is(rig: Noting) -> None:
    rig.is_silent = True
    rig.lose(FIRST)
    rig.run(9.0)
    assert not rig.announced

    rig.run(2.0)
    told = [at for _, broker, at in rig.announced if broker == SECOND]
    assert len(told) == len(set(told)) == SHAPE.partitions * SHAPE.replication // SHAPE.brokers
    assert rig.machine.figures()["offline_partitions"] == len(rig.led_by(FIRST))
