"""What would take the moves of a request back, and which of them cannot be, because something has changed since?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from controller.reassign.cluster import Listing, Move, Node, unfit
from controller.reassign.plans import listed, plural
from zk_layout.ids import BrokerId, PartitionId, Replicas, RequestId, TopicId, TopicName, TopicPartition, Zxid
from zk_layout.znodes.move_records import MoveRecords, TopicRecord
from zk_layout.znodes.topics import Assignment


class How(Enum):
    """What taking one move back means."""

    COPYING = "copies"
    AT_ONCE = "copies nothing"
    REDIRECTING = "still moves, turns back at once"
    UNQUEUEING = "has not begun, and does not begin"


class TopicNow(Struct, frozen=True):
    """A topic as its znode is now."""

    czxid: Zxid
    topic_id: TopicId | None
    partitions: Mapping[PartitionId, Assignment]


class Back(Struct, frozen=True):
    """One move that can be taken back: where the partition is, or where it moves to, and where it goes."""

    at: TopicPartition
    how: How
    now: Replicas
    to: Replicas

    @property
    def receivers(self) -> Replicas:
        """The brokers that copy."""
        return tuple(b for b in self.to if b not in self.now) if self.how is How.COPYING else ()

    @property
    def target(self) -> Replicas | None:
        """What to ask for; None takes a move out of the queue."""
        return None if self.how is How.UNQUEUEING else self.to

    @property
    def sentence(self) -> str:
        """For people.

        >>> at = TopicPartition(TopicName("orders"), PartitionId(0))
        >>> Back(at, How.COPYING, (3, 2), (1, 2)).sentence
        'orders-0: 3,2 -> 1,2; copies to 1'
        """
        what = f"copies to {listed(self.receivers)}" if self.receivers else self.how.value
        return f"{self.at}: {listed(self.now)} -> {listed(self.to)}; {what}"

    @property
    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "topic": self.at.topic,
            "partition": self.at.partition,
            "how": self.how.name.lower(),
            "now": list(self.now),
            "to": list(self.to),
            "receivers": list(self.receivers),
        }


class Undo(Struct, frozen=True):
    """What happens to each move of a request: it is taken back, needs nothing, or is left alone for a reason."""

    request: RequestId
    backs: tuple[Back, ...]
    is_there: tuple[TopicPartition, ...]
    left: Mapping[TopicPartition, str]

    @property
    def targets(self) -> dict[TopicPartition, Replicas | None]:
        """What to ask the controller for."""
        return {back.at: back.target for back in self.backs}

    @property
    def hash(self) -> str:
        """Names exactly this plan."""
        whole = [self.request, [back.document for back in self.backs], [str(at) for at in sorted(self.left)]]
        return sha256(msgspec.json.encode(whole, order="sorted")).hexdigest()[:16]

    @property
    def summary(self) -> str:
        """How much it is.

        >>> Undo(RequestId(7), (), (), {}).summary
        '0 partitions go back, 0 replicas are copied'
        """
        copies = sum(len(back.receivers) for back in self.backs)
        goes = "goes" if len(self.backs) == 1 else "go"
        is_ = "is" if copies == 1 else "are"
        of_copies = "replica" if copies == 1 else "replicas"
        return f"{len(self.backs)} partition{plural(self.backs)} {goes} back, {copies} {of_copies} {is_} copied"


def undo(
    request: RequestId,
    records: Iterable[MoveRecords],
    topics: Mapping[TopicName, TopicNow],
    listing: Listing,
    nodes: Mapping[BrokerId, Node],
) -> Undo:
    """Judge each recorded move by what the cluster shows now. Decides nothing about moves of other requests."""
    backs: list[Back] = []
    there: list[TopicPartition] = []
    left: dict[TopicPartition, str] = {}
    for name, record in ((name, record) for part in records for name, record in part.topics.items()):
        for number, (to, former) in record.moves.items():
            at = TopicPartition(name, PartitionId(number))
            verdict = _judge(at, record, topics.get(name), listing.moves.get(at), nodes)
            if isinstance(verdict, Back):
                backs.append(verdict)
            elif verdict is None:
                there.append(at)
            else:
                left[at] = verdict.format(request=request, to=listed(to), former=listed(former))
    backs.sort(key=lambda back: back.at)
    return Undo(request, tuple(backs), tuple(sorted(there)), dict(sorted(left.items())))


def _judge(
    at: TopicPartition,
    record: TopicRecord,
    topic: TopicNow | None,
    move: Move | None,
    nodes: Mapping[BrokerId, Node],
) -> Back | str | None:
    """How to take a move back, or why not; None if the partition is back already."""
    to, former = record.moves[at.partition]
    assignment = None if topic is None else topic.partitions.get(at.partition)
    if topic is None:
        return "the topic does not exist any more"
    if record.czxid != topic.czxid and (record.topic_id is None or record.topic_id != topic.topic_id):
        return "the topic was deleted and created again since"
    if assignment is None:
        return "the partition does not exist any more"
    if assignment.is_moving:
        if assignment.target != to:
            return f"it moves to {listed(assignment.target)} now, not to {{to}} as request {{request}} asked"
        return Back(at, How.REDIRECTING, assignment.target, former)
    if _waits(move, assignment):
        return _unqueued(at, to, assignment, move)
    if assignment.replicas == former:
        return None
    if assignment.replicas != to:
        return f"it has the replicas {listed(assignment.replicas)} now, not {{to}} as request {{request}} left it"
    added = [broker for broker in former if broker not in to]
    if reasons := unfit(added, nodes):
        return f"it was on {{former}}. {'. '.join(reasons)}"
    return Back(at, How.COPYING if added else How.AT_ONCE, to, former)


def _waits(move: Move | None, assignment: Assignment) -> bool:
    """Whether a move is listed that has not begun: what it adds is not among the replicas."""
    return move is not None and set(move.replicas) == set(assignment.replicas) and move.target != move.replicas


def _unqueued(at: TopicPartition, to: Replicas, assignment: Assignment, move: Move | None) -> Back | str:
    if move is not None and set(move.target) != set(to):
        return f"a later request lets it wait for a move to {listed(move.target)}"
    return Back(at, How.UNQUEUEING, to, assignment.replicas)
