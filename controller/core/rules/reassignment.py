"""Moving a partition to other brokers: may it begin, and what comes next?

Source: KIP-455 "Algorithm" and "Cancellation"; Kafka's KafkaController.onPartitionReassignment, with the dangers of
KAFKA-9672, KAFKA-13972 and KAFKA-14424 avoided by choosing the leader and the ISR in the same write.
"""

from __future__ import annotations

from controller.core.cluster import Cluster
from controller.core.errors import ErrorCode, Refusal
from controller.core.rules.change import Case, Change, Gather, Step, listed, raised
from controller.core.stage import Stage, in_force, stage, toward
from zk_layout.ids import NO_LEADER, Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


def next_step(case: Case, cluster: Cluster) -> Step:
    """The next step of a move in progress, or of telling the leader about changed replicas; None while waiting."""
    where = stage(case.assignment, case.state)
    if case.state is not None:
        if where is Stage.HANDING_OVER:
            handed_over = _hand_over(case, case.state, cluster)
            if handed_over is not None:
                return handed_over
        if case.is_untold:
            return _tell(case, case.state, cluster)
    return _let_go(case, cluster) if where is Stage.LETTING_GO else _forgive(case)


def begin(case: Case, cluster: Cluster, target: Replicas) -> Change | Refusal | None:
    """Start a move to `target`, or redirect the one in progress; None where that is what it already does.

    What an earlier target was adding and this one does not name leaves at once; where that would stop the only
    in-sync copies the wish is refused. A move that is letting go has arrived: its target is where this one starts from,
    for the leaving replicas may be gone already.

    Source: KIP-455 "Possible partition-level errors"; Kafka's validateReplicas.
    """
    start = in_force(case.assignment, case.state)
    invalid = _invalid(start, target, cluster)
    if invalid is not None:
        return invalid
    to = toward(start, target)
    if to in (start, case.assignment):
        return None
    return _redirect(case, cluster, to, f"asked to move {case.at} to {listed(target)}")


def cancel(case: Case, cluster: Cluster) -> Change | Refusal:
    """Restore the replicas from before the move, as a set: their first order is not kept anywhere.

    A move that is letting go has arrived and cannot be cancelled any more.

    Source: KIP-455 "Cancellation".
    """
    if not in_force(case.assignment, case.state).is_moving:
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    original = case.assignment.original
    why = f"asked to cancel the move of {case.at}, back to {listed(original)}"
    return _redirect(case, cluster, Assignment(original), why)


def _invalid(held: Assignment, target: Replicas, cluster: Cluster) -> Refusal | None:
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not target:
        return Refusal(code, "Empty replica list specified in partition reassignment.")
    if len(set(target)) != len(target):
        return Refusal(code, f"Duplicate replica ids in partition reassignment replica list: {listed(target)}")
    if min(target) < 0:
        return Refusal(code, f"Invalid broker id in replica list: {listed(target)}")
    adding = tuple(r for r in target if r not in held.original)
    if not all(cluster.is_live(r) for r in adding):
        lists = f"Replica list: {listed(adding)}, live broker list: {listed(cluster.live_brokers())}"
        return Refusal(code, f"Replica assignment has brokers that are not alive. {lists}")
    return None


def _redirect(case: Case, cluster: Cluster, to: Assignment, why: str) -> Change | Refusal:
    dropped = tuple(r for r in case.assignment.replicas if r not in to.replicas)
    owed = tuple(r for r in (*case.owed, *dropped) if r not in to.replicas and r != cluster.own_id)
    state = case.state
    if state is None:
        return Change(why, to, owed=())  # the partition never had a leader: nobody was told to make a log
    kept = tuple(r for r in state.isr if r in to.replicas)
    electable = [r for r in to.replicas if r in kept and cluster.is_online(r, case.at)]
    if dropped and not electable:
        only = listed(tuple(r for r in state.isr if r in dropped))
        message = f"{case.at} cannot go to {listed(to.target)} now: it would stop the only in-sync replicas {only}."
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    leader = state.leader
    if leader not in to.replicas or not cluster.is_online(leader, case.at):
        still_serves = leader in to.replicas and leader in cluster.shutting_down
        leader = electable[0] if electable else leader if still_serves else NO_LEADER
    return Change(why, to, raised(state, cluster.controller_epoch, leader, kept or state.isr), owed)


def _tell(case: Case, state: PartitionState, cluster: Cluster) -> Step:
    """Brokers accept changed replicas, and that others must go, only with a higher leader epoch."""
    if state.leader != NO_LEADER and not cluster.is_online(state.leader, case.at):
        return None
    replicas = in_force(case.assignment, state).replicas
    who = "the brokers" if state.leader == NO_LEADER else f"leader {state.leader}"
    why = f"{who} of {case.at} must hear of the replicas {listed(replicas)}"
    return Change(why, state=raised(state, cluster.controller_epoch))


def _hand_over(case: Case, state: PartitionState, cluster: Cluster) -> Step:
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


def _let_go(case: Case, cluster: Cluster) -> Step:
    """The move is done once every leaving replica is deleted, or cannot be asked to: that is then remembered.

    Moves of a topic that end about the same time share one write of its znode.
    """
    waiting = tuple(r for r in case.assignment.removing if r not in case.confirmed)
    if case.state is None:
        waiting = ()  # the partition never had a leader: there is nothing to delete
    if not case.is_patience_over and any(cluster.is_registered(r) for r in waiting):
        return None
    if case.is_gathering:
        return Gather()
    target = case.assignment.target
    settled = (*target, *case.confirmed, cluster.own_id)  # our own id hosts nothing that could be deleted
    owed = tuple(r for r in (*case.owed, *waiting) if r not in settled)
    note = f"; {listed(waiting)} did not confirm the deletion and will be asked again" if waiting else ""
    return Change(f"{case.at} has moved to {listed(target)}{note}", Assignment(target), owed=owed)


def _forgive(case: Case) -> Step:
    """Strike out owed deletions that are confirmed or no longer wanted."""
    owed = tuple(r for r in case.owed if r not in case.confirmed and r not in case.assignment.replicas)
    if owed == case.owed:
        return None
    done = tuple(r for r in case.owed if r not in owed)
    return Change(f"{listed(done)} deleted their replica of {case.at}", owed=owed)
