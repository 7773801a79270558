"""Which broker replaces a controller whose id was assigned a replica?

Brokers and old tools place replicas on every registered id. A partition that never had a leader gets another assignment
before its first election; one that had a leader is moved. While no broker can replace the controller, its id stays in
the assignment as a reminder that a replica is owed.
"""

from __future__ import annotations

from controller.core.messages.effects import Notice
from controller.core.reassignment import pausing, rule
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Next, listed, raised
from zk_layout.ids import NO_LEADER, BrokerId, Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


def next_step(case: Case, cluster: Cluster) -> Next:
    """Replace the ids of controllers; None if there are none, or no live broker can take their place."""
    controllers, state = cluster.controllers, case.state
    if controllers.keys().isdisjoint(case.assignment.replicas):
        return None
    target = _replaced(case, cluster)
    if state is not None and all(controllers.get(r) for r in state.isr):
        return _revived(case, state, target, cluster)
    if target == case.assignment.target:
        return None
    ids = tuple(r for r in case.assignment.target if r in controllers and r not in target)
    why = f"{_named(ids, cluster)}: {listed(case.assignment.target)} of {case.at} becomes {listed(target)}"
    if state is None:
        return Change(why, Assignment(target))
    begun = rule.begin(case, cluster, target, may_wait=True)  # in a move under way, another new replica may be gone
    if not isinstance(begun, Change) or pausing.holds_back(case, cluster, begun):
        return None
    return Change(why, begun.assignment, begun.state, begun.owed)


def _named(ids: Replicas, cluster: Cluster) -> str:
    if len(ids) > 1:
        return f"{listed(ids)} are controllers and host nothing"
    return f"{ids[0]} is {'the' if ids[0] == cluster.own_id else 'a'} controller and hosts nothing"


def _revived(case: Case, state: PartitionState, target: Replicas, cluster: Cluster) -> Next:
    """Only controllers are in sync: nothing was ever written to the partition since it was assigned to them.

    With one other replica, that one has all records. Among several it is unknown: an unclean election has to choose.
    """
    others = tuple(r for r in case.assignment.replicas if r not in cluster.controllers)
    if len(others) > 1:
        return None
    holders = others or tuple(r for r in target if cluster.is_online(r, case.at))
    if not holders:
        return None
    leader = holders[0] if cluster.is_online(holders[0], case.at) else NO_LEADER
    why = f"only controllers were in sync for {case.at}, and they host nothing: {listed(holders)} take their place"
    text = f"{why}; " + ("it has all records that there are" if others else "the partition begins without records")
    changed = raised(state, cluster.controller_epoch, leader, holders)
    return Change(why, None if others else Assignment(target), changed, notice=Notice("replica on controller", text))


def _replaced(case: Case, cluster: Cluster) -> Replicas:
    """The target with brokers in place of controllers, as far as there are any."""
    target: list[BrokerId] = []
    for replica in case.assignment.target:
        taken = (*case.assignment.target, *target)
        instead = _replacement(case, taken, cluster) if replica in cluster.controllers else replica
        target.append(replica if instead is None else instead)
    return tuple(target)


def _replacement(case: Case, taken: Replicas, cluster: Cluster) -> BrokerId | None:
    """The live broker with the fewest replicas; among equals, the choice varies with the partition to spread them.

    A broker being removed stays only if there is no other: the move could not end without a replica in that place.
    """
    free: Replicas = tuple(b for b in cluster.live_brokers() if b not in taken)
    candidates = tuple(b for b in free if b not in case.assignment.removing) or free
    if not candidates:
        return None
    fewest = min(cluster.replica_counts.get(b, 0) for b in candidates)
    equals = [b for b in candidates if cluster.replica_counts.get(b, 0) == fewest]
    return equals[case.at.partition % len(equals)]
