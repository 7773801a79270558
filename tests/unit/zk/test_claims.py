"""Is a claim all or nothing, whenever another process or the network comes between?

What real servers make of it: `tests/conformance/test_zookeeper_adapter_election.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from controller.core.candidacy.events import Claimed, Lost
from controller.zk.session import Session
from tests.simulation.zookeeper import MakeNode, Multi, Operation, RemoveNode, SetData
from tests.unit.zk.simulated import EPOCH, Ensemble, Process
from zk_layout.ids import BrokerId, SessionId
from zk_layout.znodes.brokers import Endpoint, Registration
from zk_layout.znodes.controller import ControllerClaim, encode_claim

OWN_ID = BrokerId(100)
REGISTRATION = Registration((Endpoint("PLAINTEXT", "controller-100", 9092, "PLAINTEXT"),))
MOMENTS_MS = range(0, 300, 8)  # until a claim arrives


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


def just_before_the_next_transaction(ensemble: Ensemble, act: Callable[[], None]) -> None:
    """Act while the transaction is in flight."""
    carry_out = ensemble.zookeeper.multi

    def arrive(session: SessionId, operations: Sequence[Operation]) -> Multi:
        ensemble.zookeeper.multi = carry_out  # type: ignore[method-assign]  # once
        act()
        return carry_out(session, operations)

    ensemble.zookeeper.multi = arrive  # type: ignore[method-assign]  # a moment that no time of the clock hits for sure


def test_a_claim_whose_answer_is_lost_is_ours_only_where_it_raised_the_epoch_itself() -> None:
    ensemble = Ensemble()
    process = Process(ensemble)
    session = Session(process.bridge, lambda _: None, OWN_ID)
    assert isinstance(process.do(session.claim(REGISTRATION, replace=True)), Claimed)

    def raise_epoch() -> None:
        ensemble.write(SetData(EPOCH, b"3"))
        process.connection.drop(0.5)

    just_before_the_next_transaction(ensemble, raise_epoch)
    outcome = process.do(session.claim(REGISTRATION, replace=True))
    process.end()

    assert ensemble.epochs == [1, 2, 3]
    assert outcome == Lost("another process raised the controller epoch to 3 first")


def test_a_claim_that_is_given_up_takes_no_other_with_it() -> None:
    ensemble = Ensemble()
    process = Process(ensemble)
    session = Session(process.bridge, lambda _: None, OWN_ID)
    outcome = process.do(session.claim(REGISTRATION, replace=True))
    assert isinstance(outcome, Claimed)
    fellow = encode_claim(ControllerClaim(BrokerId(101), is_ours=True, timestamp_ms=0))

    def take_over() -> None:
        ensemble.write(RemoveNode("/controller"), MakeNode("/controller", fellow), SetData(EPOCH, b"3"))

    just_before_the_next_transaction(ensemble, take_over)
    was_held = process.do(session.release(outcome.fence_version))
    process.end()

    assert not was_held
    assert ensemble.zookeeper.nodes["/controller"].data == fellow
    assert "/brokers/ids/100" not in ensemble.zookeeper.nodes
