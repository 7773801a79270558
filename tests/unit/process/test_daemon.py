"""Does the process carry out what its candidacy orders, whatever else is going on?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from msgspec.structs import replace

from controller.core.candidacy.events import Claimed, ClaimOutcome, HolderSeen, Lost, StopAsked, Watching
from controller.core.candidacy.phases import TakeOver
from controller.lab.ports import free_port
from controller.process.claimant import Claimant
from controller.process.daemon import Daemon
from controller.settings import load
from controller.wire.versions import parse_protocol
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, ZnodeVersion
from zk_layout.znodes.controller import ControllerClaim

VACANT = HolderSeen(None, False, ControllerEpoch(4))
CLAIMED = Claimed(ControllerEpoch(5), ZnodeVersion(5), BrokerEpoch(7))


class Ensemble:
    """What a process finds in ZooKeeper, as this test sets it up."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        found: HolderSeen,
        claim: Callable[[], Awaitable[ClaimOutcome]],
        take_over: TakeOver = TakeOver.ALWAYS,
    ) -> None:
        settings = load(
            None,
            [
                "zookeeper.connect=127.0.0.1:1",
                "zookeeper.session.timeout.ms=1000",
                "broker.id=901",
                f"listeners=PLAINTEXT://127.0.0.1:{free_port()}",
                "inter.broker.protocol.version=3.9",
                "http.port=0",
            ],
            {},
            {"inter.broker.protocol.version": parse_protocol},
        )
        self.is_asked = asyncio.Event()
        self.given_up: list[Claimed] = []
        self.daemon = Daemon(replace(settings, candidacy=replace(settings.candidacy, take_over=take_over)))

        async def reach(_: Claimant) -> None:
            self.daemon._happened(found)
            self.daemon._happened(Watching())

        async def make_claim(_: Claimant, **__: object) -> ClaimOutcome:
            self.is_asked.set()
            return await claim()

        async def give_up(_: Claimant, claimed: Claimed) -> bool:
            self.given_up.append(claimed)
            return True

        monkeypatch.setattr(Claimant, "reach", reach)
        monkeypatch.setattr(Claimant, "claim", make_claim)
        monkeypatch.setattr(Claimant, "give_up", give_up)

    def stop(self) -> None:
        """As SIGTERM does."""
        self.daemon._happened(StopAsked("SIGTERM received"))


async def within(ending: Awaitable[int], timeout_s: float = 10.0) -> int:
    """The exit code, in time."""
    async with asyncio.timeout(timeout_s):
        return await ending


def test_a_stop_is_not_held_up_by_a_claim_that_comes_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> ClaimOutcome:
        await asyncio.Event().wait()
        return Lost("never")

    async def story() -> None:
        ensemble = Ensemble(monkeypatch, VACANT, never)
        living = asyncio.create_task(ensemble.daemon.live())
        await ensemble.is_asked.wait()
        assert ensemble.daemon.status().phase == "contending"

        ensemble.stop()

        assert await within(living) == 0
        assert ensemble.given_up == []

    asyncio.run(story())


def test_a_claim_that_is_won_after_a_stop_is_given_up_before_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        is_stopped = asyncio.Event()

        async def late() -> ClaimOutcome:
            await is_stopped.wait()
            return CLAIMED

        ensemble = Ensemble(monkeypatch, VACANT, late)
        living = asyncio.create_task(ensemble.daemon.live())
        await ensemble.is_asked.wait()

        ensemble.stop()
        is_stopped.set()

        assert await within(living) == 0
        assert ensemble.given_up == [CLAIMED]
        assert ensemble.daemon.status().phase == "ended"

    asyncio.run(story())


def test_a_refused_claim_is_made_again_when_the_alarm_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        outcomes: Iterator[ClaimOutcome] = iter((Lost("/controller is held by broker 902"), CLAIMED))
        is_second = asyncio.Event()

        async def claim() -> ClaimOutcome:
            outcome = next(outcomes)
            if outcome is CLAIMED:
                ensemble.stop()
                is_second.set()
            return outcome

        ensemble = Ensemble(monkeypatch, VACANT, claim)

        assert await within(ensemble.daemon.live()) == 0
        assert is_second.is_set()
        assert ensemble.given_up == [CLAIMED]

    asyncio.run(story())


def test_a_claim_that_fails_for_no_known_reason_is_made_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        tries: list[int] = []

        async def claim() -> ClaimOutcome:
            tries.append(1)
            if len(tries) == 1:
                raise RecursionError("maximum recursion depth exceeded")
            ensemble.stop()
            return CLAIMED

        ensemble = Ensemble(monkeypatch, VACANT, claim)

        assert await within(ensemble.daemon.live()) == 0
        assert (len(tries), ensemble.given_up) == (2, [CLAIMED])

    asyncio.run(story())


def test_who_leads_is_shown_as_soon_as_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        other = HolderSeen(ControllerClaim(BrokerId(902), is_ours=True), False, ControllerEpoch(4))

        async def nothing() -> ClaimOutcome:
            raise AssertionError("another of ours leads")

        ensemble = Ensemble(monkeypatch, other, nothing)
        living = asyncio.create_task(ensemble.daemon.live())
        while not ensemble.daemon.status().is_ready:
            await asyncio.sleep(0.01)

        status = ensemble.daemon.status()
        assert (status.phase, status.controller, status.controller_epoch) == ("standby", 902, 4)
        assert (status.is_leader, status.reason) == (False, "watching /controller")
        ensemble.stop()
        assert await within(living) == 0

    asyncio.run(story())


def test_a_process_that_never_claims_leaves_a_vacant_controller_and_may_write_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async def nothing() -> ClaimOutcome:
            raise AssertionError("it never claims")

        ensemble = Ensemble(monkeypatch, replace(VACANT, is_wanted=True), nothing, TakeOver.NEVER)
        living = asyncio.create_task(ensemble.daemon.live())
        while not ensemble.daemon.status().is_ready:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(ensemble.daemon._claimant, "_has_passed", True)

        assert ensemble.daemon.status().phase == "standby"
        assert not ensemble.daemon._claimant.may_write
        ensemble.stop()
        assert await within(living) == 0
        assert not ensemble.is_asked.is_set()

    asyncio.run(story())
