"""Where does the move of a partition stand, and which replicas are in force meanwhile?

Source: KIP-455 "Algorithm"; phases A and B of Kafka's KafkaController.onPartitionReassignment.
"""

from __future__ import annotations

from collections.abc import Container
from enum import StrEnum

from zk_layout.ids import NO_LEADER, BrokerId, Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


class Stage(StrEnum):
    """The stages of a move, in order; each follows from the topic znode and the state znode alone."""

    SETTLED = "settled"  # nothing is moving
    CATCHING_UP = "catching up"  # a target replica is not in the ISR yet
    HANDING_OVER = "handing over"  # target in sync; the leader or ISR still names a leaving replica
    LETTING_GO = "letting go"  # ISR and leader, if there is one, are the target's; leaving replicas are to be deleted


def stage(assignment: Assignment, state: PartitionState | None) -> Stage:
    """Where one partition's move stands.

    >>> moving = Assignment(replicas=(3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    >>> stage(moving, PartitionState(1, 7, 1, (1, 2, 3))).value
    'catching up'
    >>> stage(moving, PartitionState(3, 8, 1, (3, 4))).value
    'letting go'

    A move that only removes lets go as soon as none of the leaving replicas is in sync, even where a staying one
    is not either: dropping what is not in sync loses nothing. Where nobody is in sync, anybody may have the records.

    Shape:
        No state means that the partition never had a leader: nobody holds data, so nobody needs to catch up.
    """
    if not assignment.is_moving:
        return Stage.SETTLED
    if state is None:
        return Stage.LETTING_GO
    target = assignment.target
    is_handed_over = (state.leader in target or state.leader == NO_LEADER) and set(state.isr).issubset(target)
    if set(target).issubset(state.isr):
        return Stage.LETTING_GO if is_handed_over else Stage.HANDING_OVER
    if not assignment.adding and is_handed_over and state.isr:
        return Stage.LETTING_GO
    return Stage.CATCHING_UP


def in_force(assignment: Assignment, state: PartitionState | None) -> Assignment:
    """The replicas brokers must know: while letting go, only the target, so that no leaving replica rejoins the ISR.

    >>> moving = Assignment(replicas=(3, 1), adding=(3,), removing=(1,))
    >>> in_force(moving, PartitionState(3, 8, 1, (3,)))
    Assignment(replicas=(3,), adding=(), removing=())
    """
    if assignment.is_moving and stage(assignment, state) is Stage.LETTING_GO:
        return Assignment(assignment.target)
    return complete(assignment, state)


def complete(assignment: Assignment, state: PartitionState | None) -> Assignment:
    """The assignment with the in-sync replicas that it does not name: they stay until those that it names are in sync.

    >>> complete(Assignment((1, 2)), PartitionState(3, 7, 1, (3, 4)))
    Assignment(replicas=(1, 2, 3, 4), adding=(), removing=(3, 4))

    Nobody who knows what moves writes such a list: it was written by hand, or somebody died between two writes.
    """
    if state is None or state.isr == assignment.replicas:
        return assignment
    unlisted = tuple(r for r in state.isr if r not in assignment.replicas)
    if not unlisted:
        return assignment
    return Assignment(assignment.replicas + unlisted, assignment.adding, assignment.removing + unlisted)


def strays(assignment: Assignment, state: PartitionState) -> Replicas:
    """The in-sync replicas that are so in name only: the leader is a replica, and they are none.

    >>> strays(Assignment((3,)), PartitionState(3, 7, 1, (3, 2)))
    (2,)

    A controller that is no more than Kafka's elects from such an ISR, keeps it, and tells the leader of the listed
    replicas alone: it waits for no others. A leader that is not listed was elected while they all were.

    >>> strays(Assignment((3,)), PartitionState(1, 7, 1, (1, 2, 3)))
    ()

    Shape:
        None where the ISR names no replica that is listed: it may not become empty.
    """
    if state.isr == assignment.replicas:
        return ()
    unlisted = tuple(r for r in state.isr if r not in assignment.replicas)
    if len(unlisted) == len(state.isr) or state.leader not in (NO_LEADER, *assignment.replicas):
        return ()
    return unlisted


def still_to_go(
    assignment: Assignment, state: PartitionState | None, owed: Replicas, confirmed: Container[BrokerId]
) -> Replicas:
    """The replicas that have to delete their logs and have not confirmed it: those a move lets go, and those `owed`.

    >>> letting_go = Assignment(replicas=(3, 1, 2), adding=(3,), removing=(1, 2))
    >>> still_to_go(letting_go, PartitionState(3, 8, 1, (3,)), (5,), confirmed={2})
    (5, 1)

    A replica that is owed and has been assigned again since is a replica like any other.

    >>> still_to_go(letting_go, PartitionState(1, 7, 1, (1, 2)), (5, 1), confirmed=())
    (5,)

    Shape:
        None while a move has not come to letting go, and of a partition that never had a leader.
    """
    is_letting_go = state is not None and stage(assignment, state) is Stage.LETTING_GO
    left = (r for r in owed if r not in assignment.replicas)
    leaving = (*left, *(assignment.removing if is_letting_go else ()))
    return tuple(r for r in dict.fromkeys(leaving) if r not in confirmed and r not in assignment.target)


def may_be_deleted(replica: BrokerId, assignment: Assignment, state: PartitionState) -> bool:
    """Whether nothing is lost with a replica's log: others are in sync, it is not, and the partition can do without it.

    >>> letting_go = Assignment(replicas=(3, 1), adding=(3,), removing=(1,))
    >>> [may_be_deleted(r, letting_go, PartitionState(3, 8, 1, (3,))) for r in (1, 3, 5)]
    [True, False, True]
    >>> [may_be_deleted(r, letting_go, PartitionState(3, 8, 1, ())) for r in (1, 3, 5)]
    [False, False, False]
    >>> [may_be_deleted(r, letting_go, PartitionState(2, 7, 1, (2,))) for r in (1, 3, 5)]
    [False, False, True]
    """
    if replica == state.leader or replica in state.isr or not state.isr:
        return False
    if replica not in assignment.replicas:
        return True
    return replica in assignment.removing and stage(assignment, state) is Stage.LETTING_GO


def toward(assignment: Assignment, target: Replicas) -> Assignment:
    """The assignment that starts, or redirects, a move to `target`. A redirected move keeps its original.

    >>> toward(Assignment((1, 2, 3)), (4, 3, 2))
    Assignment(replicas=(4, 3, 2, 1), adding=(4,), removing=(1,))
    >>> toward(Assignment((3, 4, 5, 1, 2), adding=(4, 5), removing=(1, 2)), (3, 1, 2))
    Assignment(replicas=(3, 1, 2), adding=(), removing=())

    Shape:
        `target` has no duplicates and is not empty. What an earlier target was adding and this one does not name
        is in the result neither as replica nor as removing: the caller has it deleted.

    Source: KIP-455 "Algorithm"; Kafka's ReplicaAssignment.reassignTo.
    """
    original = assignment.original
    leaving = tuple(r for r in original if r not in target)
    return Assignment(target + leaving, tuple(r for r in target if r not in original), leaving)
