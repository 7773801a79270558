"""A leader that stops: is `/controller` ever vacant, and is its end delayed where nobody can take over?"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.core.candidacy.phases import Phase, TakeOver
from controller.core.candidacy.successor import WAIT_S
from tests.simulation.controllers import CLAIM, RELEASED, Controller
from tests.simulation.world import World
from tests.simulation.zookeeper import MakeNode, RemoveNode

STOP_AT_S, SEEDS = 15.0, (1, 2, 3, 4, 5)


class Stopping:
    """A quiet world, whose leader gets SIGTERM; what happened to `/controller` from then on."""

    def __init__(self, seed: int, take_over: TakeOver = TakeOver.WHEN_VACANT) -> None:
        plan = replace(World(seed).plan, brokers=3, controllers=3, topics=2, busy_s=40.0, take_over=take_over)
        self.world = World(seed, plan=plan, only={"first topic 1", "first topic 2"})
        self.was_vacant = False
        self.leader: Controller | None = None
        self.stopped_at = self.gone_at = 0.0
        self.epoch = 0
        right = self.world.checker.after_step

        def look() -> None:
            right()
            if self.leader is not None:
                self.was_vacant |= CLAIM not in self.world.zookeeper.nodes
                if not self.gone_at and not self.leader.is_up:
                    self.gone_at = self.world.clock.now

        self.world.checker.after_step = look  # type: ignore[method-assign]  # it looks at every step
        self.world.clock.after(STOP_AT_S, self.stop)

    def stop(self) -> None:
        self.leader, self.stopped_at = self.world.leading(), self.world.clock.now
        assert self.leader is not None
        self.epoch = self.leader.epoch
        self.leader.stop()

    def standbys(self) -> list[Controller]:
        return [c for c in self.world.controllers.values() if c.phase is Phase.STANDBY]

    def run(self) -> list[str]:
        """The trace."""
        self.world.run()
        assert self.gone_at
        return self.world.trace.lines


@pytest.mark.parametrize("seed", SEEDS)
def test_the_standby_that_is_named_leads_and_controller_is_never_vacant(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Stopping(seed)
    network = story.world.network
    monkeypatch.setattr(network, "delay", lambda: network.random.uniform(0.001, 0.01))  # no message takes half a second

    story.run()

    assert not story.was_vacant
    leaders = {c.own_id: c.epoch for c in story.world.controllers.values() if c.epoch > story.epoch}
    assert story.leader is not None
    expected = min(c for c in story.world.controllers if c != story.leader.own_id)
    assert leaders == {expected: story.epoch + 1}
    assert story.gone_at - story.stopped_at < 2 * WAIT_S + 1.0  # commands to brokers are waited for as well


@pytest.mark.parametrize("seed", SEEDS)
def test_where_nobody_stands_by_nothing_is_waited_for(seed: int) -> None:
    story = Stopping(seed)

    def crash_the_others() -> None:
        for controller in story.standbys():
            controller.crash()

    story.world.clock.after(STOP_AT_S - 8.0, crash_the_others)  # their sessions have ended by then

    lines = story.run()

    assert not any("waiting for a successor" in line for line in lines)
    assert story.was_vacant


@pytest.mark.parametrize("seed", SEEDS)
def test_a_successor_that_does_not_come_is_waited_for_a_second_and_another_leads(seed: int) -> None:
    story = Stopping(seed)

    def freeze_the_lowest() -> None:
        story.standbys()[0].paused_until = story.world.clock.now + 5.0

    story.world.clock.after(STOP_AT_S - 0.1, freeze_the_lowest)

    lines = story.run()

    assert any("no successor takes over" in line for line in lines)
    assert WAIT_S <= story.gone_at - story.stopped_at < 2 * WAIT_S + 2.0
    assert story.was_vacant
    leaders = {c.own_id: c.epoch for c in story.world.controllers.values() if c.epoch > story.epoch}
    assert list(leaders.values()) == [story.epoch + 1]


@pytest.mark.parametrize("after_ms", range(-40, 400, 40))
def test_of_a_cluster_released_just_then_no_standby_leads(after_ms: int) -> None:
    story = Stopping(1)
    epochs: list[int] = []

    def take_back() -> None:
        epochs.extend(c.epoch for c in story.world.controllers.values())
        story.world.write_at_once(RemoveNode(RELEASED))

    story.world.clock.after(STOP_AT_S + after_ms / 1000, lambda: story.world.write_at_once(MakeNode(RELEASED)))
    story.world.clock.after(STOP_AT_S + 10.0, take_back)

    lines = story.run()

    is_in_time = not any("the successor leads" in line for line in lines)
    assert max(epochs) <= story.epoch + (not is_in_time)
    assert story.was_vacant
