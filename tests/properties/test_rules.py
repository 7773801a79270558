"""Each rule against a slow, obvious twin, and what no rule may ever do."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from controller.core.elections import first_leader
from controller.core.elections import leader_election as election
from controller.core.isr import alter_partition
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.replies import IsrResult
from controller.core.messages.requests import AlterPartition, IsrProposal, TopicReference
from controller.core.reassignment import foreign_writes, own_replica
from controller.core.reassignment import rule as reassignment
from controller.core.stage import Stage, in_force, stage
from controller.core.steps.change import Change
from controller.core.steps.draft import Draft
from controller.core.steps.steps import is_sound
from tests.properties.clusters import AT, BROKERS, TOPIC, Situation, situations, some_replicas
from zk_layout.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, PartitionId, Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


def _is_sound(situation: Situation, change: Change) -> None:
    """What holds of every change, whatever decided it."""
    assignment = change.assignment or situation.assignment
    state, before = change.state or situation.state, situation.state
    assert state.isr
    assert len(set(state.isr)) == len(state.isr)
    assert state.leader == -1 or state.leader in state.isr
    assert state.leader_epoch >= before.leader_epoch
    if state != before:
        assert state.leader_epoch == before.leader_epoch + 1
    assert set(assignment.adding).isdisjoint(assignment.removing)
    assert set(assignment.adding) | set(assignment.removing) <= set(assignment.replicas)


@given(situations())
def test_an_election_prefers_the_first_online_in_sync_replica(situation: Situation) -> None:
    cluster = situation.cluster()

    step = election.next_step(situation.case(cluster), cluster)

    assert _elected(situation, step) == _slow_election(situation)
    if isinstance(step, Change):
        _is_sound(situation, step)


def _elected(situation: Situation, step: object) -> tuple[int, set[BrokerId]]:
    state = step.state if isinstance(step, Change) and step.state else situation.state
    return state.leader, set(state.isr)


def _slow_election(situation: Situation) -> tuple[int, set[BrokerId]]:
    held = situation.state
    known = in_force(situation.assignment, held).replicas
    online = [r for r in known if situation.is_online(r)]
    in_sync = [r for r in online if r in held.isr]
    if situation.is_online(held.leader) and held.leader in known:
        return held.leader, set(in_sync)
    if in_sync:
        return in_sync[0], set(in_sync)
    if held.leader in situation.leaving:
        there = {r for r in held.isr if situation.is_online(r) or r in situation.leaving}
        return held.leader, there  # it serves until it is gone
    old = [r for r in online if r not in situation.assignment.adding]
    if situation.unclean and old:
        return old[0], {old[0]}
    return -1, set(held.isr)


@given(situations())
def test_what_an_election_has_settled_it_leaves_alone(situation: Situation) -> None:
    cluster = situation.cluster()
    step = election.next_step(situation.case(cluster), cluster)
    assume(isinstance(step, Change) and step.state is not None)
    assert isinstance(step, Change)
    assert step.state is not None
    after = Situation(situation.assignment, step.state, situation.live, situation.leaving, situation.unclean)
    cluster = after.cluster()

    assert election.next_step(after.case(cluster), cluster) is None


@given(situations(), some_replicas(0))
def test_a_request_never_gives_up_the_only_copies_in_sync(situation: Situation, target: Replicas) -> None:
    cluster = situation.cluster()

    outcome = reassignment.begin(situation.case(cluster), cluster, target)

    if isinstance(outcome, Change):
        _is_sound(situation, outcome)
        assert outcome.assignment is not None
        assert outcome.state is not None
        assert set(outcome.state.isr) <= set(outcome.assignment.replicas)
        assert set(outcome.state.isr) <= set(situation.state.isr)
        assert outcome.assignment.target == target
        gone = set(situation.assignment.replicas) - set(outcome.assignment.replicas)
        assert gone <= set(outcome.owed or ())
        start = in_force(situation.assignment, situation.state)
        leaving = set(situation.assignment.replicas) - set(start.replicas)
        is_done = not outcome.assignment.is_moving and set(target) <= set(situation.state.isr)
        assert is_done or gone <= set(start.adding) | leaving


@given(situations(), st.lists(st.sampled_from((*BROKERS, -3, 77)), max_size=4).map(tuple))
def test_a_request_is_refused_for_the_reasons_that_kafka_gives(situation: Situation, target: Replicas) -> None:
    cluster = situation.cluster()

    outcome = reassignment.begin(situation.case(cluster), cluster, target)

    adding = set(target) - set(in_force(situation.assignment, situation.state).original)
    is_valid = (
        bool(target)
        and len(set(target)) == len(target)
        and min(target, default=0) >= 0
        and all(situation.is_online(r) for r in adding)
    )
    if not is_valid:
        assert isinstance(outcome, Refusal)
        assert outcome.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@given(situations())
def test_cancelling_restores_the_original_or_refuses(situation: Situation) -> None:
    cluster = situation.cluster()

    outcome = reassignment.cancel(situation.case(cluster), cluster)

    if not in_force(situation.assignment, situation.state).is_moving:
        assert isinstance(outcome, Refusal)
        assert outcome.error is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    elif isinstance(outcome, Change):
        _is_sound(situation, outcome)
        assert outcome.assignment == Assignment(situation.assignment.original)
        assert outcome.state is not None
        assert set(outcome.state.isr) <= set(situation.assignment.original)


UNASKED = (
    foreign_writes.put_right,
    own_replica.next_step,
    first_leader.next_step,
    election.next_step,
    foreign_writes.next_step,
    reassignment.next_step,
    reassignment.new_epoch,
)


@given(situations())
def test_what_is_passed_over_as_sound_is_what_no_rule_has_a_decision_about(situation: Situation) -> None:
    cluster = situation.cluster()
    topic = cluster.topics[TOPIC]
    case = Draft(topic, cluster).case(AT.partition)
    assert case is not None

    if is_sound(topic.partitions[AT.partition], topic, AT.partition, cluster):
        assert [rule(case, cluster) for rule in UNASKED] == [None] * len(UNASKED)
        assert stage(situation.assignment, situation.state) in (Stage.SETTLED, Stage.CATCHING_UP)


@given(situations())
def test_a_stage_is_told_as_its_definition_says(situation: Situation) -> None:
    assignment, state = situation.assignment, situation.state
    target = tuple(r for r in assignment.replicas if r not in assignment.removing)
    is_handed_over = state.leader in (*target, -1) and set(state.isr) <= set(target)
    expected = Stage.CATCHING_UP
    if not assignment.is_moving:
        expected = Stage.SETTLED
    elif set(target) <= set(state.isr):
        expected = Stage.LETTING_GO if is_handed_over else Stage.HANDING_OVER
    elif not assignment.adding and is_handed_over:
        expected = Stage.LETTING_GO

    assert assignment.target == target
    assert stage(assignment, state) is expected


@given(situations())
def test_a_move_never_lets_go_before_its_target_is_in_sync(situation: Situation) -> None:
    cluster = situation.cluster()
    before = stage(situation.assignment, situation.state)

    step = reassignment.next_step(situation.case(cluster), cluster)

    if isinstance(step, Change):
        _is_sound(situation, step)
        if step.assignment is not None and step.assignment != situation.assignment:
            assert before is Stage.LETTING_GO
            assert step.assignment == Assignment(situation.assignment.target)
            assert set(situation.state.isr) <= set(step.assignment.replicas)
        if step.state is not None and set(step.state.isr) != set(situation.state.isr):
            assert set(situation.assignment.target) <= set(situation.state.isr)


proposals = st.builds(
    lambda isr, broker, leader_epoch, partition_epoch, recovering, by_id: AlterPartition(
        broker,
        BrokerEpoch(1),
        (
            IsrProposal(
                TopicReference(name=TOPIC),
                PartitionId(0),
                LeaderEpoch(leader_epoch),
                PartitionEpoch(partition_epoch),
                isr,
                leader_recovery_state=recovering,
            ),
        ),
        names_topics_by_id=by_id,
    ),
    some_replicas(),
    st.sampled_from(BROKERS),
    st.integers(0, 9),
    st.integers(-1, 1),
    st.sampled_from((0, 0, 0, 1)),
    st.booleans(),
)


@given(situations(), proposals, st.booleans())
def test_an_isr_is_judged_in_the_order_kafka_judges(
    situation: Situation, request: AlterPartition, is_by_the_leader: bool
) -> None:
    if is_by_the_leader and situation.state.leader != -1:
        proposal = request.proposals[0]
        fitting = IsrProposal(
            proposal.topic,
            proposal.partition,
            situation.state.leader_epoch,
            proposal.partition_epoch,
            proposal.isr,
            leader_recovery_state=proposal.leader_recovery_state,
        )
        request = AlterPartition(situation.state.leader, request.broker_epoch, (fitting,), request.names_topics_by_id)
    cluster = situation.cluster()

    outcome = alter_partition.consider(request, request.proposals[0], AT, cluster)

    error = outcome.error if isinstance(outcome, IsrResult) else ErrorCode.NONE
    assert error is _slow_judgement(situation, request, request.proposals[0])
    if isinstance(outcome, Change):
        assert outcome.state is not None
        assert outcome.state.leader_epoch == situation.state.leader_epoch
        assert set(outcome.state.isr) <= set(in_force(situation.assignment, situation.state).replicas)


def _slow_judgement(situation: Situation, request: AlterPartition, proposal: IsrProposal) -> ErrorCode:
    """The list of controller-facts 7.1, in its order; the state znode is at version 0."""
    held: PartitionState = situation.state
    if proposal.partition_epoch > 0 or proposal.leader_epoch > held.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < held.leader_epoch:
        is_told = request.names_topics_by_id or request.broker != held.leader
        return ErrorCode.FENCED_LEADER_EPOCH if is_told else ErrorCode.NONE
    same = (request.broker, proposal.isr, proposal.leader_recovery_state)
    if same == (held.leader, held.isr, held.leader_recovery_state):
        return ErrorCode.NONE
    if request.broker != held.leader:
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < 0:
        return ErrorCode.INVALID_UPDATE_VERSION
    if proposal.leader_recovery_state == 1 or request.broker not in proposal.isr:
        return ErrorCode.INVALID_REQUEST
    known = in_force(situation.assignment, held).replicas
    if all(r in known and situation.is_online(r) for r in proposal.isr):
        return ErrorCode.NONE
    return ErrorCode.INELIGIBLE_REPLICA if request.names_topics_by_id else ErrorCode.NONE
