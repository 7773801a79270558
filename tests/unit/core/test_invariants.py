"""Which writes pass the gate, and what does one cost that does not?"""

from __future__ import annotations

import pytest

from controller.core.elections import leader_election
from controller.core.messages.effects import Answer, StepDown
from controller.core.messages.events import Asked, CallId
from controller.core.messages.replies import PartitionsAltered, PartitionsCreated, TopicsCreated
from controller.core.messages.requests import (
    AlterPartition,
    CreatePartitions,
    CreateTopics,
    Growth,
    IsrProposal,
    NewTopic,
    TopicReference,
)
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Next, raised
from controller.core.steps.invariants import NOTHING, Held, outdated, refused, strangers, violated
from controller.core.topics import create_partitions, create_topics
from controller.core.topics.create_topics import Plan
from tests.unit.core.builders import AT, EPOCH, commits, ids, state
from tests.unit.core.turns import CALLER, Turns, led, notices, path, topic
from zk_layout.ids import NO_LEADER, BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, PartitionId, TopicName
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

REPLICAS = Assignment(ids("1,2,3"))
WHOLE = Held(REPLICAS, state(1, "1,2,3"))


def after(written: PartitionState) -> Held:
    """The same replicas, and another state."""
    return Held(REPLICAS, written)


# ---- every write ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        (state(1, "2,3", leader_epoch=4), "leader 1 is not in the ISR [2, 3]"),
        (state(NO_LEADER, "", leader_epoch=4), "the ISR is empty"),
        (state(2, "2,2", leader_epoch=4), "the ISR [2, 2] names a broker twice"),
        (state(1, "1,2", leader_epoch=2), "the leader epoch fell from 3 to 2"),
        (state(2, "1,2", leader_epoch=3), "leader 1 became 2 within leader epoch 3"),
        (state(NO_LEADER, "1,2", leader_epoch=3), "leader 1 became -1 within leader epoch 3"),
    ],
)
def test_no_writer_may_break_a_state(written: PartitionState, wrong: str) -> None:
    assert violated(WHOLE, after(written)) == wrong
    assert refused(WHOLE, after(written)) == wrong


@pytest.mark.parametrize(
    "assignment",
    [
        Assignment(()),
        Assignment(ids("1,1,2")),
        Assignment(ids("1,2"), adding=ids("3")),
        Assignment(ids("1,2"), removing=ids("3")),
        Assignment(ids("1,2"), adding=ids("2"), removing=ids("2")),
        Assignment(ids("1,2"), removing=ids("1,2")),
    ],
)
def test_no_writer_may_break_an_assignment(assignment: Assignment) -> None:
    assert violated(WHOLE, Held(assignment, WHOLE.state)).startswith("the assignment ")
    assert violated(NOTHING, Held(assignment)).startswith("the assignment ")


@pytest.mark.parametrize(
    "written",
    [
        state(1, "1,2", leader_epoch=3),
        state(2, "2,3", leader_epoch=4),
        state(NO_LEADER, "1", leader_epoch=4),
        state(1, "1,2,3", leader_epoch=9),
    ],
)
def test_what_leaders_and_controllers_write_is_right(written: PartitionState) -> None:
    assert violated(WHOLE, after(written)) == refused(WHOLE, after(written)) == ""


def test_what_a_write_leaves_as_it_was_is_not_its_fault() -> None:
    broken = Held(Assignment(ids("1,1")), state(1, "2,2"))

    assert violated(broken, broken) == ""
    assert violated(NOTHING, broken)


# ---- only some writes -----------------------------------------------------------------------------------------


def test_who_joins_the_isr_is_a_replica_before_or_after_the_decision() -> None:
    alone = Held(Assignment(ids("1")), state(1, "1"))

    assert strangers(alone, Held(alone.assignment, state(1, "1,2"))) == "[2] joined the ISR without being replicas"
    assert strangers(alone, Held(Assignment(ids("1,2")), state(1, "1,2"))) == ""
    assert strangers(Held(Assignment(ids("1,2")), alone.state), Held(alone.assignment, state(1, "1,2"))) == ""
    assert strangers(Held(state=alone.state), Held(state=state(1, "1,2"))) == ""


def test_a_stray_in_the_isr_stays_until_a_rule_takes_it_out() -> None:
    cut = Held(Assignment(ids("1")), state(1, "1,2"))

    assert refused(cut, Held(cut.assignment, state(1, "1,2", leader_epoch=4))) == ""


def test_a_controller_epoch_tells_who_wrote_but_refuses_nothing() -> None:
    """Restored, ZooKeeper may have forgotten the present one."""
    older = after(state(1, "1,2", controller_epoch=5))

    assert outdated(WHOLE, older, 6) == "the controller epoch fell from 6 to 5"
    assert outdated(WHOLE, WHOLE, 5) == "controller epoch 6 is not yet in force, 5 is"
    assert outdated(WHOLE, WHOLE, 0) == outdated(NOTHING, Held(REPLICAS), 6) == ""
    assert refused(WHOLE, older) == ""


# ---- what others left broken ----------------------------------------------------------------------------------


def test_what_others_left_broken_is_put_right_bit_by_bit() -> None:
    outside = after(state(1, "2,3"))

    assert refused(outside, after(state(1, "2", leader_epoch=4))) == ""
    assert refused(outside, after(state(1, "2", leader_epoch=2))) == "the leader epoch fell from 3 to 2"


def test_an_isr_that_was_empty_is_not_written_again() -> None:
    empty = after(state(1, ""))

    assert refused(empty, after(state(1, "", leader_epoch=4))) == "the ISR is empty"
    assert refused(empty, after(state(NO_LEADER, "1", leader_epoch=4))) == ""


def test_the_last_leader_may_be_in_sync_where_no_one_is() -> None:
    gone = Held(Assignment(ids("2")), state(1, ""))

    assert refused(gone, Held(gone.assignment, state(NO_LEADER, "1", leader_epoch=4))) == ""


# ---- what it costs --------------------------------------------------------------------------------------------


def test_a_decision_that_breaks_an_invariant_costs_its_partition_only(monkeypatch: pytest.MonkeyPatch) -> None:
    right = leader_election.next_step

    def mistaken(case: Case, cluster: Cluster) -> Next:
        if case.at == AT and case.state is not None and not cluster.is_online(BrokerId(1), AT):
            return Change("a mistake", state=raised(case.state, EPOCH, BrokerId(3), ids("2")))
        return right(case, cluster)

    monkeypatch.setattr(leader_election, "next_step", mistaken)
    turns = Turns(*topic(AT.topic, state(1, "1,2"), state(1, "1,2")), *topic("b", state(1, "1,2")))

    effects = turns.dies(1)

    assert led(effects) == {path(AT.topic, 1): 2, path("b", 0): 2}
    (notice,) = notices(effects)
    assert "Violated: orders-0 is not written, for leader 3 is not in the ISR [2]: a mistake" in notice
    assert not [e for e in effects if isinstance(e, StepDown)]


def test_a_request_that_would_break_an_invariant_is_answered_without_a_write() -> None:
    turns = Turns(*topic(AT.topic, state(1, "1,2")))
    proposal = IsrProposal(TopicReference(AT.topic), AT.partition, LeaderEpoch(3), PartitionEpoch(0), ids("1,1"))

    effects = turns.turn(Asked(CallId(1), AlterPartition(BrokerId(1), BrokerEpoch(1), (proposal,)), CALLER))

    (answer,) = [e for e in effects if isinstance(e, Answer)]
    assert answer.reply == PartitionsAltered(())  # a leader asks again for what is left out
    (notice,) = notices(effects)
    assert "orders-0 is not written, for the ISR [1, 1] names a broker twice" in notice
    assert commits(effects) == []


@pytest.mark.parametrize("part", ["grow", "create"])
def test_a_topic_gets_no_impossible_partition(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mistaken = Assignment(ids("1,1"))
    monkeypatch.setattr(create_topics, "consider", lambda *_: Plan({PartitionId(0): mistaken}, {}))
    monkeypatch.setattr(create_partitions, "consider", lambda *_: {PartitionId(1): mistaken.replicas})
    turns = Turns(*topic("a", state(1, "1,2")))
    growth, creation = Growth(TopicName("a"), 2), NewTopic(TopicName("new"), 1, 2)
    request = CreatePartitions((growth,)) if part == "grow" else CreateTopics((creation,))

    effects = turns.turn(Asked(CallId(1), request, CALLER))

    (answer,) = [e for e in effects if isinstance(e, Answer)]
    assert isinstance(answer.reply, PartitionsCreated | TopicsCreated)
    (result,) = answer.reply.results
    assert "is not written, for the assignment [1, 1]" in (result.message or "")
    assert commits(effects) == []
