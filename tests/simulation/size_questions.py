"""Are brokers asked for the sizes of what waits only where something depends on them, and not too often?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controller.core.messages.effects import DescribeLogDirs, Effect
from controller.core.settings import LARGE, SMALL
from tests.simulation.broken import hold
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller
    from tests.simulation.world import World

PACE_S = 1.0
AT_ONCE = 1_000


class SizeQuestions:
    """The questions of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked = 0
        self._asked_at: dict[tuple[ControllerEpoch, BrokerId, BrokerEpoch], float] = {}

    def decided(self, controller: Controller, effects: Iterable[Effect]) -> None:
        """A turn of a term is over."""
        for effect in effects:
            if isinstance(effect, DescribeLogDirs) and effect.is_of_waiting:
                self.asked += 1
                self._judge(controller, effect)

    def _judge(self, controller: Controller, asked: DescribeLogDirs) -> None:
        now, what = self.world.clock.now, f"{controller.name} asks {asked.broker} for sizes of what waits"
        if not ({SMALL, LARGE} & {*self.world.limits.order} or self.world.limits.disks.are_waited_for):
            hold(f"{what}, though nothing depends on them")
        if not 0 < len({*asked.partitions}) == len(asked.partitions) <= AT_ONCE:
            hold(f"{what}: {len(asked.partitions)} at once")
        if strange := [at for at in asked.partitions if not self.world.limits.was_wished(at)]:
            hold(f"{what}, though nobody has asked for moves of {strange[0]}")
        by = controller.epoch, asked.broker, asked.broker_epoch
        if now - self._asked_at.get(by, now - PACE_S) < PACE_S:
            hold(f"{what} after {now - self._asked_at[by]} s")
        self._asked_at[by] = now
