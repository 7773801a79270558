"""Which requests await an answer, and what is still missing from it?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import assert_never

from msgspec import Struct, field

from controller.core.messages.errors import MESSAGES, ErrorCode, Refusal
from controller.core.messages.events import CallId
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import (
    IsrResult,
    LeadersElected,
    PartitionResult,
    PartitionsAltered,
    PartitionsCreated,
    ReassignmentsAltered,
    Reply,
    Result,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
    TopicsCreated,
    TopicsDeleted,
)
from controller.core.messages.requests import (
    AlterPartition,
    AlterReassignments,
    Caller,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Election,
    ElectLeaders,
    Growth,
    IsrProposal,
    NewTopic,
    PartitionReassignment,
    TopicReference,
    TopicRequest,
)
from controller.core.quotas.mutations import MutationQuotas
from zk_layout.ids import PartitionId, Replicas, TopicName, TopicPartition

WHOLE_TOPIC = PartitionId(-1)
PLACED_AS_ONE = 8
EVERY = 1_000_000_000
Wanted = PartitionReassignment | IsrProposal | NewTopic | TopicReference | Growth | Election
Divided = AlterReassignments | AlterPartition | TopicRequest


class Item(Struct, frozen=True):
    """The part of a request that concerns one partition, or a topic as a whole (`WHOLE_TOPIC`)."""

    call: CallId
    index: int
    at: TopicPartition
    wanted: Wanted


class _Open(Struct):
    request: Divided
    items: list[Item]
    rest: Iterator[Item]
    results: list[Result | None]
    missing: int
    caller: Caller | None = None
    formers: dict[int, Replicas] = field(default_factory=dict)


Held = Callable[[CallId, Divided, Caller | None, Reply, Outbox], bool]


class OpenRequests:
    """Requests decided topic by topic; each is answered once, when its last part is settled."""

    def __init__(self, quotas: MutationQuotas) -> None:
        """Begin without requests. `quotas` determine how long a client must wait after its answer."""
        self._quotas = quotas
        self._open: dict[CallId, _Open] = {}
        self._inbox: dict[TopicName, list[Item]] = {}
        self._on_settled: list[Callable[[Item, Result], None]] = []
        self._on_given_up: list[Callable[[CallId], None]] = []
        self._holders: list[Held] = []

    def watch(self, settled: Callable[[Item, Result], None], given_up: Callable[[CallId], None], holds: Held) -> None:
        """Register callbacks for settled parts and for abandoned requests, and one that may hold an answer to give it
        later.
        """
        self._on_settled.append(settled)
        self._on_given_up.append(given_up)
        self._holders.append(holds)

    def open(
        self, call: CallId, request: Divided, items: Sequence[Item], refused: Sequence[tuple[int, Result]], out: Outbox
    ) -> None:
        """Open a request; the parts in `refused`, by index, are settled already."""
        size = len(items) + len(refused)
        held = self._open[call] = _Open(request, list(items), iter(()), [None] * size, size)
        for item in items:
            self._inbox.setdefault(item.at.topic, []).append(item)
        for index, result in refused:
            held.results[index] = result
            held.missing -= 1
        self._close_if_done(call, out)

    def open_bit_by_bit(self, call: CallId, request: Divided, items: Iterator[Item], size: int, out: Outbox) -> None:
        """Open a request with too many parts for one turn; `go_on` queues them for their topics."""
        self._open[call] = _Open(request, [], items, [None] * size, size)
        self._close_if_done(call, out)

    def go_on(self, call: CallId, most: int) -> list[Item]:
        """Queue up to `most` more parts of such a request; returns them, or none at its end."""
        held = self._open.get(call)
        items = [] if held is None else list(islice(held.rest, most))
        if held is not None:
            held.items += items
        for item in items:
            self._inbox.setdefault(item.at.topic, []).append(item)
        return items

    def note_caller(self, call: CallId, caller: Caller) -> None:
        """Note who made a request, for the callback that may hold its answer."""
        held = self._open.get(call)
        if held is not None:
            held.caller = caller

    def note_former(self, item: Item, former: Replicas) -> None:
        """Note at which replicas the partition of a part was aimed when it was decided."""
        held = self._open.get(item.call)
        if held is not None:
            held.formers[item.index] = former

    def former(self, item: Item) -> Replicas:
        """At which replicas the partition of a part was aimed before; empty if the part changed nothing."""
        held = self._open.get(item.call)
        return () if held is None else held.formers.get(item.index, ())

    def is_open(self, call: CallId) -> bool:
        """Whether the caller still waits for the answer."""
        return call in self._open

    def request(self, call: CallId) -> Divided | None:
        """The original request; None once it has been answered."""
        held = self._open.get(call)
        return None if held is None else held.request

    def take(self, topic: TopicName, most: int = EVERY) -> list[Item]:
        """Take up to `most` parts that wait for this topic, in order of arrival; skips settled ones."""
        waiting = self._inbox.pop(topic, [])
        if len(waiting) > most:
            self._inbox[topic] = waiting[most:]
        return [item for item in waiting[:most] if self._is_unsettled(item)]

    def _is_unsettled(self, item: Item) -> bool:
        held = self._open.get(item.call)
        return held is not None and held.results[item.index] is None

    def waiting(self, topic: TopicName) -> int:
        """The number of parts that wait for this topic."""
        return len(self._inbox.get(topic, ()))

    def work(self, topic: TopicName, most: int) -> int:
        """The work of the first parts that wait for this topic; placing a few partitions counts as one."""
        return sum(1 + _placed(item.wanted) // PLACED_AS_ONE for item in islice(self._inbox.get(topic, ()), most))

    def put_back(self, items: Iterable[Item]) -> None:
        """Queue these parts again, before any that came later."""
        by_topic: dict[TopicName, list[Item]] = {}
        for item in items:
            by_topic.setdefault(item.at.topic, []).append(item)
        for topic, again in by_topic.items():
            self._inbox[topic] = again + self._inbox.get(topic, [])

    def settle(self, item: Item, result: Result, out: Outbox) -> None:
        """Note the result of one part, and answer after the last. A result that comes too late is dropped."""
        held = self._open.get(item.call)
        if held is None or held.results[item.index] is not None:
            return
        held.results[item.index] = result
        held.missing -= 1
        for heard in self._on_settled:
            heard(item, result)
        self._close_if_done(item.call, out)

    def give_up(self, call: CallId, out: Outbox) -> None:
        """End a request whose time is over: undecided parts are refused, settled parts keep their result."""
        held = self._open.pop(call, None)
        if held is None:
            return
        for heard in self._on_given_up:
            heard(call)
        error = ErrorCode.REQUEST_TIMED_OUT
        for item in chain(held.items, held.rest):
            if held.results[item.index] is None:
                held.results[item.index] = refused(item, error, MESSAGES[error])
        reply = self._reply(call, held, out)
        if isinstance(reply, ReassignmentsAltered):
            reply = ReassignmentsAltered(reply.results, error, MESSAGES[error])
        out.answer(call, reply)

    def drop(self, call: CallId) -> None:
        """Drop a request that was answered elsewhere: nothing more is decided for it."""
        self._quotas.drop(call)
        if self._open.pop(call, None) is not None:
            for heard in self._on_given_up:
                heard(call)

    def _close_if_done(self, call: CallId, out: Outbox) -> None:
        held = self._open[call]
        if held.missing:
            return
        del self._open[call]
        reply = self._reply(call, held, out)
        if not any(holds(call, held.request, held.caller, reply, out) for holds in self._holders):
            out.answer(call, reply)

    def _reply(self, call: CallId, held: _Open, out: Outbox) -> Reply:
        throttle_ms = self._quotas.close(call, out.now)
        if throttle_ms:
            out.measured("requests_throttled", 1, type(held.request).__name__)
        return _reply(held.request, [r for r in held.results if r is not None], throttle_ms)


def _placed(wanted: Wanted) -> int:
    match wanted:
        case NewTopic(partition_count=count, assignments=assignments):
            return max(count, len(assignments))
        case Growth(partition_count=count):
            return count
        case _:
            return 0


def _reply(request: Divided, results: list[Result], throttle_ms: int) -> Reply:
    match request:
        case AlterPartition():
            return PartitionsAltered(tuple(r for r in results if isinstance(r, IsrResult) and _is_known(request, r)))
        case CreateTopics():
            return TopicsCreated(tuple(r for r in results if isinstance(r, TopicCreated)), throttle_ms)
        case DeleteTopics():
            return TopicsDeleted(tuple(r for r in results if isinstance(r, TopicDeleted)), throttle_ms)
        case CreatePartitions():
            return PartitionsCreated(tuple(r for r in results if isinstance(r, TopicGrown)), throttle_ms)
        case AlterReassignments():
            return ReassignmentsAltered(tuple(r for r in results if isinstance(r, PartitionResult)))
        case ElectLeaders():
            elected = tuple(r for r in results if isinstance(r, PartitionResult))
            if request.partitions is None:
                elected = tuple(r for r in elected if r.error is not ErrorCode.ELECTION_NOT_NEEDED)
            return LeadersElected(elected)
        case _:
            assert_never(request)


def _is_known(request: AlterPartition, result: IsrResult) -> bool:
    """Whether the leader can handle this result.

    Before 3.1 a leader that gets an error it does not know sends no more ISR changes in this leader epoch. Every
    version asks again for what the answer omits.

    Source: Kafka's Partition.handleAlterIsrResponse and AlterIsrManager, 2.7 to 3.0.
    """
    return request.names_topics_by_id or result.error is not ErrorCode.UNKNOWN_SERVER_ERROR


def granted(item: Item) -> Result:
    """The default answer to a part whose writes are done."""
    return refused(item, ErrorCode.NONE, None)


def oversized(item: Item, message: str) -> Result:
    """The answer to a part that would make a znode too large."""
    match item.wanted:
        case NewTopic() | Growth():
            return refused(item, ErrorCode.INVALID_PARTITIONS, message)
        case PartitionReassignment():
            return refused(item, ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        case _:
            return refused(item, ErrorCode.UNKNOWN_SERVER_ERROR, message)


def denied(item: Item, refusal: Refusal) -> Result:
    """The answer to a part that is refused."""
    return refused(item, refusal.error, refusal.message)


def refused(item: Item, error: ErrorCode, message: str | None) -> Result:
    """The answer to a part with nothing but an error, or none."""
    topic = item.at.topic
    match item.wanted:
        case IsrProposal() as wanted:
            return IsrResult(topic, wanted.topic.topic_id, item.at.partition, error)
        case NewTopic():
            return TopicCreated(topic, error, message)
        case TopicReference() as wanted:
            return TopicDeleted(topic, wanted.topic_id, error, message)
        case Growth():
            return TopicGrown(topic, error, message)
        case PartitionReassignment() | Election():
            return moved(item, error, message)
        case _:
            assert_never(item.wanted)


def moved(item: Item, error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> PartitionResult:
    """The outcome of a request to move or to cancel."""
    return PartitionResult(item.at, error, message)
