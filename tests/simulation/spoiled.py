"""Correct machines whose effects are spoiled a little, for the tests of the checker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
import pytest

from controller.core.machine import Machine
from controller.core.messages.commands import ReplicaStop, StopReplica
from controller.core.messages.effects import Commit, Effect, Tell, Write, operation
from controller.core.messages.events import Event
from controller.core.state.cluster import ClusterState
from tests.simulation.broken import Broken
from tests.simulation.world import World
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionId,
    TopicName,
    TopicPartition,
)

SEEDS = 40
AT = TopicPartition(TopicName("orders"), PartitionId(0))
Spoil = Callable[[Effect], Iterable[Effect]]


class SpoiledMachine:
    """A correct machine whose effects are spoiled."""

    def __init__(self, machine: Machine, spoil: Spoil) -> None:
        self._machine = machine
        self._spoil = spoil
        self._queue, self._transactions = machine._queue, machine._transactions

    def turn(self, events: Sequence[Event], now: float) -> list[Effect]:
        return [spoiled for effect in self._machine.turn(events, now) for spoiled in self._spoil(effect)]

    def let_go(self) -> bool:
        return self._machine.let_go()


def broken_by(spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> str:
    """The first broken promise that some seed finds."""
    right = World.new_machine

    def spoiled(world: World, own_id: BrokerId, epoch: ControllerEpoch, state: ClusterState) -> SpoiledMachine:
        return SpoiledMachine(right(world, own_id, epoch, state), spoil)

    monkeypatch.setattr(World, "new_machine", spoiled)
    return broken_first()


def broken_first(but: str | None = None) -> str:
    """The first broken promise that some seed finds, apart from an irrelevant one."""
    for seed in range(SEEDS):
        try:
            World(seed).run()
        except Broken as broken:
            if but is None or but not in str(broken):
                return str(broken)
    return "nothing"


def rewritten(commit: Commit, rewrite: Callable[[Write], Write]) -> Commit:
    rewritten = [(held, rewrite(held.write)) for held in commit.operations]
    operations = tuple(held if new is held.write else operation(new) for held, new in rewritten)
    return msgspec.structs.replace(commit, operations=operations)


def writing(rewrite: Callable[[Write], Write]) -> Spoil:
    """Write something else, and send no commands, so that only ZooKeeper's side is checked."""

    def spoil(effect: Effect) -> Iterable[Effect]:
        if isinstance(effect, Commit):
            return [rewritten(effect, rewrite)]
        return [] if isinstance(effect, Tell) else [effect]

    return spoil


def stop_replica(number: int) -> Tell:
    """Broker 1 gets the command to delete its replica."""
    stop = ReplicaStop(AT.topic, AT.partition, LeaderEpoch(3), is_deletion=True)
    return Tell(BrokerId(1), BrokerEpoch(1), ControllerEpoch(number), StopReplica((stop,)))
