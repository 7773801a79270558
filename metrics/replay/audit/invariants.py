"""Which writes can no rule excuse? What has to hold in every history of a partition, whoever wrote it.

Source: KIP-455 "Algorithm" (replicas are let go only after the target is in sync) and "Controller failover" (the legacy
znode takes precedence); Kafka's epochs: a leader epoch and a controller epoch only rise.
"""

from __future__ import annotations

from controller.core.stage import stage
from controller.core.steps.change import listed
from metrics.replay.partitions.terms import Term
from zk_layout.ids import NO_LEADER, Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


def broken_by_state(
    before: PartitionState | None, now: PartitionState, assignment: Assignment | None, term: Term
) -> str:
    """What a state breaks in itself, or against the one before; empty if nothing."""
    if now.leader != NO_LEADER and now.leader not in now.isr:
        return f"leader {now.leader} is not in the ISR {listed(now.isr)}"
    if now.controller_epoch > term.epoch > 0:
        return f"controller epoch {now.controller_epoch} is not yet in force, {term.epoch} is"
    if before is None:
        return ""
    if now.leader_epoch < before.leader_epoch:
        return f"the leader epoch fell from {before.leader_epoch} to {now.leader_epoch}"
    if now.leader != before.leader and now.leader_epoch == before.leader_epoch:
        return f"leader {before.leader} became {now.leader} within leader epoch {now.leader_epoch}"
    if now.controller_epoch < before.controller_epoch:
        return f"the controller epoch fell from {before.controller_epoch} to {now.controller_epoch}"
    return _strangers(before, now, assignment)


def _strangers(before: PartitionState, now: PartitionState, assignment: Assignment | None) -> str:
    if assignment is None:
        return ""
    found = tuple(r for r in now.isr if r not in before.isr and r not in assignment.replicas)
    return f"{listed(found)} joined the ISR without being replicas" if found else ""


def broken_by_version(before: int, now: int | None, *, is_whole: bool) -> str:
    """What a znode's version breaks; where `is_whole`, every write of it is known and none may be missing."""
    if now is None or before < 0 or (now == before + 1 if is_whole else now > before):
        return ""
    return f"version {now} follows version {before}"


def dropped_too_early(before: PartitionState, now: PartitionState, assignment: Assignment | None) -> str:
    """Leaving replicas that are taken out of the ISR while the target is not in sync."""
    if assignment is None or not assignment.adding or set(assignment.target) <= set(before.isr):
        return ""
    left = tuple(r for r in before.isr if r not in now.isr and r in assignment.removing)
    if not left:
        return ""
    target = f"target {listed(assignment.target)}, ISR {listed(before.isr)}"
    return f"leaving replica {listed(left)} was taken out of the ISR while catching up: {target}"


def let_go_too_early(assignment: Assignment, state: PartitionState | None) -> str:
    """Replicas that are let go while the target is not in sync."""
    if state is None or not assignment.adding or set(assignment.target) <= set(state.isr):
        return ""
    where = stage(assignment, state).value
    return f"replicas were let go while {where}: ISR {listed(state.isr)}, target {listed(assignment.target)}"


def overlooked(legacy: Replicas | None, target: Replicas) -> str:
    """A move that continues elsewhere though, at its start, the controller found a legacy one of the partition."""
    if not legacy or target == legacy:
        return ""
    return f"/admin/reassign_partitions names {listed(legacy)} since before the fail-over, and that takes precedence"
