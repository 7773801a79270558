"""A native controller after a migration that was rolled back: it aborts its elections before ours has led, not after.

Source: KAFKA-20488; Kafka's ZkPartitionStateMachine.doElectLeaderForPartitions.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from msgspec.structs import replace

from controller.core.candidacy.phases import TakeOver
from controller.lab.broker_model import KAFKA_3_9
from tests.simulation.native import NativeController
from tests.simulation.world import World
from tests.simulation.zookeeper import SetData
from zk_layout import catalog
from zk_layout.ids import ControllerEpoch, TopicPartition
from zk_layout.znodes.partition_state import StateAddress

OF_THE_QUORUM = ControllerEpoch(5_000)


def quiet_world(seed: int) -> World:
    """A few topics on three brokers, without faults and clients."""
    plan = replace(
        World(seed).plan,
        brokers=3,
        topics=3,
        traits=replace(KAFKA_3_9, replica_lag_s=5.0),  # older brokers do not migrate
        topic_ids=True,
        busy_s=70.0,
        take_over=TakeOver.WHEN_VACANT,
    )
    return World(seed, plan=plan, only={f"first topic {number}" for number in (1, 2, 3)})


class RollBack:
    """What is done in a world, and how a native controller fares before and after ours has led."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.carried: list[TopicPartition] = []
        self.natives: list[NativeController] = []
        self.leaderless: list[list[TopicPartition]] = []

    def write_as_a_quorum(self) -> None:
        """The epoch of a quorum in every state, as if one had written them all and gone."""
        for controller in self.world.controllers.values():
            controller.crash()
        zookeeper, checker = self.world.zookeeper, self.world.checker
        session = zookeeper.open_session()
        checker.quorums[session] = None
        for at, state in list(checker.states.items()):
            data = catalog.encode(replace(state, controller_epoch=OF_THE_QUORUM))
            zookeeper.multi(session, [SetData(StateAddress(at.topic, at.partition).path, data)])
            self.carried.append(at)

    def crash_a_leader(self) -> None:
        """One broker that leads dies for good."""
        led = [s.leader for s in self.world.checker.states.values() if len(s.isr) > 1]
        self.world.brokers[max(led, key=led.count)].crash(None)

    def rule(self) -> None:
        """A broker's native controller leads for a moment."""
        alive = {broker.broker for broker in self.world.brokers.values() if broker.is_up}
        native = NativeController(self.world, min(alive))
        self.natives.append(native)
        native.rule(0.01)
        held = {at: self.world.checker.states[at] for at in self.carried}
        self.leaderless.append([at for at, s in held.items() if s.leader not in alive and alive & set(s.isr)])

    def start_again(self) -> None:
        """Ours come back."""
        for controller in self.world.controllers.values():
            controller.start()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_native_controller_elects_everywhere_once_ours_has_led(seed: int) -> None:
    world = quiet_world(seed)
    story = RollBack(world)
    acts: tuple[Callable[[], None], ...] = (
        story.write_as_a_quorum,
        story.crash_a_leader,
        story.rule,
        story.start_again,
        story.rule,
    )
    for at_s, act in zip(count(10, 10), acts, strict=False):
        world.clock.after(float(at_s), act)

    world.run()

    before, after = story.natives
    assert before.aborted
    assert set(before.aborted.values()) == {OF_THE_QUORUM}
    assert story.leaderless[0]
    assert before.epoch < OF_THE_QUORUM < after.epoch
    assert after.aborted == {}
    assert story.leaderless[1] == []
