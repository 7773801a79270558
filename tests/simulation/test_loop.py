"""Does nothing of a process live on once its loop is killed?"""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.clock import Clock
from tests.simulation.loop import SimulatedLoop


def test_what_waits_while_it_cleans_up_is_dismantled_too() -> None:
    said: list[str] = []

    async def cleans_up_twice() -> None:
        try:
            try:
                await asyncio.sleep(1000.0)
            finally:
                said.append("first")
                await asyncio.sleep(1.0)
        finally:
            said.append("second")
            await asyncio.sleep(1.0)

    clock = Clock()
    loop = SimulatedLoop(clock)  # type: ignore[abstract]  # nothing here asks a loop for more
    task = loop.start(cleans_up_twice())
    clock.step()

    loop.kill()

    assert said == ["first", "second"]
    assert task.cancelled()


def test_what_does_not_end_though_it_is_cancelled_is_an_error() -> None:
    async def goes_on() -> None:
        while True:
            try:
                await asyncio.sleep(1000.0)
            except asyncio.CancelledError:
                if loop.is_forgiven:
                    raise

    class Loop(SimulatedLoop):
        is_forgiven = False

    clock = Clock()
    loop = Loop(clock)  # type: ignore[abstract]  # nothing here asks a loop for more
    loop.start(goes_on())
    clock.step()

    with pytest.raises(RuntimeError, match="a killed process goes on"):
        loop.kill()

    loop.is_forgiven = True
    loop.kill()
