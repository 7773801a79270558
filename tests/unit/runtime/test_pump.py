"""Events become turns, effects are carried out in order, and nothing starves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import get_args

import pytest

from controller.core.messages.effects import Drained, Effect, Notice, StepDown, Wake
from controller.core.messages.events import Alarm, Event, Loaded, Woke
from controller.runtime.clock import Clock
from controller.runtime.pump import LEAST_SHARE_S, SHARE_OF_OTHERS, Performer, Pump, Took


class Named(Alarm, frozen=True):
    """An alarm of a test."""

    name: str


class Scripted:
    """A machine that records its batches and returns what the script says."""

    def __init__(self, script: Callable[[Sequence[Event], float], list[Effect]]) -> None:
        self.script = script
        self.batches: list[tuple[Event, ...]] = []

    def turn(self, events: Sequence[Event], now: float) -> list[Effect]:
        self.batches.append(tuple(events))
        return self.script(events, now)


class Stage:
    """A pump around a script, with everything it carries out."""

    def __init__(
        self,
        script: Callable[[Sequence[Event], float], list[Effect]],
        most_events: int = 500,
        *,
        are_commands_queued: bool = False,
    ) -> None:
        self.machine = Scripted(script)
        self.performed: list[Effect] = []
        self.broken: list[Exception] = []
        self.turns: list[tuple[int, int, int]] = []
        self.clock = Clock(asyncio.get_running_loop())
        performers: dict[type, Performer] = {
            kind: self.performed.append for kind in get_args(Effect) if kind is not Wake
        }
        performers[StepDown] = self.step_down
        self.pump = Pump(
            self.machine,
            performers,
            self.clock,
            self.broken.append,
            observers=(self,),
            most_events=most_events,
            are_commands_queued=lambda: are_commands_queued,
        )

    def step_down(self, effect: StepDown) -> None:
        self.performed.append(effect)
        self.pump.stop()

    def turned(self, now: float, events: Sequence[Event], effects: Sequence[Effect], took: Took, left: int) -> None:
        assert took.wall_s >= 0 <= took.cpu_s
        self.turns.append((len(events), len(effects), left))


def keys(batch: Sequence[Event]) -> list[str]:
    return [event.alarm.name for event in batch if isinstance(event, Woke) and isinstance(event.alarm, Named)]


def test_what_is_emitted_before_a_turn_is_one_batch_in_order() -> None:
    async def story() -> None:
        stage = Stage(lambda *_: [StepDown("enough")])
        for key in "abc":
            stage.pump.emit(Woke(Named(key)))

        await stage.pump.run()

        assert [keys(batch) for batch in stage.machine.batches] == [["a", "b", "c"]]
        assert stage.turns == [(3, 1, 0)]

    asyncio.run(story())


def test_effects_are_carried_out_in_order_and_what_they_cause_comes_in_a_later_turn() -> None:
    async def story() -> None:
        def script(events: Sequence[Event], _: float) -> list[Effect]:
            if isinstance(events[0], Loaded):
                return [Notice("one", ""), Wake(Named("later"), 0.0), Drained(), Notice("two", "")]
            return [StepDown("enough")]

        stage = Stage(script)
        stage.pump.emit(Loaded())

        await stage.pump.run()

        assert stage.performed == [Notice("one", ""), Drained(), Notice("two", ""), StepDown("enough")]
        assert stage.machine.batches == [(Loaded(),), (Woke(Named("later")),)]

    asyncio.run(story())


def test_a_flood_of_events_does_not_keep_others_from_their_turn() -> None:
    async def story() -> None:
        stage = Stage(
            lambda events, _: [StepDown("enough")] if events[-1] == Woke(Named("999")) else [], most_events=10
        )
        for number in range(1000):
            stage.pump.emit(Woke(Named(str(number))))
        others = 0

        async def other() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        await stage.pump.run()
        task.cancel()

        assert [turn[0] for turn in stage.turns] == [10] * 100
        assert stage.turns[0][2] == 990
        assert others >= 99

    asyncio.run(story())


@pytest.mark.parametrize("are_queued", [False, True])
def test_while_commands_are_queued_brokers_answer_several_between_two_long_turns(*, are_queued: bool) -> None:
    async def story() -> None:
        answered = 0
        found: list[int] = []

        def script(events: Sequence[Event], _: float) -> list[Effect]:
            found.append(answered)
            time.sleep(4 * LEAST_SHARE_S / SHARE_OF_OTHERS)
            return [StepDown("enough")] if len(found) == 3 else []

        async def broker() -> None:
            nonlocal answered
            while True:
                await asyncio.sleep(LEAST_SHARE_S)
                answered += 1

        stage = Stage(script, most_events=1, are_commands_queued=are_queued)
        for number in range(3):
            stage.pump.emit(Woke(Named(str(number))))
        task = asyncio.ensure_future(broker())
        await stage.pump.run()
        task.cancel()

        assert all((after - before >= 2) is are_queued for before, after in pairwise(found))

    asyncio.run(story())


@pytest.mark.parametrize("where", ["turn", "performer"])
def test_an_exception_ends_the_term_and_nothing_is_decided_after_it(where: str) -> None:
    async def story() -> None:
        def script(events: Sequence[Event], _: float) -> list[Effect]:
            if where == "turn":
                raise RuntimeError("an invariant is violated")
            return [Notice("before", ""), Drained(), Notice("after", "")]

        stage = Stage(script)

        def drained(_: Drained) -> None:
            raise RuntimeError("an invariant is violated")

        stage.pump._perform[Drained] = drained
        stage.pump.emit(Loaded())

        await stage.pump.run()
        stage.pump.emit(Loaded())
        await stage.pump.run()

        assert [str(error) for error in stage.broken] == ["an invariant is violated"]
        assert stage.performed == ([] if where == "turn" else [Notice("before", "")])
        assert len(stage.machine.batches) == 1
        assert stage.pump.depth == 0

    asyncio.run(story())


def test_after_stepping_down_no_further_effect_is_carried_out_and_no_alarm_rings() -> None:
    async def story() -> None:
        stage = Stage(lambda *_: [Wake(Named("never"), 0.0), StepDown("deposed"), Notice("too late", "")])
        stage.pump.emit(Loaded())

        await stage.pump.run()
        await asyncio.sleep(0.01)

        assert stage.performed == [StepDown("deposed")]
        assert len(stage.machine.batches) == 1

    asyncio.run(story())


def test_an_effect_without_a_performer_is_found_before_anything_runs() -> None:
    async def story() -> None:
        clock = Clock(asyncio.get_running_loop())
        with pytest.raises(ValueError, match=r"no performer for Commit, Read, .*give the pump"):
            Pump(Scripted(lambda *_: []), {}, clock, lambda _: None)

    asyncio.run(story())


def test_an_alarm_rings_once_at_its_time_and_setting_it_again_replaces_it() -> None:
    async def story() -> None:
        clock, rang = Clock(asyncio.get_running_loop()), list[tuple[str, float]]()
        began = clock.now()

        def emit(woke: Woke) -> None:
            rang.extend((name, clock.now() - began) for name in keys((woke,)))

        clock.wake(Wake(Named("moved"), began + 0.01), emit)
        clock.wake(Wake(Named("moved"), began + 0.06), emit)
        clock.wake(Wake(Named("first"), began + 0.03), emit)
        clock.wake(Wake(Named("past"), began - 5), emit)
        clock.wake(Wake(Named("cancelled"), began + 3600), emit)
        await asyncio.sleep(0.15)
        clock.cancel_all()

        assert [key for key, _ in rang] == ["past", "first", "moved"]
        assert rang[1][1] >= 0.03
        assert rang[2][1] >= 0.06

    asyncio.run(story())
