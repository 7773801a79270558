"""What becomes of the replicas in sync when a partition's replicas change at once: who leads, who must go?

Kafka stops what a cancel or a new target drops without a look at the ISR (KAFKA-14424). Here that is refused where the
dropped replicas hold the only in-sync copies that can serve, unless it is forced.
"""

from __future__ import annotations

from controller.core.messages.effects import Notice
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.requests import Mode
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, listed, raised
from zk_layout.ids import NO_LEADER, Replicas
from zk_layout.znodes.partition_state import RECOVERED, RECOVERING, PartitionState
from zk_layout.znodes.topics import Assignment

FORCED = "forced reassignment"


def redirect(case: Case, cluster: Cluster, to: Assignment, why: str, mode: Mode) -> Change | Refusal:
    """Give a partition the replicas `to`; leader and ISR are chosen from them in the same write.

    Replicas that are dropped are owed a deletion until they confirm it.
    """
    state = case.state
    if state is None:
        return Change(why, to, owed=())  # the partition never had a leader: nobody was told to make a log
    dropped = tuple(r for r in case.assignment.replicas if r not in to.replicas)
    leaving = dict.fromkeys((*case.owed, *dropped))
    owed = tuple(r for r in leaving if r not in to.replicas and r not in cluster.controllers)
    kept = tuple(r for r in state.isr if r in to.replicas)
    stopped = tuple(r for r in state.isr if r in dropped)
    electable = tuple(r for r in to.replicas if r in kept and cluster.is_online(r, case.at))
    is_unsafe = bool(stopped) and not electable
    if is_unsafe and mode is not Mode.FORCED:
        return _unsafe(case, to, stopped)
    notice = _notice(case, to, stopped if is_unsafe else ()) if mode is Mode.FORCED else None
    if is_unsafe and not kept:
        return Change(f"{why}, forced", to, _given_up(case, state, to, cluster), owed, notice)
    leader, isr = state.leader, kept or state.isr
    if leader not in to.replicas or not cluster.is_online(leader, case.at):
        if electable:  # whoever is elected waits for nobody who is gone
            leader, isr = electable[0], tuple(r for r in kept if r in electable)
        elif leader not in to.replicas or not cluster.still_serves(leader, case.at):
            leader = NO_LEADER
    return Change(why, to, raised(state, cluster.controller_epoch, leader, isr), owed, notice)


def _unsafe(case: Case, to: Assignment, stopped: Replicas) -> Refusal:
    message = (
        f"{case.at} cannot move to {listed(to.target)} now: that would stop the only in-sync replicas "
        f"{listed(stopped)}. Wait until one of {listed(to.target)} is live and in sync, or force it and lose records."
    )
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _notice(case: Case, to: Assignment, given_up: Replicas) -> Notice:
    what = f"{case.at} was forced to {listed(to.target)}"
    if not given_up:
        return Notice(FORCED, f"{what}; an in-sync replica stays, so nothing is lost")
    lost = f"the only in-sync replicas {listed(given_up)} that can serve are stopped; records may be lost"
    return Notice(FORCED, f"{what}: {lost}")


def _given_up(case: Case, state: PartitionState, to: Assignment, cluster: Cluster) -> PartitionState:
    """No in-sync replica is kept: the first online one leads with what it has, as after an unclean election.

    Where none is online, whichever of the old ones returns first will lead. Those that were told to delete their logs
    lead only where all of them were.
    """
    left = tuple(r for r in to.original if cluster.may_have_records(r, case.at)) or to.original
    leader = next((r for r in left if cluster.is_online(r, case.at)), None)
    if leader is None:
        return raised(state, cluster.controller_epoch, NO_LEADER, left)
    recovery = RECOVERING if cluster.has_leader_recovery else RECOVERED
    return raised(state, cluster.controller_epoch, leader, (leader,), recovery)
