"""Should an election request give this partition another leader?

Source: Kafka's KafkaController.processReplicaLeaderElection; KIP-460. During a move, the first replica may lead as soon
as it is in sync.
"""

from __future__ import annotations

from controller.core.elections import leader_election
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.requests import Election
from controller.core.stage import in_force
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, raised

BEING_DELETED = Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
NOT_NEEDED = Refusal(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def consider(wanted: Election, case: Case | None, cluster: Cluster) -> Change | Refusal:
    """The requested change of leader, or the reason to refuse it.

    Shape:
        `case` is None if the partition does not exist, or its znodes cannot be read.
    """
    if case is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    return _unclean(case, cluster) if wanted.is_unclean else _preferred(case, cluster)


def _preferred(case: Case, cluster: Cluster) -> Change | Refusal:
    state, preferred = case.state, case.assignment.replicas[0]
    if state is not None and state.leader == preferred:
        return NOT_NEEDED
    # A request may come before a dead broker's pass has reached the partition.
    replicas = in_force(case.assignment, state).replicas
    in_sync = () if state is None else leader_election.online_in_sync(case, state, replicas, cluster)
    if state is None or preferred not in in_sync:
        text = (
            f"{_failed(case, 'PreferredReplicaPartitionLeaderElectionStrategy')}: {preferred} is offline or not in sync"
        )
        return Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)
    why = f"on request, {preferred}, the preferred leader of {case.at}, takes over from {state.leader}"
    return Change(why, state=raised(state, cluster.controller_epoch, preferred, in_sync))


def _unclean(case: Case, cluster: Cluster) -> Change | Refusal:
    if case.state is not None and cluster.is_online(case.state.leader, case.at):
        return NOT_NEEDED
    elected = leader_election.elect_any(case, cluster)
    if elected is None and leader_election.shuts_down_leading(case, cluster):
        return NOT_NEEDED
    if elected is None:
        text = f"{_failed(case, 'OfflinePartitionLeaderElectionStrategy(true)')}: no replica is online"
        return Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, text)
    return elected


def _failed(case: Case, strategy: str) -> str:
    """In the words of Kafka's PartitionStateMachine, which tools and scripts match."""
    return f"Failed to elect leader for partition {case.at} under strategy {strategy}"
