"""Nothing of a term is left in memory when the next one begins."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from controller.brokers.observing import Unobserved
from controller.core.candidacy.events import Claimed, TermEvent
from controller.core.messages.events import Loaded
from controller.core.settings import MachineSettings
from controller.core.state.cluster import ClusterState
from controller.following.cluster import ClusterFollower
from controller.monitoring.monitoring import Monitoring
from controller.process.term import Term, TermParts
from controller.runtime.reclaiming import collect, dismantle, spare
from controller.settings.zookeeper import ZooKeeperSettings
from controller.wire.apis import api_name
from controller.wire.versions import parse_protocol
from controller.zk.bridge import Bridge
from tests.benchmarks.filling import Shape
from tests.benchmarks.storms import OWN, Rig
from zk_layout.ids import BrokerEpoch, ControllerEpoch, ZnodeVersion
from zk_layout.watched import watched

# The collector also finds what earlier tests have left behind.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def only_what_is_asked_for_is_collected() -> object:
    gc.collect()
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


def test_a_machine_that_was_dismantled_and_forgotten_is_gone() -> None:
    rig = Rig(Shape(20, 5, 3))
    for event in rig.everything():
        rig.emit(event)
    rig.run()
    spare()
    held = weakref.ref(rig.machine), weakref.ref(rig.machine._state)

    asyncio.run(dismantle(rig.machine))
    assert rig.machine.turn((Loaded(),), 0.0) == []
    del rig
    collect()

    assert [ref() for ref in held] == [None, None]


def test_of_a_term_that_has_ended_nothing_is_left() -> None:
    async def live() -> weakref.ref[ClusterState]:
        term = _term()
        term.begin()
        for event in Rig(Shape(20, 5, 3)).everything():
            term.emit(event)
        while not term.machine.snapshot().is_loaded:
            await asyncio.sleep(0)
        spare()
        ref = weakref.ref(term.machine._state)
        await term.end(is_graceful=False)
        await dismantle(term.machine)
        await term._parts.bridge.stop()
        del term
        collect()
        return ref

    assert asyncio.run(live())() is None


def _term() -> Term:
    monitoring = Monitoring(api_name)
    bridge = Bridge(ZooKeeperSettings("127.0.0.1:1"))
    parts = TermParts(
        bridge=bridge,
        facts=ClusterFollower(lambda: bridge).for_term(watched(), 1_000_000),
        machine_settings=MachineSettings(own_id=OWN),
        protocol=parse_protocol("3.4"),
        inter_broker_listener="PLAINTEXT",
        request_timeout_s=1.0,
        request_limit_bytes=1_000_000,
        drain_timeout_s=1.0,
        answer=lambda _: None,
        counter=monitoring,
        link_observer=Unobserved(),
        turn_observers=(monitoring.turns,),
    )

    def happened(_: TermEvent) -> None:
        pass

    return Term(parts, Claimed(ControllerEpoch(7), ZnodeVersion(7), BrokerEpoch(1)), happened)
