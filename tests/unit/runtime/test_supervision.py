"""A permanent part continues whatever goes wrong in it, and an operator can see that it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from controller.monitoring.monitoring import Monitoring
from controller.runtime import supervision
from controller.runtime.supervision import Troubles, supervised


def lives(*ends: Exception | None) -> tuple[Callable[[], Awaitable[None]], asyncio.Event]:
    """A run for each of these ends, and one that lasts."""
    left, lasts = list(ends), asyncio.Event()

    async def live() -> None:
        if not left:
            lasts.set()
            await asyncio.Event().wait()
        end = left.pop(0)
        if end is not None:
            raise end

    return live, lasts


async def lived(troubles: Troubles, *ends: Exception | None) -> None:
    live, lasts = lives(*ends)
    task = asyncio.create_task(supervised("a part", live, troubles, again_after_s=0.0, expected=(KeyError,)))
    async with asyncio.timeout(5):
        await lasts.wait()
    task.cancel()


def test_a_part_lives_again_after_whatever_its_life_ended_with() -> None:
    troubles, counted = Troubles(), list[str]()
    troubles.count = counted.append

    with capture_logs() as said:
        asyncio.run(lived(troubles, ValueError("x"), ValueError("x"), KeyError(), RecursionError("y\nz")))

    assert counted == ["a part"] * 3
    assert [line["reason"] for line in said] == ["ValueError: x", "RecursionError: y z"]
    assert troubles.now() == ("a part: a part of this process failed; trying again: RecursionError: y z",)


def test_a_part_is_well_again_once_a_life_has_gone_well() -> None:
    troubles = Troubles()

    asyncio.run(lived(troubles, ValueError("x"), None))

    assert troubles.now() == ()


def test_a_cause_that_comes_and_goes_is_logged_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    troubles = Troubles()
    with capture_logs() as said:
        for _ in range(3):
            troubles.wrong("a part", "what", "why")
            troubles.right("a part")
        assert len(said) == 1
        monkeypatch.setattr(supervision, "AGAIN_AFTER_S", 0.0)
        troubles.wrong("a part", "what", "why")
        troubles.wrong("a part", "what", "another cause")

    assert len(said) == 3


def test_a_figure_that_cannot_be_taken_does_not_make_a_living_process_look_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.monitoring.monitoring.GAUGES_EVERY_S", 0.01)
    beats: list[int] = []

    async def scenario() -> None:
        monitoring = Monitoring(str)
        monitoring.beats = lambda: beats.append(1)
        monkeypatch.setattr(monitoring, "take_gauges", lambda: 1 / 0)
        monitoring.start()
        async with asyncio.timeout(5):
            while len(beats) < 5:
                await asyncio.sleep(0.01)
        assert monitoring.recorder.value("part_failures", ("figures",)) >= 3
        assert monitoring.recorder.value("failing_parts") == 1
        monitoring.stop()

    asyncio.run(scenario())
