"""Is a claim all or nothing, whenever another process or the network comes between?

What real servers make of it: `tests/conformance/test_zookeeper_adapter_election.py`.
"""

from __future__ import annotations

import pytest

from controller.core.candidacy.events import Claimed
from controller.zk.session import Session
from tests.simulation.zookeeper import SetData
from tests.unit.zk.simulated import EPOCH, Ensemble, Process
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint, Registration

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
