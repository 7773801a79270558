"""Does a dry term know the cluster as a leader's does, and write nothing whatever it decides?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from controller.brokers.dialing import PlaintextDialer
from controller.core.clients.refusal import refusal
from controller.core.messages.effects import Answer, Differed, Measured
from controller.core.messages.events import Asked, CallId
from controller.core.messages.replies import ReassignmentsListed
from controller.core.messages.requests import Caller, ListReassignments
from controller.core.settings import MachineSettings
from controller.process.dry_term import DryTerm, DryTermParts
from controller.wire.versions import parse_protocol
from controller.zk.answers import SessionEnded
from controller.zk.read_only import ReadOnlyBridge
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData
from tests.unit.following.test_cluster import path_of, registered
from tests.unit.zk.simulated import Ensemble, Process
from tests.unit.zk.test_state_watch import ORDERS, at, made, state
from zk_layout import catalog
from zk_layout.ids import BrokerId, PartitionId
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))


class Counted:
    """What was measured."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.compared: Counter[str] = Counter()

    def measured(self, figure: Measured) -> None:
        self.names.append(figure.measure)
        if figure.measure == "compared_decisions":
            self.compared[figure.labels[0]] += round(figure.value)


class Observed:
    """A cluster of three brokers with a topic of two partitions on brokers 1 and 2, and a dry term."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self.process = Process(self.ensemble, new_bridge=ReadOnlyBridge)
        self.ensemble.write(
            *map(registered, (1, 2, 3)), *made(ORDERS, 2), MakeNode(at(0), state(1)), MakeNode(at(1), state(2))
        )
        self.answers: list[Answer] = []
        self.differences: list[Differed] = []
        self.counted = Counted()
        self.is_loaded = False
        self.written = self.last_zxid()

    def begin(self) -> None:
        self.living = self.process._loop.start(self._live())
        self.ensemble.until(lambda: self.is_loaded)

    async def _live(self) -> None:
        bridge = self.process.bridge
        assert isinstance(bridge, ReadOnlyBridge)
        self.term = DryTerm(
            DryTermParts(
                bridge,
                MachineSettings(BrokerId(901), is_observing=True),
                parse_protocol("3.9"),
                "PLAINTEXT",
                self.answers.append,
                self.differences.append,
                self.counted,
                (),
                PlaintextDialer(),
            )
        )
        try:
            await self.term.live(lambda: setattr(self, "is_loaded", True))
        except SessionEnded:
            pass
        finally:
            await self.term.end()

    def last_zxid(self) -> int:
        return max(node.mzxid for node in self.ensemble.zookeeper.nodes.values())

    def figure(self, name: str) -> float:
        return self.term.machine.figures()[name]

    def _wait_until(self, at: float) -> None:
        self.ensemble.clock.after(at - self.ensemble.clock.now, lambda: None)
        self.ensemble.until(lambda: self.ensemble.clock.now >= at)

    def until_offline(self, count: int) -> None:
        self.ensemble.until(lambda: self.figure("offline_partitions") == count)

    def wait(self, seconds: float) -> None:
        end = self.ensemble.clock.now + seconds
        while self.ensemble.clock.now < end:
            self._wait_until(min(end, self.ensemble.clock.now + 10))


@pytest.fixture
def observed() -> Iterator[Observed]:
    found = Observed()
    yield found
    found.process.end()


def test_it_knows_what_a_leader_would_know(observed: Observed) -> None:
    observed.begin()
    observed.ensemble.until(lambda: observed.figure("partitions") == 2)
    assert observed.figure("offline_partitions") == 0
    assert observed.figure("live_brokers") == 3


def test_it_writes_nothing_for_whatever_it_would_decide(observed: Observed) -> None:
    """A leader would elect another for partition 0 at once, and shrink the ISR of partition 1."""
    observed.begin()
    observed.ensemble.write(RemoveNode(path_of(1)))
    gone_at = observed.last_zxid()
    observed.ensemble.until(lambda: observed.figure("offline_partitions") == 1)
    assert observed.term.machine.snapshot().in_flight > 0
    observed.wait(100)

    assert observed.last_zxid() == gone_at
    assert observed.figure("offline_partitions") == 1


def test_it_takes_in_what_the_leading_controller_decides(observed: Observed) -> None:
    observed.begin()
    observed.ensemble.write(RemoveNode(path_of(1)))
    observed.ensemble.until(lambda: observed.figure("offline_partitions") == 1)
    observed.ensemble.write(SetData(at(0), state(2)))
    observed.ensemble.until(lambda: observed.figure("offline_partitions") == 0)
    observed.ensemble.write(registered(1))
    observed.ensemble.until(lambda: observed.figure("live_brokers") == 3)


def test_a_decision_that_no_other_shares_does_not_keep_it_from_seeing_the_next_change(observed: Observed) -> None:
    """A native controller may decide otherwise for hours; each change is taken in all the same, at once."""
    observed.begin()
    observed.ensemble.write(RemoveNode(path_of(1)))
    observed.wait(300)
    began = observed.ensemble.clock.now
    for leader in (2, 1, 2):
        observed.ensemble.write(SetData(at(0), state(leader)))
        observed.until_offline(int(leader == 1))

    assert observed.ensemble.clock.now - began < 2


def test_moves_are_listed_as_by_a_leader(observed: Observed) -> None:
    observed.begin()
    moving = Assignment((THREE, ONE, TWO), adding=(THREE,), removing=(TWO,))
    topic = Topic({PartitionId(0): moving, PartitionId(1): Assignment((ONE, TWO))})
    observed.ensemble.write(SetData(TopicAddress(ORDERS).path, catalog.encode(topic)))
    observed.ensemble.until(lambda: observed.figure("moving_partitions") == 1)
    observed.wait(5)
    request = ListReassignments(None)
    observed.term.emit(Asked(CallId(1), request, Caller("HTTP", "")))
    observed.ensemble.until(lambda: observed.answers)

    (answer,) = observed.answers
    assert isinstance(answer.reply, ReassignmentsListed)
    assert type(answer.reply) is type(refusal(request, answer.reply.error))
    (move,) = answer.reply.moves
    assert (move.topic_partition.topic, move.adding, move.removing) == (ORDERS, (THREE,), (TWO,))
    assert move.progress is not None
    assert "reassignments_started" in observed.counted.names
    assert "unclean_elections" not in observed.counted.names


def test_it_ends_with_its_session(observed: Observed) -> None:
    observed.begin()
    observed.ensemble.zookeeper.close_session(observed.process.bridge.session)
    observed.ensemble.until(observed.living.done)


def test_it_ends_when_it_is_to_be_renewed(observed: Observed) -> None:
    observed.begin()
    observed.term.renew()
    observed.ensemble.until(observed.living.done)
