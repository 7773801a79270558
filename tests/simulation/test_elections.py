"""The checker knows which leaders and ISRs a controller may write."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.messages.effects import Commit, Create, operation
from controller.core.messages.events import CommitId
from controller.lab.broker_model import KAFKA_3_9, BrokerModel, Log, Record
from tests.simulation.elections import ill_begun, unfounded, unsound
from tests.simulation.spoiled import AT, stop_replica
from tests.simulation.world import World
from zk_layout.ids import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic


@pytest.mark.parametrize(
    ("deleted_in", "is_made_again", "is_wrong"),
    [(None, False, False), (1, False, False), (2, False, True), (2, True, False)],
    ids=["never made", "deleted in an earlier term", "deleted in this term", "made again, and lost with the disk"],
)
def test_only_a_term_that_had_a_log_deleted_knows_that_it_is_gone(
    deleted_in: int | None, is_made_again: bool, is_wrong: bool
) -> None:
    world, term = World(0), ControllerEpoch(2)
    one, two, gone = (BrokerId(b) for b in (1, 2, 3))
    checker, model = world.checker, BrokerModel(one, KAFKA_3_9, world.brokers[one].disk)
    world.brokers[two].disk[AT] = Log(None)
    world.brokers[two].disk[AT].records.append(Record(LeaderEpoch(0), 1))
    world.brokers[two].start()
    world.clock.now = 100.0
    checker.topics[AT.topic] = Topic({AT.partition: Assignment((two, gone))})
    if deleted_in is not None:
        checker.announcements.deleted(model, AT, stop_replica(deleted_in))
    if is_made_again:
        checker.announcements.made(one, AT)
    checker.topics[AT.topic] = Topic({AT.partition: Assignment((one, two, gone))})
    before = PartitionState(gone, LeaderEpoch(3), term, (gone,))
    after = PartitionState(one, LeaderEpoch(4), term, (one,))

    wrong = unsound(checker, AT, before, after, 0.0)

    assert wrong == (
        "orders-0 elected 1, whose log the controller had deleted, though [2] have one" if is_wrong else None
    )


@pytest.mark.parametrize(("former", "is_wrong"), [((1,), False), ((1, 2), True), ((1, 3), False)])
def test_a_partition_without_a_leader_keeps_its_isr_but_for_who_was_no_replica(
    former: tuple[int, ...], is_wrong: bool
) -> None:
    checker, (one, two) = World(0).checker, (BrokerId(1), BrokerId(2))
    checker.topics[AT.topic] = Topic({AT.partition: Assignment((two, one), (two,), (one,))})
    checker.former[AT] = Assignment(tuple(map(BrokerId, former)))
    before = PartitionState(one, LeaderEpoch(2), ControllerEpoch(1), (one, two))
    after = PartitionState(NO_LEADER, LeaderEpoch(3), ControllerEpoch(1), (one,))

    assert ("the ISR [2] is forgotten" in (unfounded(checker, AT, before, after, 0.0) or "")) is is_wrong


def test_a_dead_broker_stays_in_the_isr_only_while_its_leader_cannot_be_informed() -> None:
    world, leader, dead = World(0), BrokerId(1), BrokerId(2)
    checker, path = world.checker, BrokerAddress(leader).path
    checker.topics[AT.topic] = Topic({AT.partition: Assignment((leader, dead))})
    world.brokers[leader].start()
    world.clock.now = checker.written_at[AT] = 100.0
    before = PartitionState(leader, LeaderEpoch(4), ControllerEpoch(0), (leader, dead))
    after = msgspec.structs.replace(before, leader_epoch=LeaderEpoch(5))

    assert "though [2] are gone" in (unfounded(checker, AT, before, after, 0.0) or "")
    world.zookeeper.hidden.add(path)
    assert unfounded(checker, AT, before, after, 0.0) is None


@pytest.mark.parametrize("is_decided_before", [True, False])
def test_a_partition_may_begin_with_a_broker_that_left_after_the_decision(is_decided_before: bool) -> None:
    world = World(0)
    one, two = BrokerId(1), BrokerId(2)
    world.brokers[two]._gone_at = world.clock.now
    first = PartitionState(one, LeaderEpoch(0), ControllerEpoch(1), (one, two))
    created = operation(Create(StateAddress(AT.topic, AT.partition), first))
    world.clock.now += 0.0 if is_decided_before else 5.0
    world.checker.decided(Commit(CommitId(1), (created,), ()))
    world.clock.now += 5.0

    assert (ill_begun(world.checker, AT, first, -100.0) is None) is is_decided_before


@pytest.mark.parametrize("is_overwritten", [True, False])
def test_what_a_native_controller_elects_whom_a_hand_had_taken_out_may_lack_records(*, is_overwritten: bool) -> None:
    world, (one, two) = World(0), (BrokerId(1), BrokerId(2))
    checker = world.checker
    checker.topics[AT.topic] = Topic({AT.partition: Assignment((two, one), (two,), (one,))})
    if is_overwritten:
        checker.edited[AT] = None
    before = PartitionState(one, LeaderEpoch(2), ControllerEpoch(1), (one, two))
    after = PartitionState(two, LeaderEpoch(3), ControllerEpoch(2), (two,))

    checker._state_follows(AT, before, after, world.zookeeper.open_session())

    assert (AT in checker.records.lost) is is_overwritten
