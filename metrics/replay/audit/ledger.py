"""Does the ledger of moves say what the log shows? Statuses of requests, records of their moves, and what waits.

A finding is a contradiction. Where the log does not show enough, nothing is found: of a request whose moves may have
begun before the log, or before a hole in it, nothing is said.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct, structs

from controller.core.progress.ledger import BY_REQUEST, COMPLETED, DELETED
from controller.core.progress.ledger import CANCELLED as CALLED_OFF
from metrics.replay.audit.verdicts import LISTED, VIOLATION, Finding
from metrics.replay.events.ledger_writes import ENTRY, RECORD, RECORDS, STATUS, WAITS
from metrics.replay.partitions.moves import Happened, Move
from metrics.replay.partitions.requested import END, Line, Opened, Requested, Said
from zk_layout.ids import Replicas
from zk_layout.storage.files import StoredFile
from zk_layout.storage.order import Piece, gap_between
from zk_layout.znodes.topics import Assignment

RULE = "ledger"
LONGEST_REQUEST_MS = 60 * 60_000
"""Between the first beginning of a request's moves and its id; far more than any takes."""
RECORDED_WITHIN_MS = 60_000
_Writes = Sequence[tuple[Happened, Assignment | None]]


class Run(Struct, frozen=True):
    """A part of the log without a hole. `is_begun`: what stood before it is known, too."""

    first: int
    last: int
    from_ms: int
    is_begun: bool


def unbroken(pieces: Iterable[Piece], beginning: StoredFile | None) -> tuple[Run, ...]:
    """The parts without a hole of a history that begins with this snapshot, if with any."""
    runs: list[Run] = []
    for piece in pieces:
        if runs and gap_between(runs[-1].last, piece.first) is None:
            runs[-1] = structs.replace(runs[-1], last=max(runs[-1].last, piece.last))
            continue
        is_begun = piece.first == 1 or (
            not runs and beginning is not None and beginning.zxid < piece.first
            and gap_between(beginning.zxid, piece.first) is None
        )  # fmt: skip
        runs.append(Run(piece.first, piece.last, piece.from_ms, is_begun))
    return tuple(runs)


class Book(Struct, frozen=True):
    """What is known of the whole ledger, for the judgement of single partitions.

    Shape:
        `opened` are the requests whose status the log shows created; `claims` the transaction of each session's claim
        to lead. `created` and `deleted` are those of topics' znodes. `ours` are the sessions that have written the
        ledger, `recorded` the times of the records that each has written.
    """

    runs: tuple[Run, ...] = ()
    opened: Mapping[int, Opened] = {}
    claims: Mapping[int, int] = {}
    created: Mapping[str, Sequence[int]] = {}
    deleted: Mapping[str, Sequence[int]] = {}
    ours: frozenset[int] = frozenset()
    recorded: Mapping[int, Sequence[int]] = {}

    def run_of(self, zxid: int) -> Run | None:
        """The part of the log that holds a transaction."""
        place = bisect_right([run.first for run in self.runs], zxid) - 1
        return self.runs[place] if place >= 0 and zxid <= self.runs[place].last else None

    def since(self, opened: Opened) -> int:
        """The transaction before which a request did not move anything; 0 if the log does not show that."""
        run = self.run_of(opened.zxid)
        if run is None:
            return 0
        claim = self.claims.get(opened.session, 0)
        if run.first < claim <= opened.zxid:
            return claim
        return run.first if run.first == 1 or opened.time_ms - run.from_ms >= LONGEST_REQUEST_MS else 0

    def is_covered(self, line: Line, since: int, until: int) -> bool:
        """Whether the log shows all that a topic's znode said of a partition between two transactions."""
        run = self.run_of(until)
        if run is None or not since or since < run.first:
            return False
        if run.is_begun:
            return line.is_known_at(since)
        return any(run.first <= event.zxid <= since for event, _ in line.writes)

    def was_deleted(self, topic: str, since: int, until: int) -> bool:
        """Whether a topic was deleted between two transactions."""
        at = self.deleted.get(topic, ())
        return bisect_left(at, since) < bisect_right(at, until)


def judged_ledger(
    where: tuple[str, int], line: Line, moves: Sequence[Move], said: Sequence[Said], found: Sequence[Requested],
    book: Book,
) -> Iterator[Finding]:  # fmt: skip
    """What the ledger says of one partition that the log contradicts, and moves of ours that it does not name."""
    topic, partition = where
    one = _Partition(topic, f"{topic}-{partition}", line, said, book)
    for move in found:
        if not move.since or move.opened is None:
            continue
        if move.record is not None and move.record.op == "create":
            yield from one.record(move, move.record)
        for before, entry in pairwise([None, *move.entries]):
            if entry is not None and entry.op != "known" and (before is None or before.outcome != entry.outcome):
                yield from one.status(move, entry)
    yield from one.queue()
    yield from one.unnamed(moves)


class _Partition(Struct):
    topic: str
    name: str
    line: Line
    said: Sequence[Said]
    book: Book

    # ---- records ---------------------------------------------------------------------------------------------

    def record(self, move: Requested, record: Said) -> Iterator[Finding]:
        """A record names a move that was, from where it was, in a topic that was."""
        run = self.book.run_of(record.zxid)
        czxid = record.czxid or 0
        if run is not None and run.first < czxid and czxid not in self.book.created.get(self.topic, ()):
            why = f"a topic created at {czxid:#x}, where the log shows none created"
            yield self._wrong(record, RECORDS, f"request {move.request} is recorded to have moved {self.name} of {why}")
            return
        if not self.book.is_covered(self.line, move.since, record.zxid):
            return
        writes = self.line.between(move.since, record.zxid)
        aims, to, former = _aims(writes), record.replicas or (), record.former or ()
        has_waited = any(one.kind == WAITS and one.replicas == to and one.zxid <= record.zxid for one in self.said)
        what = f"request {move.request} is recorded to have moved {self.name} from {[*former]} to {[*to]}"
        if not has_waited and not any(to in life for life in aims):
            yield self._wrong(record, RECORDS, f"{what}, where it never was to go")
        elif not self._was_at(former, to, record, aims, writes, has_waited=has_waited):
            yield self._wrong(record, RECORDS, f"{what}; it was not at {[*former]} before")

    def _was_at(
        self, former: Replicas, to: Replicas, record: Said, aims: Sequence[Sequence[Replicas]], writes: _Writes, *,
        has_waited: bool,
    ) -> bool:  # fmt: skip
        if record.origin != BY_REQUEST:  # the order of former replicas may be unknown
            seen = [{*aim} for life in aims for aim in life]
            seen += [{*assignment.original} for _, assignment in writes if assignment is not None]
            return {*former} in seen
        is_edited = any(event.fence is None and event.op == "set" for event, _ in writes)
        if has_waited or is_edited:
            return any(former in life for life in aims)
        return any((former, to) in pairwise(life) for life in aims)

    # ---- statuses --------------------------------------------------------------------------------------------

    def status(self, move: Requested, entry: Said) -> Iterator[Finding]:
        """An outcome is one that the topic's znode showed."""
        if not self.book.is_covered(self.line, move.since, entry.zxid):
            return
        writes, to = self.line.between(move.since, entry.zxid), entry.replicas or ()
        if entry.outcome == COMPLETED:
            is_right = any(a is not None and not a.is_moving and a.replicas == to for _, a in writes)
            shown = f"the topic's znode never had it at {[*to]}"
        elif entry.outcome == CALLED_OFF and not entry.is_cancel:  # "superseded" may follow from a later request alone
            is_right = self._has_waited(move.since, entry.zxid) or not _only_went_to(to, writes)
            shown = f"the topic's znode shows it on its way to {[*to]}, or there, and nowhere else since"
        elif entry.outcome == DELETED:
            is_gone = any(assignment is None for _, assignment in writes) or not writes
            is_right = is_gone or self.book.was_deleted(self.topic, move.since, entry.zxid)
            shown = "it was there all the time"
        else:
            return
        if not is_right:
            what = f"request {move.request} says of {self.name} that its move was {entry.outcome}"
            yield self._wrong(entry, STATUS, f"{what}; {shown}")

    def _has_waited(self, since: int, until: int) -> bool:
        return any(one.kind == WAITS and since <= one.zxid <= until for one in self.said) or any(
            one.kind == WAITS and one.zxid < since and one.replicas for one in self._standing(since)
        )

    def _standing(self, zxid: int) -> list[Said]:
        return [one for one in self.said if one.kind == WAITS and one.zxid <= zxid][-1:]

    # ---- the queue -------------------------------------------------------------------------------------------

    def queue(self) -> Iterator[Finding]:
        """A move that our controller begins leaves the queue in the same transaction."""
        before = None
        for event, now in self.line.writes:
            is_new, before = before is None or now is None or before.target != now.target, now
            is_ours = event.fence is not None and event.session in self.book.ours and event.op == "set"
            if now is None or not now.is_moving or not is_ours or not is_new:
                continue
            waiting = self._standing(event.zxid)
            if waiting and waiting[0].replicas == now.target:
                why = f"{self.name} began to move to {[*now.target]} at {event.zxid:#x}; the queue says that it waits"
                yield self._wrong(waiting[0], "waiting_moves", why)

    # ---- moves that no record names --------------------------------------------------------------------------

    def unnamed(self, moves: Sequence[Move]) -> Iterator[Finding]:
        """A move of ours has a record, where its controller writes records."""
        named = {one.replicas for one in self.said if one.kind in (RECORD, ENTRY, WAITS)}
        for move in moves:
            run = self.book.run_of(move.started_zxid)
            if move.assignment.target in named or run is None or not run.is_begun or not self._is_ours(move):
                continue
            why = f"{self.name} was moved to {[*move.assignment.target]}; no request and no record names that"
            yield Finding(
                move.started_zxid, move.started_ms, "assignment", LISTED, RULE, f"{why}, though others are recorded",
                session=move.session,
            )  # fmt: skip

    def _is_ours(self, move: Move) -> bool:
        """Whether it was begun by a session that wrote records before, and again while the move had long begun."""
        if move.origin in ("by hand", "unknown"):
            return False
        written = self.book.recorded.get(move.session, ())
        until = END if move.ended_ms is None else move.ended_ms
        is_late = any(move.started_ms + RECORDED_WITHIN_MS <= at <= until for at in written)
        return is_late and written[0] < move.started_ms

    def _wrong(self, said: Said, what: str, why: str) -> Finding:
        return Finding(said.zxid, said.time_ms, what, VIOLATION, RULE, why, session=said.session)


def _aims(writes: _Writes) -> list[list[Replicas]]:
    """Where a partition was to go, one after the other, in each life of its topic."""
    lives: list[list[Replicas]] = [[]]
    for event, assignment in writes:
        if assignment is None or event.op == "create":
            lives.append([])
        if assignment is not None and lives[-1][-1:] != [assignment.target]:
            lives[-1].append(assignment.target)
    return lives


def _only_went_to(to: Replicas, writes: _Writes) -> bool:
    """Whether a move there began, and everything since was that move or its end."""
    began = next((n for n, (_, a) in enumerate(writes) if a is not None and a.is_moving and a.target == to), None)
    if began is None:
        return False
    return all(a is not None and a.target == to for _, a in writes[began:])
