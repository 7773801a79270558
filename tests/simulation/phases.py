"""Which phase is the cluster in, so that a fault can strike it?

A cell of the table of faults and phases is a fault that struck while the phase lasted.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from controller.core.candidacy import phases as candidacy
from controller.core.stage import Stage, stage
from tests.simulation.controllers import RELEASED, SWITCHOVER, Controller
from zk_layout.ids import ControllerEpoch, TopicName, TopicPartition
from zk_layout.znodes.topics import Assignment

if TYPE_CHECKING:
    from tests.simulation.world import World

# A move is beginning until brokers can have heard of it.
BEGINNING_S = 0.3

_GIVES_UP = (candidacy.Phase.RESIGNING, candidacy.Phase.HANDING_BACK)


class Phase(StrEnum):
    """A phase of a cluster."""

    CLAIM = "claim"
    LOAD = "load"
    BEGINNING = "a move begins"
    CATCHING_UP = "catches up"
    HANDING_OVER = "hands over"
    LETTING_GO = "lets go"
    CREATION = "creation"
    DELETION = "deletion"
    SHUTDOWN = "shutdown"
    HAND_OVER = "hand-over"
    UPGRADE = "upgrade"


OF_A_MOVE = {
    Stage.CATCHING_UP: Phase.CATCHING_UP,
    Stage.HANDING_OVER: Phase.HANDING_OVER,
    Stage.LETTING_GO: Phase.LETTING_GO,
}


class Phases:
    """The phases of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._upgrading: ControllerEpoch | None = None
        self._began: dict[TopicPartition, tuple[Assignment, float]] = {}

    def upgrade_began(self) -> None:
        """The leader must begin another term, with another protocol."""
        self._upgrading = self.world.checker.current_epoch()

    def moved(self, at: TopicPartition, assignment: Assignment) -> None:
        """An assignment was written."""
        if assignment.is_moving:
            self._began[at] = assignment, self.world.clock.now
        else:
            self._began.pop(at, None)

    def gone(self, name: TopicName) -> None:
        """A topic was deleted."""
        self._began = {at: began for at, began in self._began.items() if at.topic != name}

    def present(self) -> dict[Phase, None]:
        """The current phases, of any process."""
        return dict.fromkeys([*self._of_controllers(), *self._of_moves(), *self._of_topics(), *self._of_brokers()])

    def claimant(self) -> Controller | None:
        """A controller that is about to lead, or has just stopped leading."""
        busy = (candidacy.Phase.CONTENDING, candidacy.Phase.LOADING, candidacy.Phase.RENEWING, *_GIVES_UP)
        return next((c for c in self.world.controllers.values() if c.phase in busy), None)

    def _of_controllers(self) -> Iterator[Phase]:
        found = [controller.phase for controller in self.world.controllers.values()]
        if candidacy.Phase.CONTENDING in found:
            yield Phase.CLAIM
        if candidacy.Phase.LOADING in found:
            yield Phase.LOAD
        nodes = self.world.zookeeper.nodes
        if RELEASED in nodes or SWITCHOVER in nodes or any(phase in found for phase in _GIVES_UP):
            yield Phase.HAND_OVER
        if self._upgrading is not None:
            led = [c.epoch for c in self.world.controllers.values() if c.phase is candidacy.Phase.ACTIVE]
            if any(epoch > self._upgrading for epoch in led):
                self._upgrading = None
            else:
                yield Phase.UPGRADE

    def _of_moves(self) -> Iterator[Phase]:
        states = self.world.checker.states
        for at, (assignment, began) in self._began.items():
            if self.world.clock.now - began < BEGINNING_S:
                yield Phase.BEGINNING
            where = OF_A_MOVE.get(stage(assignment, states.get(at)))
            if where is not None:
                yield where

    def _of_topics(self) -> Iterator[Phase]:
        checker = self.world.checker
        if any(name in checker.topics for name in checker.unwanted):
            yield Phase.DELETION
        for name, topic in checker.topics.items():
            if name not in checker.unwanted and any(
                TopicPartition(name, n) not in checker.states for n in topic.partitions
            ):
                yield Phase.CREATION
                return

    def _of_brokers(self) -> Iterator[Phase]:
        if any(broker.is_leaving for broker in self.world.brokers.values()):
            yield Phase.SHUTDOWN
