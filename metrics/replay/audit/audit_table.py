"""Is every write of the log explained? The table `audit`: one row for each write of anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types

from metrics.replay.audit.audit import PartitionAudit, led_from
from metrics.replay.audit.claims import judged_claims
from metrics.replay.audit.situations import ANYWHERE, situations
from metrics.replay.audit.verdicts import EXPLAINED, LISTED, Finding
from metrics.replay.engine.bulk import Attempt, Files, read_file, settle, write_table, written
from metrics.replay.engine.period import Period
from metrics.replay.engine.reduction import as_time, whole
from metrics.replay.engine.tasks import Engine, Shared
from metrics.replay.events.kafka_events import GONE
from metrics.replay.partitions.partition_fold import rows_of
from metrics.replay.partitions.terms import Terms

_COLUMNS: tuple[tuple[str, Any, str], ...] = (
    ("zxid", pa.int64(), "bigint"),
    ("time", pa.timestamp("us", tz="UTC"), "timestamp"),
    ("what", pa.string(), "string"),
    ("topic", pa.string(), "string"),
    ("partition", pa.int32(), "int"),
    ("verdict", pa.string(), "string"),
    ("rule", pa.string(), "string"),
    ("why", pa.string(), "string"),
    ("ours", pa.string(), "string"),
    ("session", pa.int64(), "bigint"),
    ("broker", pa.int32(), "int"),
    ("host", pa.string(), "string"),
    ("controller_epoch", pa.int32(), "int"),
)
SCHEMA = pa.schema([pa.field(name, kind) for name, kind, _ in _COLUMNS])
DDL = ", ".join(f"{name} {spark}" for name, _, spark in _COLUMNS)

# Writes that concern no single partition: the kind of znode, and the rule that explains such a write.
_OTHERS = {
    "topic": ("topic", "the topic was written without changing an assignment"),
    "parent": ("creation", "parent of a partition's state"),
    "znode_move": ("reassignment", "a move's own znode"),
    "request_status": ("reassignment", "how an accepted request stands"),
    "legacy": ("reassignment", "moves submitted through ZooKeeper"),
    "preferred": ("preferred", "preferred elections submitted through ZooKeeper"),
    "deletion": ("deletion", "the request to delete a topic"),
    "isr_change": ("isr", "a leader's note that it changed an ISR"),
    "log_dir": ("log directory", "a broker's note that a log directory failed"),
    "config": ("config", "a configuration"),
    "cluster": ("cluster", "a value that belongs to the whole cluster"),
    "security": ("security", "an access rule or a delegation token"),
    "owed_deletions": ("reassignment", "replicas whose deletion a broker has not confirmed yet"),
    "move_records": ("reassignment", "where a request's partitions were before it"),
    "waiting_moves": ("reassignment", "accepted moves that have not begun"),
    "ours": ("controller", "what this project's controller and its commands keep for themselves"),
    "root": ("creation", "a path that Kafka keeps its znodes below"),
    "session": ("session", "a session of ZooKeeper"),
}


def judged(rows: pa.Table, terms: Terms, since_ms: int) -> Iterator[pa.Table]:
    """Findings for the histories of some partitions, whose rows have the columns of `Happened` in their order."""
    alike = situations(rows, terms)
    is_wanted = pc.and_(alike.of_row.is_valid(), pc.greater_equal(whole(rows["time_ms"]), since_ms))
    shown = rows.append_column("number", alike.of_row).append_column("term", alike.term).filter(is_wanted)
    yield from _by_situation(shown, alike.findings, terms)
    held: list[Judged] = []
    for row in _one_by_one(rows.filter(alike.is_kept), alike.is_alone.filter(alike.is_kept), terms):
        if row[_TIME] >= since_ms:
            held.append(row)
        if len(held) >= _ROWS_AT_ONCE:
            yield table_of(held)
            held.clear()
    if held:
        yield table_of(held)


def _by_situation(rows: pa.Table, findings: Sequence[Finding], terms: Terms) -> Iterator[pa.Table]:
    """Rows with the findings of their situations."""
    if not rows.num_rows:
        return
    found = table_of([row_of(finding, None, None, terms) for finding in findings])
    places = {name: whole(found[name]) for name in ("why", "ours")}
    split = {name: pc.split_pattern(texts, ANYWHERE) for name, texts in places.items()}
    epochs = pa.array([term.epoch or None for term in terms.all], pa.int32())
    for at in range(0, rows.num_rows, _ROWS_AT_ONCE):
        some = rows.slice(at, _ROWS_AT_ONCE)
        number = whole(some["number"])
        where = pc.binary_join_element_wise(some["topic"], some["partition"].cast(pa.string()), "-")
        made = {name: pc.binary_join(pieces.take(number), whole(where)) for name, pieces in split.items()}
        made |= {"zxid": some["zxid"], "time": as_time(some["time_ms"]), **{name: some[name] for name in _KEYS}}
        made |= {**_whose(some["session"], terms), "controller_epoch": epochs.take(whole(some["term"]))}
        made["session"] = pc.if_else(pc.equal(some["session"], 0), None, some["session"])
        yield pa.table([made.get(f.name, found[f.name].take(number)) for f in SCHEMA], schema=SCHEMA)


def _one_by_one(rows: pa.Table, is_alone: Any, terms: Terms) -> Iterator[Judged]:
    """Rows judged one by one; the other events of their partitions are only context."""
    events = zip(rows_of(rows.to_batches()), is_alone.to_pylist(), strict=True)
    for (topic, partition), of_one in groupby(events, key=lambda event: event[0][:2]):
        history = [(happened, is_one) for (_, _, happened), is_one in of_one]
        audit = PartitionAudit(topic, partition, terms, led_from(happened for happened, _ in history))
        for happened, is_one in history:
            if not is_one:
                audit.take(happened)
            elif (found := audit.add(happened)) is not None:
                yield row_of(found, topic, partition, terms)


def write_others(engine: Engine, out: str, terms: Terms, period: Period, chroot: str = "") -> None:
    """Add the writes that belong to no partition to the table `audit`; none of what lies outside Kafka's chroot."""
    claims = (found for found in judged_claims(terms.sightings) if period.has(found.time_ms))
    write_table(out, "audit", table_of([row_of(found, None, None, terms) for found in claims]))
    task = partial(_judge_others, out, _wanted(period, chroot), engine.share(terms))
    settle(out, engine.work(task, [*enumerate(written(out, "events").files, 1)]))


# As SCHEMA, with the time in milliseconds.
Judged = tuple[Any, ...]
_TIME = SCHEMA.get_field_index("time")
_KEYS = ("topic", "partition")
_ROWS_AT_ONCE = 100_000


def row_of(found: Finding, topic: str | None, partition: int | None, terms: Terms) -> Judged:
    """One finding as a row of the table, with its time in milliseconds."""
    broker, host = terms.whose(found.session)
    return (
        found.zxid, found.time_ms, found.what, topic, partition, found.verdict, found.rule, found.why,
        found.ours or None, found.session or None, broker, host, terms.at(found.zxid).epoch or None,
    )  # fmt: skip


def table_of(rows: Sequence[Judged]) -> pa.Table:
    """Rows as a table."""
    if not rows:
        return SCHEMA.empty_table()
    columns = []
    for field, values in zip(SCHEMA, zip(*rows, strict=True), strict=True):
        if field.name == "time":
            columns.append(pa.array(values, pa.timestamp("ms", tz="UTC")).cast(field.type))
        else:
            columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=SCHEMA)


_JUDGED_ELSEWHERE = ["state", "assignment", "legacy_move", "broker", "controller", "controller_epoch"]
_OF_OTHERS = ("zxid", "time", "session", "op", "kind", "topic", "partition", "path")


def _wanted(period: Period, chroot: str) -> Any:
    """Which rows of `events` to judge."""
    is_other = ~pc.field("kind").isin(_JUDGED_ELSEWHERE) & (pc.field("op") != "known") & period.of("time")
    if not chroot:
        return is_other
    is_outside = (pc.field("kind") == "other") & ~pc.starts_with(pc.field("path"), f"{chroot}/")
    return is_other & ~is_outside


def _judge_others(out: str, wanted: Any, terms: Shared, file: tuple[int, str]) -> Attempt:
    """Judge the writes in one file of `events` that belong to no partition; a transaction lies in one file."""
    number, path = file
    rows = read_file(out, ("events", path))
    others = rows.to_table(columns=[*_OF_OTHERS], filter=wanted)
    changed = rows.to_table(columns=["zxid", "topic"], filter=pc.field("kind") == "assignment")
    is_topic = pc.and_(
        pc.equal(others["kind"], "topic"), pc.invert(pc.is_in(others["op"], value_set=pa.array([*GONE])))
    )
    # A topic's write is judged by the assignments that it changed.
    untouched = others.filter(is_topic).join(changed, ["zxid", "topic"], join_type="left anti")
    files = Files(out, number)
    for found in (others.filter(pc.invert(is_topic)), untouched):
        if found.num_rows:
            files.write("audit", _judged(found, terms.value))
    return files.close()


def _judged(rows: pa.Table, terms: Terms) -> pa.Table:
    place = pc.index_in(rows["kind"], value_set=pa.array([*_OTHERS]))
    rule, why = (pa.array([text[n] for text in _OTHERS.values()]).take(whole(place)) for n in (0, 1))
    sessions = pa.array([f"session {session & _ALL_BITS:X}" for session in rows["session"].to_pylist()], pa.string())
    words = (rows["op"], pc.coalesce(rows["path"], sessions), pc.binary_join_element_wise("–", why, " "))
    made = {
        "what": rows["kind"],
        "verdict": pc.if_else(place.is_valid(), EXPLAINED, LISTED),
        "rule": pc.fill_null(rule, "not Kafka's controller"),
        "why": pc.binary_join_element_wise(*words, " ", null_handling="skip"),
        "ours": pa.nulls(rows.num_rows, pa.string()),
        **_written_by(rows, terms),
    }
    return pa.table([made[f.name] if f.name in made else rows[f.name] for f in SCHEMA], schema=SCHEMA)


def _written_by(rows: pa.Table, terms: Terms) -> dict[str, Any]:
    """The owner of the session that wrote, and the controller epoch."""
    epochs = [terms.at(zxid).epoch or None for zxid in rows["zxid"].to_pylist()]
    return {**_whose(rows["session"], terms), "controller_epoch": pa.array(epochs, pa.int32())}


def _whose(sessions: Any, terms: Terms) -> dict[str, Any]:
    held = pc.unique(sessions)
    whose = [terms.whose(session) for session in held.to_pylist()]
    place = whole(pc.index_in(sessions, value_set=held))
    return {
        "broker": pa.array([broker for broker, _ in whose], pa.int32()).take(place),
        "host": pa.array([host for _, host in whose], pa.string()).take(place),
    }


_ALL_BITS = 2**64 - 1
