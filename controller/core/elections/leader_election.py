"""Who replaces a leader that is gone or shutting down, and which replicas stay in sync?

Source: Kafka's PartitionLeaderElectionAlgorithms (offline and controlled shutdown), ReplicaStateMachine's removal of
offline replicas from the ISR.
"""

from __future__ import annotations

from controller.core.stage import in_force
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Look, Next, listed, raised
from zk_layout.ids import NO_LEADER, BrokerId, Replicas
from zk_layout.znodes.configs import UNCLEAN_ELECTION, TopicConfigAddress, is_unclean_allowed
from zk_layout.znodes.partition_state import RECOVERED, RECOVERING, PartitionState


def next_step(case: Case, cluster: Cluster) -> Next:
    """Replace a leader that cannot serve; otherwise remove offline replicas from the ISR.

    None if leader and ISR are sound, or cannot be improved.
    """
    state = case.state
    if state is None:
        return None
    replicas = in_force(case.assignment, state).replicas
    in_sync = online_in_sync(case, state, replicas, cluster)
    if cluster.is_online(state.leader, case.at) and state.leader in replicas:
        return _shrink(case, state, in_sync, cluster)
    leader = next((r for r in replicas if r in in_sync), None)
    if leader is not None:
        gone = f"leader {_named(state)} of {case.at} is {_reason(case, state, cluster)}"
        why = f"{gone}; {leader} is the first online in-sync replica"
        return Change(why, state=raised(state, cluster.controller_epoch, leader, in_sync))
    if cluster.still_serves(state.leader, case.at):
        return _shrink(case, state, _serving(case, state, cluster), cluster)
    return _unclean(case, state, replicas, cluster)


def online_in_sync(case: Case, state: PartitionState, replicas: Replicas, cluster: Cluster) -> Replicas:
    """The members of the ISR that can serve, and are among these replicas."""
    return tuple(r for r in state.isr if r in replicas and cluster.is_online(r, case.at))


def _shrink(case: Case, state: PartitionState, in_sync: Replicas, cluster: Cluster) -> Next:
    if len(in_sync) == len(state.isr) or not in_sync:
        return None  # as in Kafka, the last member of an ISR stays, even if the leader is outside it
    gone = tuple(r for r in state.isr if r not in in_sync)
    why = f"{listed(gone)} left the ISR {listed(state.isr)} of {case.at}: offline or no longer a replica"
    return Change(why, state=raised(state, cluster.controller_epoch, isr=in_sync))


def _serving(case: Case, state: PartitionState, cluster: Cluster) -> Replicas:
    """The in-sync replicas that still serve, including those shutting down; all if the leader cannot be informed."""
    if not cluster.is_registered(state.leader):
        return state.isr
    return tuple(r for r in state.isr if cluster.is_online(r, case.at) or cluster.still_serves(r, case.at))


def _unclean(case: Case, state: PartitionState, replicas: Replicas, cluster: Cluster) -> Next:
    """No in-sync replica is online: elect one that may lack records if allowed, otherwise have no leader.

    Replicas that a move removes are no candidates, nor are replicas still being added that never were in sync.
    """
    candidate = next((r for r in replicas if _may_have_records(r, case, cluster)), None)
    settings = TopicConfigAddress(case.at.topic)
    if candidate is not None and not any(cluster.is_hidden(r) for r in state.isr):
        if case.config is None and not cluster.may_not_read(settings):
            return Look(f"may {case.at} elect a replica that is not in sync?", (settings,))
        if case.config is not None and is_unclean_allowed(case.config, cluster.unclean_election):
            return _take(candidate, f"{UNCLEAN_ELECTION} allows {candidate}", case, state, cluster)
    if state.leader == NO_LEADER:
        return None
    gone = f"leader {state.leader} of {case.at} is {_reason(case, state, cluster)}"
    why = f"{gone} and no in-sync replica of {listed(state.isr)} is online"
    # With an empty ISR, only the last leader can have all records.
    return Change(why, state=raised(state, cluster.controller_epoch, NO_LEADER, state.isr or (state.leader,)))


def elect_any(case: Case, cluster: Cluster) -> Change | None:
    """Elect a leader on an operator's request: an online in-sync replica, otherwise any online one.

    A replica without records leads only if no other is online. None if no replica is online, or while the leader is
    shutting down and only a replica that lacks records could replace it: the operator may ask again afterwards. Kafka's
    controller replaces it.
    """
    state = case.state
    if state is None:
        return None
    clean = next_step(case, cluster)
    if isinstance(clean, Change) and clean.state is not None and clean.state.leader != NO_LEADER:
        return clean
    if shuts_down_leading(case, cluster):
        return None
    replicas = in_force(case.assignment, state).replicas
    online = [r for r in replicas if cluster.is_online(r, case.at)]
    candidate = next((r for r in online if _may_have_records(r, case, cluster)), online[0] if online else None)
    return None if candidate is None else _take(candidate, f"{candidate} is elected on request", case, state, cluster)


def shuts_down_leading(case: Case, cluster: Cluster) -> bool:
    """Whether the leader is shutting down, but serves until then."""
    leader = NO_LEADER if case.state is None else case.state.leader
    return leader in cluster.shutting_down and cluster.still_serves(leader, case.at)


def _take(candidate: BrokerId, reason: str, case: Case, state: PartitionState, cluster: Cluster) -> Change:
    why = f"no in-sync replica of {case.at} is online; {reason}: records may be lost"
    recovery = RECOVERING if cluster.has_leader_recovery else RECOVERED
    return Change(why, state=raised(state, cluster.controller_epoch, candidate, (candidate,), recovery))


def _may_have_records(replica: BrokerId, case: Case, cluster: Cluster) -> bool:
    """A replica being added has few records before it was in sync; one that was sent a deletion has none."""
    if replica in case.assignment.adding and replica not in cluster.caught_up.get(case.at, ()):
        return False
    return cluster.is_online(replica, case.at) and cluster.may_have_records(replica, case.at)


def _named(state: PartitionState) -> str:
    return "none" if state.leader == NO_LEADER else str(state.leader)


def _reason(case: Case, state: PartitionState, cluster: Cluster) -> str:
    if state.leader == NO_LEADER:
        return "missing"
    if state.leader in cluster.shutting_down:
        return "shutting down"
    if not cluster.is_online(state.leader, case.at):
        return "without its log directory" if cluster.is_live(state.leader) else "offline"
    return "no longer a replica"
