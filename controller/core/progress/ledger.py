"""Which reassignment request does each move belong to, and what became of the request?

Every accepted request gets a rising id: the new version of `/admin/reassign_partitions_status` in the transaction that
also creates the request's status below it. The client gets the id once that is written. Moves without a request, such
as those of the legacy znode, are grouped under an id of their own. The facts determine the outcome of each partition,
so that a successor reaches the same one. An accepted partition may wait before its move begins; no fact shows that, so
its entry does.

Source: KIP-179 "Implementation".
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import UNSET, Struct, field

from controller.core.messages.effects import Asking, MoveAccounted, RequestAccounted
from controller.core.messages.events import CallId
from controller.core.messages.replies import ReassignmentsAltered
from controller.core.messages.requests import Caller
from controller.core.progress import accounting
from controller.core.progress.accounting import Course, Ended
from controller.core.progress.closing import Closing
from controller.core.progress.recording import Recording, most_bytes
from controller.core.state.placement import Numbers, discard
from controller.core.state.topics import Partition, TopicIdentity, TopicView
from controller.core.state.view import Cluster
from controller.core.transactions.sizes import RequestSizes
from zk_layout.ids import Replicas, RequestId, TopicPartition, Zxid
from zk_layout.znodes.reassignment_status import PartitionStatus, RequestStatus, TopicStatus

BY_REQUEST = "AlterPartitionReassignments"
BY_LEGACY_ZNODE = "/admin/reassign_partitions"
BY_MOVE_ZNODE = "/admin/reassignments"
FOUND = "found under way"

WAITING, IN_PROGRESS = "waiting", "in progress"
COMPLETED, CANCELLED, SUPERSEDED, DELETED = "completed", "cancelled", "superseded", "deleted"
GAVE_UP = "gave up"


class Entry(Struct):
    """One partition of a request: its target, and its outcome.

    Shape:
        `waits_in` is the topic while the move has not begun, else None. `granted_in` is the topic in which this term
        granted it: before all of its request is granted, that topic may be deleted, and created again. `former` are the
        replicas at which the partition was aimed before; empty if unknown, or recorded by an earlier term.
    """

    replicas: Replicas
    is_cancel: bool = False
    outcome: str | None = None
    copied_bytes: int | None = None
    waits_in: TopicIdentity | None = None
    former: Replicas = ()
    granted_in: TopicIdentity | None = None


class OpenRequest(Struct, eq=False):
    """A request that is not done, or whose end is not written yet.

    Shape:
        `ended` counts the entries by outcome, `waiting` those whose move has not begun, and `copied_bytes` is their
        sum, so that the end of a request for 100,000 partitions does not iterate over all of them. `closing` follows
        what its receiving brokers lack. `recording` has what is to be recorded of its moves with its status. `untold`
        are moves that ended, which the log of moves does not tell yet. `is_reopened`: an earlier term accepted it.
    Units:
        `requested_ms` and `finished_ms` are Unix milliseconds; `written_at` is in monotonic seconds.
    """

    origin: str
    requested_ms: int
    entries: dict[TopicPartition, Entry]
    ended: Counter[str] = field(default_factory=Counter)
    copied_bytes: int = 0
    waiting: int = 0
    unfinished: int = 0
    request: RequestId | None = None
    call: CallId | None = None
    caller: Caller | None = None
    reason: str | None = None
    give_up_ms: int | None = None
    is_reopened: bool = False
    is_accepted_told: bool = False
    is_telling: bool = False
    untold: deque[Ended] = field(default_factory=deque)
    recording: Recording | None = None
    reply: ReassignmentsAltered | None = None
    finished_ms: int | None = None
    written_at: float = 0.0
    has_news: bool = False
    is_being_written: bool = False
    is_put_off: bool = False
    closing: Closing = field(default_factory=Closing)

    @property
    def counts(self) -> dict[str, int]:
        """The number of partitions by outcome."""
        begun = len(self.entries) - self.ended.total() - self.waiting
        counts = {**self.ended, IN_PROGRESS: begun, WAITING: self.waiting}
        return {outcome: count for outcome, count in sorted(counts.items()) if count}

    @property
    def asking(self) -> Asking:
        """Who asked for it, and why, for the log of moves."""
        return Asking(self.request, self.origin, self.requested_ms, self.caller, self.reason)

    def begin(self, at: TopicPartition) -> None:
        """Note that the move of one partition no longer waits."""
        entry = self.entries[at]
        if entry.waits_in is not None:
            entry.waits_in, self.has_news = None, True
            self.waiting -= 1

    def end(self, at: TopicPartition, outcome: str, copied_bytes: int | None) -> None:
        """Note the outcome of one partition, and what was copied for it."""
        self.begin(at)
        entry = self.entries[at]
        entry.outcome, entry.copied_bytes = outcome, copied_bytes
        self.ended[outcome] += 1
        self.copied_bytes += copied_bytes or 0
        self.closing.finish(at, is_complete=outcome == COMPLETED)


class RequestLedger:
    """The requests that are not done, by id and by the partitions they still move."""

    def __init__(
        self,
        cluster: Cluster,
        budget: int = 3_000,
        recorded_in: RequestSizes | None = None,
        *,
        is_accounting: bool = False,
    ) -> None:
        """Begin without requests. `budget` is how many partitions of requests a turn examines. Moves are recorded in
        znodes of these sizes, if any; with `is_accounting` the log of moves gets each that ends.
        """
        self._cluster = cluster
        self.is_accounting = is_accounting
        self._telling: deque[OpenRequest] = deque()
        self.course_of: Callable[[TopicPartition, Replicas, int], Course | None] = lambda _at, _to, _now_ms: None
        self._recorded_in = recorded_in
        self._of: dict[TopicPartition, list[OpenRequest]] = {}
        self._claimed: dict[CallId, dict[TopicPartition, Entry]] = {}
        self._registering: deque[tuple[OpenRequest, Iterator[tuple[TopicPartition, Entry]]]] = deque()
        self._through: list[OpenRequest] = []
        self._budget = self._left = budget
        self._last_identity = TopicIdentity(Zxid(0))
        self.waiting: Numbers = {}
        self.orphans: dict[TopicPartition, Replicas] = {}
        self.open: dict[RequestId, OpenRequest] = {}
        self.finished: list[OpenRequest] = []

    def reopen(self, status: RequestStatus, request: RequestId, now_ms: int) -> None:
        """Continue a request of an earlier term; the facts show what happened to its partitions meanwhile."""
        entries = {TopicPartition(t.topic, p.partition): _kept(p, t) for t in status.topics for p in t.partitions}
        ended = Counter(entry.outcome for entry in entries.values() if entry.outcome is not None)
        copied = sum(entry.copied_bytes or 0 for entry in entries.values())
        waiting = sum(entry.waits_in is not None for entry in entries.values())
        reopened = OpenRequest(status.origin, status.requested_ms, entries, ended, copied, waiting, request=request)
        reopened.reason = status.reason or None
        reopened.give_up_ms = None if status.give_up_ms is UNSET else status.give_up_ms
        reopened.is_reopened = reopened.is_accepted_told = True
        self.open[request] = reopened
        self.register(reopened, now_ms)

    def register(self, asked: OpenRequest, now_ms: int) -> None:
        """Register an accepted request, or adopted moves, without an id yet.

        Examines its partitions as far as this turn's budget allows; until all are, the request counts as unfinished.
        """
        asked.unfinished = 1
        self._registering.append((asked, iter(asked.entries.items())))
        self._advance(now_ms)

    def go_on(self, now_ms: int) -> list[OpenRequest]:
        """Continue registering; return the requests that are now completely registered."""
        self._advance(now_ms)
        through, self._through, self._left = self._through, [], self._budget
        return through

    def _advance(self, now_ms: int) -> None:
        while self._registering and self._left > 0:
            asked, entries = self._registering[0]
            for at, entry in islice(entries, self._left):
                self._take_over(asked, at, entry, now_ms)
                self._left -= 1
            if self._left > 0:
                self._registering.popleft()
                self._finish_one(asked, now_ms)
                self._through.append(asked)

    @property
    def is_going_on(self) -> bool:
        """Whether partitions of requests are left to examine."""
        return bool(self._registering)

    def _take_over(self, asked: OpenRequest, at: TopicPartition, entry: Entry, now_ms: int) -> None:
        self._record(asked, at, entry)
        self.orphans.pop(at, None)
        for earlier in tuple(self._of.get(at, ())):
            outcome = _overridden(earlier.entries[at], entry) if _may_override(asked, earlier, at) else None
            if outcome is not None and not self._is_in_force(at, earlier.entries[at]):
                self._settle(at, earlier, outcome, None, now_ms)
        if entry.outcome is None:
            asked.unfinished += 1
            self._of.setdefault(at, []).append(asked)
        if entry.waits_in is not None:
            asked.waiting += asked.request is None
            self.waiting.setdefault(at.topic, {})[at.partition] = None
        self.see(at, self._cluster.partition(at), now_ms)
        if self._cluster.waiting_move(at) is None:
            self.left_queue(at, now_ms)  # before all of the request was granted, or an earlier term wrote that it waits
        elif entry.outcome is None and entry.waits_in is not None and not self._is_in_force(at, entry):
            self._settle(at, asked, SUPERSEDED, None, now_ms)

    def _is_in_force(self, at: TopicPartition, entry: Entry) -> bool:
        """Whether a partition moves, or waits to move, as an entry says: what was granted after that shows there."""
        if entry.waits_in is not None:
            waiting = self._cluster.waiting_move(at)
            return waiting is not None and waiting.to == entry.replicas
        held = self._cluster.partition(at)
        return held is not None and held.assignment.is_moving and held.assignment.target == entry.replicas

    def _record(self, asked: OpenRequest, at: TopicPartition, entry: Entry) -> None:
        topic, sizes = entry.granted_in, self._recorded_in
        if sizes is None or topic is None or not entry.former or entry.former == entry.replicas:
            return
        if asked.recording is None:
            asked.recording = Recording(most_bytes(sizes))
        asked.recording.add(at, topic, entry.replicas, entry.former)

    def _finish_one(self, asked: OpenRequest, now_ms: int) -> None:
        asked.unfinished -= 1
        if not asked.unfinished:
            self._end(asked, now_ms)

    def opened(self, asked: OpenRequest, request: RequestId, *, is_final: bool) -> None:
        """Note that a request's status was created; `is_final`: it already shows the request's end."""
        asked.request = request
        self._tell(asked)
        if is_final:
            return
        self.open[request] = asked
        if asked.finished_ms is not None:
            self.finished.append(asked)

    def closed(self, asked: OpenRequest) -> None:
        """Note that the end of a request is written."""
        if asked.request is not None:
            self.open.pop(asked.request, None)

    def forget(self, asked: OpenRequest) -> None:
        """Forget a request whose status someone else deleted."""
        self._tell(asked)
        if asked.request is not None:
            self.open.pop(asked.request, None)
        for at in asked.entries:
            self._drop(at, asked)

    @property
    def is_idle(self) -> bool:
        """Whether there is neither a request that moves anything nor a move without a request."""
        return not self._of and not self.orphans and not self._registering

    def claim(self, call: CallId, at: TopicPartition, former: Replicas, *, is_cancel: bool) -> None:
        """Note a granted part; the request's other parts may not be settled yet. `former` is where it was aimed."""
        held = self._cluster.partition(at)
        if held is None:
            return
        topic, waiting = self._identity(at), self._cluster.waiting_move(at)
        entry = Entry(held.assignment.target, is_cancel, former=former, granted_in=topic)
        if waiting is not None and not is_cancel:
            entry = Entry(waiting.to, waits_in=topic, former=former, granted_in=topic)
        self._claimed.setdefault(call, {})[at] = entry

    def _identity(self, at: TopicPartition) -> TopicIdentity:
        """The topic of an existing partition. What is granted is mostly sorted by topic: its partitions share one."""
        topic = self._cluster.topics[at.topic]
        if self._last_identity != (found := TopicIdentity(topic.czxid, topic.topic_id)):
            self._last_identity = found
        return self._last_identity

    def left_queue(self, at: TopicPartition, now_ms: int) -> None:
        """End the wait of a partition that waits no longer, unless the facts say what became of it."""
        held, topic = self._cluster.partition(at), self._cluster.topics.get(at.topic)
        claims = (entries.get(at) for entries in self._claimed.values())
        is_cancelled = any(claim is not None and claim.is_cancel for claim in claims)
        for asked in tuple(self._of.get(at, ())):
            entry = asked.entries[at]
            if entry.waits_in is not None and _outcome(entry, held, topic) == WAITING:
                has_given_up = at.partition in self._cluster.gave_up.get(at.topic, ())
                overruled = CANCELLED if is_cancelled else SUPERSEDED
                self._settle(at, asked, GAVE_UP if has_given_up else overruled, None, now_ms)

    def granted(self, call: CallId) -> dict[TopicPartition, Entry]:
        """Take the granted parts of a request, all of whose parts are settled."""
        return self._claimed.pop(call, {})

    def note_news(self, at: TopicPartition) -> None:
        """Note that a move has reached another stage."""
        for asked in self._of.get(at, ()):
            asked.has_news = True

    def requests_of(self, at: TopicPartition) -> Sequence[OpenRequest]:
        """The requests that move a partition."""
        return self._of.get(at, ())

    def request_of(self, at: TopicPartition) -> RequestId | None:
        """The last request that moves a partition."""
        return max((asked.request for asked in self._of.get(at, ()) if asked.request is not None), default=None)

    def waiting_request(self, at: TopicPartition) -> OpenRequest | None:
        """The last request for which a partition waits to move."""
        waiting = [asked for asked in self._of.get(at, ()) if asked.entries[at].waits_in is not None]
        return waiting[-1] if waiting else None

    def see(
        self,
        at: TopicPartition,
        held: Partition | None,
        now_ms: int,
        copied_bytes: int | None = None,
        former: Replicas = (),
        course: Course | None = None,
    ) -> None:
        """Update the requests for a partition from the facts; `held` is None if it is gone.

        Shape:
            `copied_bytes` is what its receiving replicas have copied, as far as measured. `former` is where it was
            aimed before this change, as far as known; `course` is how its move went that is over now.
        """
        asking = None if held is None and not self._cluster.is_missing(at) else self._of.get(at)
        is_moving = held is not None and held.assignment.is_moving
        if asking is None and not is_moving:
            return
        topic = self._cluster.topics.get(at.topic)
        for asked in tuple(asking or ()):
            if asked.entries[at].outcome is not None:
                continue  # its wait has ended with that of another request
            outcome = _outcome(asked.entries[at], held, topic)
            if outcome == IN_PROGRESS:
                asked.begin(at)
                self._note_waiting(at)
            elif outcome != WAITING:
                self._settle(at, asked, outcome, copied_bytes, now_ms, course)
            elif asked.is_reopened and self._cluster.waiting_move(at) is None:
                self.left_queue(at, now_ms)  # the topic was hidden when its request was taken up
        if not is_moving:
            self.orphans.pop(at, None)
        elif at not in self._of and held is not None:
            if former and former != held.assignment.target:
                self.orphans[at] = former
            else:
                self.orphans.setdefault(at, held.assignment.original)

    def origin(self, at: TopicPartition) -> str:
        """The origin of a move without a request."""
        if at in self._cluster.legacy:
            return BY_LEGACY_ZNODE
        return BY_MOVE_ZNODE if at in self._cluster.asked_by_child else FOUND

    def adopt(self, now_ms: int) -> None:
        """Group the moves without a request by origin, and register each group."""
        by_origin: dict[str, dict[TopicPartition, Entry]] = {}
        claimed = [*self._claimed.values(), *(asked.entries for asked, _ in self._registering)]
        for at in [at for at in self.orphans if not any(at in entries for entries in claimed)]:
            former = self.orphans.pop(at)
            held = self._cluster.partition(at)
            if held is not None and held.assignment.is_moving:
                by_origin.setdefault(self.origin(at), {})[at] = Entry(
                    held.assignment.target, former=former, granted_in=self._identity(at)
                )
        for origin in sorted(by_origin):
            found = OpenRequest(origin, now_ms, by_origin[origin])
            self.register(found, now_ms)

    def _settle(
        self,
        at: TopicPartition,
        asked: OpenRequest,
        outcome: str,
        copied_bytes: int | None,
        now_ms: int,
        course: Course | None = None,
    ) -> None:
        entry = asked.entries[at]
        copied_bytes = copied_bytes if outcome == COMPLETED and not entry.is_cancel else None
        has_waited_only = entry.waits_in is not None
        asked.end(at, outcome, copied_bytes)
        if self.is_accounting:
            if course is None and not has_waited_only:
                course = self.course_of(at, entry.replicas, now_ms)
            if course is None and not has_waited_only and asked.is_reopened:
                course = Course()  # an earlier leader saw it
            ended = Ended(at, entry.former, entry.replicas, entry.is_cancel, outcome, copied_bytes, now_ms, course)
            asked.untold.append(ended)
            if asked.request is not None:
                self._tell(asked)
        asked.has_news = True
        self._drop(at, asked)
        self._finish_one(asked, now_ms)

    def _end(self, asked: OpenRequest, now_ms: int) -> None:
        asked.finished_ms, asked.has_news = now_ms, True
        if asked.request is not None:
            self.finished.append(asked)
            self._tell(asked)

    def _tell(self, asked: OpenRequest) -> None:
        if self.is_accounting and not asked.is_telling:
            asked.is_telling = True
            self._telling.append(asked)

    @property
    def is_telling(self) -> bool:
        """Whether lines for the log of moves are left."""
        return bool(self._telling)

    def lines(self, most: int) -> Iterator[RequestAccounted | MoveAccounted]:
        """The next lines for the log of moves, `most` or few more; in the order in which it happened to a request."""
        while self._telling and most > 0:
            asked = self._telling[0]
            if not asked.is_accepted_told:
                asked.is_accepted_told = True
                yield RequestAccounted(asked.asking, asked.requested_ms, False, tuple(asked.counts.items()))
            some = [asked.untold.popleft() for _ in range(min(most, len(asked.untold)))]
            yield from accounting.lines(asked.asking, some)
            most -= len(some) + 1
            if asked.untold:
                continue
            self._telling.popleft()
            asked.is_telling = False
            if asked.finished_ms is not None:
                yield RequestAccounted(asked.asking, asked.finished_ms, True, tuple(asked.counts.items()))

    def _drop(self, at: TopicPartition, asked: OpenRequest) -> None:
        asking = self._of.get(at)
        if asking is not None and asked in asking:
            asking.remove(asked)
            if not asking:
                del self._of[at]
            self._note_waiting(at)

    def _note_waiting(self, at: TopicPartition) -> None:
        """Remove a partition that no longer waits for any request."""
        if at.partition in self.waiting.get(at.topic, ()) and self.waiting_request(at) is None:
            discard(self.waiting, at.topic, at.partition)


def _kept(partition: PartitionStatus, topic: TopicStatus) -> Entry:
    """An entry as an earlier term recorded it."""
    waits_in = None
    if partition.is_waiting and partition.outcome is None and topic.czxid is not None:
        waits_in = TopicIdentity(topic.czxid, topic.topic_id)
    return Entry(partition.replicas, partition.is_cancel, partition.outcome, partition.copied_bytes, waits_in)


def _may_override(asked: OpenRequest, earlier: OpenRequest, at: TopicPartition) -> bool:
    """Whether `asked` may override `earlier`: a new request may, one of an earlier term may end a wait before it."""
    if asked.request is None:
        return True
    is_waiting = earlier.entries[at].waits_in is not None
    return is_waiting and earlier.request is not None and earlier.request < asked.request


def _overridden(earlier: Entry, later: Entry) -> str | None:
    """The outcome that a later request gives an earlier entry; None if both agree, or the facts decide."""
    if later.is_cancel:
        return None if earlier.waits_in is None else CANCELLED
    is_behind_a_move = later.waits_in is not None and earlier.waits_in is None
    return None if is_behind_a_move or earlier.replicas == later.replicas else SUPERSEDED


def _outcome(entry: Entry, held: Partition | None, topic: TopicView | None) -> str:
    """The present outcome of one entry in this topic.

    >>> from zk_layout.znodes.topics import Assignment
    >>> topic = TopicView("orders", czxid=7)
    >>> _outcome(Entry((3, 1)), Partition(Assignment((3, 1))), topic)
    'completed'
    >>> _outcome(Entry((3, 1)), Partition(Assignment((2, 1))), topic)
    'cancelled'
    >>> _outcome(Entry((3, 1), waits_in=TopicIdentity(7)), Partition(Assignment((2, 1))), topic)
    'waiting'
    >>> _outcome(Entry((3, 1)), Partition(Assignment((3, 1, 2), adding=(3,), removing=(2,))), topic)
    'in progress'
    """
    identity = entry.waits_in or entry.granted_in
    if held is None or (identity is not None and (topic is None or not identity.is_of(topic))):
        return DELETED
    assignment = held.assignment
    if assignment.is_moving:
        return IN_PROGRESS if assignment.target == entry.replicas else SUPERSEDED
    if assignment.replicas == entry.replicas:
        return COMPLETED
    return CANCELLED if entry.waits_in is None else WAITING
