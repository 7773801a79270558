"""Is a claim all or nothing, whenever another process or the network comes between?

What real servers make of it: `tests/conformance/test_zookeeper_adapter_election.py`.
"""

from __future__ import annotations

import pytest

from controller.core.candidacy.events import Claimed, Lost
from controller.zk.session import Session
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData
from tests.unit.zk.simulated import EPOCH, Ensemble, Process
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint, Registration
from zk_layout.znodes.controller import ControllerClaim, encode_claim

OWN_ID = BrokerId(100)
REGISTRATION = Registration((Endpoint("PLAINTEXT", "controller-100", 9092, "PLAINTEXT"),))
MOMENTS_MS = range(40)


def claimed(ensemble: Ensemble, process: Process) -> Claimed:
    session = Session(process.bridge, lambda _: None, OWN_ID)
    outcome = process.do(session.claim(REGISTRATION, replace=True))
    process.end()
    assert isinstance(outcome, Claimed)
    assert ensemble.zookeeper.nodes["/controller"].owner == process.bridge.session
    return outcome


@pytest.mark.parametrize("after_ms", MOMENTS_MS)
def test_no_epoch_is_claimed_twice_whenever_another_claims_one(after_ms: int) -> None:
    ensemble = Ensemble()
    process = Process(ensemble)
    ensemble.write_later(after_ms / 1000, SetData(EPOCH, b"2"))

    outcome = claimed(ensemble, process)

    assert ensemble.epochs == sorted(dict.fromkeys(ensemble.epochs))
    assert outcome.epoch in ensemble.epochs


@pytest.mark.parametrize("after_ms", MOMENTS_MS)
def test_a_claim_is_ours_whenever_the_connection_is_lost_and_fences_by_what_is_there(after_ms: int) -> None:
    ensemble = Ensemble()
    process = Process(ensemble)
    ensemble.clock.after(after_ms / 1000, lambda: process.connection.drop(0.5))

    outcome = claimed(ensemble, process)

    assert ensemble.epochs[-1] == outcome.epoch
    assert ensemble.zookeeper.nodes[EPOCH].version == outcome.fence_version


@pytest.mark.parametrize("after_ms", MOMENTS_MS)
def test_a_fellow_is_never_replaced_however_shortly_before_it_replaced_a_native_controller(after_ms: int) -> None:
    ensemble = Ensemble()
    process = Process(ensemble)
    native = encode_claim(ControllerClaim(BrokerId(1), is_ours=False, timestamp_ms=0))
    fellow = encode_claim(ControllerClaim(BrokerId(101), is_ours=True, timestamp_ms=0))
    ensemble.write(MakeNode("/controller", native))
    taken_over = []

    def take_over() -> None:
        if ensemble.zookeeper.nodes["/controller"].data == native:
            ensemble.write(RemoveNode("/controller"), MakeNode("/controller", fellow), SetData(EPOCH, b"2"))
            ensemble.zookeeper.nodes["/controller"].owner = ensemble.zookeeper.open_session()
            taken_over.append(after_ms)

    ensemble.zookeeper.nodes["/controller"].owner = ensemble.zookeeper.open_session()
    ensemble.clock.after(after_ms / 1000, take_over)
    outcome = process.do(Session(process.bridge, lambda _: None, OWN_ID).claim(REGISTRATION, replace=True))
    ensemble.until(lambda: ensemble.clock.now > 1.0)
    process.end()

    assert isinstance(outcome, Lost if taken_over else Claimed)
