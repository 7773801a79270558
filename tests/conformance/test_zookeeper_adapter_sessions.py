"""Does the session live exactly as long as the event loop runs, and does it surely end?

Real servers only: renewal and expiry of a session are up to a server and kazoo's thread.
"""

import asyncio
import signal
import threading
import time
from pathlib import Path

import pytest

from controller.core.candidacy.events import Claimed, Reconnected, SessionEvent, SessionLost
from controller.lab.zookeeper import ZooKeeperServer
from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk.bridge import Bridge
from controller.zk.session import Session
from tests.conformance.adapter_world import registration, someone, until
from zk_layout.ids import BrokerId

SESSION_S = 2.0


class Watching(threading.Thread):
    """A separate thread and client that notes when a znode is gone."""

    def __init__(self, connect: str, path: str) -> None:
        super().__init__()
        self._connect, self._path = connect, path
        self._is_over = threading.Event()
        self.is_ready = threading.Event()
        self.gone_at: float | None = None

    def run(self) -> None:
        with someone(self._connect) as other:
            while not self._is_over.wait(0.02) and self.gone_at is None:
                if other.exists(self._path) is None:
                    self.gone_at = time.monotonic()
                self.is_ready.set()

    def end(self) -> None:
        self._is_over.set()
        self.join()


@pytest.mark.parametrize(("stalled_s", "is_lost"), [(0.85 * SESSION_S, False), (3.0 * SESSION_S, True)])
def test_a_claim_ends_with_its_session_while_the_event_loop_stands_still_for_longer(
    zookeeper: str, stalled_s: float, is_lost: bool
) -> None:
    async def story() -> None:
        events: list[SessionEvent] = []
        bridge = Bridge(ZooKeeperSettings(zookeeper, int(1000 * SESSION_S)))
        await bridge.start()
        session = Session(bridge, events.append, BrokerId(100))
        await session.prepare()
        session.start()
        assert isinstance(await session.claim(registration(), replace=False), Claimed)
        other = Watching(zookeeper, "/controller")
        other.start()
        await asyncio.to_thread(other.is_ready.wait)
        await asyncio.sleep(0.5)

        began = time.monotonic()
        time.sleep(stalled_s)
        ended = time.monotonic()
        await asyncio.sleep(0.5 * SESSION_S)
        await asyncio.to_thread(other.end)

        if is_lost:
            assert other.gone_at is not None, "a dead event loop kept its claim"
            assert began + 0.5 * SESSION_S < other.gone_at < ended
            await until(lambda: SessionLost() in events and Reconnected() in events)
            assert isinstance(await session.claim(registration(), replace=False), Claimed)
        else:
            assert other.gone_at is None, f"lost after {other.gone_at and other.gone_at - began} s"
            assert SessionLost() not in events
        session.stop()
        await bridge.stop()

    asyncio.run(story())


def test_closing_does_not_wait_for_a_server_that_is_silent(tmp_path: Path) -> None:
    async def story() -> float:
        with ZooKeeperServer(tmp_path / "zookeeper") as server:
            bridge = Bridge(ZooKeeperSettings(server.connect, 18_000))
            await bridge.start()
            server.process.signal(signal.SIGSTOP)
            try:
                began = time.monotonic()
                await bridge.stop()
                return time.monotonic() - began
            finally:
                server.process.signal(signal.SIGCONT)

    assert asyncio.run(story()) < 5


def test_a_session_that_is_closed_is_gone_at_once(zookeeper: str) -> None:
    async def story() -> None:
        bridge = Bridge(ZooKeeperSettings(zookeeper, 30_000))
        await bridge.start()
        session = Session(bridge, lambda _: None, BrokerId(100))
        await session.prepare()
        session.start()
        assert isinstance(await session.claim(registration(), replace=False), Claimed)
        session.stop()
        await bridge.stop()
        await bridge.stop()
        with someone(zookeeper) as other:
            assert other.exists("/controller") is None

    asyncio.run(story())
