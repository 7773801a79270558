"""What is read of a topic for the first time, in one go: most of a load.

The result is that of folding one partition and one state after the other, at a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from controller.core.state.changes import OpenChanges
from controller.core.state.placement import PlacementIndex
from controller.core.state.topic_record import Record
from controller.core.state.topics import BLANK, NEVER, UNASSIGNED, Partition, TopicView
from zk_layout.facts import Fact
from zk_layout.ids import PartitionEpoch, TopicName
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Topic


def assign_first(
    record: Record, name: TopicName, value: Topic, changes: OpenChanges, placement: PlacementIndex
) -> None:
    """Assign the replicas of a topic of whose partitions nothing is known."""
    listed = value.partitions
    if UNASSIGNED in listed.values():
        listed = {n: assignment for n, assignment in listed.items() if assignment != UNASSIGNED}
    changes.touch_all(name, listed, BLANK)
    record.partitions |= {number: Partition(assignment) for number, assignment in listed.items()}
    is_queued = record.view is not None and record.view.is_queued_for_deletion
    placement.assign_first(name, listed, may_move=not is_queued)


def first_states(
    record: Record, topic: TopicView, facts: Iterable[Fact], changes: OpenChanges, note_parent: Callable[[Fact], None]
) -> Iterator[Fact]:
    """Fold in the states of one topic that are read for the first time. Every other fact is yielded when it is its
    turn: the caller folds it, and then asks for the next.
    """
    partitions, touched = record.partitions, changes.partitions.get(topic.name, {})
    for fact in facts:
        address, state, stat, as_of = fact.address, fact.value, fact.stat, fact.as_of
        if stat is None or not isinstance(state, PartitionState) or not isinstance(address, StateAddress):
            yield fact
            continue
        number = address.partition
        held = partitions.get(number, BLANK)
        if held.is_state_known or held.as_of != NEVER or not held.znode_as_of <= as_of >= topic.czxid:
            yield fact
            continue
        if as_of > record.partitions_znode_as_of or not record.partitions_znode:
            note_parent(fact)
        epoch = PartitionEpoch(stat.version)
        partitions[number] = Partition(held.assignment, state, epoch, as_of, True, False, True, as_of)
        if number not in touched:
            changes.touch(topic.name, number, held)
