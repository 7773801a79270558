"""What does an operator hear while ZooKeeper cannot be reached?"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from controller.claiming import Claimant
from controller.core.candidacy.events import Event, Unreachable
from controller.settings import load
from controller.wire.versions import parse_wanted
from controller.zk import bridge

ADDRESS = "127.0.0.1:1"


def test_that_zookeeper_is_silent_is_said_long_before_the_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "SILENT_S", 0.01)
    told: list[Event] = []
    given = [f"zookeeper.connect={ADDRESS}", "broker.id=901", "listeners=PLAINTEXT://127.0.0.1:9095"]
    settings = load(None, given, {}, {"inter.broker.protocol.version": parse_wanted})
    nobody: Any = None

    async def wait() -> None:
        reaching = asyncio.create_task(Claimant(settings, nobody, told.append).reach())
        async with asyncio.timeout(10):
            while not told:
                await asyncio.sleep(0.01)
        reaching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reaching

    asyncio.run(wait())

    assert told == [Unreachable(f"no ZooKeeper server has answered at {ADDRESS} for 0.01 s")]
