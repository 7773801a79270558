"""Which tables are computed, in which order, and where are they written? The whole replay of a data directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]  # has no types
from msgspec import Struct, structs

from metrics.replay.audit.ledger import Run, unbroken
from metrics.replay.commands.as_of import as_time
from metrics.replay.engine import bulk
from metrics.replay.engine.period import Period
from metrics.replay.engine.reduction import Summing, together
from metrics.replay.engine.remembered import Remembered, identity_of, keep, recalled, remember, runs_of, survey_again
from metrics.replay.engine.tasks import Engine
from metrics.replay.events.splits import Done, LastWrites, Split, plan
from metrics.replay.files.chroots import OF_KAFKA, check_chroot
from metrics.replay.files.indexing import DEFAULT_SPLIT_BYTES, Work, here
from metrics.replay.files.output import MANIFEST, REMEMBERED, Output
from metrics.replay.files.sources import NothingToRead, located, size_of, stored_files
from metrics.replay.files.state import History
from metrics.replay.partitions import lives
from metrics.replay.tables import growth, health, histories, min_isr, requests, shortages, znodes
from zk_layout.storage.damage import Damage
from zk_layout.storage.files import LOG, StoredFile

Progress = Callable[[str, int, int], None]

# The tables in the order in which they are made.
ALL = (
    "events", "partitions", "reassignments", "brokers", "controllers", "sessions", "min_isr", "topic_health",
    "broker_health", "broker_load", "shortages", "znodes", "znode_sizes", "znode_growth", "audit", "requests",
    "requested_moves", "damage",
)  # fmt: skip
FROM_LOGS = ("events", "partitions", "damage")
TIMELINE = ALL[:6]
TO_GO_ON = ("edges", "ledger", REMEMBERED)  # what a later replay needs to read only what is new
MOST_NAMED = 5
LARGEST_SPLIT_BYTES = 128 << 20


class Job(Struct, frozen=True):
    """What to read, and which tables to make.

    Shape:
        `since` and `until` (milliseconds) choose what is shown; everything before is read nevertheless, because
        a state follows from former ones. `tables` are names from ALL. What a replay into the same directory has
        read is read again only if `is_anew`.
    """

    paths: tuple[str, ...]
    out: str
    chroot: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    tables: tuple[str, ...] = ALL
    min_isr: int = 1
    max_znode_bytes: int = growth.DEFAULT_LIMIT_BYTES
    split_bytes: int | None = None
    is_anew: bool = False

    def __post_init__(self) -> None:
        """Make places absolute, so that every process finds them."""
        structs.force_setattr(self, "paths", tuple(map(located, self.paths)))
        structs.force_setattr(self, "out", located(self.out))


class Result(Struct, frozen=True):
    """Where each table is, and how long it took."""

    tables: dict[str, str]
    seconds: dict[str, float]


class Looked(Struct, frozen=True):
    """The plan of what to read, made before Spark is needed.

    Shape:
        `times_ms` are the earliest and the latest time of all transactions, None if there are none. `runs` are
        the parts of the history without a hole. `known` is what a former replay read and still holds; its splits are
        not among `splits`.
    """

    splits: tuple[Split, ...]
    last_writes: LastWrites
    damage: tuple[Damage, ...]
    seconds: float
    times_ms: tuple[int, int] | None
    remembered: Remembered
    runs: tuple[Run, ...]
    known: Remembered | None = None

    def check(self, job: Job) -> None:
        """Check that anything happened in the time to show.

        Raises:
            ValueError: nothing did.
        """
        if self.times_ms is None:
            return
        first, last = self.times_ms
        if job.until_ms is not None and job.until_ms < first:
            raise ValueError(f"--until is before the history begins, at {as_time(first)}")
        if job.since_ms is not None and job.since_ms > last:
            raise ValueError(f"--since is after the history ends, at {as_time(last)}")


def look(job: Job, cores: int, work: Work = here) -> Looked:
    """Survey the logs: where they can be cut, what is damaged or missing, where each topic was written.

    `work` runs the tasks. What a former replay has surveyed is not surveyed again.

    Raises:
        NothingToRead: there are no files of ZooKeeper, or no log holds a transaction.
        NotOneCluster: they are of different clusters.
        Shrinking: the tables of a former replay show more.
    """
    begun = time.monotonic()
    files = stored_files(job.paths)
    split_bytes = job.split_bytes or split_bytes_for(files, cores)
    known = None if job.is_anew else recalled(job.out, job.chroot)
    history, logs = survey_again(files, split_bytes, work, known)
    if not history.pieces:
        raise NothingToRead(_no_transaction(history))
    done = Done(known.last, known.splits) if known else None
    planned = plan(history, split_bytes, job.chroot, done=done)
    runs, beginning = runs_of(history.pieces), identity_of(planned.beginning)
    if known is not None:
        known.check_kept(job.out, runs, beginning)
    if known is not None and not known.is_begin_of(runs, beginning):
        known = None
    splits = tuple(s for s in planned.splits if known is None or (s.pieces and s.pieces[0].first > known.last))
    count = max((split.number + 1 for split in planned.splits), default=0)
    times = [time_ms for piece in history.pieces for time_ms in (piece.from_ms, piece.to_ms)]
    return Looked(
        splits, planned.last_writes, (*history.damage, *planned.damage), time.monotonic() - begun,
        (min(times), max(times)) if times else None,
        Remembered(job.chroot, logs, runs, beginning, max(count, known.splits if known else 0)),
        unbroken(history.pieces, planned.beginning), known,
    )  # fmt: skip


def _no_transaction(history: History) -> str:
    """The sentence for files from which nothing can be told."""
    what = "what happened is not known"
    shown = "; --as-of and browse show what a snapshot holds" if history.snapshots else ""
    if not any(file.kind == LOG for file in history.files):
        return f"there is no log, only snapshots: {what}; give the directory of the logs (dataLogDir), too{shown}"
    why = "; ".join(map(str, history.damage[:MOST_NAMED]))
    return f"no log holds a transaction: {what}{f' ({why})' if why else ''}{shown}"


def check_found(out: str, chroot: str) -> None:
    """Check that the tables `events` and `partitions` below `out` have something of Kafka's.

    Raises:
        NotKnown: Kafka's znodes are elsewhere.
    """
    # The footers tell; `head` would decode most of the table for one row.
    if any(file.count_rows() for file in bulk.written(out, "partitions").get_fragments()):
        return
    is_one = pc.match_substring_regex(pc.field("path"), OF_KAFKA)
    check_chroot(bulk.written(out, "events").to_table(columns=["path"], filter=is_one)["path"].to_pylist(), chroot)


def bytes_of(job: Job) -> int:
    """About how much there is to read.

    Raises:
        NothingToRead: there are no files of ZooKeeper.
    """
    # Compressed files hold about ten times their size.
    return sum(size_of(file.path) * (10 if file.compression else 1) for file in stored_files(job.paths))


def run(engine: Engine, job: Job, progress: Progress = lambda *_: None, looked: Looked | None = None) -> Result:
    """Compute the tables and write each as a Parquet directory below `out`; together they replace all former ones.

    `looked` is the result of `look`, if that ran while the engine started.

    Raises:
        NotOurs: `out` holds something that no replay has made.
        NotKnown: no znode of Kafka's is below the job's chroot.
    """
    names = result_names(job)
    if looked is None:
        progress("looking through the logs", 0, len(names))
        looked = look(job, engine.cores, engine.work)
    with Output(job.out).aside((*names, *TO_GO_ON)) as place:
        if looked.known is not None:
            keep(job.out, place)
        remember(place, looked.remembered)
        seconds = _compute(engine, structs.replace(job, out=place), progress, looked)
    return Result({name: f"{job.out.rstrip('/')}/{name}" for name in names}, seconds)


def result_names(job: Job) -> tuple[str, ...]:
    """The tables that are written."""
    return (*FROM_LOGS, *_wanted(job))


def _wanted(job: Job) -> tuple[str, ...]:
    return tuple(name for name in ALL if name in job.tables and name not in FROM_LOGS)


def _compute(engine: Engine, job: Job, progress: Progress, looked: Looked) -> dict[str, float]:
    """Write all tables below `out`, which is empty; return how long each took."""
    seconds: dict[str, float] = {}
    wanted = _wanted(job)
    total = len(wanted) + 3
    seconds["plan"] = looked.seconds
    engine.check_reach([f"{job.out}/{MANIFEST}", *_files_of(looked.splits)])
    _read_logs(engine, job, looked, seconds, lambda name, done: progress(name, done, total))
    check_found(job.out, job.chroot)
    sums = [name for name in wanted if name in _SUMS]
    of_requests = tuple(name for name in wanted if name in (requests.REQUESTS, requests.MOVES, histories.AUDIT))
    apart = {*sums, requests.REQUESTS, requests.MOVES}
    for number, name in enumerate((name for name in wanted if name not in apart), 3):
        if name == histories.AUDIT and histories.MOVES in wanted:
            continue  # it was written with the moves
        progress(name, number, total)
        begun = time.monotonic()
        _write(engine, job, name)
        seconds[name] = time.monotonic() - begun
    if of_requests:
        progress("requests", total - len(sums) - 1, total)
        begun = time.monotonic()
        window = requests.Window(_until_ms(job), job.since_ms or 0)
        requests.write(engine, job.out, window, looked.runs, of_requests)
        seconds[requests.REQUESTS] = time.monotonic() - begun
    if sums:
        progress("summing up", total - len(sums), total)
        begun = time.monotonic()
        _write_sums(engine, job, sums)
        seconds["sums"] = time.monotonic() - begun
    bulk.clear(job.out, (*result_names(job), "edges", "ledger"))
    progress("done", total, total)
    return seconds


def _files_of(splits: Iterable[Split]) -> list[str]:
    """The files that are read."""
    snapshots = (split.snapshot.path for split in splits if split.snapshot is not None)
    return [*dict.fromkeys((*snapshots, *(piece.file for split in splits for piece in split.pieces)))]


def _read_logs(
    engine: Engine, job: Job, looked: Looked, seconds: dict[str, float], progress: Callable[[str, int], None]
) -> None:
    """Write the tables read from the logs themselves, and join rows that span two splits."""
    progress("reading", 1)
    begun = time.monotonic()
    bulk.run(engine, looked.splits, looked.last_writes, job.out, job.chroot, looked.damage)
    seconds["read"] = time.monotonic() - begun
    progress("joining", 2)
    begun = time.monotonic()
    bulk.join_edges(engine, job.out)
    seconds["join"] = time.monotonic() - begun


def split_bytes_for(files: tuple[StoredFile, ...], cores: int) -> int:
    """A size of splits small enough to keep all cores busy to the end, large enough to leave few edges."""
    total = sum(size_of(file.path) for file in files if file.kind == LOG and not file.compression)
    return min(max(total // (4 * cores), DEFAULT_SPLIT_BYTES), LARGEST_SPLIT_BYTES)


def _write(engine: Engine, job: Job, name: str) -> None:
    """Write a table computed from written ones."""
    out = job.out
    if name in (histories.MOVES, histories.AUDIT):
        window = histories.Window(_until_ms(job), job.since_ms or 0)
        histories.write(engine, out, window, _judged_with(job, name), job.chroot)
    elif name == "min_isr":
        bulk.write_table(out, name, min_isr.as_table(_settings(job)))
    else:
        bulk.write_table(out, name, _lives(job, name))


def _write_sums(engine: Engine, job: Job, names: Sequence[str]) -> None:
    """Write all tables that are sums, together."""
    asking = {_SUMS[name]: _summing(job, _SUMS[name]) for name in names}
    found = together(engine, job.out, asking)
    for name in names:
        rows = found[_SUMS[name]]
        rows = growth.forecast(rows, job.max_znode_bytes) if name == "znode_growth" else rows
        bulk.write_table(job.out, name, rows)


def _judged_with(job: Job, name: str) -> tuple[str, ...]:
    """The tables written from the same histories."""
    return tuple(table for table in (histories.MOVES, histories.AUDIT) if table in job.tables) or (name,)


def _summing(job: Job, name: str) -> Summing[pa.Table]:
    """The function that makes a table from sums."""
    window, period = health.Window(job.since_ms, job.until_ms), Period(job.since_ms, job.until_ms)
    if name == "znodes":
        return znodes.znodes(period)
    if name == "znode_sizes":
        return growth.growth(period, job.max_znode_bytes)
    if name == "broker_load":
        return health.broker_load(window)
    if name == "shortages":
        return shortages.shortages(window, _until_ms(job), _settings(job), lives.brokers(_seen(job)))
    made = health.topic_health if name == "topic_health" else health.broker_health
    return made(window, _until_ms(job), _settings(job))


def _settings(job: Job) -> list[min_isr.Setting]:
    """The settings of topics, from the table `events`."""
    kind = pc.field("kind") == "config"
    rows = bulk.written(job.out, "events").to_table(columns=[*min_isr.COLUMNS], filter=kind)
    return min_isr.settings(rows.to_pylist(), job.min_isr)


def _lives(job: Job, name: str) -> pa.Table:
    rows = _LIVES[name](_seen(job))
    if job.since_ms is not None and "ended_at" in rows.column_names:
        begin = pa.scalar(job.since_ms, pa.timestamp("ms", tz="UTC"))
        rows = rows.filter(pc.or_kleene(pc.is_null(rows["ended_at"]), pc.greater_equal(rows["ended_at"], begin)))
    return rows


def _seen(job: Job) -> list[dict[str, Any]]:
    """The events about lives, terms and sessions, oldest first."""
    is_one = pc.field("kind").isin(lives.KINDS)
    if job.until_ms is not None:
        is_one &= Period(None, job.until_ms).of("time")
    return lives.in_order(bulk.written(job.out, "events").to_table(columns=[*lives.COLUMNS], filter=is_one))


# How each of these tables is made.
_SUMS = {
    **{name: name for name in ("topic_health", "broker_health", "broker_load", "shortages", "znodes", "znode_sizes")},
    "znode_growth": "znode_sizes",
}
_LIVES: dict[str, Callable[[Sequence[dict[str, Any]]], Any]] = {
    "brokers": lives.brokers,
    "controllers": lives.controllers,
    "sessions": lives.sessions,
}


def _until_ms(job: Job) -> int:
    """The end of the shown time, at which open periods are cut."""
    return job.until_ms or _last_ms(job.out)


def _last_ms(out: str) -> int:
    """The time of the last event."""
    last = 0
    for table, column in (("events", "time"), ("partitions", "started_at")):
        times = bulk.written(out, table).to_table(columns=[column])[column]
        newest = pc.max(times).as_py()
        last = max(last, 0 if newest is None else int(newest.timestamp() * 1000))
    return last


def named(tables: Iterable[str]) -> tuple[str, ...]:
    """The names, checked.

    Raises:
        ValueError: there is no such table.
    """
    chosen = tuple(tables)
    unknown = [name for name in chosen if name not in ALL]
    if unknown:
        raise ValueError(f"there is no table {', '.join(unknown)}; there are {', '.join(ALL)}")
    return chosen
