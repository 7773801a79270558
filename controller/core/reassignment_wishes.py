"""What does somebody wish by writing or deleting a child of `/admin/reassignments`, and what shall the child say then?

A child that differs from where the topic znode sends its partition is a wish, because the controller never leaves such
a child behind: what it changes itself changes in the same transaction, or where that would be too large before it. A
child that was there in this reign and is gone while its move goes on is a wish to cancel, for the controller deletes a
child no earlier than its move. What was not there when the reign began says nothing: it is created again.

Source: KIP-236 "Proposed Changes": a new child starts a move, changed contents start it again, the old replicas as
contents cancel it, and "the child nodes are precisely the replicas currently being reassigned".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.core.cluster import Cluster, Partition, TopicView
from controller.core.draft import Draft
from controller.core.effects import Create, Delete, Set
from controller.core.move_znodes import ABSENT, MoveZnode
from controller.core.requests import MoveWish
from zk_layout.ids import PartitionId, Replicas, TopicPartition
from zk_layout.znodes.reassignments import Reassignment, ReassignmentAddress


def wishes(topic: TopicView, numbers: Iterable[PartitionId], cluster: Cluster) -> Iterator[MoveWish]:
    """What the children of these partitions ask for that is not under way yet.

    Of a child and an entry of the legacy znode the later one counts, also where the child wants things to stay. A child
    older than the topic was a former topic's.
    """
    znodes = cluster.move_znodes
    children = znodes.children.get(topic.name, {})
    taken_away = znodes.taken_away.get(topic.name, set())
    if not children and not taken_away:
        return
    for number in sorted(numbers):
        at, held, child = TopicPartition(topic.name, number), topic.partitions.get(number), children.get(number)
        if child is None:
            if number in taken_away and held is not None and held.assignment.is_moving and not is_unread(topic, held):
                yield MoveWish(at, None)
        elif child.replicas is not None and not is_unread(topic, held) and not znodes.is_void(at, child):
            target = held.assignment.target if held is not None else ()
            is_older = at in cluster.legacy and child.mzxid < cluster.legacy_czxid
            differs = child.replicas != target or cluster.legacy.get(at, target) != target
            if differs and not is_older and child.mzxid > topic.czxid:
                yield MoveWish(at, child.replicas)


def is_unread(topic: TopicView, held: Partition | None) -> bool:
    """Whether nothing can be said of a partition before its znodes were read, or mended."""
    return topic.is_malformed or (held is not None and (not held.is_state_known or held.is_malformed))


def keep(draft: Draft, numbers: Iterable[PartitionId], cluster: Cluster) -> None:
    """Let the children of these partitions, and of those this step decided about, say what will be under way."""
    znodes, topic = cluster.move_znodes, draft.topic
    if topic.is_malformed:
        return
    children = znodes.children.get(topic.name, {})
    for number in sorted({*numbers, *draft.assigned}):
        at, held, child = TopicPartition(topic.name, number), topic.partitions.get(number), children.get(number)
        assignment = draft.assignment_of(number)
        target = assignment.target if assignment is not None and assignment.is_moving else None
        if child is None:
            # A child later than an entry of the legacy znode overrules it: none is made before the entry was judged.
            is_judged = at not in cluster.legacy or not is_unread(topic, held)
            if target is not None and znodes.folder_version != ABSENT and is_judged:
                draft.keep_child(Create(_address(at), Reassignment(target)))
        elif not _is_awaited(child) and not (number not in draft.assigned and is_unread(topic, held)):
            _correct(draft, at, child, target)


def _correct(draft: Draft, at: TopicPartition, child: MoveZnode, target: Replicas | None) -> None:
    if target is None:
        draft.keep_child(Delete(_address(at), child.version))
    elif child.replicas != target:
        draft.keep_child(Set(_address(at), Reassignment(target), child.version))


def _is_awaited(child: MoveZnode) -> bool:
    """Somebody created it and has still to write into it."""
    return child.replicas is None and not child.is_malformed


def _address(at: TopicPartition) -> ReassignmentAddress:
    return ReassignmentAddress(at.topic, at.partition)
