"""Does a simulated process behave towards ZooKeeper as the daemon does?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from controller.core.machine import Machine
from controller.core.messages.effects import Commit, Create, Delete, Effect, Set, operation
from controller.core.messages.events import CommitId, Conflicted, Event
from controller.core.state.cluster import ClusterState
from controller.zk.writer import Writer
from tests.simulation.broken import Broken
from tests.simulation.world import World
from tests.simulation.zookeeper import MakeNode, Multi, Operation, RemoveNode
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, SessionId, ZnodeVersion, Zxid
from zk_layout.znodes.admin import LegacyReassignment, LegacyReassignmentAddress
from zk_layout.znodes.brokers import BrokerAddress

TOO_LARGE = b" " * 0x100000


class Wasteful:
    """A machine that writes a megabyte too much."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._queue, self._transactions = machine._queue, machine._transactions

    def turn(self, events: Sequence[Event], now: float) -> list[Effect]:
        return [wasted(e) if isinstance(e, Commit) else e for e in self._machine.turn(events, now)]

    def let_go(self) -> bool:
        return self._machine.let_go()


def wasted(commit: Commit) -> Commit:
    first, *others = commit.operations
    return msgspec.structs.replace(
        commit, operations=(msgspec.structs.replace(first, data=first.data + TOO_LARGE), *others)
    )


@pytest.fixture
def wasteful(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[[World, BrokerId, ControllerEpoch, ClusterState], Machine] = World.new_machine
    monkeypatch.setattr(World, "new_machine", lambda *about: Wasteful(right(*about)))


def test_a_transaction_is_not_taken_for_an_earlier_one_about_the_same_znodes_that_was_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, address = World(0), LegacyReassignmentAddress()
    controller = next(iter(world.controllers.values()))
    refused, accepted = (Commit(CommitId(n), (operation(Delete(address, ZnodeVersion(0))),), ()) for n in (1, 2))
    conflict, happened = Conflicted(refused.commit, address, "version 1"), list[CommitId]()
    took: Any = None
    monkeypatch.setattr(world.checker, "committed", lambda _, commit: happened.append(commit.commit))

    controller.observer.turned(0.0, (), [refused], took, 0)
    controller.observer.turned(1.0, (conflict,), [accepted], took, 0)
    controller._transacted(controller._term_session, [RemoveNode(address.path)], Multi(Zxid(9), (None,), ()))

    assert happened == [accepted.commit]


def test_a_znode_that_is_created_is_not_taken_for_the_one_that_was_to_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    world, address = World(0), LegacyReassignmentAddress()
    controller, nothing = next(iter(world.controllers.values())), LegacyReassignment(())
    lost = Commit(CommitId(1), (operation(Set(address, nothing, ZnodeVersion(0))),), ())
    made, happened = Commit(CommitId(2), (operation(Create(address, nothing)),), ()), list[CommitId]()
    took: Any = None
    monkeypatch.setattr(world.checker, "committed", lambda _, commit: happened.append(commit.commit))

    controller.observer.turned(0.0, (), [lost, made], took, 0)
    arrived = MakeNode(address.path, made.operations[0].data)
    controller._transacted(controller._term_session, [arrived], Multi(Zxid(9), (None,), ()))

    assert happened == [made.commit]


@pytest.mark.usefixtures("wasteful")
def test_a_transaction_that_is_too_large_is_not_sent() -> None:
    world = World(3)

    with pytest.raises(Broken) as broken:  # nothing is ever written
        world.run()

    assert any("not sent: " in line for line in world.trace.lines)
    assert "sent ZooKeeper a request of" not in str(broken.value)


@pytest.mark.usefixtures("wasteful")
def test_one_that_is_sent_nevertheless_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Writer.__init__

    def careless(writer: Writer, *args: object, fence_version: ZnodeVersion, **_: object) -> None:
        right(writer, *args, fence_version=fence_version, max_request_bytes=2**31)  # type: ignore[arg-type]

    monkeypatch.setattr(Writer, "__init__", careless)

    with pytest.raises(Broken, match="sent ZooKeeper a request of"):
        World(3).run()


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_a_replica_that_never_claims_writes_nothing_and_follows_the_cluster_whatever_happens(seed: int) -> None:
    world = World(seed, plan=msgspec.structs.replace(World(seed).plan, observers=1))
    observer = list(world.controllers.values())[-1]
    sessions, writers = set[SessionId](), set[SessionId]()
    right = world.zookeeper._on_write

    def wrote(session: SessionId, operation: Operation, zxid: Zxid) -> None:
        sessions.add(observer.session)
        writers.add(session)
        right(session, operation, zxid)

    world.zookeeper._on_write = wrote
    world.run()

    assert sessions - {0}
    assert sessions & writers <= {0}
    assert observer._process is not None
    registered = {a.broker for a in map(catalog.address_of, world.zookeeper.nodes) if isinstance(a, BrokerAddress)}
    assert registered == set(observer._process.cluster.state.brokers)
    assert len(registered) > 1
    assert observer.epoch == 0
