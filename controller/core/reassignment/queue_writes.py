"""What do the znodes of waiting moves say after a topic's step, and which of them belong to no topic?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from controller.core.messages.effects import Create, Delete, Set, Write
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.state.topics import TopicView
from controller.core.state.view import Cluster
from controller.core.state.waiting_znodes import WaitingPart, WaitingZnodes
from controller.core.steps.step import Step
from controller.core.transactions.owner import Transactions
from controller.core.transactions.proposal import Atom, Proposal, Subject, topic_subject
from zk_layout.ids import PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.topics import TopicAddress
from zk_layout.znodes.waiting_moves import PartNumber, WaitingMove, WaitingMoves, WaitingMovesAddress, part_of

Moves = dict[PartitionId, WaitingMove | None]


class Noted(Enum):
    """A request is accepted, and changes no replicas now."""

    IN_ZNODES = "its znodes say so once the step is written"


class Plan(Struct, eq=False):
    """What one step of a topic changes about waiting moves.

    Shape:
        `changed` maps partitions to the move for which they wait from now on, None if they do not. For moves of those
        `begun` room is kept. `why` has one sentence for each change that no other decision explains. `left_bytes` are
        left for moves in the topic's znode; None if that was not counted yet. Those `given_up` have waited too long.
    """

    step: Step
    changed: Moves = field(default_factory=dict)
    begun: dict[TopicPartition, None] = field(default_factory=dict)
    why: list[str] = field(default_factory=list)
    left_bytes: int | None = None
    given_up: dict[TopicPartition, str] = field(default_factory=dict)

    def add(self, number: PartitionId, move: WaitingMove, why: str) -> None:
        """Let a partition wait for this move."""
        self.changed[number] = move
        self.why.append(why)

    def drop(self, number: PartitionId, why: str | None) -> None:
        """Let a partition wait for nothing."""
        self.changed[number] = None
        if why is not None:
            self.why.append(why)

    def follow(self, number: PartitionId, move: WaitingMove, former: Replicas) -> None:
        """Let a partition wait on, which this step moves for another reason."""
        self.changed[number] = replace(move, former=former)


def is_readable(state: WaitingZnodes, address: WaitingMovesAddress, cluster: Cluster) -> bool:
    """Whether it is known what a part says, so that it can be written."""
    part = state.of(address.topic).get(address.part)
    return not cluster.is_unreadable(address) and (part is None or part.value is not None)


def refused_write(at: TopicPartition, state: WaitingZnodes, cluster: Cluster) -> Refusal | None:
    """The refusal of a request that would need a part written which cannot be read."""
    address = WaitingMovesAddress(at.topic, part_of(at.partition))
    if is_readable(state, address, cluster):
        return None
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"{address.path} cannot be read; repair or delete it first")


def part_writes(topic: TopicView, plan: Plan, state: WaitingZnodes, cluster: Cluster) -> Iterator[Write]:
    """The parts that change with a step; those that cannot be read stay as they are."""
    by_part: dict[PartNumber, Moves] = {}
    for number, move in sorted(plan.changed.items()):
        by_part.setdefault(part_of(number), {})[number] = move
    for part_number, changed in by_part.items():
        address = WaitingMovesAddress(topic.name, part_number)
        if not is_readable(state, address, cluster):
            continue
        part = state.of(topic.name).get(part_number)
        before = {} if part is None else part.moves_of(topic)
        after = _changed(before, changed, part_number)
        if after != before:
            yield from _write(address, part, WaitingMoves(topic.czxid, after, topic.topic_id))


def _changed(
    before: Mapping[PartitionId, WaitingMove], changed: Moves, part: PartNumber
) -> dict[PartitionId, WaitingMove]:
    moves: Moves = {**before, **changed}
    return {n: move for n, move in sorted(moves.items()) if move is not None and part_of(n) == part}


def _write(address: WaitingMovesAddress, part: WaitingPart | None, value: WaitingMoves) -> Iterator[Write]:
    if part is None:
        yield Create(address, value)
    elif value.moves:
        yield Set(address, value, part.version)
    else:
        yield Delete(address, part.version)


def without_strays(
    strays: dict[TopicName, None], state: WaitingZnodes, cluster: Cluster, transactions: Transactions
) -> list[Proposal]:
    """Delete the parts that belong to no topic; names that have none are dropped from `strays`."""
    proposals = []
    for name in tuple(strays):
        subject, topic = Subject("waiting moves of", name), topic_subject(name)
        if not transactions.may_propose(subject) or transactions.is_busy(topic):
            continue
        writes = _stray_parts(name, state, cluster)
        if writes:
            why = f"what waited to move in topic {name} is forgotten: that topic is gone"
            proposals.append(Proposal(subject, (Atom(writes, (why,)),), (topic,)))
        elif writes is not None:
            del strays[name]
    return proposals


def _stray_parts(name: TopicName, state: WaitingZnodes, cluster: Cluster) -> tuple[Write, ...] | None:
    """Delete the parts that no topic of this name needs; None while it is unknown whether there is one."""
    topic = cluster.topics.get(name)
    if topic is None and cluster.is_unreadable(TopicAddress(name)):
        return None
    return tuple(
        Delete(WaitingMovesAddress(name, number), part.version)
        for number, part in sorted(state.of(name).items())
        if topic is None or not part.is_of(topic)
    )
