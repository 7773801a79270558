"""What happens to moves that old tools write into `/admin/reassign_partitions`?

Source: KIP-455 "`/admin/reassign_partitions` znode"; KAFKA-9478 (entries that never leave) is avoided by comparing each
entry with the topic znode.
"""

from __future__ import annotations

from controller.core.messages.errors import Refusal
from controller.core.reassignment import rule
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, listed
from zk_layout.ids import Replicas


def next_step(case: Case, cluster: Cluster, target: Replicas) -> Change | Refusal | None:
    """Start or redirect the partition's move toward an entry's target; None while that is under way or done.

    A refused entry must be removed, with its reason, so that it does not block the others. A move to a broker that is
    down begins and waits for it: tools that write this znode only check that the entry was taken, as Kafka's do.
    """
    if case.assignment.is_moving and case.assignment.target == target:
        return None
    if is_done(case, target):
        return None
    begun = rule.begin(case, cluster, target, may_wait=True)
    if not isinstance(begun, Change):
        return begun
    absent = tuple(r for r in target if not cluster.is_live(r) and r not in case.assignment.replicas)
    waiting = f"; it waits for {listed(absent)}, which are not alive" if absent else ""
    return Change(f"{begun.why} by /admin/reassign_partitions{waiting}", begun.assignment, begun.state, begun.owed)


def is_done(case: Case, target: Replicas) -> bool:
    """Whether an entry can be removed: its move has reached its target.

    >>> from zk_layout.znodes.topics import Assignment
    >>> is_done(Case(("t", 0), None, Assignment((1, 2)), None), (1, 2))
    True
    """
    return not case.assignment.is_moving and case.assignment.replicas == target
