"""Which writes of a partition are always wrong? The gate of every decision, and the judge of every history.

`violated` applies to each single write, by a controller, a leader or a person. `strangers` applies to whole decisions:
between the two parts of a decision that was cut, a leader may add a replica that is just being removed. `outdated`
applies to a history as long as ZooKeeper loses nothing; a restored one may have lost a controller epoch, so no decision
is refused for that. `refused` is the standard for this controller.

When a move may remove replicas is no invariant of a write: a request may force it, and a later target may be in sync
earlier.

Source: Kafka's epochs, of which a leader epoch has one leader; KIP-455 "topics/[topic] zNode content".
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from controller.core.steps.change import listed
from zk_layout.ids import NO_LEADER, PartitionId, TopicName
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


class Held(Struct, frozen=True, gc=False):
    """What both znodes of a partition say; None where one is missing."""

    assignment: Assignment | None = None
    state: PartitionState | None = None


NOTHING = Held()


class Invariant(Enum):
    """What holds after every write."""

    ASSIGNMENT = auto()
    LEADER_IN_SYNC = auto()
    ISR_NOT_EMPTY = auto()
    ISR_DISTINCT = auto()
    LEADER_EPOCH_RISES = auto()
    ONE_LEADER_AN_EPOCH = auto()


class Violated(ValueError):
    """A decision would break an invariant; it is not written."""


def violated(before: Held, after: Held) -> str:
    """Describe what a write by anyone breaks; empty if nothing. Examines only what the write changes.

    >>> was = Held(Assignment((1, 2)), PartitionState(1, 4, 9, (1, 2)))
    >>> violated(was, Held(was.assignment, PartitionState(2, 5, 9, (2,))))
    ''
    >>> violated(was, Held(was.assignment, PartitionState(2, 4, 9, (2,))))
    'leader 1 became 2 within leader epoch 4'
    >>> violated(was, Held(Assignment((1, 2), adding=(3,)), was.state))
    'the assignment [1, 2] adds [3] and removes []'
    """
    return next(iter(_violations(before, after).values()), "")


def refused(before: Held, after: Held) -> str:
    """Explain why this controller does not write a decision; empty if nothing is wrong.

    What others left broken is repaired step by step, so it is no reason to refuse. But an empty ISR is never written,
    even if it was empty before: no one could tell any more which replica has all records.

    >>> found = Held(Assignment((1, 2, 3)), PartitionState(1, 4, 9, (2, 3)))
    >>> smaller = Held(found.assignment, PartitionState(1, 5, 9, (2,)))
    >>> violated(found, smaller), refused(found, smaller)
    ('leader 1 is not in the ISR [2]', '')
    """
    broken = _violations(before, after)
    if not broken:
        return strangers(before, after)
    found = _violations(NOTHING, before).keys() - {Invariant.ISR_NOT_EMPTY}
    caused = (text for invariant, text in broken.items() if invariant not in found)
    return next(caused, "") or strangers(before, after)


def gate(topic: TopicName, number: PartitionId, before: Held, after: Held, why: str) -> None:
    """Let a decision of this controller pass.

    Raises:
        Violated: it breaks an invariant.
    """
    wrong = refused(before, after)
    if wrong:
        raise Violated(f"{topic}-{number} is not written, for {wrong}: {why}")


def strangers(before: Held, after: Held) -> str:
    """Report replicas that join the ISR without being assigned before or after the decision; empty if there are none.

    >>> was = Held(Assignment((1, 2)), PartitionState(1, 4, 9, (1,)))
    >>> strangers(was, Held(was.assignment, PartitionState(1, 4, 9, (1, 3))))
    '[3] joined the ISR without being replicas'

    Without an in-sync replica, only the last leader can have all records.
    """
    then, now = before.state, after.state
    if then is None or now is None or now.isr == then.isr:
        return ""
    joined = {*now.isr}.difference(then.isr or (then.leader,))
    if not joined:
        return ""
    replicas = [r for held in (before, after) if held.assignment is not None for r in held.assignment.replicas]
    found = tuple(r for r in now.isr if r in joined and r not in replicas)
    return f"{listed(found)} joined the ISR without being replicas" if found and replicas else ""


def outdated(before: Held, after: Held, in_force: int) -> str:
    """Explain which controller epoch forbids a write; empty if none does. `in_force` is zero if unknown."""
    then, now = before.state, after.state
    if now is None:
        return ""
    if now.controller_epoch > in_force > 0:
        return f"controller epoch {now.controller_epoch} is not yet in force, {in_force} is"
    if then is not None and now.controller_epoch < then.controller_epoch:
        return f"the controller epoch fell from {then.controller_epoch} to {now.controller_epoch}"
    return ""


def _violations(before: Held, after: Held) -> dict[Invariant, str]:
    found: dict[Invariant, str] = {}
    assignment, state, former = after.assignment, after.state, before.state
    if assignment is not None and assignment is not before.assignment:
        _see_assignment(assignment, found)
    if state is None or state is former:
        return found
    leader, isr = state.leader, state.isr
    if leader not in isr and leader != NO_LEADER:
        found[Invariant.LEADER_IN_SYNC] = f"leader {leader} is not in the ISR {listed(isr)}"
    if not isr:
        found[Invariant.ISR_NOT_EMPTY] = "the ISR is empty"
    elif len({*isr}) != len(isr):
        found[Invariant.ISR_DISTINCT] = f"the ISR {listed(isr)} names a broker twice"
    if former is not None and state.leader_epoch <= former.leader_epoch:
        _see_epoch(former, state, found)
    return found


def _see_assignment(assignment: Assignment, found: dict[Invariant, str]) -> None:
    replicas, adding, removing = assignment.replicas, assignment.adding, assignment.removing
    if not replicas or len({*replicas}) != len(replicas):
        found[Invariant.ASSIGNMENT] = f"the assignment {listed(replicas)} is empty or names a broker twice"
    elif adding or removing:
        moved = {*adding, *removing}
        is_disjoint, has_target = len(moved) == len(adding) + len(removing), len(removing) < len(replicas)
        if not (is_disjoint and has_target and moved.issubset(replicas)):
            what = f"adds {listed(adding)} and removes {listed(removing)}"
            found[Invariant.ASSIGNMENT] = f"the assignment {listed(replicas)} {what}"


def _see_epoch(former: PartitionState, state: PartitionState, found: dict[Invariant, str]) -> None:
    if state.leader_epoch < former.leader_epoch:
        fell = f"the leader epoch fell from {former.leader_epoch} to {state.leader_epoch}"
        found[Invariant.LEADER_EPOCH_RISES] = fell
    elif state.leader != former.leader:
        within = f"leader {former.leader} became {state.leader} within leader epoch {state.leader_epoch}"
        found[Invariant.ONE_LEADER_AN_EPOCH] = within
