"""Which writes can no rule excuse? What must hold in every history of a partition, with any writer.

Those of one write are in `controller.core.steps.invariants`, those that need more of the history are here.

Source: KIP-455 "Algorithm" (replicas are removed only after the target is in sync) and "Controller failover" (the
legacy znode takes precedence).
"""

from __future__ import annotations

from controller.core.stage import stage
from controller.core.steps.change import listed
from controller.core.steps.invariants import Held, outdated, strangers, violated
from metrics.replay.partitions.terms import Term
from zk_layout.ids import Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


def broken_by_write(before: Held, after: Held, term: Term) -> str:
    """The invariants that a write breaks by itself or against the former state; empty if none."""
    return violated(before, after) or outdated(before, after, term.epoch) or strangers(before, after)


def broken_by_version(before: int, now: int | None, *, is_whole: bool) -> str:
    """The invariant that a znode's version breaks; if `is_whole`, all its writes are known and none may be missing."""
    if now is None or before < 0 or (now == before + 1 if is_whole else now > before):
        return ""
    return f"version {now} follows version {before}"


def dropped_too_early(before: PartitionState, now: PartitionState, assignment: Assignment | None) -> str:
    """Leaving replicas that are removed from the ISR before the target is in sync."""
    if assignment is None or not assignment.adding or set(assignment.target) <= set(before.isr):
        return ""
    left = tuple(r for r in before.isr if r not in now.isr and r in assignment.removing)
    if not left:
        return ""
    target = f"target {listed(assignment.target)}, ISR {listed(before.isr)}"
    return f"leaving replica {listed(left)} was taken out of the ISR while catching up: {target}"


def let_go_too_early(assignment: Assignment, state: PartitionState | None) -> str:
    """Replicas that are removed before the target is in sync."""
    if state is None or not assignment.adding or set(assignment.target) <= set(state.isr):
        return ""
    where = stage(assignment, state).value
    return f"replicas were let go while {where}: ISR {listed(state.isr)}, target {listed(assignment.target)}"


def overlooked(legacy: Replicas | None, target: Replicas) -> str:
    """A move to another target than the legacy one that the controller found for the partition when it was elected."""
    if not legacy or target == legacy:
        return ""
    return f"/admin/reassign_partitions names {listed(legacy)} since before the fail-over, and that takes precedence"
