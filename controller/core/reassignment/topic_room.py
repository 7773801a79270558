"""Has a topic's znode room for one more move? A partition's entry grows to three or four times its size while it moves.

Four fifths of what ZooKeeper takes in one request are for moves; the rest is left for what cannot wait.
"""

from __future__ import annotations

from controller.core.reassignment.places import NOWHERE, ZNODE, Place, Places, Room
from controller.core.reassignment.queue_writes import Plan
from controller.core.steps.change import Case
from controller.core.steps.draft import Draft
from controller.core.transactions.sizes import ALARMING_SHARE, RequestSizes
from controller.core.turn.shared import Shared
from zk_layout.ids import PartitionId, TopicName
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress, encode

MOVING_BYTES = 256  # more than a moving partition takes, unless it has ten replicas
COMMAS = 2


class TopicRoom:
    """The room in topics' znodes, where moves wait for it."""

    def __init__(self, shared: Shared, room: Room) -> None:
        self._shared = shared
        self._room = room

    @property
    def is_waited_for(self) -> bool:
        """Whether moves wait for it."""
        return self._shared.settings.moves_wait_for_znodes

    def before(self, name: TopicName) -> Places:
        """Where a move of this topic takes room: nowhere if all its partitions could move at once."""
        topic = self._shared.cluster.topics.get(name) if self.is_waited_for else None
        if topic is None or MOVING_BYTES * len(topic.partitions) <= _most_bytes(name, self._shared.sizes):
            return NOWHERE
        return (room_of(name),)

    def takes(self, plan: Plan, case: Case, to: Assignment) -> bool:
        """Whether one more move may begin in this step. Without others in flight there is nothing to wait for: what
        never fits is refused.
        """
        name = case.at.topic
        if not self.before(name):
            return True
        if plan.left_bytes is None:
            plan.left_bytes = left_bytes(plan.step.planned, self._shared.sizes)
        place, growth = room_of(name), growth_bytes(case.at.partition, case.assignment, to)
        limit = self._room.limit(place)
        if growth <= plan.left_bytes or not (plan.begun or self._shared.cluster.moving.get(name)):
            plan.left_bytes -= growth
            if limit is not None and 2 * growth <= plan.left_bytes:
                self._room.fit(place, limit + 1)
            return True
        self._room.fit(place, max(1, self._room.taken(place)))
        return False


def room_of(name: TopicName) -> Place:
    """The place at which the moves of a topic wait for each other."""
    return Place(ZNODE, name=name)


def left_bytes(draft: Draft, sizes: RequestSizes) -> int:
    """How many bytes are left for moves, after what has been decided. Passes over all partitions of the topic."""
    topic = draft.topic
    assignments = {n: draft.assignment_of(n) or held.assignment for n, held in topic.partitions.items()}
    return _most_bytes(topic.name, sizes) - len(encode(Topic(assignments, topic.topic_id)))


def growth_bytes(number: PartitionId, before: Assignment, after: Assignment) -> int:
    """How much the znode grows by at most when a partition's replicas change.

    >>> growth_bytes(PartitionId(7), Assignment((1, 2)), Assignment((3, 1, 2), (3,), (1,)))
    18
    """
    return len(encode(Topic({number: after}))) - len(encode(Topic({number: before}))) + COMMAS


def _most_bytes(name: TopicName, sizes: RequestSizes) -> int:
    return int(ALARMING_SHARE * sizes.most_data_bytes(TopicAddress(name).path))
