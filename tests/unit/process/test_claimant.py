"""What does an operator see while ZooKeeper cannot be reached, and what is checked again before a claim?"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from controller.core.candidacy.events import Claimed, Event, Lost, Reconnected, Unreachable, Watching
from controller.core.candidacy.successor import WAIT_S
from controller.process.claimant import Claimant
from controller.settings import load
from controller.settings.zookeeper import ZooKeeperSettings
from controller.wire.versions import parse_wanted
from controller.zk import bridge
from controller.zk.bridge import Bridge
from tests.simulation.kazoo_client import kazoo_client
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Line
from tests.simulation.stand_ins import NothingWrong
from tests.simulation.zookeeper import MakeNode, RemoveNode
from tests.simulation.zookeeper_server import ServerConnection
from tests.unit.zk.simulated import Ensemble
from zk_layout.ids import BrokerId
from zk_layout.znodes import reassignment_status, replicas
from zk_layout.znodes.replicas import Replica, ReplicaAddress

SWITCHOVER = "/kafka_zk_controller/switchover"
ADDRESS = "127.0.0.1:1"
GIVEN = (f"zookeeper.connect={ADDRESS}", "broker.id=901", "listeners=PLAINTEXT://127.0.0.1:9095")
SETTINGS = load(None, GIVEN, {}, {"inter.broker.protocol.version": parse_wanted})


def test_that_zookeeper_is_silent_is_said_long_before_the_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "SILENT_S", 0.01)
    events: list[Event] = []
    unused: Any = None

    async def wait() -> None:
        reaching = asyncio.create_task(Claimant(SETTINGS.claim, unused, events.append).reach())
        async with asyncio.timeout(10):
            while not events:
                await asyncio.sleep(0.01)
        reaching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reaching

    asyncio.run(wait())

    assert events == [Unreachable(f"no ZooKeeper server has answered at {ADDRESS} for 0.01 s")]


def claimant_at(
    ensemble: Ensemble, events: list[Event], *, never_claims: bool = False
) -> tuple[Claimant, SimulatedLoop]:
    """One that finds the cluster sound, and has a simulated ZooKeeper."""
    loop = SimulatedLoop(ensemble.clock)  # type: ignore[abstract]  # it asks for no more

    def dial(line: Line) -> ServerConnection:
        return ServerConnection(ensemble.zookeeper, line.answer, line.hang_up)

    def new_bridge(settings: ZooKeeperSettings) -> Bridge:
        return Bridge(settings, kazoo_client(settings, ensemble.network, loop, dial))

    preflight: Any = NothingWrong()
    claimant = Claimant(SETTINGS.claim, preflight, events.append, new_bridge=new_bridge, never_claims=never_claims)
    loop.start(claimant.reach())
    return claimant, loop


def test_what_is_missing_in_a_new_session_is_created_again_before_the_claim() -> None:
    """ZooKeeper may have been restored from a copy that is older than this controller."""
    ensemble, events = Ensemble(), list[Event]()
    claimant, loop = claimant_at(ensemble, events)
    ensemble.until(lambda: Watching() in events)

    ensemble.zookeeper.close_session(claimant.bridge.session)
    ensemble.write(RemoveNode(reassignment_status.ROOT))
    ensemble.until(lambda: Reconnected() in events)
    claim = loop.start(claimant.claim(replace=False))
    ensemble.until(claim.done)

    assert isinstance(claim.result(), Claimed)
    assert reassignment_status.ROOT in ensemble.zookeeper.nodes
    loop.kill()


def test_a_second_signal_ends_the_wait_for_a_successor_that_does_not_come() -> None:
    ensemble, told = Ensemble(), list[Event]()
    claimant, loop = claimant_at(ensemble, told)
    ensemble.until(lambda: Watching() in told)
    claim = loop.start(claimant.claim(replace=False))
    ensemble.until(claim.done)
    standby = replicas.encode(Replica("standby", True, 0))
    ensemble.zookeeper.make_path(replicas.ROOT)
    ensemble.write(MakeNode(ReplicaAddress(BrokerId(902)).path, standby))

    async def stop() -> None:
        await claimant.hand_over(claim.result())
        await claimant.give_up(claim.result())

    began = ensemble.clock.now
    stopping = loop.start(stop())
    ensemble.until(lambda: SWITCHOVER in ensemble.zookeeper.nodes)
    loop.call_soon_threadsafe(claimant.cut_short)
    ensemble.until(stopping.done)

    assert ensemble.clock.now - began < WAIT_S
    assert not {"/controller", SWITCHOVER} & ensemble.zookeeper.nodes.keys()
    loop.kill()


def test_a_successor_that_does_not_come_is_asked_no_more_once_the_leader_has_gone() -> None:
    ensemble, told = Ensemble(), list[Event]()
    claimant, loop = claimant_at(ensemble, told)
    ensemble.until(lambda: Watching() in told)
    claim = loop.start(claimant.claim(replace=False))
    ensemble.until(claim.done)
    ensemble.zookeeper.make_path(replicas.ROOT)
    ensemble.write(MakeNode(ReplicaAddress(BrokerId(902)).path, replicas.encode(Replica("standby", True, 0))))
    began = ensemble.clock.now

    handing_over = loop.start(claimant.hand_over(claim.result()))
    ensemble.until(handing_over.done)
    waited_s = ensemble.clock.now - began
    assert SWITCHOVER in ensemble.zookeeper.nodes
    giving_up = loop.start(claimant.give_up(claim.result()))
    ensemble.until(giving_up.done)

    assert WAIT_S <= waited_s < 2 * WAIT_S  # finding it takes a few messages before that
    assert not {"/controller", SWITCHOVER} & ensemble.zookeeper.nodes.keys()
    loop.kill()


def test_a_process_that_never_claims_creates_nothing_that_is_missing_and_refuses_to_claim() -> None:
    ensemble, told = Ensemble(), list[Event]()
    ensemble.write(RemoveNode(reassignment_status.ROOT))
    before = dict(ensemble.zookeeper.nodes)
    claimant, loop = claimant_at(ensemble, told, never_claims=True)
    ensemble.until(lambda: Watching() in told)

    claim = loop.start(claimant.claim(replace=True, replaces_ours=True))
    ensemble.until(claim.done)

    assert isinstance(claim.result(), Lost)
    assert not claimant.may_write
    assert ensemble.zookeeper.nodes == before
    loop.kill()
