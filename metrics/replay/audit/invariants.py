"""Which writes can no rule excuse? What has to hold in every history of a partition, whoever wrote it.

What holds of each write by itself is in `controller.core.steps.invariants`; here is what needs more of the history.

Source: KIP-455 "Algorithm" (replicas are let go only after the target is in sync) and "Controller failover" (the legacy
znode takes precedence).
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
    """What a write breaks in itself, or against what was there before; empty if nothing."""
    return violated(before, after) or outdated(before, after, term.epoch) or strangers(before, after)


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
