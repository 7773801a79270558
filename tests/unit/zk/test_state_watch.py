"""Is each change of a partition's state seen by a process that does not lead, whatever happens to its connection?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.core.messages.events import Event, Observed
from controller.following.facts import Facts
from controller.zk.state_watch import ABOVE, StateWatch
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData, ZooKeeper
from tests.unit.zk.simulated import Ensemble, Process
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, TopicName
from zk_layout.watched import watched
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ORDERS = TopicName("orders")
OF_ORDERS = (
    StateAddress(ORDERS, PartitionId(0)).path,
    PartitionAddress(ORDERS, PartitionId(0)).path,
    PartitionsAddress(ORDERS).path,
    TopicAddress(ORDERS).path,
)
ONE = Assignment((BrokerId(1), BrokerId(2)))


def made(topic: TopicName, partitions: int) -> list[MakeNode]:
    found = Topic({PartitionId(number): ONE for number in range(partitions)})
    folders = [MakeNode(PartitionAddress(topic, PartitionId(number)).path) for number in range(partitions)]
    return [
        MakeNode(TopicAddress(topic).path, catalog.encode(found)),
        MakeNode(PartitionsAddress(topic).path),
        *folders,
    ]


def state(leader: int) -> bytes:
    return catalog.encode(PartitionState(BrokerId(leader), LeaderEpoch(0), ControllerEpoch(1), (BrokerId(leader),)))


def at(number: int, topic: TopicName = ORDERS) -> str:
    return StateAddress(topic, PartitionId(number)).path


class Observing:
    """A process that folds what it reads, and watches states."""

    def __init__(self, *, is_recursive: bool) -> None:
        self.ensemble = Ensemble()
        self.process = Process(self.ensemble)
        self._is_recursive = is_recursive

    def begin(self) -> None:
        bridge = self.process.bridge
        facts = Facts(bridge, watched())
        self.state = facts.hand_over(self._hear, lambda _: None)
        self.watch = StateWatch(bridge, facts.reader.read, is_recursive=self._is_recursive)
        since = self.process.do(self.watch.prepare())
        self.process.do(facts.load())
        self.process.do(self.watch.begin(since))

    def _hear(self, event: Event) -> None:
        self.state.fold(event)
        if isinstance(event, Observed):
            self.watch.saw(event.facts)

    def until_led_by(self, leader: int) -> None:
        self.ensemble.until(lambda: self.leader(0) == leader)

    def leader(self, number: int, topic: TopicName = ORDERS) -> int | None:
        view = self.state.topics.views.get(topic)
        held = None if view is None else view.partitions[PartitionId(number)].state
        return None if held is None else held.leader


@pytest.fixture(params=[False, True], ids=["one-shot", "recursive"])
def observing(request: pytest.FixtureRequest) -> Iterator[Observing]:
    made = Observing(is_recursive=request.param)
    yield made
    made.process.end()


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("after_ms", range(0, 300, 25))
def test_a_change_is_seen_whenever_it_comes(observing: Observing, after_ms: int, is_cut: bool) -> None:
    """While the cluster is read, while the watches are set, and later; also if the connection is lost then."""
    observing.ensemble.write(*made(ORDERS, 2), MakeNode(at(0), state(1)), MakeNode(at(1), state(1)))
    observing.ensemble.write_later(after_ms / 1000, SetData(at(1), state(2)))
    if is_cut:
        observing.ensemble.clock.after(after_ms / 1000, lambda: observing.process.connection.drop(0.2))
    observing.begin()

    observing.ensemble.until(lambda: observing.leader(1) == 2)
    assert observing.leader(0) == 1


def test_one_change_after_another_is_seen(observing: Observing) -> None:
    observing.ensemble.write(*made(ORDERS, 1), MakeNode(at(0), state(1)))
    observing.begin()
    for leader in (2, 1, 2):
        observing.ensemble.write(SetData(at(0), state(leader)))
        observing.until_led_by(leader)


def test_a_state_that_is_missing_is_seen_when_it_is_created(observing: Observing) -> None:
    """A new topic has no states until the controller has chosen leaders."""
    observing.begin()
    observing.ensemble.write(*made(ORDERS, 2))
    observing.ensemble.until(lambda: ORDERS in observing.state.topics.views)
    assert observing.leader(0) is None
    observing.ensemble.write_later(0.5, MakeNode(at(0), state(1)))
    observing.ensemble.write_later(0.9, MakeNode(at(1), state(2)))
    observing.ensemble.until(lambda: (observing.leader(0), observing.leader(1)) == (1, 2))
    observing.ensemble.write(SetData(at(0), state(2)))
    observing.ensemble.until(lambda: observing.leader(0) == 2)


def test_states_of_a_topic_that_is_gone_are_watched_no_longer(observing: Observing) -> None:
    observing.ensemble.write(*made(ORDERS, 1), MakeNode(at(0), state(1)))
    observing.begin()
    assert observing.watch.count == 1
    observing.ensemble.write(*map(RemoveNode, OF_ORDERS))
    observing.ensemble.until(lambda: ORDERS not in observing.state.topics.views)
    end = observing.ensemble.clock.now + 3
    observing.ensemble.clock.after(3, lambda: None)
    observing.ensemble.until(lambda: observing.ensemble.clock.now >= end)

    assert observing.watch.count == 0
    assert not observing.process.bridge._watches.existence & {at(0)}


def test_a_topic_that_is_created_again_is_watched_again(observing: Observing) -> None:
    observing.ensemble.write(*made(ORDERS, 1), MakeNode(at(0), state(1)))
    observing.begin()
    observing.ensemble.write(*map(RemoveNode, OF_ORDERS))
    observing.ensemble.write(*made(ORDERS, 1), MakeNode(at(0), state(2)))
    observing.ensemble.until(lambda: observing.leader(0) == 2)
    observing.ensemble.write(SetData(at(0), state(1)))
    observing.ensemble.until(lambda: observing.leader(0) == 1)


def test_a_stopped_watch_has_nothing_read(observing: Observing) -> None:
    observing.ensemble.write(*made(ORDERS, 1), MakeNode(at(0), state(1)))
    observing.begin()
    observing.watch.stop()
    observing.ensemble.write(SetData(at(0), state(2)))
    end = observing.ensemble.clock.now + 3
    observing.ensemble.clock.after(3, lambda: None)
    observing.ensemble.until(lambda: observing.ensemble.clock.now >= end)

    assert observing.leader(0) == 1


def test_a_recursive_watch_is_one_watch_and_is_gone_when_it_is_stopped() -> None:
    observing = Observing(is_recursive=True)
    zookeeper = observing.ensemble.zookeeper
    observing.ensemble.write(*made(ORDERS, 2), MakeNode(at(0), state(1)), MakeNode(at(1), state(1)))
    observing.begin()
    observing.ensemble.write(SetData(at(0), state(2)))
    observing.until_led_by(2)

    assert observing.watch.is_recursive
    assert watched_states(zookeeper) == set()
    assert [path for path, sessions in zookeeper.watches.below.items() if sessions] == [ABOVE]
    observing.watch.stop()
    observing.process.do(observing.process.bridge.exists("/"))
    assert not any(zookeeper.watches.below.values())
    observing.process.end()


@pytest.mark.parametrize("hangs_up", [False, True])
def test_where_the_server_does_not_know_recursive_watches_each_state_has_one(hangs_up: bool) -> None:
    """Some say so, others hang up."""
    observing = Observing(is_recursive=True)
    zookeeper = observing.ensemble.zookeeper
    zookeeper.knows_recursive_watches, zookeeper.hangs_up_on_unknown = False, hangs_up
    observing.ensemble.write(*made(ORDERS, 2), MakeNode(at(0), state(1)), MakeNode(at(1), state(1)))
    observing.begin()
    observing.ensemble.write(SetData(at(0), state(2)))
    observing.until_led_by(2)
    observing.process.do(observing.process.bridge.exists("/"))

    assert not observing.watch.is_recursive
    assert watched_states(zookeeper) == {at(0), at(1)}
    observing.process.end()


@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize("after_ms", range(0, 300, 25))
def test_a_change_is_seen_whatever_the_next_server_knows(after_ms: int, knows: bool) -> None:
    observing = Observing(is_recursive=True)
    zookeeper = observing.ensemble.zookeeper
    zookeeper.knows_recursive_watches = not knows
    observing.ensemble.write(*made(ORDERS, 2), MakeNode(at(0), state(1)), MakeNode(at(1), state(1)))
    observing.begin()

    def move() -> None:
        zookeeper.knows_recursive_watches = knows
        observing.process.connection.drop(0.2)

    observing.ensemble.clock.after(0.1, move)
    observing.ensemble.write_later(after_ms / 1000, SetData(at(1), state(2)))
    observing.ensemble.until(lambda: observing.leader(1) == 2)
    observing.ensemble.write_later(1, SetData(at(0), state(2)))
    observing.ensemble.until(lambda: observing.leader(0) == 2)
    observing.process.end()


def watched_states(zookeeper: ZooKeeper) -> set[str]:
    """The states with a watch of their own in ZooKeeper."""
    return {path for path, sessions in zookeeper.watches.data.items() if sessions and path.endswith("/state")}
