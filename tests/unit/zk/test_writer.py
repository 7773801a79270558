"""Is a decision written as a whole, only until another controller rules, and is a refused write named?

What real servers make of it: `tests/conformance/test_zookeeper_adapter_writing.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.core.messages.effects import Commit, Create, Delete, Set, Write, operation
from controller.core.messages.events import CommitId, Committed, Conflicted, Event, Fenced, Observed
from controller.zk.reader import Reader
from controller.zk.writer import Writer
from tests.simulation.zookeeper import MakeNode, SetData
from tests.unit.zk.simulated import EPOCH, Ensemble, Process
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.notifications import IsrChangeAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ORDERS = TopicAddress(TopicName("orders"))
NEW_TOPIC = Create(ORDERS, Topic({PartitionId(0): Assignment((BrokerId(1),))}))
STATE = StateAddress(ORDERS.topic, PartitionId(0))
MISSING = Set(STATE, PartitionState(BrokerId(1), LeaderEpoch(0), ControllerEpoch(1), (BrokerId(1),)), ZnodeVersion(0))
FENCE = ZnodeVersion(0)


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble()


@pytest.fixture
def process(ensemble: Ensemble) -> Iterator[Process]:
    process = Process(ensemble)
    yield process
    process.end()


def commit(*writes: Write) -> Commit:
    return Commit(CommitId(1), tuple(map(operation, writes)), ("a decision",))


def test_what_is_accepted_is_there_at_the_zxid_reported(ensemble: Ensemble, process: Process) -> None:
    outcomes: list[Event] = []

    Writer(process.bridge, outcomes.append, fence_version=FENCE).submit(commit(NEW_TOPIC))
    ensemble.until(lambda: outcomes)

    assert outcomes == [Committed(CommitId(1), Zxid(ensemble.zookeeper.nodes[ORDERS.path].czxid))]


def test_nothing_is_written_any_more_once_another_has_raised_the_epoch(ensemble: Ensemble, process: Process) -> None:
    outcomes: list[Event] = []
    ensemble.write(SetData(EPOCH, b"2"))

    Writer(process.bridge, outcomes.append, fence_version=FENCE).submit(commit(NEW_TOPIC))
    ensemble.until(lambda: outcomes)

    assert outcomes == [Fenced(CommitId(1))]
    assert ORDERS.path not in ensemble.zookeeper.nodes


def test_the_write_that_was_refused_is_named_and_none_is_carried_out(ensemble: Ensemble, process: Process) -> None:
    outcomes: list[Event] = []

    Writer(process.bridge, outcomes.append, fence_version=FENCE).submit(commit(NEW_TOPIC, MISSING))
    ensemble.until(lambda: outcomes)

    assert [o.address for o in outcomes if isinstance(o, Conflicted)] == [STATE]
    assert ORDERS.path not in ensemble.zookeeper.nodes


def test_what_is_too_large_is_not_sent(ensemble: Ensemble, process: Process) -> None:
    outcomes: list[Event] = []
    writer = Writer(process.bridge, outcomes.append, fence_version=FENCE, max_request_bytes=200)

    writer.submit(commit(NEW_TOPIC))
    ensemble.until(lambda: outcomes)

    assert [o.reason.partition(":")[0] for o in outcomes if isinstance(o, Conflicted)] == ["not sent"]
    assert ORDERS.path not in ensemble.zookeeper.nodes


def test_what_is_deleted_and_written_again_under_its_name_is_read_again(ensemble: Ensemble, process: Process) -> None:
    """While the connection is lost: the list of names is the same before and after."""
    events: list[Event] = []
    address = IsrChangeAddress("isr_change_0000000001")
    ensemble.write(MakeNode(address.path, b"{}"))
    reader = Reader(process.bridge, events.append)
    process.do(reader.load())
    writer = Writer(process.bridge, events.append, fence_version=FENCE, deleted=reader.forget)

    def seen_at() -> list[int]:
        facts = [fact for event in events if isinstance(event, Observed) for fact in event.facts]
        return [fact.as_of for fact in facts if fact.address == address and fact.is_present]

    writer.submit(commit(Delete(address, ZnodeVersion(0))))
    ensemble.until(lambda: any(isinstance(event, Committed) for event in events))
    process.connection.drop(1.0)
    ensemble.write(MakeNode(address.path, b"[]"))

    ensemble.until(lambda: seen_at()[1:])
    assert seen_at()[1] == ensemble.zookeeper.nodes[address.path].czxid
    reader.stop()
