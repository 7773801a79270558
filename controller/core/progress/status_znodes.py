"""What do the znodes of `/admin/reassign_partitions_status` contain, and when are they written and deleted?

Records of what a request moved are written with its first status, never again, and deleted with it.

They are written at the beginning of a request, some seconds after a move reaches another stage, every half minute while
it copies, and at the end. Finished ones are kept for a while, across terms.

Source: KIP-179 "Implementation".
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct, structs

from controller.core.messages.effects import Create, Delete, Set, Write
from controller.core.messages.events import Again
from controller.core.messages.outbox import Outbox
from controller.core.progress.ledger import OpenRequest, RequestLedger
from controller.core.progress.status_text import StatusText
from controller.core.transactions.back_off import AT_ONCE
from controller.core.transactions.proposal import Accepted, Atom, Outcome, Proposal, Refused, Subject, Unwritable
from controller.core.turn.shared import Shared
from zk_layout.ids import ABSENT, RequestId
from zk_layout.znodes import reassignment_status
from zk_layout.znodes.move_records import MoveRecordsAddress
from zk_layout.znodes.reassignment_status import ReassignmentStatusAddress, RequestStatus, StatusRoot, StatusRootAddress

NOTICE = "missing request id"
UNRECORDED = "missing records"
TRIES_WITH_RECORDS = 2
NEWS_AFTER_S = 5.0
WRITTEN_EVERY_S = 30.0
WRITTEN_UNCHANGED_EVERY_S = 600.0
REQUESTS_UNSLOWED = 100
PARTITIONS_UNSLOWED = 2_000
WRITES_A_TURN = 100
PAUSE_MS = 5_000
MOST_FINISHED = 1_000
MOST_RECORDED = 200_000  # about 8 MB with three replicas
ROOT = Subject("znode", StatusRootAddress().path)


class _Memo(Struct, frozen=True, eq=False):
    """The request of a proposal; without a status the proposal deletes it, or only its records (`spares_status`)."""

    request: RequestId
    status: RequestStatus | None = None
    asked: OpenRequest | None = None
    spares_status: bool = False


class StatusZnodes:
    """The status znodes of one term."""

    def __init__(self, shared: Shared, ledger: RequestLedger, text: StatusText) -> None:
        self._shared = shared
        self._statuses = shared.state.statuses
        self._transactions = shared.transactions
        self._ledger = ledger
        self._text = text
        self._retention_ms = shared.settings.status_retention_ms
        self._opening: deque[OpenRequest] = deque()
        self._due: deque[OpenRequest] = deque()
        self._expired: deque[RequestId] = deque()
        self._unrecorded: deque[RequestId] = deque()
        self._leaving: dict[RequestId, None] = {}
        self._unclaimed: dict[RequestId, None] = {}
        self._expiries: list[tuple[int, RequestId]] = []
        self._paused: deque[tuple[int, RequestId]] = deque()
        self._own: dict[RequestId, None] = {}
        self._proposed: dict[RequestId, RequestStatus] = {}

    def take_up(self, now: float) -> None:
        """Continue the requests of earlier terms as soon as their statuses can be read."""
        now_ms = self._text.at_ms(now)
        self._disown(self._statuses.take_unclaimed())
        for request in self._statuses.take_appeared():
            kept = self._statuses.kept.get(request)
            if kept is None or kept.status is None or self._is_own(request, kept.status):
                continue
            if kept.status.finished_ms is None:
                self._ledger.reopen(kept.status, request, now_ms)
            else:
                self._retain(request, min(kept.status.finished_ms, now_ms))
        self._thin_out()

    def _disown(self, unclaimed: Iterable[RequestId]) -> None:
        """Delete records whose request has no status: it was deleted, or a term ended before it was written. Those
        whose status may exist, but cannot be read, wait until it can.
        """
        self._unclaimed.update(dict.fromkeys(unclaimed))
        unreadable = self._shared.state.unreadable
        if not self._unclaimed or reassignment_status.ROOT in unreadable:
            return
        waiting = [r for r in self._unclaimed if ReassignmentStatusAddress(r).path in unreadable]
        judged, self._unclaimed = self._unclaimed, dict.fromkeys(waiting)
        for request in judged:
            has_status = request in self._statuses.kept or request in self._proposed or request in self._unclaimed
            if request in self._statuses.records and not has_status and request not in self._leaving:
                self._leaving[request] = None
                self._expired.append(request)

    def adjust(self) -> None:
        """Keep finished requests for as long as the settings now say, also those that have finished."""
        longer_ms = self._shared.settings.status_retention_ms - self._retention_ms
        self._retention_ms += longer_ms
        self._expiries = [(at_ms + longer_ms, request) for at_ms, request in self._expiries]

    def _is_own(self, request: RequestId, status: RequestStatus) -> bool:
        """Whether this term has just written it, even if that is not settled yet."""
        is_own = request in self._own or self._proposed.get(request) == status
        self._own.pop(request, None)
        return is_own

    def open(self, asked: OpenRequest, out: Outbox) -> None:
        """Queue a request for its id."""
        self._opening.append(asked)
        self._answer_if_refused(out)

    def next_at(self, now: float) -> float | None:
        """When the next status is to be created or deleted; None if nothing is scheduled."""
        times = []
        has_too_many = len(self._expiries) > MOST_FINISHED
        if self._due or self._expired or self._unrecorded or self._ledger.finished or has_too_many:
            times.append(now)
        now_ms = self._text.at_ms(now)
        times.extend(now + max(0, w[0][0] - now_ms) / 1000 for w in (self._expiries, self._paused) if w)
        return min(times, default=None)

    def review(self, now: float) -> None:
        """Queue what is due: news that has settled, outdated figures, statuses whose retention is over.

        The number of finished ones is limited, so that repeated requests cannot fill ZooKeeper.
        """
        slower = max(1.0, len(self._ledger.open) / REQUESTS_UNSLOWED)
        for asked in self._ledger.open.values():
            age_s = now - asked.written_at
            slow = max(slower, len(asked.entries) / PARTITIONS_UNSLOWED)
            is_due = age_s >= (NEWS_AFTER_S if asked.has_news else WRITTEN_EVERY_S) * slow
            if is_due and not asked.is_being_written and asked.finished_ms is None and asked not in self._due:
                self._due.append(asked)
        now_ms = self._text.at_ms(now)
        while self._expiries and (self._expiries[0][0] <= now_ms or len(self._expiries) > MOST_FINISHED):
            self._expired.append(heapq.heappop(self._expiries)[1])
        while self._paused and self._paused[0][0] <= now_ms:
            self._expired.append(self._paused.popleft()[1])

    @property
    def _excess(self) -> int:
        """How many recorded moves are more than are kept, besides those about to be deleted."""
        statuses = self._statuses
        return statuses.recorded_moves - MOST_RECORDED - sum(map(statuses.moves_recorded, self._leaving))

    def _thin_out(self) -> None:
        """Of too many records, delete those of the requests that finished first, but not of the last one."""
        excess = self._excess
        if excess <= 0:
            return
        for _, request in sorted(self._expiries)[:-1]:
            if excess <= 0:
                return
            if request in self._statuses.records and request not in self._leaving:
                excess -= self._statuses.moves_recorded(request)
                self._leaving[request] = None
                self._unrecorded.append(request)

    # ---- proposing ------------------------------------------------------------------------------------------

    def opening(self, now: float) -> list[Proposal]:
        """Propose the status of the request that has waited longest for its id."""
        if not self._opening or not self._transactions.may_propose(ROOT):
            return []
        asked, statuses = self._opening[0], self._statuses
        request = statuses.next_id
        status = self._text.bounded(asked, request, now)
        root, value = StatusRootAddress(), StatusRoot(request)
        counted: Write = (
            Create(root, value) if statuses.root_version == ABSENT else Set(root, value, statuses.root_version)
        )
        writes = (counted, Create(ReassignmentStatusAddress(request), status))
        records: tuple[Write, ...] = ()
        if asked.recording is not None:
            records = tuple(asked.recording.creations(request, asked.asking, asked.give_up_ms))
        why = f"request {request} ({asked.origin}) concerns {len(asked.entries)} partitions"
        self._proposed[request] = status
        memo = _Memo(request, status, asked)
        return [self._proposal(ROOT, Atom(writes, (why,), before=records), memo)]

    def updates(self, now: float) -> Iterator[Proposal]:
        """Propose changed statuses, and deletions of those whose retention is over."""
        due, self._ledger.finished = [*self._ledger.finished, *self._due], []
        self._due.clear()
        for asked in due[:WRITES_A_TURN]:
            yield from self._update(asked, now)
        self._due.extend(due[WRITES_A_TURN:])
        for _ in range(min(len(self._expired), WRITES_A_TURN)):
            yield from self._deletion(self._expired.popleft(), now)
        for _ in range(min(len(self._unrecorded), WRITES_A_TURN)):
            yield from self._records_deletion(self._unrecorded.popleft())

    def _update(self, asked: OpenRequest, now: float) -> Iterator[Proposal]:
        if asked.is_being_written:
            return  # the outcome of the write causes another look
        request = asked.request
        kept = self._statuses.kept.get(request) if request is not None else None
        if kept is None or request is None:
            self._ledger.forget(asked)
            return
        if not self._transactions.may_propose(_subject(request)):
            self._put_off(asked)
            return
        status = self._text.bounded(asked, request, now)
        if asked.finished_ms is None and not asked.has_news and _says_the_same(kept.status, status):
            asked.written_at += WRITTEN_EVERY_S
            return
        what = "is finished" if asked.finished_ms is not None else "is in progress"
        counts = ", ".join(f"{count} {outcome}" for outcome, count in status.counts.items())
        write = Set(ReassignmentStatusAddress(request), status, kept.version)
        memo = _Memo(request, status, asked)
        yield self._proposal(_subject(request), Atom((write,), (f"request {request} {what}: {counts}",)), memo)

    def _put_off(self, asked: OpenRequest) -> None:
        asked.has_news = True
        asked.is_put_off = asked.finished_ms is not None

    def _deletion(self, request: RequestId, now: float) -> Iterator[Proposal]:
        kept, records = self._statuses.kept.get(request), tuple(self._record_deletions(request))
        if (kept is None and not records) or (kept is not None and kept.status is None):
            self._leaving.pop(request, None)
            return
        if request in self._unrecorded or not self._transactions.may_propose(_subject(request)):
            self._pause(request, now)
            return
        status = () if kept is None else (Delete(ReassignmentStatusAddress(request), kept.version),)
        why = f"the status of request {request} was kept long enough"
        if kept is None:
            why = f"request {request} has no status: the records of its moves are deleted"
        # The status leaves last: records without one are found by the next term.
        self._leaving[request] = None
        yield self._proposal(_subject(request), Atom(status, (why,), before=records), _Memo(request))

    def _records_deletion(self, request: RequestId) -> Iterator[Proposal]:
        records = tuple(self._record_deletions(request))
        if not records or not self._transactions.may_propose(_subject(request)):
            return  # what is left is deleted with the status
        why = f"the records of request {request} are deleted: those of more than {MOST_RECORDED} moves are kept"
        yield self._proposal(_subject(request), Atom(records, (why,)), _Memo(request, spares_status=True))

    def _record_deletions(self, request: RequestId) -> Iterator[Write]:
        for address, records in self._statuses.records.get(request, {}).items():
            yield Delete(address, records.version)

    def _proposal(self, subject: Subject, atom: Atom, memo: _Memo) -> Proposal:
        if memo.asked is not None:
            memo.asked.is_being_written, memo.asked.has_news = True, False
        return Proposal(subject, (atom,), memo=memo)

    # ---- outcomes -------------------------------------------------------------------------------------------

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Take the outcome of a write; after a refusal, the znodes read again show what is left to do."""
        memo = proposal.memo
        assert isinstance(memo, _Memo)
        self._proposed.pop(memo.request, None)
        if isinstance(outcome, Accepted):
            self._leaving.pop(memo.request, None)
            self._written(memo, out)
            return
        kept, asked = self._statuses.kept.get(memo.request), memo.asked
        if asked is not None and isinstance(outcome, Unwritable):
            self._go_without(asked, out)
        elif memo.spares_status:
            pass  # they are deleted with the status
        elif asked is None:
            if kept is not None or memo.request in self._statuses.records:
                self._pause(memo.request, out.now)
            else:
                self._leaving.pop(memo.request, None)
        elif kept is not None and kept.status == memo.status:
            self._written(memo, out)
        elif asked.request is None:
            self._not_opened(asked, memo.request, outcome, out)
        elif kept is None or kept.status is None:
            self._ledger.forget(asked)
        else:
            asked.is_being_written, asked.has_news = False, True
            if asked.finished_ms is not None:
                self._ledger.finished.append(asked)

    def retry(self, proposal: Proposal) -> None:
        """Write a refused status again; the end of a request may be waiting for that."""
        memo = proposal.memo
        if isinstance(memo, _Memo) and memo.asked is not None and memo.asked.is_put_off:
            memo.asked.is_put_off = False
            self._ledger.finished.append(memo.asked)

    def _written(self, memo: _Memo, out: Outbox) -> None:
        asked, status = memo.asked, memo.status
        if asked is None or status is None:
            return
        asked.is_being_written, asked.written_at = False, out.now
        if asked.request is None:
            self._opening.popleft()
            asked.recording = None  # it is written
            self._own[memo.request] = None
            self._ledger.opened(asked, memo.request, is_final=status.finished_ms is not None)
            _answer(asked, memo.request, out)
        elif status.finished_ms is not None:
            self._ledger.closed(asked)
        elif asked.finished_ms is not None:
            self._ledger.finished.append(asked)
        if status.finished_ms is not None:
            self._retain(memo.request, status.finished_ms)
            self._thin_out()

    def _not_opened(self, asked: OpenRequest, request: RequestId, outcome: Outcome, out: Outbox) -> None:
        """After a refusal, try again, under another id if some of its records were written; the second time that the
        records themselves are refused, without them.
        """
        asked.is_being_written = False
        about = outcome.about if isinstance(outcome, Refused) else ()
        is_about_records = bool(about) and all(isinstance(address, MoveRecordsAddress) for address in about)
        if is_about_records and self._transactions.refusals(ROOT) >= TRIES_WITH_RECORDS:
            asked.recording = None
            out.notice(UNRECORDED, f"ZooKeeper refuses to write {about[0].path}: the request cannot be rolled back")
        if request in self._statuses.records and request not in self._statuses.kept:
            self._disown((request,))
        self._answer_if_refused(out)

    def _answer_if_refused(self, out: Outbox) -> None:
        """After several refusals in a row, answer all clients without an id; the moves continue."""
        tries = self._transactions.refusals(ROOT)
        if tries < AT_ONCE:
            return
        for asked in self._opening:
            if asked.call is not None:
                text = f"a request was answered without a request id: writing {StatusRootAddress().path} failed"
                out.notice(NOTICE, f"{text} {tries} times; retrying")
                _answer(asked, None, out)

    def _go_without(self, asked: OpenRequest, out: Outbox) -> None:
        """Even the shortest status does not fit into a znode: continue without one, or with the last one written."""
        asked.is_being_written = False
        if asked.request is None and asked.recording is not None:
            asked.recording = None  # it may be what was too large
            out.notice(UNRECORDED, f"records of {len(asked.entries)} moves are too large: they cannot be rolled back")
            out.wake(Again(), out.now)
            return
        if asked.request is None:
            self._opening.popleft()
            _answer(asked, None, out)
        self._ledger.forget(asked)

    def _pause(self, request: RequestId, now: float) -> None:
        """Try the deletion again later."""
        self._paused.append((self._text.at_ms(now) + PAUSE_MS, request))

    def _retain(self, request: RequestId, finished_ms: int) -> None:
        heapq.heappush(self._expiries, (finished_ms + self._retention_ms, request))


def _subject(request: RequestId) -> Subject:
    return Subject("znode", ReassignmentStatusAddress(request).path)


def _says_the_same(written: RequestStatus | None, now: RequestStatus) -> bool:
    """Whether nothing has progressed for some minutes: a stuck move must not cause repeated writes."""
    if written is None or now.updated_ms - written.updated_ms >= WRITTEN_UNCHANGED_EVERY_S * 1000:
        return False
    return written.copied_bytes == now.copied_bytes and written.counts == now.counts


def _answer(asked: OpenRequest, request: RequestId | None, out: Outbox) -> None:
    call, reply = asked.call, asked.reply
    if call is not None and reply is not None:
        asked.call = asked.reply = None
        out.answer(call, structs.replace(reply, request_id=request))
