"""May a leader change its ISR like this?

Source: Kafka's KafkaController.tryProcessAlterPartition (3.4 and later) and its validation order.
"""

from __future__ import annotations

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import IsrResult
from controller.core.messages.requests import AlterPartition, IsrProposal
from controller.core.stage import in_force
from controller.core.state.topics import Partition
from controller.core.state.view import Cluster
from controller.core.steps.change import Change, listed
from zk_layout.ids import TopicName, TopicPartition
from zk_layout.znodes.partition_state import RECOVERED, RECOVERING, PartitionState, StateAddress
from zk_layout.znodes.topics import TopicAddress


def refuse_sender(request: AlterPartition, cluster: Cluster) -> ErrorCode:
    """Refuse a sender whose broker epoch is not current; NONE if it is."""
    held = cluster.brokers.get(request.broker)
    if held is None or held.epoch != request.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


def topic_of(proposal: IsrProposal, cluster: Cluster) -> TopicName | None:
    """The topic's name, even if the leader gives its id; None for an unknown id."""
    if proposal.topic.topic_id is not None:
        return cluster.topic_names.get(proposal.topic.topic_id)
    return proposal.topic.name


def is_unknown_for_now(proposal: IsrProposal, cluster: Cluster) -> bool:
    """Whether we know nothing of the partition, perhaps only because we cannot read it now.

    A leader whose partition is reported as unknown sends no other ISR change before its leader epoch rises.
    """
    name = topic_of(proposal, cluster)
    if name is None:
        return cluster.has_unreadable_topics()
    held = cluster.partition(TopicPartition(name, proposal.partition))
    if held is not None and held.state is not None:
        return False
    return cluster.is_unreadable(TopicAddress(name)) or cluster.is_unreadable(StateAddress(name, proposal.partition))


def consider(
    request: AlterPartition, proposal: IsrProposal, at: TopicPartition, cluster: Cluster
) -> Change | IsrResult:
    """The change that gives the leader its ISR, or an immediate answer: a refusal, or the state in force.

    The leader epoch stays: the leader learns the new partition epoch from the answer.
    """
    held = cluster.partition(at)
    if held is None or held.state is None:
        is_for_now = is_unknown_for_now(proposal, cluster)
        error = ErrorCode.UNKNOWN_SERVER_ERROR if is_for_now else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _refused(proposal, at, error)
    error = _error(request, proposal, at, held, held.state, cluster)
    if not request.names_topics_by_id and _would_silence_leader(error, request, held.state):
        return granted(proposal, at, held)
    if error is not ErrorCode.NONE:
        return _refused(proposal, at, error)
    state = held.state
    if _is_so_already(request, proposal, state):
        return granted(proposal, at, held)
    wanted = PartitionState(
        request.broker,
        state.leader_epoch,
        cluster.controller_epoch,
        proposal.isr,
        proposal.leader_recovery_state,
    )
    return Change(
        f"leader {request.broker} of {at} changes the ISR {listed(state.isr)} to {listed(proposal.isr)}",
        state=wanted,
    )


def _would_silence_leader(error: ErrorCode, request: AlterPartition, state: PartitionState) -> bool:
    """Whether this error would stop a leader before 3.1 from changing its ISR in its leader epoch.

    An unknown error does. A leader of 2.7 or 2.8 that learns of a new leader epoch, and repeats its request before the
    answer, takes the refusal of the first for one of the second. If it gets the state in force instead, it continues.
    Leaders of 3.1 to 3.2 name topics as well; to them this does no harm.

    Source: Kafka's Partition.handleAlterIsrResponse (proposals are equal by value) and AlterIsrManager, 2.7 and 2.8.
    """
    is_former = error is ErrorCode.FENCED_LEADER_EPOCH and request.broker == state.leader
    return is_former or error is ErrorCode.INELIGIBLE_REPLICA


def granted(proposal: IsrProposal, at: TopicPartition, held: Partition) -> IsrResult:
    """The answer with the state in force."""
    state = held.state
    if state is None:
        return _refused(proposal, at, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return IsrResult(
        at.topic,
        proposal.topic.topic_id,
        at.partition,
        ErrorCode.NONE,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.leader_recovery_state,
        held.epoch,
    )


def _error(
    request: AlterPartition,
    proposal: IsrProposal,
    at: TopicPartition,
    held: Partition,
    state: PartitionState,
    cluster: Cluster,
) -> ErrorCode:
    if proposal.partition_epoch > held.epoch or proposal.leader_epoch > state.leader_epoch:
        # The leader knows more than we do, so this controller is behind another one (KAFKA-14154).
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if _is_so_already(request, proposal, state):
        return ErrorCode.NONE
    if request.broker != state.leader:
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < held.epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    is_recovering = proposal.leader_recovery_state == RECOVERING
    if not proposal.isr or request.broker not in proposal.isr or (is_recovering and len(proposal.isr) > 1):
        return ErrorCode.INVALID_REQUEST
    if is_recovering and state.leader_recovery_state == RECOVERED:
        return ErrorCode.INVALID_REQUEST
    if not _is_eligible(proposal, at, held, cluster):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_eligible(proposal: IsrProposal, at: TopicPartition, held: Partition, cluster: Cluster) -> bool:
    """Whether every member is a live replica with the epoch that the leader saw (KAFKA-14140; from version 3 on).

    Leaders in ZooKeeper mode send no broker epochs: no replica joins until its leader knows the raised leader epoch.
    """
    joining = () if held.state is None else tuple(r for r in proposal.isr if r not in held.state.isr)
    if joining and (at in cluster.unannounced or any(r in cluster.returning for r in joining)):
        return False
    replicas = in_force(held.assignment, held.state).replicas
    if not all(r in replicas and cluster.is_online(r, at) for r in proposal.isr):
        return False
    return all(
        epoch == -1 or cluster.brokers[r].epoch == epoch
        for r, epoch in zip(proposal.isr, proposal.broker_epochs, strict=False)
    )


def _is_so_already(request: AlterPartition, proposal: IsrProposal, state: PartitionState) -> bool:
    """Whether the change is in force: a repeated request gets the first answer again (KAFKA-14144)."""
    return (
        state.leader == request.broker
        and state.leader_epoch == proposal.leader_epoch
        and state.isr == proposal.isr
        and state.leader_recovery_state == proposal.leader_recovery_state
    )


def _refused(proposal: IsrProposal, at: TopicPartition, error: ErrorCode) -> IsrResult:
    return IsrResult(at.topic, proposal.topic.topic_id, at.partition, error)
