"""What became of each move that was requested: what the ledger says, and what the log itself shows?

The ledger is what our controller keeps in ZooKeeper about requests: their statuses, the records of their moves, and the
moves that wait. What it says is joined with the moves that the topic's znode went through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from controller.core.stage import Stage
from metrics.replay.events.kafka_events import GONE
from metrics.replay.events.ledger_writes import ENTRY, IN_PROGRESS, RECORD, WAITS, WAITS_STILL
from metrics.replay.partitions.moves import Happened, Move, assignment_of
from zk_layout.ids import Replicas
from zk_layout.znodes.topics import Assignment

_TIME = pa.timestamp("us", tz="UTC")
_INTS = pa.list_(pa.int32())
NEVER_BEGAN, STILL_WAITING = "never began", "waiting"
CANCELLED = "cancelled"
END = 2**63 - 1

# name, Arrow type, meaning
COLUMNS: tuple[tuple[str, Any, str], ...] = (
    ("request", pa.int32(), "the request"),
    ("topic", pa.string(), "the topic"),
    ("topic_id", pa.string(), "its id; null if the topic has none, or no record says"),
    ("partition", pa.int32(), "the partition"),
    ("former_replicas", _INTS, "where it was before, or where another move was taking it; null without a record"),
    ("to_replicas", _INTS, "what was asked for"),
    ("is_cancel", pa.bool_(), "whether the request cancelled a move; null where no status says"),
    ("outcome", pa.string(), "what the status said last; null where that neither lists the move nor counts all as one"),
    (
        "log_outcome", pa.string(),
        "what the topic's znode shows: as in `reassignments`, waiting, or never began; null: no such move",
    ),
    ("has_waited", pa.bool_(), "whether it stood in the queue; null where that is not known"),
    ("accepted_zxid", pa.int64(), "the transaction that gave the request its id; null if before the log"),
    ("accepted_at", _TIME, "when that was"),
    ("queued_zxid", pa.int64(), "the transaction that put it into the queue"),
    ("queued_at", _TIME, "when that was"),
    ("begun_zxid", pa.int64(), "the transaction in which the topic's znode first named it"),
    ("begun_at", _TIME, "when that was"),
    ("ended_zxid", pa.int64(), "the transaction in which it no longer did, or in which it left the queue unbegun"),
    ("ended_at", _TIME, "when that was"),
    ("waited_ms", pa.int64(), "time in the queue"),
    ("catching_up_ms", pa.int64(), "as in `reassignments`"),
    ("handing_over_ms", pa.int64(), "as in `reassignments`"),
    ("letting_go_ms", pa.int64(), "as in `reassignments`"),
    ("duration_ms", pa.int64(), "from its beginning to its end"),
)  # fmt: skip
SCHEMA = pa.schema([pa.field(name, kind) for name, kind, _ in COLUMNS])


class Said(NamedTuple):
    """One row of the table `ledger` about a partition."""

    zxid: int
    time_ms: int
    session: int
    op: str
    kind: str
    request: int | None
    replicas: Replicas | None
    former: Replicas | None
    outcome: str | None
    is_cancel: bool | None
    czxid: int | None
    topic_id: str | None
    origin: str | None


class Opened(Struct, frozen=True):
    """The transaction in which a request got its id."""

    zxid: int
    time_ms: int
    session: int


class Known(Struct, frozen=True):
    """What is known of whole requests.

    Shape:
        `opened` has those whose beginning the log shows, `since` the transaction before which a request moved nothing,
        `ends` the end of those all of whose moves have the same outcome. Records up to the transaction in `dropped`
        belong to a request that never got this id, since its leader died before that.
    """

    opened: Mapping[int, Opened] = {}
    since: Mapping[int, int] = {}
    ends: Mapping[int, Said] = {}
    dropped: Mapping[int, int] = {}


class Waited(NamedTuple):
    """A time in the queue: the write that began it, and the one that ended it, if any."""

    since: Said
    until: Said | None


class Requested(Struct, frozen=True):
    """One move as it was requested, and as the log shows it.

    Shape:
        `since` is the zxid from which on the request may have begun it, 0 if that is not known. `entries` are what its
        status said of it, in order. `record` and `move` are None where there is none.
    """

    request: int
    opened: Opened | None
    since: int
    record: Said | None
    entries: tuple[Said, ...]
    waited: Waited | None
    move: Move | None

    @property
    def to(self) -> Replicas:
        """What was asked for."""
        said = self.record or self.entries[-1]
        return said.replicas or ()

    @property
    def is_cancel(self) -> bool | None:
        """Whether the request cancelled a move."""
        return self.entries[-1].is_cancel if self.entries else None


class Line:
    """What a topic's znode said of one partition, in order."""

    def __init__(self, history: Iterable[Happened]) -> None:
        self.writes: list[tuple[Happened, Assignment | None]] = []
        for event in history:
            if event.kind == "assignment":
                self.writes.append((event, assignment_of(event)))
            elif event.kind == "state" and event.op in GONE:
                self.writes.append((event, None))

    def between(self, since: int, until: int) -> list[tuple[Happened, Assignment | None]]:
        """What stood at `since`, and every write after it up to `until`."""
        before = [write for write in self.writes if write[0].zxid <= since]
        return [*before[-1:], *(write for write in self.writes if since < write[0].zxid <= until)]

    def is_known_at(self, zxid: int) -> bool:
        """Whether the log shows what stood then, or that nothing did."""
        first = self.writes[0][0] if self.writes else None
        return first is None or first.zxid <= zxid or (first.op == "create" and not first.is_first)


def requested(moves: Sequence[Move], said: Sequence[Said], known: Known) -> Iterator[Requested]:
    """The requested moves of one partition, by request, given its moves in the log."""
    waits = [*_queue(said)]
    requests = sorted({one.request for one in said if one.request is not None})
    for request in requests:
        dropped = known.dropped.get(request, 0)
        of_it = [one for one in said if one.request == request and one.op != "delete" and one.zxid > dropped]
        record = next((one for one in of_it if one.kind == RECORD), None)
        entries = tuple(one for one in of_it if one.kind == ENTRY)
        if record is None and not entries:
            continue
        at = known.opened.get(request)
        if at is None and record is not None:
            at = Opened(record.zxid, record.time_ms, record.session)  # a record is never written again
        began = known.since.get(request, 0)
        entries = _ended(entries, record, known.ends.get(request))
        found = Requested(request, at, began, record, entries, None, None)
        waited = _waited(waits, found)
        yield Requested(request, at, began, record, entries, waited, _move(moves, found, waited))


def _ended(entries: tuple[Said, ...], record: Said | None, end: Said | None) -> tuple[Said, ...]:
    """The entries, with one more where a long status only counts the move: all of the request came to this end."""
    last = entries[-1] if entries else record
    is_over = bool(entries) and entries[-1].outcome not in (None, WAITS_STILL, IN_PROGRESS)
    if last is None or end is None or is_over:
        return entries
    return (*entries, end._replace(replicas=last.replicas, is_cancel=last.is_cancel))


def _queue(said: Iterable[Said]) -> Iterator[Waited]:
    standing: Said | None = None
    for one in said:
        if one.kind != WAITS:
            continue
        if standing is not None:
            yield Waited(standing, one)
        standing = one if one.replicas else None
    if standing is not None:
        yield Waited(standing, None)


def _waited(waits: Sequence[Waited], found: Requested) -> Waited | None:
    until = END if found.opened is None else found.opened.zxid
    mine = [
        one for one in waits
        if one.since.replicas == found.to and one.since.zxid <= until
        and (one.until is None or one.until.zxid > found.since)
    ]  # fmt: skip
    return mine[-1] if mine else None


def _move(moves: Sequence[Move], found: Requested, waited: Waited | None) -> Move | None:
    """The move that the request asked for, or the one that it cancelled."""
    alike = [move for move in moves if move.assignment.target == found.to]
    if waited is not None:
        until = END if waited.until is None else waited.until.zxid
        return next((m for m in alike if waited.since.zxid <= m.started_zxid <= until), None)
    until = END if found.opened is None else found.opened.zxid
    asked = [m for m in alike if m.started_zxid <= until and (m.ended_zxid or END) >= found.since]
    if asked or not found.is_cancel:
        return asked[-1] if asked else None
    ended = [m for m in moves if m.outcome == CANCELLED and found.since <= (m.ended_zxid or END) <= until]
    return ended[-1] if ended else None


def row_of(topic: str, partition: int, found: Requested, *, is_queue_known: bool) -> dict[str, Any]:
    """One requested move as a row of the table; `is_queue_known`: the log shows the queue from its beginning on."""
    record, move, waited, opened = found.record, found.move, found.waited, found.opened
    stages = {} if move is None else move.stage_ms
    begun = None if move is None else (move.started_zxid, move.started_ms)
    ended = _end_of(move)
    log_outcome = None if move is None else move.outcome
    if move is not None and found.is_cancel and move.assignment.target != found.to:
        begun = ended  # it was the cancellation that was asked for
    if move is None and waited is not None:
        left = waited.until
        ended = None if left is None else (left.zxid, left.time_ms)
        log_outcome = STILL_WAITING if left is None else NEVER_BEGAN
    stopped = begun or ended
    duration = None if begun is None or ended is None else ended[1] - begun[1]
    return {
        "request": found.request,
        "topic": topic,
        "topic_id": None if record is None else record.topic_id,
        "partition": partition,
        "former_replicas": None if record is None else record.former,
        "to_replicas": found.to,
        "is_cancel": found.is_cancel,
        "outcome": found.entries[-1].outcome if found.entries else None,
        "log_outcome": log_outcome,
        "has_waited": True if waited is not None else False if is_queue_known and opened is not None else None,
        **_at("accepted", None if opened is None else (opened.zxid, opened.time_ms)),
        **_at("queued", None if waited is None else (waited.since.zxid, waited.since.time_ms)),
        **_at("begun", begun),
        **_at("ended", ended),
        "waited_ms": None if waited is None or stopped is None else stopped[1] - waited.since.time_ms,
        "catching_up_ms": stages.get(Stage.CATCHING_UP.value, 0) if move is not None else None,
        "handing_over_ms": stages.get(Stage.HANDING_OVER.value, 0) if move is not None else None,
        "letting_go_ms": stages.get(Stage.LETTING_GO.value, 0) if move is not None else None,
        "duration_ms": duration,
    }


def _end_of(move: Move | None) -> tuple[int, int] | None:
    """The transaction that ended a move, and its time."""
    if move is None or move.ended_zxid is None or move.ended_ms is None:
        return None
    return move.ended_zxid, move.ended_ms


def _at(name: str, when: tuple[int, int] | None) -> dict[str, Any]:
    zxid, time_ms = when or (None, None)
    at = None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC)
    return {f"{name}_zxid": zxid, f"{name}_at": at}
