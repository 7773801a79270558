"""Does a process that observes count where the controller that leads decides otherwise, and nothing else?

Logs of ZooKeeper under Kafka's own controllers are played again; mistakes are then planted in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from controller.core.comparing.duty import Comparison
from controller.core.comparing.judging import DIFFERENCES, Outcome
from tests.equipment.native_log import Played, Written, transactions
from tests.simulation.zookeeper import MakeNode, Operation, RemoveNode, SetData
from tests.unit.following.test_cluster import path_of
from tests.unit.process.test_dry_term import Observed
from tests.unit.zk.test_state_watch import OF_ORDERS, ORDERS, at
from zk_layout import catalog
from zk_layout.ids import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch, PartitionId
from zk_layout.storage.operations import Row
from zk_layout.znodes import partition_state
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

FIXTURES = Path(__file__).parents[2] / "fixtures"
ONE, TWO, THREE = map(BrokerId, (1, 2, 3))
DELETED = tuple(map(RemoveNode, (at(1), at(1).removesuffix("/state"), *OF_ORDERS)))
TO_3 = Assignment((THREE, TWO, ONE), adding=(THREE,), removing=(ONE,))


def written(leader: int, isr: tuple[int, ...], leader_epoch: int) -> bytes:
    epochs = LeaderEpoch(leader_epoch), ControllerEpoch(1)
    return catalog.encode(PartitionState(BrokerId(leader), *epochs, tuple(map(BrokerId, isr))))


def assigned(first: Assignment) -> Operation:
    topic = Topic({PartitionId(0): first, PartitionId(1): Assignment((ONE, TWO))})
    return SetData(TopicAddress(ORDERS).path, catalog.encode(topic))


class Compared(Observed):
    """A cluster whose controller is this test; both partitions are in sync on 1 and 2, and led by 1 and 2."""

    def begin(self) -> None:
        self.ensemble.network.delay = lambda: 0.0005  # type: ignore[method-assign]
        self.write(SetData(at(0), written(1, (1, 2), 0)), SetData(at(1), written(2, (1, 2), 0)))
        super().begin()
        self.wait(1)

    def write(self, *operations: Operation) -> None:
        self.ensemble.write(*operations)

    def outcomes(self, after_s: float = 100.0) -> dict[str, int]:
        """What came of comparing, without what is explained as this controller's own new epochs."""
        self.wait(after_s)
        return {outcome: n for outcome, n in self.counted.compared.items() if outcome != Outcome.NEW_EPOCH}

    def texts(self) -> list[str]:
        return [f"{difference.outcome}: {difference.text}" for difference in self.differences]


@pytest.fixture
def compared() -> Iterator[Compared]:
    found = Compared()
    found.begin()
    yield found
    found.process.end()


def test_the_same_decisions_are_counted_as_such(compared: Compared) -> None:
    compared.write(RemoveNode(path_of(1)))
    compared.wait(0.1)
    compared.write(SetData(at(0), written(2, (2,), 1)))
    compared.write(SetData(at(1), written(2, (2,), 1)))
    assert compared.outcomes() == {Outcome.SAME: 2}
    assert compared.texts() == []


def test_a_decision_that_comes_before_its_cause_is_read_is_compared(compared: Compared) -> None:
    """The broker's death and the election are read in one turn."""
    compared.write(RemoveNode(path_of(1)), SetData(at(0), written(2, (2,), 1)), SetData(at(1), written(2, (2,), 1)))
    assert compared.outcomes() == {Outcome.SAME: 2}


def test_a_cause_that_is_read_seconds_after_its_effect_explains_it(compared: Compared) -> None:
    compared.write(SetData(at(0), written(2, (1, 2), 1)))
    compared.wait(5)
    compared.write(RemoveNode(path_of(1)))
    compared.wait(0.1)
    compared.write(SetData(at(0), written(2, (2,), 2)), SetData(at(1), written(2, (2,), 1)))
    assert compared.outcomes() == {Outcome.STEP: 1, Outcome.SAME: 2}


def test_other_decisions_are_differences_with_a_sentence_each(compared: Compared) -> None:
    three = Topic(dict.fromkeys(map(PartitionId, (0, 1)), Assignment((ONE, TWO, THREE))))
    compared.write(SetData(TopicAddress(ORDERS).path, catalog.encode(three)))
    compared.write(SetData(at(0), written(1, (1, 2, 3), 0)), SetData(at(1), written(2, (1, 2, 3), 0)))
    compared.wait(1)
    compared.write(RemoveNode(path_of(1)))
    compared.wait(0.1)
    compared.write(SetData(at(0), written(3, (2, 3), 1)), SetData(at(1), written(2, (2,), 1)))
    assert compared.outcomes() == {Outcome.ASKED: 2, Outcome.LEADER: 1, Outcome.ISR: 1}
    first, second = compared.texts()
    assert first == (
        "other leader: orders-0: the controller that leads wrote leader 3, ISR [2, 3], after leader 1, ISR [1, 2, 3]; "
        "this one would have written leader 2, ISR [2, 3]: "
        "leader 1 of orders-0 is offline; 2 is the first online in-sync replica"
    )
    assert second.startswith("other ISR: orders-1: ")


def test_what_the_other_does_not_do_in_time_is_a_difference_told_once(compared: Compared) -> None:
    """The observer proposes it again and again."""
    compared.write(RemoveNode(path_of(1)))
    compared.wait(0.1)
    compared.write(SetData(at(1), written(2, (2,), 1)))
    assert compared.outcomes(300.0) == {Outcome.SAME: 1, Outcome.NOT_THERE: 1}
    assert compared.texts() == [
        "not done there: leader 1 of orders-0 is offline; 2 is the first online in-sync replica: "
        "this one would have, and the controller that leads has not for 20 s"
    ]
    compared.write(SetData(at(0), written(2, (2,), 1)))
    assert compared.outcomes() == {Outcome.SAME: 2, Outcome.NOT_THERE: 1}


def test_what_is_not_wanted_any_more_is_not_missed(compared: Compared) -> None:
    """The topic of a leader that has died is deleted before another is elected."""
    compared.write(RemoveNode(path_of(1)))
    compared.wait(3)
    compared.write(*DELETED)
    assert compared.outcomes() == {Outcome.ASKED: 1}


def test_a_decision_without_a_cause_is_a_difference(compared: Compared) -> None:
    compared.write(SetData(at(0), written(2, (1, 2), 1)))
    assert compared.outcomes() == {Outcome.NOT_HERE: 1}
    assert compared.texts()[0].endswith("this one would have left it as it was")


def test_a_leader_that_changes_its_isr_is_no_decision_of_a_controller(compared: Compared) -> None:
    compared.write(SetData(at(0), written(1, (1,), 0)))
    compared.wait(1)
    compared.write(SetData(at(0), written(1, (1, 2), 0)))
    assert compared.outcomes() == {}


def test_a_move_of_kafkas_many_steps_is_the_same(compared: Compared) -> None:
    """The leader hears of the replicas, two writes hand over, one ends the move: here the hand-over is one write."""
    for operation in (
        assigned(TO_3),
        SetData(at(0), written(1, (1, 2), 1)),
        SetData(at(0), written(1, (1, 2, 3), 1)),
        SetData(at(0), written(3, (1, 2, 3), 2)),
        SetData(at(0), written(3, (2, 3), 3)),
        assigned(Assignment((THREE, TWO))),
    ):
        compared.write(operation)
        compared.wait(1)
    outcomes = compared.outcomes()
    assert not DIFFERENCES & outcomes.keys(), compared.texts()
    assert (outcomes[Outcome.ASKED], outcomes[Outcome.STEP]) == (1, 1)
    assert outcomes[Outcome.SAME] >= 2


def test_a_move_that_ends_too_early_is_a_difference(compared: Compared) -> None:
    compared.write(assigned(TO_3), SetData(at(0), written(1, (1, 2), 1)))
    compared.wait(1)
    compared.write(assigned(Assignment((THREE, TWO))))
    assert compared.outcomes()[Outcome.NOT_HERE] == 1
    expected = "orders-0: the controller that leads ended the move; this one would not have yet"
    assert f"not decided here: {expected}" in compared.texts()


def test_a_move_that_never_ends_is_a_difference(compared: Compared) -> None:
    compared.write(assigned(TO_3), SetData(at(0), written(1, (1, 2), 1)))
    compared.wait(1)
    compared.write(SetData(at(0), written(1, (1, 2, 3), 1)))
    compared.wait(1)
    compared.write(SetData(at(0), written(3, (3, 2), 2)))
    assert compared.outcomes()[Outcome.NOT_THERE] == 1
    assert compared.texts() == [
        "not done there: orders-0 has moved to [3, 2]: this one would have, "
        "and the controller that leads has not for 20 s"
    ]


def test_a_deletion_is_the_same_or_not_done(compared: Compared) -> None:
    compared.write(MakeNode(TopicDeletionAddress(ORDERS).path))
    assert compared.outcomes() == {Outcome.NOT_THERE: 1}
    assert compared.texts()[0].startswith("not done there: delete topic orders: ")
    compared.write(*DELETED, RemoveNode(TopicDeletionAddress(ORDERS).path))
    assert compared.outcomes() == {Outcome.NOT_THERE: 1, Outcome.SAME: 1}


def test_an_error_in_comparing_is_counted_and_ends_nothing(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise ArithmeticError("a bug")

    monkeypatch.setattr(Comparison, "_compare", wrong)
    compared.write(RemoveNode(path_of(1)))
    compared.wait(0.1)
    compared.write(SetData(at(0), written(2, (2,), 1)))
    compared.wait(1)
    assert compared.figure("offline_partitions") == 0
    assert "contained_errors" in compared.counted.names
    monkeypatch.undo()
    compared.write(SetData(at(1), written(2, (2,), 1)))
    compared.wait(1)
    assert compared.counted.compared[Outcome.SAME] == 1


# ---- logs of Kafka's own controllers ------------------------------------------------------------------------------


class Log(NamedTuple):
    """A log of real work."""

    files: tuple[Path, ...]
    chroot: str
    same: int


def of_brokers(version: str, chroot: str = "") -> Log:
    return Log(tuple(sorted((FIXTURES / "native" / f"kafka-{version}").glob("log.*"))), chroot, 50)


OF_2_4, OF_2_8, OF_3_9 = of_brokers("2.4.1"), of_brokers("2.8.2", "/kafka"), of_brokers("3.9.1")
OF_MOVES = Log((FIXTURES / "storage" / "kafka-3.9.1-controller-2000-moves.log.1.gz",), "", 4_000)
Change = Callable[[Written], Written]


def unchanged(written: Written) -> Written:
    return written


def play(compared: Compared, log: Log, change: Change = unchanged) -> dict[str, int]:
    """Play a log at its own pace, and return what came of comparing."""
    clock, begun = compared.ensemble.clock, None
    played = Played(compared.ensemble.zookeeper, log.chroot)
    for one in transactions(*log.files, chroot=log.chroot):
        if begun is None:
            begun = one.at_s - clock.now
        while (next_at := clock.next_at()) is not None and next_at <= one.at_s - begun:
            clock.step()
        clock.now = max(clock.now, one.at_s - begun)
        played.write(change(one))
    return compared.outcomes()


@pytest.fixture
def empty() -> Iterator[Compared]:
    """A cluster that does not exist yet."""
    found = Compared()
    nodes = found.ensemble.zookeeper.nodes
    for path in sorted((p for p in nodes if p.startswith(("/brokers/topics/", "/brokers/ids/"))), reverse=True):
        found.write(RemoveNode(path))
    found.ensemble.network.delay = lambda: 0.0005  # type: ignore[method-assign]
    Observed.begin(found)
    yield found
    found.process.end()


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(OF_2_4, id="2.4.1"),
        pytest.param(OF_2_8, id="2.8.2"),
        pytest.param(OF_3_9, id="3.9.1"),
        pytest.param(OF_MOVES, id="2,000 moves", marks=pytest.mark.thorough),
    ],
)
def test_kafkas_own_controllers_decide_as_this_one_would(empty: Compared, log: Log) -> None:
    outcomes = play(empty, log)
    assert not DIFFERENCES & outcomes.keys(), empty.texts()
    assert outcomes[Outcome.SAME] >= log.same, outcomes


def test_the_page_has_the_result_of_each_log_and_no_difference() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d\.\d\.\d): [^|]+ \| ([\d,]+) \|.*\| (\d+) \|$", page, re.MULTILINE)

    assert [(version, differences) for version, _, differences in rows] == [
        ("2.4.1", "0"), ("2.8.2", "0"), ("3.9.1", "0"), ("3.9.1", "0")
    ]  # fmt: skip
    assert all(
        int(same.replace(",", "")) >= log.same
        for (_, same, _), log in zip(rows, (OF_2_4, OF_2_8, OF_3_9, OF_MOVES), strict=True)
    )


class Planted:
    """Changes what a controller decided about states; `spoilt` is how often."""

    def __init__(self, spoil: Callable[[PartitionState, PartitionState], PartitionState | None]) -> None:
        """`spoil` gets a state and the one that a controller wrote over it; None leaves it as it is."""
        self._spoil = spoil
        self._states: dict[str, PartitionState] = {}
        self.spoilt = 0

    def __call__(self, written: Written) -> Written:
        return Written(written.at_s, tuple(map(self._row, written.rows)))

    def _row(self, row: Row) -> Row:
        path, data = row[7], row[8]
        if not path.endswith("/state") or not data:
            return row
        now = partition_state.decode(data)
        before, self._states[path] = self._states.get(path), now
        if before is None or now.leader_epoch <= before.leader_epoch:
            return row
        if (spoilt := self._spoil(before, now)) is None:
            return row
        self.spoilt += 1
        return (*row[:8], catalog.encode(spoilt), *row[9:])


def other_leader(before: PartitionState, now: PartitionState) -> PartitionState | None:
    """Another member of the ISR leads than the one that was elected for a leader that has gone."""
    others = [r for r in now.isr if r != now.leader]
    is_election = now.leader not in (before.leader, NO_LEADER) and before.leader not in now.isr
    return replace(now, leader=others[0]) if is_election and others else None


def whole_isr(before: PartitionState, now: PartitionState) -> PartitionState | None:
    """The dead stay in the ISR: nothing is written."""
    return before if now.leader == before.leader and len(now.isr) < len(before.isr) else None


def test_a_controller_that_elects_the_wrong_replica_is_noticed(empty: Compared) -> None:
    planted = Planted(other_leader)
    outcomes = play(empty, OF_3_9, planted)
    assert 0 < outcomes[Outcome.LEADER] <= planted.spoilt, (planted.spoilt, outcomes)


def test_a_controller_that_leaves_the_dead_in_the_isr_is_noticed(empty: Compared) -> None:
    planted = Planted(whole_isr)
    outcomes = play(empty, OF_3_9, planted)
    assert planted.spoilt > 0
    assert outcomes[Outcome.NOT_THERE] > 0, (planted.spoilt, outcomes)
