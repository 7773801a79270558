"""What is reported of moves: to whom asked for them, to whom asks about them, and in ZooKeeper? And when?

Brings together the requests (`request_ledger`), their znodes (`status_znodes`) and the measuring (`progress`).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, structs

from controller.core.admin import list_reassignments
from controller.core.asks import Item
from controller.core.cluster import Changes, Cluster
from controller.core.decide import Waits
from controller.core.effects import Answer, Effect, Wake
from controller.core.errors import ErrorCode
from controller.core.events import AskId, CommitId, LogDirsDescribed
from controller.core.progress import PACE_S, Progress
from controller.core.replies import PartitionResult, ReassignmentsAltered, ReassignmentsListed
from controller.core.request_ledger import BY_REQUEST, Entry, OpenRequest, RequestLedger
from controller.core.requests import ListReassignments, MoveWish
from controller.core.status_text import StatusText
from controller.core.status_znodes import Plan, StatusZnodes
from zk_layout.catalog import Address
from zk_layout.ids import PartitionId, Replicas, RequestId, TopicName, TopicPartition
from zk_layout.znodes.reassignment_status import MoveProgress, RequestStatus

ALARM = "reports"
GATHER_S = 0.5
SOFTWARE = "kafka-zk-controller 0.1"
"""What tools know this controller by."""


class ListedMove(Struct, frozen=True):
    """One move in progress, by itself."""

    topic: TopicName
    partition: PartitionId
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    progress: MoveProgress | None


class Reports:
    """The reports of one reign."""

    def __init__(self, cluster: Cluster, waits: Waits, clock_zero_ms: int, retention_ms: int, size_limit: int) -> None:
        """Nothing moves, and nobody asked."""
        self._cluster = cluster
        self._ledger = RequestLedger(cluster)
        self._progress = Progress(cluster, waits, self._ledger, clock_zero_ms)
        self._text = StatusText(self._progress, size_limit)
        self._znodes = StatusZnodes(cluster, self._ledger, self._text, retention_ms)
        self._adopt_at: float | None = None
        self._look_at: float | None = None
        self._alarm_at: float | None = None

    # ---- what happens ---------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Everything is loaded."""
        self._progress.begin(now)
        self._znodes.begin(now)

    def note(self, item: Item, result: object) -> None:
        """A part of a request is settled."""
        if isinstance(item.wanted, MoveWish) and isinstance(result, PartitionResult) and not result.error:
            self._ledger.claim(item.ask, item.at, is_cancel=item.wanted.replicas is None)

    def give_up(self, ask: AskId) -> None:
        """A request was answered before all its parts were settled: its moves are found later, and get another id."""
        self._ledger.granted(ask)

    def hold(self, answer: Answer, now: float) -> bool:
        """Whether an answer has to wait for the request's id."""
        if not isinstance(answer.reply, ReassignmentsAltered) or answer.reply.error is not ErrorCode.NONE:
            return False
        entries = {}
        for at, is_cancel in self._ledger.granted(answer.ask).items():
            held = self._cluster.partition(at)
            if held is not None:
                entries[at] = Entry(held.assignment.target, is_cancel)
        if not entries:
            return False
        asked = OpenRequest(BY_REQUEST, self._progress.at_ms(now), entries, answer=answer)
        self._ledger.register(asked, asked.requested_ms)
        self._znodes.open(asked)
        return True

    def follow(self, changes: Changes, now: float) -> None:
        """Partitions and brokers changed, came or went."""
        for name, numbers in changes.partitions.items():
            held = self._cluster.topics[name].partitions
            for number in numbers:
                listed = held[number] if held[number].assignment.replicas else None
                self._progress.see(TopicPartition(name, number), listed, now)
        for name, gone in changes.gone_topics.items():
            for at in (TopicPartition(name, number) for number in gone.partitions):
                self._progress.see(at, self._cluster.partition(at), now)
        self._progress.note_brokers(changes, now)

    def hear(self, event: LogDirsDescribed, now: float) -> None:
        """A broker said how large its replicas are."""
        self._progress.hear(event, now)

    def accepted(self, commit: CommitId, now: float) -> Iterator[Effect]:
        """A transaction was accepted."""
        yield from self._znodes.accepted(commit, now)

    def failed(self, commit: CommitId, read_again: tuple[Address, ...]) -> None:
        """A transaction failed."""
        self._znodes.failed(commit, read_again)

    def saw(self, address: Address, now: float) -> Iterator[Effect]:
        """A znode was read."""
        yield from self._znodes.saw(address, now)

    # ---- what follows ---------------------------------------------------------------------------------------

    def woke(self, now: float) -> Iterator[Effect]:
        """Look after what moves."""
        self._alarm_at = None
        if self._adopt_at is not None and self._adopt_at <= now:
            self._adopt_at = None
            for found in self._ledger.adopt(self._progress.at_ms(now)):
                self._znodes.open(found)
        if self._look_at is not None and self._look_at <= now:
            yield from self._progress.inquire(now)
            self._look_at = now + self._progress.pace_s if self._is_anything_going_on else None
        self._znodes.review(now)

    def plans(self, now: float, *, is_draining: bool) -> Iterator[Plan]:
        """Transactions to be sent now; each must be told to `sent`. Who drains only answers who waits."""
        yield from self._znodes.plans(now, only_opening=is_draining)

    def sent(self, plan: Plan, commit: CommitId) -> None:
        """Its transaction is in flight."""
        self._znodes.sent(plan, commit)

    def alarm(self, now: float) -> Iterator[Wake]:
        """When to be woken, where that is earlier than thought before."""
        if self._ledger.orphans and self._adopt_at is None:
            self._adopt_at = now + GATHER_S
        if self._look_at is None and self._is_anything_going_on:
            self._look_at = now + PACE_S
        times = [at for at in (self._adopt_at, self._look_at, self._znodes.next_at(now)) if at is not None]
        if times and (self._alarm_at is None or min(times) < self._alarm_at):
            self._alarm_at = min(times)
            yield Wake(ALARM, self._alarm_at)

    @property
    def _is_anything_going_on(self) -> bool:
        return self._progress.is_anything_moving or bool(self._ledger.open)

    # ---- what is known --------------------------------------------------------------------------------------

    def shown(self, reply: ReassignmentsListed, request: RequestId | None, now: float) -> ReassignmentsListed:
        """The moves in progress with how far they are, and the status asked for."""
        moves = tuple(structs.replace(m, progress=self._progress.of(m.topic_partition, now)) for m in reply.moves)
        status = None if request is None else self.status(request, now)
        return structs.replace(reply, moves=moves, controller=SOFTWARE, request_status=status)

    def listed(self, now: float) -> list[ListedMove]:
        """All moves in progress, as they are shown over HTTP."""
        reply = self.shown(list_reassignments.reply(ListReassignments(None), self._cluster), None, now)
        return [ListedMove(*m.topic_partition, m.replicas, m.adding, m.removing, m.progress) for m in reply.moves]

    def status(self, request: RequestId, now: float) -> RequestStatus | None:
        """How far a request is; None where its id is unknown, or its status was deleted."""
        asked = self._ledger.open.get(request)
        if asked is not None:
            return self._text.whole(asked, request, now)
        kept = self._cluster.statuses.kept.get(request)
        return kept.status if kept is not None else None
