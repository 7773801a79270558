"""Which moves were requested, by whom, when and why, and what became of them? The tables of requests.

Read from what our controller keeps of them in ZooKeeper, the table `ledger`, and joined with what the log itself shows
of each partition. Where no ledger was written, they are empty and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct

from metrics.replay.audit import audit_table
from metrics.replay.audit.ledger import Book, Run, judged_ledger
from metrics.replay.engine.bulk import Attempt, Files, Tables, make_directory, read_file, settle, written
from metrics.replay.engine.period import Period
from metrics.replay.engine.tasks import Engine, File, Shared, by_partition
from metrics.replay.events.kafka_events import GONE
from metrics.replay.events.ledger_writes import ENTRY, PART, RECORD, REQUEST
from metrics.replay.events.schemas import LEDGER
from metrics.replay.partitions.moves import Happened, grouped, moves_of
from metrics.replay.partitions.partition_fold import HAPPENED, batched, in_order, rows_of
from metrics.replay.partitions.requested import END, SCHEMA, Known, Line, Opened, Said, requested, row_of
from metrics.replay.partitions.terms import Terms
from metrics.replay.tables.histories import ROWS_A_BUCKET, history_of, moved_partitions, of_partitions, terms_of

REQUESTS, MOVES, AUDIT = "requests", "requested_moves", "audit"
_FOUND = 2_000_000  # the number of the first file with findings, after those of judged writes
_KEYS = ["topic", "partition"]
ONE_OUTCOME = r"^\d+ [^,]+$"
_TIME = pa.timestamp("us", tz="UTC")

# name, Arrow type, meaning
COLUMNS: tuple[tuple[str, Any, str], ...] = (
    ("request", pa.int32(), "its id"),
    (
        "origin", pa.string(),
        "the door: AlterPartitionReassignments, the path of the znode that asked for it, or found under way",
    ),
    ("principal", pa.string(), "the client's, over the Kafka protocol; null without records, as the next two"),
    ("client_id", pa.string(), "what the client called itself"),
    ("address", pa.string(), "from where it connected"),
    ("reason", pa.string(), "why, as the client gave it"),
    ("moves", pa.int64(), "how many partitions it names"),
    ("recorded_moves", pa.int64(), "how many of their moves are recorded; null if none is"),
    ("outcome", pa.string(), "how many of them ended how; null while it is not finished"),
    (
        "takes_back", pa.int32(),
        "the last earlier request that made all of its recorded moves the other way round, as a rollback does",
    ),
    ("requested_at", _TIME, "when the leader had granted all of it, by the leader's clock"),
    ("finished_at", _TIME, "when it was finished, by the leader's clock"),
    ("accepted_zxid", pa.int64(), "the transaction that gave it its id; null if before the log"),
    ("accepted_at", _TIME, "when that was"),
    ("session", pa.int64(), "the session of the leader that gave it"),
    ("broker", pa.int32(), "that leader's id"),
    ("controller_epoch", pa.int32(), "its epoch"),
    ("deleted_zxid", pa.int64(), "the transaction that deleted its status; null if it is still there"),
)  # fmt: skip
REQUESTS_SCHEMA = pa.schema([pa.field(name, kind) for name, kind, _ in COLUMNS])


class Window(Struct, frozen=True):
    """The period to show, in milliseconds; of what came before, what had not ended then."""

    until_ms: int
    since_ms: int = 0


class Asked(Struct, frozen=True):
    """Inputs of every task.

    Shape:
        `partitions` are those to look at.
    """

    tables: tuple[str, ...]
    window: Window
    terms: Terms
    book: Book
    known: Known
    partitions: pa.Table


def write(engine: Engine, out: str, window: Window, runs: Sequence[Run], tables: Sequence[str]) -> None:
    """Write those of `requests`, `requested_moves` and what the audit finds about them that are wanted."""
    ledger = _until(written(out, "ledger").to_table(), window.until_ms)
    for table in (REQUESTS, MOVES):
        if table in tables:
            make_directory(f"{out}/{table}")
    events = written(out, "events")
    first = Files(out, 0)
    if REQUESTS in tables:
        first.write(REQUESTS, requests(ledger, terms_of(events), window))
    if MOVES in tables:
        first.write(MOVES, SCHEMA.empty_table())
    settle(out, [first.close()])
    if not ledger.num_rows or not {MOVES, AUDIT} & {*tables}:
        return
    moved = moved_partitions(engine, out) if AUDIT in tables else None
    asked = asked_of(ledger, events, runs, window, tables, moved)
    sources = {name: written(out, name) for name in ("events", "partitions", "ledger")}
    buckets = max(engine.cores, sum(source.count_rows() for source in sources.values()) // ROWS_A_BUCKET + 1)
    files = [(name, path) for name, source in sources.items() for path in source.files]
    shared = engine.share(asked)
    cut, finish = partial(_cut, out, buckets, shared), partial(_finish, out, shared)
    settle(out, engine.in_buckets(cut, files, finish, buckets))


def asked_of(
    ledger: pa.Table, events: Any, runs: Sequence[Run], window: Window, tables: Sequence[str],
    moved: pa.Table | None = None,
) -> Asked:  # fmt: skip
    """The inputs of tasks, from the tables `ledger` and `events`; the audit looks at all partitions that `moved`."""
    terms = terms_of(events)
    book = book_of(ledger, events, terms, runs)
    since = {request: book.since(opened) for request, opened in book.opened.items()}
    named = ledger.filter(ledger["partition"].is_valid()).select(_KEYS)
    if moved is not None:
        named = pa.concat_tables([named, moved.cast(named.schema)])
    known = Known(book.opened, since, _ends(ledger), dropped_records(ledger))
    return Asked(tuple(tables), window, terms, book, known, named.group_by(_KEYS).aggregate([]))


def dropped_records(ledger: pa.Table) -> dict[int, int]:
    """By request id, the last deletion of records whose request never got it, because its leader died."""
    is_about = pc.is_in(ledger["kind"], value_set=pa.array([REQUEST, PART]))
    rows = ledger.filter(is_about).select(["zxid", "kind", "op", "request"]).sort_by("zxid").to_pylist()
    opened: dict[int, int] = {}
    for row in rows:
        if row["kind"] == REQUEST:
            opened.setdefault(row["request"], row["zxid"] if row["op"] == "create" else 0)
    gone = (row for row in rows if row["kind"] == PART and row["op"] == "delete")
    return {row["request"]: row["zxid"] for row in gone if row["zxid"] < opened.get(row["request"], END)}


def _ends(ledger: pa.Table) -> dict[int, Said]:
    """By request, the end of those all of whose moves have one outcome."""
    is_end = pc.and_(pc.equal(ledger["kind"], REQUEST), pc.match_substring_regex(ledger["outcome"], ONE_OUTCOME))
    found: dict[int, Said] = {}
    for row in ledger.filter(pc.fill_null(is_end, False)).to_pylist():
        outcome = row["outcome"].partition(" ")[2]
        known = {"time_ms": round(row["time"].timestamp() * 1000), "kind": ENTRY, "outcome": outcome}
        found[row["request"]] = Said(**{**{name: row.get(name) for name in Said._fields}, **known})
    return found


# ---- requests ------------------------------------------------------------------------------------------------


def requests(ledger: pa.Table, terms: Terms, window: Window) -> pa.Table:
    """The table `requests`, from the table `ledger`, oldest first."""
    is_about = pc.is_in(ledger["kind"], value_set=pa.array([REQUEST, PART]))
    rows: dict[int, dict[str, Any]] = {}
    dropped = dropped_records(ledger)
    for said in ledger.filter(is_about).sort_by([("zxid", "ascending"), ("part", "ascending")]).to_pylist():
        if said["kind"] == PART and said["zxid"] <= dropped.get(said["request"], 0):
            continue
        row = rows.setdefault(said["request"], dict.fromkeys(REQUESTS_SCHEMA.names) | {"request": said["request"]})
        if said["kind"] == PART:
            _take_part(row, said)
        elif said["op"] == "delete":
            row["deleted_zxid"] = said["zxid"]
        else:
            _take_status(row, said, terms)
    back = _takes_back(ledger, dropped)
    begin = window.since_ms / 1000
    kept = [
        {**row, "takes_back": back.get(number)} for number, row in sorted(rows.items())
        if row["finished_at"] is None or row["finished_at"].timestamp() >= begin
    ]  # fmt: skip
    return pa.Table.from_pylist(kept, schema=REQUESTS_SCHEMA)


def _take_part(row: dict[str, Any], said: dict[str, Any]) -> None:
    if said["op"] == "delete":
        return
    row["recorded_moves"] = (row["recorded_moves"] or 0) + said["moves"]
    for name in ("origin", "requested_at", "principal", "client_id", "address", "reason"):
        row[name] = said[name] if said[name] is not None else row[name]


def _take_status(row: dict[str, Any], said: dict[str, Any], terms: Terms) -> None:
    for name in ("origin", "requested_at", "finished_at", "moves", "outcome"):
        row[name] = said[name]
    row["reason"] = said["reason"] if said["reason"] is not None else row["reason"]
    if said["op"] == "create":
        row |= {"accepted_zxid": said["zxid"], "accepted_at": said["time"], "session": said["session"]}
        row |= {"broker": terms.whose(said["session"])[0], "controller_epoch": terms.at(said["zxid"]).epoch or None}


def _takes_back(ledger: pa.Table, dropped: Mapping[int, int]) -> dict[int, int]:
    """By request, the last earlier one that moved all partitions which it names the other way round."""
    records = ledger.filter(pc.equal(ledger["kind"], RECORD))
    for request, zxid in dropped.items():
        is_dropped = pc.and_(pc.equal(records["request"], request), pc.less_equal(records["zxid"], zxid))
        records = records.filter(pc.invert(is_dropped))
    if not records.num_rows:
        return {}
    there = {name: _as_text(records[name]) for name in ("replicas", "former")}
    later = pa.table({"later": records["request"], **{k: records[k] for k in _KEYS}, **there})
    turned = {"replicas": there["former"], "former": there["replicas"]}
    earlier = pa.table({"earlier": records["request"], **{k: records[k] for k in _KEYS}, **turned})
    both = later.join(earlier, [*_KEYS, "replicas", "former"], join_type="inner")
    both = both.filter(pc.less(both["earlier"], both["later"])).group_by(["later", "earlier"])
    turns = both.aggregate([("partition", "count")]).to_pylist()
    size = {row["request"]: row["partition_count"] for row in _counted(records)}
    pairs = [(r["later"], r["earlier"]) for r in turns if r["partition_count"] == size[r["later"]]]
    return dict(sorted(pairs))


def _counted(records: pa.Table) -> Iterable[dict[str, Any]]:
    found: list[dict[str, Any]] = records.group_by("request").aggregate([("partition", "count")]).to_pylist()
    return found


def _as_text(lists: Any) -> Any:
    texts = [",".join(map(str, values or ())) for values in lists.to_pylist()]
    return pa.array(texts, pa.string())


# ---- what the audit must know --------------------------------------------------------------------------------


def book_of(ledger: pa.Table, events: Any, terms: Terms, runs: Sequence[Run]) -> Book:
    """What is known of the whole ledger; `events` is the dataset of that table."""
    is_kept = pc.field("kind").isin([REQUEST, PART]) & (pc.field("op") == "create")
    rows = ledger.filter(is_kept).select(["zxid", "time", "session", "kind", "request"]).to_pylist()
    opened: dict[int, Opened] = {}
    recorded: dict[int, list[int]] = {}
    for row in sorted(rows, key=lambda row: int(row["zxid"])):
        time_ms = round(row["time"].timestamp() * 1000)
        if row["kind"] == REQUEST:
            opened[row["request"]] = Opened(row["zxid"], time_ms, row["session"])
        else:
            recorded.setdefault(row["session"], []).append(time_ms)
    claims = {seen.session: seen.zxid for seen in terms.sightings if seen.kind == "controller" and seen.op == "create"}
    ours = pc.unique(ledger.filter(pc.not_equal(ledger["op"], "known"))["session"]).to_pylist()
    created, deleted = _lives_of_topics(events, pc.unique(ledger["topic"].drop_null()))
    return Book(tuple(runs), opened, claims, created, deleted, frozenset(ours), recorded)


def _lives_of_topics(events: Any, topics: Any) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    ends = pc.field("op").isin(["create", *GONE])
    is_one = (pc.field("kind") == "topic") & ends & pc.field("topic").isin(topics)
    created: dict[str, list[int]] = {}
    deleted: dict[str, list[int]] = {}
    rows = events.to_table(columns=["topic", "op", "zxid"], filter=is_one).sort_by("zxid").to_pylist()
    for row in rows:
        (created if row["op"] == "create" else deleted).setdefault(row["topic"], []).append(row["zxid"])
    return created, deleted


# ---- the moves of each partition -----------------------------------------------------------------------------

_OF_SAID = ("request", "former", "outcome", "is_cancel", "czxid", "topic_id", "origin")
_WIDE = pa.schema([*HAPPENED, *(LEDGER.field(name) for name in _OF_SAID), pa.field("is_said", pa.bool_())])
_LISTS = ("replicas", "former")


def _cut(out: str, buckets: int, shared: Shared, file: File) -> Iterable[tuple[int, pa.Table]]:
    rows = wide(file[0], read_file(out, file))
    return by_partition(of_partitions(rows, shared.value.partitions), buckets)


def wide(table: str, rows: Any) -> pa.Table:
    """What a dataset of one of the three tables has of partitions, with the same columns for all."""
    if table != "ledger":
        found, more = in_order([history_of(table, rows)]), {"is_said": False}
    else:
        said = rows.to_table(filter=pc.field("partition").is_valid())
        found = said.append_column("time_ms", pc.divide(said["time"].cast(pa.int64()), 1000))
        more = {"is_said": True}
    made = [
        found[f.name] if f.name in found.column_names else _repeated(more.get(f.name), found.num_rows, f.type)
        for f in _WIDE
    ]
    return pa.table(made, schema=_WIDE)


def _repeated(value: Any, count: int, kind: Any) -> Any:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def _finish(out: str, shared: Shared, bucket: int, rows: pa.Table) -> Attempt:
    files = Files(out, _FOUND + bucket)
    judge(rows, shared.value, files)
    return files.close()


def judge(rows: pa.Table, asked: Asked, tables: Tables) -> None:
    """Write the requested moves of some partitions, and what the audit finds about them."""
    rows = rows.filter(pc.less_equal(rows["time_ms"], asked.window.until_ms))
    wrong: list[audit_table.Judged] = []
    for batch in batched(_of_each(rows, asked, wrong), SCHEMA):
        if MOVES in asked.tables:
            tables.write(MOVES, pa.Table.from_batches([batch]))
    if wrong and AUDIT in asked.tables:
        tables.write(AUDIT, audit_table.table_of(wrong))


def _of_each(rows: pa.Table, asked: Asked, wrong: list[audit_table.Judged]) -> Iterator[dict[str, Any]]:
    period = Period(asked.window.since_ms, asked.window.until_ms)
    is_queue_known = bool(asked.book.runs) and asked.book.runs[0].is_begun and len(asked.book.runs) == 1
    for (topic, partition), history, said in _by_partition(rows):
        moves = moves_of(history)
        found = [*requested(moves, said, asked.known)]
        judged = judged_ledger((topic, partition), Line(history), moves, said, found, asked.book)
        wrong.extend(
            audit_table.row_of(one, topic, partition, asked.terms) for one in judged if period.has(one.time_ms)
        )
        for move in found:
            row = row_of(topic, partition, move, is_queue_known=is_queue_known)
            if row["ended_at"] is None or row["ended_at"].timestamp() * 1000 >= asked.window.since_ms:
                yield row


def _by_partition(rows: pa.Table) -> Iterator[tuple[tuple[str, int], list[Happened], list[Said]]]:
    """Each partition with its history and what was said of it; of those, memory holds one history at a time."""
    ordered = rows.sort_by([(name, "ascending") for name in (*_KEYS, "zxid", "part")])
    ledger = ordered.filter(ordered["is_said"])
    columns = {name: ledger[name].to_pylist() for name in (*_KEYS, *Said._fields)}
    for name in _LISTS:
        columns[name] = [None if value is None else tuple(value) for value in columns[name]]
    said: dict[tuple[str, int], list[Said]] = {}
    for topic, partition, *fields in zip(*columns.values(), strict=True):
        said.setdefault((topic, partition), []).append(Said._make(fields))
    for topic, partition, history in grouped(rows_of(ordered.filter(pc.invert(ordered["is_said"])).to_batches())):
        yield (topic, partition), history, said.pop((topic, partition), [])
    for where, of_one in said.items():
        yield where, [], of_one


def _until(ledger: pa.Table, until_ms: int) -> pa.Table:
    at_ms = pc.divide(ledger["time"].cast(pa.int64()), 1000)
    return ledger.filter(pc.less_equal(at_ms, until_ms))
