"""What happens to leader and ISR when a partition's replicas change at once, and which replicas must go?

On a cancel or a new target, Kafka stops the dropped replicas regardless of the ISR (KAFKA-14424). Here that is refused,
unless forced, if the dropped replicas are the only in-sync ones that can serve.
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
    """Give a partition the replicas `to`; the same write chooses leader and ISR from them.

    Dropped replicas are owed a deletion until they confirm it.
    """
    state = case.state
    if state is None:
        return Change(why, to, owed=())  # without a first leader no broker has created a log
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
        if electable:  # an elected leader must not wait for a replica that is gone
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

    If none is online, the first of the old ones to return will lead. Replicas that were sent a deletion lead only if
    all were.
    """
    left = tuple(r for r in to.original if cluster.may_have_records(r, case.at)) or to.original
    leader = next((r for r in left if cluster.is_online(r, case.at)), None)
    if leader is None:
        return raised(state, cluster.controller_epoch, NO_LEADER, left)
    recovery = RECOVERING if cluster.has_leader_recovery else RECOVERED
    return raised(state, cluster.controller_epoch, leader, (leader,), recovery)
