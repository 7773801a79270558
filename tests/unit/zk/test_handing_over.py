"""Does a leader that stops name a standby, and does it wait for exactly as long as it should?

What a real ensemble makes of it: `tests/cluster/test_switchover.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.candidacy.events import Claimed, HolderSeen
from controller.zk import protocol
from controller.zk.answers import SessionEnded
from controller.zk.handing_over import hand_over, withdraw
from controller.zk.session import Session
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData
from tests.unit.zk.simulated import EPOCH, Ensemble, Process
from zk_layout import catalog
from zk_layout.ids import BrokerId
from zk_layout.znodes import replicas
from zk_layout.znodes.brokers import Endpoint, Registration
from zk_layout.znodes.replicas import Replica, ReplicaAddress
from zk_layout.znodes.switchover import Switchover, SwitchoverAddress

OWN_ID, OTHER = BrokerId(901), BrokerId(902)
SWITCHOVER = SwitchoverAddress()
STANDBY = Replica("standby", True, 0)


@pytest.mark.parametrize("is_by_the_holder", [True, False])
def test_a_standby_tells_the_wish_of_a_leader_that_stops_from_an_operators(is_by_the_holder: bool) -> None:
    ensemble = Ensemble()
    standby, other = Process(ensemble), Process(ensemble)
    ensemble.zookeeper.make_path("/kafka_zk_controller")
    saw: list[Any] = []
    session = Session(standby.bridge, saw.append, OTHER)

    async def start() -> None:
        session.start()

    standby.do(start())
    claim = protocol.Create("/controller", b"{}", ephemeral=True)
    asked = protocol.Create(SWITCHOVER.path, catalog.encode(Switchover(OTHER, "whoever", 0)), ephemeral=True)
    other.do(other.bridge.ask(claim))
    asking = other if is_by_the_holder else Process(ensemble)
    asking.do(asking.bridge.ask(asked))

    ensemble.until(lambda: saw and isinstance(saw[-1], HolderSeen) and (saw[-1].is_wanted or saw[-1].is_named))
    assert (saw[-1].is_named, saw[-1].is_wanted) == (is_by_the_holder, not is_by_the_holder)
    for process in {standby, other, asking}:
        process.end()


class Stop:
    """A leader that stops, and what it has named."""

    def __init__(self, **others: Replica) -> None:
        self.ensemble = Ensemble()
        self.process = Process(self.ensemble)
        self.named: list[BrokerId] = []
        registration = Registration((Endpoint("PLAINTEXT", "controller-901", 9092, "PLAINTEXT"),))
        claim = Session(self.process.bridge, lambda _: None, OWN_ID).claim(registration, replace=False)
        outcome = self.process.do(claim)
        assert isinstance(outcome, Claimed)
        self.claimed = outcome
        self.ensemble.zookeeper.make_path(replicas.ROOT)
        for name, replica in {"901": Replica("resigning", False, 0), **{n[1:]: r for n, r in others.items()}}.items():
            self.ensemble.write(MakeNode(ReplicaAddress(BrokerId(int(name))).path, replicas.encode(replica)))

    def is_replaced_by(self) -> BrokerId | None:
        """Hand over to the end."""
        return self.process.do(hand_over(self.process.bridge, OWN_ID, self.claimed.fence_version, self.named.append))

    def replace_after(self, after_s: float) -> None:
        """Another replica takes over."""
        self.ensemble.write_later(
            after_s, RemoveNode("/controller"), MakeNode("/controller", b"another"), SetData(EPOCH, b"9")
        )

    def asked(self) -> Switchover | None:
        """What the znode says."""
        node = self.ensemble.zookeeper.nodes.get(SWITCHOVER.path)
        value = None if node is None else catalog.decode(SWITCHOVER, node.data)
        assert value is None or isinstance(value, Switchover)
        return value


def test_the_lowest_standby_that_is_ready_is_named_and_waited_for() -> None:
    stop = Stop(r903=STANDBY, r902=STANDBY, r900=Replica("standby", False, 0), r899=Replica("contending", True, 0))
    stop.replace_after(0.4)

    assert stop.is_replaced_by() == OTHER
    assert stop.named == [OTHER]
    asked = stop.asked()
    assert asked is not None
    assert asked.to == OTHER
    assert stop.ensemble.clock.now >= 0.4
    assert stop.ensemble.zookeeper.nodes[SWITCHOVER.path].owner == stop.process.bridge.session


@pytest.mark.parametrize("others", [{}, {"r902": Replica("standby", False, 0)}, {"r902": Replica("active", True, 0)}])
def test_nobody_is_named_and_nothing_waited_for_where_nobody_stands_by(others: dict[str, Replica]) -> None:
    stop = Stop(**others)

    assert stop.is_replaced_by() is None
    assert (stop.named, stop.asked()) == ([], None)
    assert "/controller" in stop.ensemble.zookeeper.nodes


def test_a_replica_that_cannot_be_read_is_not_named() -> None:
    stop = Stop(r902=STANDBY, r903=STANDBY)
    stop.ensemble.write(SetData(ReplicaAddress(OTHER).path, b"{"))
    stop.replace_after(0.4)

    assert stop.is_replaced_by() == 903


def test_a_leader_that_was_replaced_meanwhile_names_nobody() -> None:
    stop = Stop(r902=STANDBY)
    stop.ensemble.write(RemoveNode("/controller"), SetData(EPOCH, b"9"))

    assert stop.is_replaced_by() is None
    assert stop.asked() is None


def test_the_request_of_an_operator_stays_as_it_is() -> None:
    stop = Stop(r902=STANDBY, r903=STANDBY)
    stop.ensemble.write(MakeNode(SWITCHOVER.path, catalog.encode(Switchover(BrokerId(903), "ann", 0))))

    assert stop.is_replaced_by() is None
    stop.process.do(withdraw(stop.process.bridge))

    asked = stop.asked()
    assert asked is not None
    assert asked.by == "ann"


def test_what_was_asked_of_a_standby_that_does_not_come_is_withdrawn() -> None:
    stop = Stop(r902=STANDBY)
    waiting = stop.process._loop.start(
        hand_over(stop.process.bridge, OWN_ID, stop.claimed.fence_version, stop.named.append)
    )
    stop.ensemble.until(stop.asked)
    end = stop.ensemble.clock.now + 5
    stop.ensemble.clock.after(5.0, lambda: None)
    stop.ensemble.until(lambda: stop.ensemble.clock.now >= end)
    assert not waiting.done()
    waiting.cancel()

    stop.process.do(withdraw(stop.process.bridge))

    assert stop.asked() is None
    assert stop.process.bridge.watch_listeners == []


def test_a_session_that_ends_meanwhile_ends_the_wait() -> None:
    stop = Stop(r902=STANDBY)
    session = stop.process.bridge.session
    stop.ensemble.clock.after(0.3, lambda: stop.ensemble.zookeeper.close_session(session))

    with pytest.raises(SessionEnded):
        stop.is_replaced_by()
