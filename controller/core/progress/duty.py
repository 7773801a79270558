"""What do clients, operators and ZooKeeper learn about the progress of moves?

Combines the requests (`ledger`), their znodes (`status_znodes`) and measurements (`measuring`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from msgspec import Struct, field

from controller.core.clients.open_requests import Divided, Item
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Again, Alarm, Asked, CallId, LogDirsDescribed
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import (
    OngoingMove,
    PartitionResult,
    ReassignmentsAltered,
    ReassignmentsListed,
    Reply,
    Result,
)
from controller.core.messages.requests import AlterReassignments, Caller, ListReassignments, PartitionReassignment
from controller.core.progress import list_reassignments
from controller.core.progress.ledger import BY_REQUEST, OpenRequest, RequestLedger
from controller.core.progress.measuring import PACE_S, Progress
from controller.core.progress.status_text import MOST_MEASURED, StatusText
from controller.core.progress.status_znodes import StatusZnodes
from controller.core.settings import MachineSettings
from controller.core.state.changes import Changes
from controller.core.transactions.proposal import Outcome, Proposal
from controller.core.turn.duty import Duty, Report
from controller.core.turn.shared import Shared
from zk_layout.ids import RequestId, TopicName, TopicPartition
from zk_layout.znodes.reassignment_status import RequestStatus

GATHER_S = 0.5
ACCOUNTED_A_TURN = 500


class LookAfterMoves(Alarm, frozen=True):
    """Measure moves, adopt those without a request, and review statuses."""


class _Listing(Struct, eq=False):
    """A list of moves in preparation."""

    call: CallId
    request: ListReassignments
    left: Iterator[TopicPartition]
    moves: list[OngoingMove] = field(default_factory=list)


class RequestProgress(Duty):
    """The progress of one term's moves."""

    requests = (ListReassignments,)
    alarms = (LookAfterMoves,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        recorded_in = shared.sizes if shared.settings.keeps_move_records else None
        budget, is_accounting = shared.settings.budget, shared.settings.accounts_moves
        self._ledger = RequestLedger(shared.cluster, budget.followed, recorded_in, is_accounting=is_accounting)
        self._progress = Progress(
            shared.cluster, self._ledger, shared.settings.clock_zero_ms, shared.settings.budget.measured
        )
        self._text = StatusText(self._progress, shared.sizes)
        self._znodes = StatusZnodes(shared, self._ledger, self._text)
        self._budget = shared.settings.budget.measured
        self._listings: deque[_Listing] = deque()
        self._adopt_at: float | None = None
        self._look_at: float | None = None
        self._alarm_at: float | None = None
        shared.requests.watch(settled=self._note, given_up=self._give_up, holds=self._hold)

    # ---- what happens ---------------------------------------------------------------------------------------

    def _note(self, item: Item, result: Result) -> None:
        if isinstance(item.wanted, PartitionReassignment) and isinstance(result, PartitionResult) and not result.error:
            former = self._shared.requests.former(item)
            self._ledger.claim(item.call, item.at, former, is_cancel=item.wanted.replicas is None)

    def _give_up(self, call: CallId) -> None:
        """Release the moves of a request that was answered early; they are adopted later under another id."""
        self._ledger.granted(call)

    def _hold(self, call: CallId, request: Divided, caller: Caller | None, reply: Reply, out: Outbox) -> bool:
        """Hold an answer until its request has an id; return whether it waits."""
        if not isinstance(reply, ReassignmentsAltered) or reply.error is not ErrorCode.NONE:
            return False
        entries = self._ledger.granted(call)
        if not entries:
            return False
        asked = OpenRequest(BY_REQUEST, self._progress.at_ms(out.now), entries, call=call, caller=caller, reply=reply)
        if isinstance(request, AlterReassignments):
            asked.reason, asked.give_up_ms = request.reason, request.give_up_ms
        self._ledger.register(asked, asked.requested_ms)
        return True

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Take in changed partitions and brokers."""
        if changes.is_beginning:
            self._progress.begin(self._shared.state.statuses, out.now)
        self._znodes.take_up(out.now)
        is_idle = self._ledger.is_idle and not self._progress.is_anything_moving
        for name, numbers in changes.partitions.items():
            if is_idle and not changes.not_at_rest(name):
                continue
            held = self._cluster.topics[name].partitions
            for number, before in numbers.items():
                if is_idle and not held[number].assignment.is_moving:
                    continue
                is_idle = False
                listed = held[number] if held[number].assignment.replicas else None
                self._progress.see(TopicPartition(name, number), listed, out.now, before.assignment.target)
        for name, gone in changes.gone_topics.items() if not is_idle else ():
            for at in (TopicPartition(name, number) for number in gone.partitions):
                self._progress.see(at, self._cluster.partition(at), out.now)
        self._progress.note_brokers(changes, out.now)
        for name in changes.waiting if not changes.is_beginning else ():
            self._note_left(name, out)

    def _note_left(self, name: TopicName, out: Outbox) -> None:
        for number in tuple(self._ledger.waiting.get(name, ())):
            at = TopicPartition(name, number)
            if self._cluster.waiting_move(at) is None:
                self._ledger.left_queue(at, self._progress.at_ms(out.now))

    def hear(self, report: Report, out: Outbox) -> None:
        """Take in the replica sizes of a broker."""
        if isinstance(report, LogDirsDescribed) and not report.is_of_waiting:
            self._progress.hear(report, out.now)

    def adjust(self, before: MachineSettings, out: Outbox) -> None:
        """Delete statuses as early or late as the settings now say."""
        self._znodes.adjust()

    # ---- what follows ---------------------------------------------------------------------------------------

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Adopt, measure and review what is due."""
        self._alarm_at = None
        if self._adopt_at is not None and self._adopt_at <= out.now:
            self._adopt_at = None
            self._ledger.adopt(self._progress.at_ms(out.now))
        if self._look_at is not None and self._look_at <= out.now:
            self._look(out)
        self._znodes.review(out.now)

    def announce(self, changes: Changes, out: Outbox) -> None:
        """Continue what one turn was too short for."""
        is_hearing = self._progress.take_in(out.now)
        if self._progress.is_looking:
            self._look(out)
        if self._listings:
            self._list(out)
        if self._listings or self._progress.is_looking or is_hearing:
            out.wake(Again(), out.now)
        self._account(out)

    def _account(self, out: Outbox) -> None:
        """Tell the log of moves."""
        for line in self._ledger.lines(ACCOUNTED_A_TURN):
            out.add(line)
        if self._ledger.is_telling:
            out.wake(Again(), out.now)

    def _look(self, out: Outbox) -> None:
        is_done = self._progress.look(out, self._budget)
        self._look_at = out.now + self._progress.pace_s if is_done and self._is_anything_going_on else None

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Propose the statuses to write, and set the alarm if the next look is due earlier."""
        self._go_on(out)
        proposals = list(chain(self._znodes.opening(out.now), self._znodes.updates(out.now)))
        if self._ledger.orphans and self._adopt_at is None:
            self._adopt_at = out.now + GATHER_S
        if self._look_at is None and self._is_anything_going_on and not self._progress.is_looking:
            self._look_at = out.now + PACE_S
        times = [at for at in (self._adopt_at, self._look_at, self._znodes.next_at(out.now)) if at is not None]
        if times and (self._alarm_at is None or min(times) < self._alarm_at):
            self._alarm_at = min(times)
            out.wake(LookAfterMoves(), self._alarm_at)
        return proposals

    def _go_on(self, out: Outbox) -> None:
        for asked in self._ledger.go_on(self._progress.at_ms(out.now)):
            if asked.request is None:
                self._znodes.open(asked, out)
        if self._ledger.is_going_on:
            out.wake(Again(), out.now)

    def drain(self, out: Outbox) -> Sequence[Proposal]:
        """Give waiting clients their request ids."""
        self._go_on(out)
        return self._znodes.opening(out.now)

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Note that a status was written or refused."""
        self._znodes.settled(proposal, outcome, out)
        self._account(out)

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        """Write a refused status again."""
        self._znodes.retry(proposal)

    @property
    def _is_anything_going_on(self) -> bool:
        return self._progress.is_anything_moving or bool(self._ledger.open)

    # ---- what is known --------------------------------------------------------------------------------------

    def admit(self, asked: Asked, out: Outbox) -> None:
        """List the moves in progress with their progress, and the requested status."""
        request = asked.request
        if not isinstance(request, ListReassignments):
            raise TypeError(f"{type(request).__name__} is not served here")
        self._listings.append(
            _Listing(asked.call, request, list_reassignments.asked(request, self._cluster, self._ledger.waiting))
        )
        if len(self._listings) == 1:
            self._list(out)

    def _list(self, out: Outbox) -> None:
        """Continue the requested lists, one after the other."""
        most = self._budget
        while self._listings and most > 0:
            listing = self._listings[0]
            for at in islice(listing.left, most):
                most -= 1
                move = list_reassignments.move(at, self._cluster, self._progress.of(at, out.now))
                move = move or list_reassignments.waiting_move(at, self._cluster, self._ledger)
                if move is not None:
                    listing.moves.append(move)
            if not most:
                return
            self._listings.popleft()
            most -= 1
            number = listing.request.request_id
            status = None if number is None else self._status(number, out.now)
            listed = ReassignmentsListed(
                tuple(listing.moves), controller=self._shared.settings.software, request_status=status
            )
            out.answer(listing.call, listed)

    def _status(self, request: RequestId, now: float) -> RequestStatus | None:
        """The progress of a request; None if its id is unknown, or its status was deleted."""
        asked = self._ledger.open.get(request)
        if asked is not None:
            is_long = len(asked.entries) > MOST_MEASURED
            return (self._text.bounded if is_long else self._text.whole)(asked, request, now)
        kept = self._shared.state.statuses.kept.get(request)
        return kept.status if kept is not None else None
