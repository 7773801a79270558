"""What do the znodes of `/admin/reassign_partitions_status` say, and when are they written, and deleted?

At the beginning of a request, some seconds after a move has reached another stage, every half minute while it copies,
and at the end. The finished ones are kept for a while, in whatever reign that ends.

Source: KIP-179 "Implementation".
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

from msgspec import Struct, structs

from controller.core.cluster import Cluster
from controller.core.effects import Answer, Create, Delete, Effect, Notice, Set, Write
from controller.core.events import CommitId
from controller.core.replies import ReassignmentsAltered
from controller.core.request_ledger import OpenRequest, RequestLedger
from controller.core.status_text import StatusText
from controller.core.statuses import ABSENT
from zk_layout.catalog import Address
from zk_layout.ids import RequestId
from zk_layout.znodes.reassignment_status import (
    ReassignmentStatusAddress,
    RequestStatus,
    StatusRoot,
    StatusRootAddress,
)

NOTICE = "request status"
NEWS_AFTER_S = 5.0
WRITTEN_EVERY_S = 30.0
WRITTEN_UNCHANGED_EVERY_S = 600.0
REQUESTS_UNSLOWED = 100
PARTITIONS_UNSLOWED = 2_000
WRITES_A_TURN = 100
TRIES = 3
PAUSE_S = 5.0


class Plan(Struct, frozen=True, eq=False):
    """One transaction about one status; without a status it is deleted."""

    request: RequestId
    writes: tuple[Write, ...]
    why: str
    status: RequestStatus | None = None
    asked: OpenRequest | None = None


class StatusZnodes:
    """The bookkeeping of the status znodes in one reign.

    Units:
        `retention_ms` is how long a finished request's status is kept, in milliseconds.
    """

    def __init__(self, cluster: Cluster, ledger: RequestLedger, text: StatusText, retention_ms: int) -> None:
        """Nothing is due."""
        self._cluster = cluster
        self._ledger = ledger
        self._text = text
        self._retention_ms = retention_ms
        self._opening: deque[OpenRequest] = deque()
        self._is_opening = False
        self._due: deque[OpenRequest] = deque()
        self._expired: deque[RequestId] = deque()
        self._expiries: list[tuple[int, RequestId]] = []
        self._sent: dict[CommitId, Plan] = {}
        self._unread: list[tuple[Plan, set[Address]]] = []
        self._tries = 0
        self._not_before = 0.0

    def begin(self, now: float) -> None:
        """Go on with what earlier reigns wrote down; what cannot be read is left alone."""
        now_ms = self._text.at_ms(now)
        for request, kept in sorted(self._cluster.statuses.kept.items()):
            if kept.status is None:
                continue
            if kept.status.finished_ms is None:
                self._ledger.reopen(kept.status, request, now_ms)
            else:
                self._retain(request, min(kept.status.finished_ms, now_ms))

    def open(self, asked: OpenRequest) -> None:
        """Give a request an id, in its turn."""
        self._opening.append(asked)

    @property
    def is_opening_any(self) -> bool:
        """Whether requests wait for their ids."""
        return bool(self._opening)

    def next_at(self, now: float) -> float | None:
        """When the next status is to be created or deleted; None while nothing waits for a time to come."""
        times = []
        if self._opening and not self._is_opening:
            times.append(max(self._not_before, now))
        if self._due or self._expired or self._ledger.finished:
            times.append(now)
        if self._expiries:
            times.append(now + max(0, self._expiries[0][0] - self._text.at_ms(now)) / 1000)
        return min(times, default=None)

    def review(self, now: float) -> None:
        """Find what is due by now: news that has settled, figures that have grown old, statuses kept long enough."""
        slower = max(1.0, len(self._ledger.open) / REQUESTS_UNSLOWED)
        for asked in self._ledger.open.values():
            age_s = now - asked.written_at
            slow = max(slower, len(asked.entries) / PARTITIONS_UNSLOWED)
            is_due = age_s >= (NEWS_AFTER_S if asked.has_news else WRITTEN_EVERY_S) * slow
            if is_due and not asked.is_being_written and asked.finished_ms is None and asked not in self._due:
                self._due.append(asked)
        now_ms = self._text.at_ms(now)
        while self._expiries and self._expiries[0][0] <= now_ms:
            self._expired.append(heapq.heappop(self._expiries)[1])

    def plans(self, now: float, *, only_opening: bool) -> Iterator[Plan]:
        """What to write now; each must be told to `sent`."""
        if self._opening and not self._is_opening and now >= self._not_before:
            yield self._opening_plan(self._opening[0], now)
        if only_opening:
            return
        due, self._ledger.finished = [*self._ledger.finished, *self._due], []
        self._due.clear()
        for asked in due[:WRITES_A_TURN]:
            yield from self._update_plan(asked, now)
        self._due.extend(due[WRITES_A_TURN:])
        for _ in range(min(len(self._expired), WRITES_A_TURN)):
            yield from self._deletion_plan(self._expired.popleft())

    def _opening_plan(self, asked: OpenRequest, now: float) -> Plan:
        statuses = self._cluster.statuses
        request = statuses.next_id
        status = self._text.bounded(asked, request, now)
        root, value = StatusRootAddress(), StatusRoot(request)
        counted: Write = (
            Create(root, value) if statuses.root_version == ABSENT else Set(root, value, statuses.root_version)
        )
        writes = (counted, Create(ReassignmentStatusAddress(request), status))
        why = f"request {request} ({asked.origin}) concerns {len(asked.entries)} partitions"
        return Plan(request, writes, why, status, asked)

    def _update_plan(self, asked: OpenRequest, now: float) -> Iterator[Plan]:
        kept = self._cluster.statuses.kept.get(asked.request) if asked.request is not None else None
        if asked.is_being_written:
            return  # it is looked at again when that is answered
        if kept is None or asked.request is None:
            self._ledger.forget(asked)
            return
        status = self._text.bounded(asked, asked.request, now)
        if asked.finished_ms is None and not asked.has_news and _says_the_same(kept.status, status):
            asked.written_at += WRITTEN_EVERY_S
            return
        what = "is done" if asked.finished_ms is not None else "goes on"
        counts = ", ".join(f"{count} {outcome}" for outcome, count in status.counts.items())
        write = Set(ReassignmentStatusAddress(asked.request), status, kept.version)
        yield Plan(asked.request, (write,), f"request {asked.request} {what}: {counts}", status, asked)

    def _deletion_plan(self, request: RequestId) -> Iterator[Plan]:
        kept = self._cluster.statuses.kept.get(request)
        if kept is not None and kept.status is not None:
            write = Delete(ReassignmentStatusAddress(request), kept.version)
            yield Plan(request, (write,), f"the status of request {request} was kept long enough")

    def sent(self, plan: Plan, commit: CommitId) -> None:
        """Its transaction is in flight."""
        self._sent[commit] = plan
        if plan.asked is not None:
            plan.asked.is_being_written, plan.asked.has_news = True, False
            self._is_opening = self._is_opening or plan.asked.request is None

    def accepted(self, commit: CommitId, now: float) -> Iterator[Effect]:
        """A transaction was accepted; if it was one of ours, a client may hear the id of its request."""
        plan = self._sent.pop(commit, None)
        if plan is not None:
            yield from self._written(plan, now)

    def failed(self, commit: CommitId, read_again: tuple[Address, ...]) -> None:
        """A transaction failed; if it was one of ours, the znodes must be seen before the next attempt."""
        plan = self._sent.pop(commit, None)
        if plan is not None:
            self._unread.append((plan, set(read_again)))

    def saw(self, address: Address, now: float) -> Iterator[Effect]:
        """A znode was read: what is left to do about transactions that failed."""
        if not self._unread:
            return
        for pair in list(self._unread):
            plan, unread = pair
            unread.discard(address)
            if not unread:
                self._unread.remove(pair)
                yield from self._judge(plan, now)

    def _judge(self, plan: Plan, now: float) -> Iterator[Effect]:
        kept = self._cluster.statuses.kept.get(plan.request)
        asked = plan.asked
        if asked is None:
            if kept is not None:
                self._retain(plan.request, self._text.at_ms(now) - self._retention_ms + round(PAUSE_S * 1000))
        elif kept is not None and kept.status == plan.status:
            yield from self._written(plan, now)
        elif asked.request is None:
            yield from self._not_opened(asked, now)
        elif kept is None or kept.status is None:
            self._ledger.forget(asked)
        else:
            asked.is_being_written, asked.has_news = False, True
            if asked.finished_ms is not None:
                self._ledger.finished.append(asked)

    def _written(self, plan: Plan, now: float) -> Iterator[Effect]:
        asked, status = plan.asked, plan.status
        if asked is None or status is None:
            return
        asked.is_being_written, asked.written_at = False, now
        if asked.request is None:
            self._opening.popleft()
            self._is_opening, self._tries = False, 0
            self._ledger.opened(asked, plan.request, is_final=status.finished_ms is not None)
            yield from _answer(asked, plan.request)
        elif status.finished_ms is not None:
            self._ledger.closed(asked)
        elif asked.finished_ms is not None:
            self._ledger.finished.append(asked)
        if status.finished_ms is not None:
            self._retain(plan.request, status.finished_ms)

    def _not_opened(self, asked: OpenRequest, now: float) -> Iterator[Effect]:
        """The moves go on without an id for now, and the client is not kept waiting."""
        asked.is_being_written, self._is_opening = False, False
        self._tries += 1
        if self._tries >= TRIES:
            self._not_before = now + PAUSE_S
            if asked.answer is not None:
                text = f"a request is answered without an id: {StatusRootAddress().path} could not be written"
                yield Notice(NOTICE, f"{text} {self._tries} times; it is tried again")
            yield from _answer(asked, None)

    def _retain(self, request: RequestId, finished_ms: int) -> None:
        heapq.heappush(self._expiries, (finished_ms + self._retention_ms, request))


def _says_the_same(written: RequestStatus | None, now: RequestStatus) -> bool:
    """Whether nothing has moved for some minutes: what is stuck is no reason to write again and again."""
    if written is None or now.updated_ms - written.updated_ms >= WRITTEN_UNCHANGED_EVERY_S * 1000:
        return False
    return written.copied_bytes == now.copied_bytes and written.counts == now.counts


def _answer(asked: OpenRequest, request: RequestId | None) -> Iterator[Answer]:
    answer, asked.answer = asked.answer, None
    if answer is not None and isinstance(answer.reply, ReassignmentsAltered):
        yield Answer(answer.ask, structs.replace(answer.reply, request_id=request))
