"""May a partition move to other brokers, and what comes next?

Source: KIP-455 "Algorithm" and "Cancellation"; Kafka's KafkaController.onPartitionReassignment. The dangers of
KAFKA-9672, KAFKA-13972 and KAFKA-14424 are avoided by choosing the leader and the ISR in the same write.
"""

from __future__ import annotations

from controller.core.messages.errors import MESSAGES, ErrorCode, Refusal
from controller.core.messages.requests import Mode
from controller.core.reassignment import redirection
from controller.core.stage import Stage, in_force, stage, still_to_go, toward
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Gather, Next, listed, raised
from zk_layout.ids import NO_LEADER, Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


def next_step(case: Case, cluster: Cluster) -> Next:
    """The next step of a move, or of announcing changed replicas to the leader; None while waiting."""
    where = stage(case.assignment, case.state)
    if case.state is not None:
        if where is Stage.HANDING_OVER:
            handed_over = _hand_over(case, case.state, cluster)
            if handed_over is not None:
                return handed_over
        if case.is_unannounced:
            return new_epoch(case, cluster)
    return _let_go(case, cluster) if where is Stage.LETTING_GO else _settle_owed(case)


def new_epoch(case: Case, cluster: Cluster) -> Next:
    """Announce what is in force to a leader that may not know it; until then no replica joins its ISR.

    Brokers accept changed replicas and deletions only with a higher leader epoch. An empty ISR stays: it is never
    written again.
    """
    state = case.state
    if not case.is_unannounced or state is None or not state.isr:
        return None
    if state.leader != NO_LEADER and not cluster.is_online(state.leader, case.at):
        return None
    replicas = in_force(case.assignment, state).replicas
    who = "the brokers" if state.leader == NO_LEADER else f"leader {state.leader}"
    why = f"{who} of {case.at} must get the replicas {listed(replicas)}"
    return Change(why, state=raised(state, cluster.controller_epoch))


def begin(
    case: Case, cluster: Cluster, target: Replicas, mode: Mode = Mode.SAFE, *, may_wait: bool = False
) -> Change | Refusal | None:
    """Start a move to `target`, or redirect the one in progress; None if that would change nothing.

    Replicas that only an earlier target was adding leave at once; if they are the only in-sync ones, the request is
    refused unless it is forced. A move in its last stage has arrived: a new one starts from its target, for the removed
    replicas may be gone already. If the whole target is in sync and online, as after reordering or shrinking, the move
    is done in one step. Brokers to be added must be alive, unless the move `may_wait` for them.

    Source: KIP-455 "Possible partition-level errors"; Kafka's onPartitionReassignment, which completes such a move
    within the call.
    """
    start = in_force(case.assignment, case.state)
    invalid = refused_target(start, target, cluster, may_wait=may_wait)
    if invalid is not None:
        return invalid
    to = toward(start, target)
    if to in (start, case.assignment):
        return None
    if to.is_moving and _is_served_by(target, case, cluster):
        to = Assignment(target)
    note = "" if to.is_moving else " (done in one step)"
    return redirection.redirect(case, cluster, to, f"asked to move {case.at} to {listed(target)}{note}", mode)


def _is_served_by(target: Replicas, case: Case, cluster: Cluster) -> bool:
    """Whether all replicas of a target are in sync and online: an offline one is about to leave the ISR."""
    state = case.state
    return state is None or all(r in state.isr and cluster.is_online(r, case.at) for r in target)


def cancel(case: Case, cluster: Cluster, mode: Mode = Mode.SAFE) -> Change | Refusal:
    """Restore the replicas from before the move, as a set: their original order is not recorded.

    A gentle cancel keeps added replicas that have joined the ISR, and stops only the rest: the partition may then have
    more replicas than before. A move in its last stage has arrived and cannot be cancelled any more.

    Source: KIP-455 "Cancellation", and the same section of its earlier revision.
    """
    if not in_force(case.assignment, case.state).is_moving:
        error = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        return Refusal(error, MESSAGES[error])
    isr = case.state.isr if case.state is not None and mode is Mode.GENTLE else ()
    kept = tuple(r for r in case.assignment.replicas if r not in case.assignment.adding or r in isr)
    joined = tuple(r for r in case.assignment.adding if r in kept)
    why = f"asked to cancel the move of {case.at}, back to {listed(kept)}"
    if joined:
        why = f"asked to stop the move of {case.at} gently: {listed(joined)} have joined the ISR and stay"
    return redirection.redirect(case, cluster, Assignment(kept), why, mode)


def refused_target(held: Assignment, target: Replicas, cluster: Cluster, *, may_wait: bool = False) -> Refusal | None:
    """The reason to refuse a target, in Kafka's order of checks; None if it is valid.

    Source: Kafka's validateReplicas, which it does not apply to entries of /admin/reassign_partitions.
    """
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not target:
        return Refusal(code, "Empty replica list specified in partition reassignment.")
    if len(set(target)) != len(target):
        return Refusal(code, f"Duplicate replica ids in partition reassignment replica list: {listed(target)}")
    if min(target) < 0:
        return Refusal(code, f"Invalid broker id in replica list: {listed(target)}")
    # A controller that still stands among the replicas is about to be replaced by a broker.
    adding = tuple(r for r in target if r not in (held.target if r in cluster.controllers else held.original))
    if not all(cluster.is_live(r) or (may_wait and r not in cluster.controllers) for r in adding):
        lists = f"Replica list: {listed(adding)}, live broker list: {listed(cluster.live_brokers())}"
        return Refusal(code, f"Replica assignment has brokers that are not alive. {lists}")
    return None


def hand_over_at_once(case: Case, written: PartitionState, cluster: Cluster) -> Change | None:
    """The hand-over of a move whose target is in sync by the ISR that its leader requests, in the write of that ISR.

    It comes to the same as the two writes one after the other: the leader waits for all of the ISR that it requests,
    and any controller could hand over as soon as ZooKeeper holds that. None if another rule comes first, and for a
    target of one replica that was not in sync: in ZooKeeper that would look like an unclean election.

    Shape:
        `written` is the state in ZooKeeper, `case` has the requested ISR.

    Source: Kafka's PartitionChangeBuilder.completeReassignmentIfNeeded, which does so in KRaft mode.
    """
    assignment, state = case.assignment, case.state
    if state is None or case.strays or case.unlisted or case.at in cluster.legacy:
        return None
    if stage(assignment, state) is not Stage.HANDING_OVER:
        return None
    change = _hand_over(case, state, cluster)
    if change is None or change.state is None:
        return None
    return None if may_be_unclean(written, change.state) else change


def may_be_unclean(before: PartitionState, after: PartitionState) -> bool:
    """Whether a write could be an unclean election: its leader was not in sync, and is the whole ISR.

    >>> before = PartitionState(1, 7, 9, (1, 2))
    >>> [may_be_unclean(before, PartitionState(3, 8, 9, isr)) for isr in ((3,), (3, 4))]
    [True, False]
    """
    return after.leader not in before.isr and len(after.isr) == 1


def _hand_over(case: Case, state: PartitionState, cluster: Cluster) -> Change | None:
    target = case.assignment.target
    isr = tuple(r for r in state.isr if r in target)
    stays = state.leader in target and cluster.is_online(state.leader, case.at)
    leader = state.leader if stays else next((r for r in target if r in isr and cluster.is_online(r, case.at)), None)
    if leader is None:
        return None
    why = f"target {listed(target)} of {case.at} in sync; " + (
        f"{leader} keeps leading" if stays else f"leader {state.leader} leaves, {leader} is the first live target"
    )
    return Change(why, state=raised(state, cluster.controller_epoch, leader, isr))


def _let_go(case: Case, cluster: Cluster) -> Next:
    """End a move once every removed replica is deleted, or cannot be asked to: it then stays owed.

    Moves of a topic that end at about the same time share one write of its znode.
    """
    # Controllers host nothing that could be deleted.
    waiting = still_to_go(case.assignment, case.state, (), {*case.confirmed, *cluster.controllers})
    if not case.is_patience_over and any(cluster.is_registered(r) for r in waiting):
        return None
    if case.is_gathering:
        return Gather()
    target = case.assignment.target
    settled = (*target, *case.confirmed, *cluster.controllers)
    owed = tuple(r for r in dict.fromkeys((*case.owed, *waiting)) if r not in settled)
    note = f"; {listed(waiting)} did not confirm the deletion and will be asked again" if waiting else ""
    return Change(f"{case.at} has moved to {listed(target)}{note}", Assignment(target), owed=owed)


def _settle_owed(case: Case) -> Next:
    """Drop owed deletions that are confirmed or no longer wanted."""
    wanted_again = tuple(r for r in case.owed if r in case.assignment.replicas)
    deleted = tuple(r for r in case.owed if r in case.confirmed and r not in wanted_again)
    if not wanted_again and not deleted:
        return None
    why = []
    if deleted:
        why.append(f"{listed(deleted)} deleted their replica of {case.at}")
    if wanted_again:
        why.append(f"{listed(wanted_again)} host {case.at} again: nothing must be deleted there")
    return Change("; ".join(why), owed=tuple(r for r in case.owed if r not in (*wanted_again, *deleted)))
