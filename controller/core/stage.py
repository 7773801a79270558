"""Which stage has a partition's move reached, and which replicas are in force meanwhile?

Source: KIP-455 "Algorithm"; phases A and B of Kafka's KafkaController.onPartitionReassignment.
"""

from __future__ import annotations

from collections.abc import Container
from enum import StrEnum

from msgspec.structs import replace

from zk_layout.ids import NO_LEADER, BrokerId, Replicas
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


class Stage(StrEnum):
    """The stages of a move, in order; each follows from the topic znode and the state znode alone."""

    SETTLED = "settled"  # nothing is moving
    CATCHING_UP = "catching up"  # a target replica is not in the ISR yet
    HANDING_OVER = "handing over"  # target in sync; the leader or ISR still names a leaving replica
    LETTING_GO = "letting go"  # ISR and leader, if any, are within the target; removed replicas must delete their logs


def stage(assignment: Assignment, state: PartitionState | None) -> Stage:
    """The stage of one partition's move.

    >>> moving = Assignment(replicas=(3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    >>> stage(moving, PartitionState(1, 7, 1, (1, 2, 3))).value
    'catching up'
    >>> stage(moving, PartitionState(3, 8, 1, (3, 4))).value
    'letting go'

    A move that only removes replicas reaches the last stage once none of them is in sync, even if a staying replica is
    not either: removing a replica that is out of sync loses no records. With an empty ISR, any replica may have them.

    Shape:
        Without a state the partition never had a leader: no replica has data, so none needs to catch up.
    """
    adding = assignment.adding
    if not (adding or assignment.removing):
        return Stage.SETTLED
    if state is None:
        return Stage.LETTING_GO
    target, isr = assignment.target, state.isr
    is_caught_up = {*target}.issubset(isr)
    if adding and not is_caught_up:
        return Stage.CATCHING_UP
    is_handed_over = (state.leader in target or state.leader == NO_LEADER) and {*isr}.issubset(target)
    if is_caught_up:
        return Stage.LETTING_GO if is_handed_over else Stage.HANDING_OVER
    return Stage.LETTING_GO if is_handed_over and isr else Stage.CATCHING_UP


def in_force(assignment: Assignment, state: PartitionState | None) -> Assignment:
    """The replicas to send to brokers; in the last stage only the target, so that no removed replica rejoins the ISR.

    >>> moving = Assignment(replicas=(3, 1), adding=(3,), removing=(1,))
    >>> in_force(moving, PartitionState(3, 8, 1, (3,)))
    Assignment(replicas=(3,), adding=(), removing=())
    """
    if assignment.is_moving and stage(assignment, state) is Stage.LETTING_GO:
        return Assignment(assignment.target)
    return complete(assignment, state)


def complete(assignment: Assignment, state: PartitionState | None) -> Assignment:
    """The assignment plus in-sync replicas that it does not list, which stay until the listed ones are in sync.

    >>> complete(Assignment((1, 2)), PartitionState(3, 7, 1, (3, 4)))
    Assignment(replicas=(1, 2, 3, 4), adding=(), removing=(3, 4))

    A controller that knows the move never writes such a list: a person wrote it, or a controller died between two
    writes.
    """
    if state is None or state.isr == assignment.replicas:
        return assignment
    unlisted = tuple(r for r in state.isr if r not in assignment.replicas)
    if not unlisted:
        return assignment
    return Assignment(assignment.replicas + unlisted, assignment.adding, assignment.removing + unlisted)


def strays(assignment: Assignment, state: PartitionState) -> Replicas:
    """In-sync replicas that count in name only: the leader is an assigned replica, and they are not.

    >>> strays(Assignment((3,)), PartitionState(3, 7, 1, (3, 2)))
    (2,)

    Kafka's own controller elects from such an ISR, keeps it, and sends the leader only the assigned replicas; the
    leader waits for no others. A leader that is not assigned was elected while they all were.

    >>> strays(Assignment((3,)), PartitionState(1, 7, 1, (1, 2, 3)))
    ()

    Shape:
        Empty if the ISR contains no assigned replica: the ISR must not become empty.
    """
    if state.isr == assignment.replicas:
        return ()
    unlisted = tuple(r for r in state.isr if r not in assignment.replicas)
    if len(unlisted) == len(state.isr) or state.leader not in (NO_LEADER, *assignment.replicas):
        return ()
    return unlisted


def without_strays(
    assignment: Assignment, state: PartitionState | None
) -> tuple[Assignment, PartitionState | None, Replicas]:
    """What decisions start from: the assignment with unlisted in-sync replicas, the state without strays, the strays.

    >>> without_strays(Assignment((3,)), PartitionState(3, 7, 1, (3, 2)))[2]
    (2,)
    """
    gone = () if state is None else strays(assignment, state)
    if state is not None and gone:
        state = without(state, gone)
    return complete(assignment, state), state, gone


def without(state: PartitionState, gone: Replicas) -> PartitionState:
    """The state without these replicas in its ISR."""
    return replace(state, isr=tuple(r for r in state.isr if r not in gone))


def still_to_go(
    assignment: Assignment, state: PartitionState | None, owed: Replicas, confirmed: Container[BrokerId]
) -> Replicas:
    """The replicas that must still confirm the deletion of their logs: those removed by a move, and those `owed`.

    >>> letting_go = Assignment(replicas=(3, 1, 2), adding=(3,), removing=(1, 2))
    >>> still_to_go(letting_go, PartitionState(3, 8, 1, (3,)), (5,), confirmed={2})
    (5, 1)

    An owed replica that has been assigned again is an ordinary replica.

    >>> still_to_go(letting_go, PartitionState(1, 7, 1, (1, 2)), (5, 1), confirmed=())
    (5,)

    Shape:
        Empty before a move reaches its last stage, and for a partition that never had a leader.
    """
    is_letting_go = state is not None and stage(assignment, state) is Stage.LETTING_GO
    if not owed and not is_letting_go:
        return ()
    replicas, target = assignment.replicas, assignment.target
    leaving = [r for r in owed if r not in replicas]
    if is_letting_go:
        leaving += assignment.removing
    return tuple([r for r in dict.fromkeys(leaving) if r not in confirmed and r not in target])


def may_be_deleted(replica: BrokerId, assignment: Assignment, state: PartitionState) -> bool:
    """Whether deleting a replica's log loses nothing: other replicas are in sync, and the partition does not need it.

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
        `target` has no duplicates and is not empty. Replicas that only an earlier target was adding are in the result
        neither in replicas nor in removing: the caller must have their logs deleted.

    Source: KIP-455 "Algorithm"; Kafka's ReplicaAssignment.reassignTo.
    """
    original = assignment.original
    leaving = tuple(dict.fromkeys(r for r in original if r not in target))  # a znode written by hand may repeat one
    return Assignment(target + leaving, tuple(r for r in target if r not in original), leaving)
