"""A signal ends the demo wherever it arrives."""

from __future__ import annotations

import asyncio
import signal

import pytest

from controller.demo import story


def test_an_event_loop_in_which_a_signal_arrives_does_not_swallow_it() -> None:
    async def busy() -> None:
        asyncio.get_running_loop().call_soon(story._interrupt, signal.SIGINT, None)
        await asyncio.sleep(5)

    with pytest.raises(story._Interrupted) as ended:
        asyncio.run(busy())

    assert ended.value.code == story.INTERRUPTED
