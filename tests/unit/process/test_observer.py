"""What does a process that observes show, and what does it take from the checks of the cluster?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from controller.core.candidacy.events import HolderSeen, IdClash, StopAsked, Unreachable, Unsound, Watching
from controller.core.messages.effects import Differed
from controller.process.claimant import Claimant
from controller.process.dry_term import DryTerm
from controller.process.observer import MOST_SHOWN, Observer
from controller.settings import load
from controller.wire.versions import parse_protocol
from controller.zk.read_only import ReadOnlyBridge
from zk_layout.ids import BrokerId, ControllerEpoch
from zk_layout.znodes.controller import ControllerClaim

NATIVE = HolderSeen(ControllerClaim(BrokerId(3), is_ours=False, timestamp_ms=0), False, ControllerEpoch(4))
VACANT = HolderSeen(None, False, ControllerEpoch(4))
WANTED = HolderSeen(
    ControllerClaim(BrokerId(902), is_ours=True, timestamp_ms=0), False, ControllerEpoch(4), is_wanted=True
)


def observer() -> Observer:
    settings = load(
        None,
        ["zookeeper.connect=127.0.0.1:1", "broker.id=901", "inter.broker.protocol.version=3.9", "http.port=0"],
        {},
        {"inter.broker.protocol.version": parse_protocol},
    )
    return Observer(settings)


def run(monkeypatch: pytest.MonkeyPatch, story: Callable[[Observer], Awaitable[None]]) -> int:
    """Run a process to which ZooKeeper says nothing; the story tells it what happens, and this then stops it."""

    async def reach(_: Claimant) -> None:
        await asyncio.Event().wait()

    async def live(_: DryTerm, loaded: Callable[[], None]) -> None:
        loaded()
        await asyncio.Event().wait()

    monkeypatch.setattr(Claimant, "reach", reach)
    monkeypatch.setattr(DryTerm, "live", live)

    async def all_of_it() -> int:
        process = observer()
        living = asyncio.create_task(process.live())
        await asyncio.sleep(0)
        await story(process)
        process._happened(StopAsked("SIGTERM received"))
        async with asyncio.timeout(10):
            return await living

    return asyncio.run(all_of_it())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


def test_it_is_ready_once_it_follows_the_cluster_and_names_who_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(process: Observer) -> None:
        assert not process.status().is_ready
        process._happened(Unreachable("no ZooKeeper server answers"))
        assert process.status().reason == "no ZooKeeper server answers"
        process._happened(NATIVE)
        process._happened(Watching())
        await until(lambda: process.status().is_ready)
        status = process.status()
        assert (status.phase, status.controller, status.controller_epoch) == ("observing", 3, 4)
        assert (status.is_leader, status.is_observing, status.obstacles) == (False, True, ())
        assert status.reason == "broker 3 holds /controller"

    assert run(monkeypatch, story) == 0


@pytest.mark.parametrize("found", [VACANT, WANTED], ids=["vacant", "asked to lead"])
def test_it_never_claims(monkeypatch: pytest.MonkeyPatch, found: HolderSeen) -> None:
    async def story(process: Observer) -> None:
        process._happened(Watching())
        process._happened(found)
        await until(lambda: process.status().is_ready)
        assert process.status().phase == "observing"

    assert run(monkeypatch, story) == 0


def test_what_forbids_a_replica_to_lead_is_shown_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(process: Observer) -> None:
        process._happened(NATIVE)
        process._happened(Unsound("no broker answers"))
        await until(lambda: process.status().is_ready)
        assert process.status().obstacles == ("no broker answers",)
        process._happened(Watching())
        assert process.status().obstacles == ()

    assert run(monkeypatch, story) == 0


def test_a_replica_with_the_same_id_may_run_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(process: Observer) -> None:
        process._happened(NATIVE)
        process._happened(IdClash("id 901 belongs to another controller process", is_our_past=False))
        process._happened(Watching())
        await until(lambda: process.status().is_ready)

    assert run(monkeypatch, story) == 0


def test_the_latest_differences_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(process: Observer) -> None:
        assert process.status().differences == ()
        for number in range(MOST_SHOWN + 5):
            process._differed(Differed("other leader", f"orders-{number}: why"))
        shown = process.status().differences
        assert len(shown) == MOST_SHOWN
        assert shown[-1].endswith(f" other leader: orders-{MOST_SHOWN + 4}: why")

    assert run(monkeypatch, story) == 0


def test_every_session_of_it_only_reads() -> None:
    async def story() -> None:
        process = observer()
        assert isinstance(process._claimant.bridge, ReadOnlyBridge)
        renewed, _ = process._claimant._new_session()
        assert isinstance(renewed, ReadOnlyBridge)
        await renewed.stop()
        await process._close()

    asyncio.run(story())
