"""How soon does a standby challenge a leader that has hung up, and how often does it look at most?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import chain, cycle, pairwise, repeat
from typing import cast

import pytest

from controller.core.candidacy.challenger import Heard, HungUp, Sign, Suspect, Unheard
from controller.core.candidacy.events import Unanswered
from controller.process.leader_watch import EVERY_S, MANY, SOON_S, LeaderWatch
from controller.runtime.supervision import Troubles
from controller.settings.claiming import ClaimSettings
from controller.zk.bridge import Bridge
from tests.simulation.clock import Clock
from tests.simulation.loop import SimulatedLoop
from zk_layout.ids import BrokerId, ControllerEpoch
from zk_layout.znodes.brokers import Registration

LEADER = Suspect(BrokerId(901), ControllerEpoch(7))
NEXT = Suspect(BrokerId(903), ControllerEpoch(8))
SETTINGS = ClaimSettings(
    own_id=BrokerId(902),
    registration=Registration(()),
    zookeeper=None,  # type: ignore[arg-type]  # not connected
    protocol="3.9",
    request_timeout_s=30.0,
    given=frozenset(),
    challenge_timeout_s=1.0,
)


class _Away:
    """A connection to ZooKeeper that is too young for challenges."""

    open_for_s = 0.0


class Standby:
    """A watch of a leader that gives these signs, in simulated time; a hang-up is given after the seconds named."""

    def __init__(self, signs: Iterator[Sign | Exception | None], hang_ups: Iterator[float | None]) -> None:
        self.clock = Clock()
        self.suspect: Suspect | None = LEADER
        self.asked_at: list[float] = []
        self.challenged_at: list[float] = []
        self.while_waiting: Callable[[], None] = lambda: None
        self._signs, self._hang_ups = signs, hang_ups
        self._loop = SimulatedLoop(self.clock, wake_s=0.0)  # type: ignore[abstract]  # no more is asked of it

    async def ask(self, leader: BrokerId) -> Sign | None:
        assert leader == LEADER.broker
        self.asked_at.append(self.clock.now)
        sign = next(self._signs)
        if isinstance(sign, Exception):
            raise sign
        return sign

    async def hangs_up_within(self, time_s: float) -> bool:
        after_s = next(self._hang_ups)
        if after_s is None or after_s > time_s:
            await asyncio.sleep(time_s)
            return False
        await asyncio.sleep(after_s)
        self.while_waiting()
        return True

    def close(self) -> None: ...

    def replace(self, unanswered: Unanswered) -> bool:
        raise AssertionError(unanswered)

    def _bridge(self) -> Bridge:
        """Asked for by each challenge, which fails."""
        self.challenged_at.append(self.clock.now)
        return cast(Bridge, _Away())

    def live(self, until_s: float) -> Standby:
        """Until then."""
        watch = LeaderWatch(SETTINGS, self._bridge, self, self, troubles=Troubles())
        self._loop.start(watch.keep())
        while (at := self.clock.next_at()) is not None and at <= until_s:
            self.clock.step()
        self._loop.kill()
        return self


def test_a_leader_that_hangs_up_is_challenged_at_that_moment() -> None:
    standby = Standby(chain([Heard()], repeat(Unheard())), chain([0.123], repeat(None))).live(1.0)

    assert standby.challenged_at[0] == pytest.approx(0.123)


def test_a_leader_that_is_found_to_have_hung_up_is_challenged_at_once() -> None:
    standby = Standby(chain([Heard(), HungUp()], repeat(Unheard())), repeat(None)).live(1.0)

    assert standby.challenged_at[0] == pytest.approx(EVERY_S)


def test_a_leader_that_hangs_up_when_another_leads_already_is_not_challenged() -> None:
    standby = Standby(repeat(Heard()), chain([0.1], repeat(None)))

    def another_leads() -> None:
        standby.suspect = None

    standby.while_waiting = another_leads

    assert standby.live(10.0).challenged_at == []


@pytest.mark.parametrize(
    ("signs", "hang_ups"),
    [
        (chain([Heard()], repeat(Heard(is_reopened=True))), repeat(0.0)),
        (chain([Heard()], cycle([Unheard(), Heard(is_reopened=True)])), repeat(0.0)),
        (chain([Heard()], repeat(Unheard())), chain([0.0], repeat(None))),
        (repeat(None), repeat(0.0)),
    ],
)
def test_a_leader_that_hangs_up_each_time_is_not_asked_more_often_than_one_that_answers(
    signs: Iterator[Sign | None], hang_ups: Iterator[float | None]
) -> None:
    asked_at = Standby(signs, hang_ups).live(60.0).asked_at

    assert min(later - sooner for sooner, later in pairwise(asked_at)) >= SOON_S - 0.001
    assert len(asked_at) <= 60.0 / EVERY_S + MANY + 1


def test_a_connection_that_has_lasted_ends_the_slow_pace() -> None:
    missing: list[Sign] = [Unheard()] * (MANY + 1)
    asked_at = Standby(chain(missing, [Heard()], repeat(Unheard())), repeat(None)).live(10.0).asked_at

    after_s = [later - sooner for sooner, later in pairwise(asked_at)]
    soon, slow = [SOON_S] * (MANY - 1), [EVERY_S]
    assert after_s[: 2 * MANY + 2] == pytest.approx([*soon, *slow * 3, *soon, *slow], abs=0.001)


def test_the_watch_survives_whatever_a_pulse_raises() -> None:
    raised: list[Sign | Exception | None] = [OSError("odd"), RuntimeError("odd")]
    standby = Standby(chain(raised, [Heard()], repeat(Unheard())), chain([0.1], repeat(None))).live(10.0)

    assert standby.challenged_at[0] == pytest.approx(2.1)
