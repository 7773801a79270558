"""Which real broker takes the place of this controller, where somebody placed a replica on its id?

Brokers and old tools place replicas on every registered id. A partition that never had a leader gets another
assignment before its first election; one that had is moved.
"""

from __future__ import annotations

from controller.core.reassignment import rule
from controller.core.steps.change import Case, Change, Next, listed
from controller.core.view import Cluster
from zk_layout.ids import BrokerId, Replicas
from zk_layout.znodes.topics import Assignment


def next_step(case: Case, cluster: Cluster) -> Next:
    """Replace our own id; None where it is not named, is already leaving, or no live broker could take its place."""
    own = cluster.own_id
    if own not in case.assignment.target:
        return None
    replacement = _replacement(case, cluster)
    target = tuple(r for r in (replacement if r == own else r for r in case.assignment.target) if r is not None)
    if not target:
        return None
    why = f"{own} is the controller and hosts nothing: {listed(case.assignment.target)} becomes {listed(target)}"
    if case.state is None:
        return Change(why, Assignment(target))
    begun = rule.begin(case, cluster, target)
    return Change(why, begun.assignment, begun.state, begun.owed) if isinstance(begun, Change) else None


def _replacement(case: Case, cluster: Cluster) -> BrokerId | None:
    """The live broker with the fewest replicas; neighbours among equals differ by partition, to spread them."""
    candidates: Replicas = tuple(b for b in cluster.live_brokers() if b not in case.assignment.replicas)
    if not candidates:
        return None
    fewest = min(cluster.replica_counts.get(b, 0) for b in candidates)
    equals = [b for b in candidates if cluster.replica_counts.get(b, 0) == fewest]
    return equals[case.at.partition % len(equals)]
