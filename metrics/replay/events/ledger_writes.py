"""What did our controller's ledger of moves say: statuses of requests, records of their moves, and what waits?

These znodes are written whole; only what changed becomes a row, wherever the history is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import UNSET

from zk_layout.codec import Undecodable
from zk_layout.ids import Replicas
from zk_layout.storage import operations
from zk_layout.storage.operations import Row
from zk_layout.znodes import move_records, reassignment_status, waiting_moves
from zk_layout.znodes.reassignment_status import RequestStatus
from zk_layout.znodes.waiting_moves import WaitingMoves

# The kinds of znodes in the table `events`.
STATUS, RECORDS, WAITING = "request_status", "move_records", "waiting_moves"
OF_THE_LEDGER = frozenset({STATUS, RECORDS, WAITING})

# The kinds of rows: a request, one of its moves as its status has it, without an outcome where that no longer lists it;
# a part of its records, one of these; a waiting move, without replicas where it waits no longer.
REQUEST, ENTRY, PART, RECORD, WAITS = "request", "entry", "part", "record", "waits"
WAITS_STILL, IN_PROGRESS = "waiting", "in progress"

# As the schema LEDGER; times in milliseconds.
LedgerEvent = tuple[Any, ...]
_Key = tuple[str, int]
_Said = dict[_Key, tuple[Any, ...]]
_DELETIONS = frozenset({operations.DELETE, operations.DELETE_CONTAINER})
_NAMES = {op: "create" for op in operations.CREATIONS} | dict.fromkeys(_DELETIONS, "delete") | {0: "known"}


class LedgerWrites:
    """Decodes the writes of one split, in order; appends to `rows`."""

    def __init__(self, rows: list[LedgerEvent], before: Callable[[str], bytes | None]) -> None:
        """`before` looks up what a znode held before the split, by its path."""
        self._rows = rows
        self._before = before
        self._requests: dict[str, tuple[tuple[Any, ...] | None, _Said]] = {}
        self._waiting: dict[str, _Said] = {}

    def take(self, row: Row, kind: str) -> None:
        """Take a write of one of these znodes."""
        op, path = row[6], row[7]
        if op not in _DELETIONS and op not in _NAMES and op != operations.SET_DATA:
            return
        data = None if op in _DELETIONS else row[8] or b""
        number = path.rpartition("/")[2]
        if kind == RECORDS:
            self._records(row, number, data)
        elif kind == STATUS:
            self._status(row, number, data, is_new=op in operations.CREATIONS)
        else:
            self._queue(row, number, data, is_new=op in operations.CREATIONS)

    def _records(self, row: Row, name: str, data: bytes | None) -> None:
        request = _number(name.partition("-")[0])
        if request is None:
            return
        if data is None:
            self._add(row, PART, request)
            return
        try:
            records = move_records.decode(data)
        except Undecodable:
            return
        who: dict[str, Any] = {
            "principal": records.principal,
            "client_id": records.client_id,
            "address": records.address,
        }
        said: dict[str, Any] = {
            "origin": records.origin,
            "requested_ms": records.requested_ms,
            **who,
            "reason": records.reason,
        }
        self._add(row, PART, request, moves=sum(len(topic.moves) for topic in records.topics.values()), **said)
        for name, topic in records.topics.items():
            for partition, (to, former) in topic.moves.items():
                self._add(
                    row, RECORD, request, at=(name, partition), replicas=to, former=former, czxid=topic.czxid,
                    topic_id=topic.topic_id, origin=records.origin,
                )  # fmt: skip

    def _status(self, row: Row, name: str, data: bytes | None, *, is_new: bool) -> None:
        request, path = _number(name), row[7]
        if request is None:
            return
        if data is None:
            self._requests[path] = None, {}
            self._add(row, REQUEST, request)
            return
        if path not in self._requests:
            known = None if is_new else self._before(path)
            self._requests[path] = (None, {}) if known is None else _status_of(known) or (None, {})
        found = _status_of(data)
        if found is None:
            return
        before, self._requests[path] = self._requests[path], found
        about, entries = found
        if about != before[0]:
            origin, requested_ms, finished_ms, reason, moves, outcome = about or ()
            self._add(
                row, REQUEST, request, origin=origin, requested_ms=requested_ms, finished_ms=finished_ms,
                reason=reason, moves=moves, outcome=outcome,
            )  # fmt: skip
        for at, entry in entries.items():
            if entry != before[1].get(at):
                to, is_cancel, outcome = entry
                self._add(row, ENTRY, request, at=at, replicas=to, is_cancel=is_cancel, outcome=outcome)
        for at, (to, is_cancel, _) in before[1].items():
            if at not in entries:
                self._add(row, ENTRY, request, at=at, replicas=to, is_cancel=is_cancel)

    def _queue(self, row: Row, name: str, data: bytes | None, *, is_new: bool) -> None:
        path, topic = row[7], name.rpartition("-")[0]
        before = self._waiting.get(path)
        if before is None:
            known = None if is_new else self._before(path)
            before = {} if known is None else _queue_of(known, topic)
        # What cannot be read is as if nothing waited: the audit must not take it for a promise.
        now = self._waiting[path] = {} if data is None else _queue_of(data, topic)
        for at, (to, former, czxid, topic_id) in now.items():
            if before.get(at) != now[at]:
                self._add(row, WAITS, None, at=at, replicas=to, former=former, czxid=czxid, topic_id=topic_id)
        for at in before.keys() - now.keys():
            self._add(row, WAITS, None, at=at, replicas=())

    def _add(
        self, row: Row, kind: str, request: int | None, *, at: _Key | None = None,
        replicas: Replicas | None = None, **said: Any,
    ) -> None:  # fmt: skip
        topic, partition = at or (None, None)
        zxid, time_ms, session, part, op = row[0], row[1], row[2], row[5], row[6]
        self._rows.append(
            (
                zxid, part, time_ms, session, _NAMES.get(op, "set"), kind, request, topic, partition, replicas,
                *(said.get(name) for name in _SAID),
            )
        )  # fmt: skip


_SAID = (
    "former", "outcome", "is_cancel", "czxid", "topic_id", "origin", "requested_ms", "finished_ms", "principal",
    "client_id", "address", "reason", "moves",
)  # fmt: skip


def _status_of(data: bytes) -> tuple[tuple[Any, ...], _Said] | None:
    """What a status says of its request and of each partition that it lists, but for the progress."""
    try:
        status = reassignment_status.decode(data)
    except Undecodable:
        return None
    reason = None if status.reason is UNSET else status.reason
    about = status.origin, status.requested_ms, status.finished_ms, reason, sum(status.counts.values()), _sum_of(status)
    return about, dict(_entries(status))


def _sum_of(status: RequestStatus) -> str | None:
    """The outcomes of a finished request; None while it is not."""
    if status.finished_ms is None:
        return None
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(status.counts.items()) if count)


def _entries(status: RequestStatus) -> Iterator[tuple[_Key, tuple[Any, ...]]]:
    for topic in status.topics:
        for entry in topic.partitions:
            outcome = entry.outcome or (WAITS_STILL if entry.is_waiting else IN_PROGRESS)
            yield (topic.topic, entry.partition), (entry.replicas, entry.is_cancel, outcome)


def _queue_of(data: bytes, topic: str) -> _Said:
    try:
        waiting: WaitingMoves = waiting_moves.decode(data)
    except Undecodable:
        return {}
    return {
        (topic, partition): (move.to, move.former, waiting.czxid, waiting.topic_id)
        for partition, move in waiting.moves.items()
    }


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < len("2147483648") else None
