"""Any files give the same tables: cut anywhere, of any number of servers, damaged, in batches or as a stream.

`python -m tests.replay.test_any_files 1000` tries more, with the first number as a second argument.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from msgspec import structs

pytest.importorskip("pyspark")

from metrics.replay.commands.jobs import Job, run
from metrics.replay.engine.engines import Local
from metrics.replay.files.known import NotKnown
from metrics.replay.files.sources import NothingToRead
from metrics.replay.spark.live_directory import LiveDirectoryReader
from metrics.replay.spark.zookeeper_source import ZooKeeperReader
from tests.replay.any_files import (
    Rows,
    Tables,
    as_log,
    cut_into_logs,
    differing,
    in_order,
    overlapping,
    records_of,
    rows_of,
    spoilt,
    tables_of,
    write_log,
    zxid_of,
)
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

FIXTURES = Path(__file__).parents[1] / "fixtures"
CHROOTS = {"2.4.1": "", "2.8.2": "/kafka", "3.9.1": ""}
_TOLD_EVERY, _GROWTH_EVERY = 10, 10
SNAPSHOTS = {"2.4.1": "snapshot.b4.gz", "2.8.2": "snapshot.c2.gz"}


@cache
def records(version: str) -> tuple[bytes, ...]:
    if version == "3.9.1":
        return tuple(records_of(next((FIXTURES / "storage").glob("*.log.1.gz"))))
    logs = sorted((FIXTURES / "native" / f"kafka-{version}").glob("log.*"), key=lambda p: int(p.name.split(".")[1], 16))
    return tuple(record for log in logs for record in records_of(log))


@cache
def whole(version: str) -> Tables:
    with TemporaryDirectory() as home:
        write_log(Path(home), records(version))
        return tables_of([Path(home)], 1 << 40, CHROOTS[version])


def without_damage(tables: Tables) -> Tables:
    return {name: rows for name, rows in tables.items() if name != "damage"}


def split_bytes(chosen: Random) -> int:
    return chosen.choice((900, 3000, 10_000, 40_000, 1 << 40))


def range_bytes(chosen: Random) -> int:
    """The size of ranges for indexing, which need not end between two records."""
    return chosen.choice((20, 333, 5000, 70_000, 1 << 40))


def copies(version: str, home: Path, chosen: Random) -> list[Path]:
    """Up to three servers: one has everything, perhaps with a byte that is right in another; others have less."""
    all_of_it = records(version)
    servers = [home / f"server-{n}" for n in range(chosen.randrange(1, 4))]
    for number, server in enumerate(servers):
        known = all_of_it if number == 0 else all_of_it[chosen.choice((0, 0, 50)) : chosen.choice((None, None, 300))]
        for part in overlapping(cut_into_logs(known, chosen), known, chosen):
            damaged = spoilt(as_log(part), chosen) if number > 0 and chosen.random() < 0.5 else None
            write_log(server, part, damaged=damaged, suffix=chosen.choice(("", "", ".gz")))
    if len(servers) > 1 and chosen.random() < 0.5:
        _spoil_what_another_has(servers, all_of_it, chosen)
    return servers


def _spoil_what_another_has(servers: list[Path], all_of_it: tuple[bytes, ...], chosen: Random) -> None:
    """Damage a record of the complete server, and write an intact copy for another."""
    logs = [log for log in servers[0].iterdir() if log.suffix != ".gz"]
    if not logs:
        return
    log = chosen.choice(sorted(logs))
    content = bytearray(log.read_bytes())
    at = chosen.randrange(16, len(content))
    content[at] ^= 1 << chosen.randrange(8)
    log.write_bytes(content)
    write_log(servers[1] / "version-2", all_of_it)


def check_copies(seed: int) -> None:
    chosen = Random(seed)
    version = chosen.choice(("2.4.1", "2.8.2"))
    with TemporaryDirectory() as home:
        paths = copies(version, Path(home), chosen)
        found = tables_of(paths, split_bytes(chosen), CHROOTS[version], range_bytes(chosen))
    lines = differing(without_damage(whole(version)), without_damage(found))
    assert not lines, "\n".join((f"seed {seed}", *lines))


def damaged_files(home: Path, chosen: Random) -> str:
    """A badly damaged history; it may start with a snapshot, or in the middle without one."""
    version = chosen.choice(("2.4.1", "2.8.2", "3.9.1"))
    known = records(version)
    start = chosen.choice((0, chosen.randrange(len(known) - 100)))
    if version in SNAPSHOTS and chosen.random() < 0.5:
        snapshot = FIXTURES / "native" / f"kafka-{version}" / SNAPSHOTS[version]
        (home / snapshot.name).write_bytes(snapshot.read_bytes())
        start = next(n for n, r in enumerate(known) if zxid_of(r) > int(snapshot.name.split(".")[1], 16))
    known = known[start : start + 400]
    for server in range(chosen.randrange(1, 3)):
        for part in overlapping(cut_into_logs(known, chosen), known, chosen):
            content = as_log(part)
            for _ in range(chosen.choice((0, 1, 1, 3))):
                content = spoilt(content, chosen)
            write_log(home / ("", "version-2")[server], part, damaged=content, suffix=chosen.choice(("", "", ".gz")))
    return version


def check_damage(seed: int) -> None:
    chosen = Random(seed)
    with TemporaryDirectory() as home:
        version = damaged_files(Path(home), chosen)
        once = tables_of([Path(home)], 1 << 40, CHROOTS[version])
        again = tables_of([Path(home)], split_bytes(chosen), CHROOTS[version], range_bytes(chosen))
    lines = differing(once, again)
    assert not lines, "\n".join((f"seed {seed}", *lines))


def check_source(seed: int) -> None:
    """The data source gives the same rows for any split size, and as a stream while the files grow."""
    chosen = Random(seed)
    with TemporaryDirectory() as home:
        version = damaged_files(Path(home), chosen)
        options = {"path": home, "chroot": CHROOTS[version]}
        once = batch(options, 1 << 40)
        assert batch(options, split_bytes(chosen)) == once, f"seed {seed}"
    with TemporaryDirectory() as home:
        known = records("2.4.1")
        parts = cut_into_logs(known, chosen)
        assert streamed(Path(home), parts, chosen) == whole_events("2.4.1"), f"seed {seed}"


@cache
def whole_events(version: str) -> Rows:
    with TemporaryDirectory() as home:
        write_log(Path(home), records(version))
        return batch({"path": home, "chroot": CHROOTS[version]}, 1 << 40)


def batch(options: dict[str, str], size: int) -> Rows:
    reader = ZooKeeperReader({**options, "splitBytes": str(size)}, "events")
    return in_order([r for p in reader.partitions() for b in reader.read(p) for r in b.to_pylist()])


def streamed(home: Path, parts: Sequence[Sequence[bytes]], chosen: Random) -> Rows:
    """The rows of a stream while one server's logs grow by a few bytes at a time, and after a restart."""
    options = {"path": str(home), "splitBytes": str(split_bytes(chosen))}
    reader = LiveDirectoryReader(options, "events")
    at = reader.initialOffset()
    rows: Rows = []
    for part in parts:
        content = as_log(part)
        path = write_log(home, part, damaged=b"")
        ends = sorted(chosen.randrange(len(content)) for _ in range(chosen.randrange(4)))
        for end in (*ends, len(content)):
            path.write_bytes(content[:end] + bytes(100))
            if chosen.random() < 0.3:
                reader = LiveDirectoryReader(options, "events")
            until = reader.latestOffset(at)
            rows += [r for p in reader.partitions(at, until) for b in reader.read(p) for r in b.to_pylist()]
            at = until
    return in_order(rows)


def check_growth(seed: int) -> None:
    """Replay a directory again and again while files grow, appear and are damaged: the result is that of one run."""
    chosen = Random(seed)
    version = chosen.choice(("2.4.1", "2.8.2"))
    tables = ("events", "partitions", "damage", "reassignments", "audit")
    with TemporaryDirectory() as made:
        home, known = Path(made), records(version)
        for part in cut_into_logs(known[: chosen.randrange(60, len(known))], chosen, most=4):
            content = as_log(part)
            if chosen.random() < 0.2:
                content = spoilt(content, chosen)
            path = write_log(home / chosen.choice(("files", "files/version-2")), part, damaged=b"")
            for end in (*sorted(chosen.randrange(20, len(content)) for _ in range(chosen.randrange(2))), len(content)):
                path.write_bytes(content[:end] + bytes(100))
                job = Job((f"{home}/files",), f"{home}/out", CHROOTS[version], tables=tables, split_bytes=5000)
                whole = structs.replace(job, out=f"{home}/whole", is_anew=True)
                try:
                    run(Local(), whole)
                except (NothingToRead, NotKnown) as refused:  # nothing of Kafka's is there yet
                    with pytest.raises(type(refused)):
                        run(Local(), job)
                    continue
                run(Local(), job)
                found, once = ({n: in_order(rows_of(j.out, n)) for n in tables} for j in (job, whole))
                lines = differing(once, found)
                assert not lines, "\n".join((f"seed {seed}", *lines))


CHECKS: tuple[Callable[[int], None], ...] = (check_copies, check_damage, check_source, check_growth)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("seed", range(8))
def test_the_tables_do_not_depend_on_the_files(check: Callable[[int], None], seed: int) -> None:
    check(seed)


TOPIC = "/brokers/topics/t"
STATE = f"{TOPIC}/partitions/0/state"


def topic(replicas: str, adding: str = "") -> bytes:
    return b'{"version":2,"partitions":{"0":[%s]},"adding_replicas":{"0":[%s]},"removing_replicas":{}}' % (
        replicas.encode(), adding.encode(),
    )  # fmt: skip


def state(leader: int, epoch: int) -> bytes:
    return b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":%d,"isr":[%d]}' % (leader, epoch, leader)


def made(path: str, data: bytes) -> tuple[int, bytes]:
    return ops.CREATE, zk.create(path, data)


def changed(path: str, data: bytes) -> tuple[int, bytes]:
    return ops.SET_DATA, zk.set_data(path, data, 1)


def gone(path: str) -> tuple[int, bytes]:
    return ops.DELETE, zk.delete(path)


STORIES = {
    "a topic that was deleted leaves nothing to one of its name": [
        made(TOPIC, topic("1")), made(STATE, state(1, 0)), changed(STATE, state(1, 1)), gone(STATE), gone(TOPIC),
        made(TOPIC, topic("2")), changed(TOPIC, topic("3,2", "3")), made(STATE, state(2, 0)),
        changed(STATE, state(2, 1)),
    ],
    "a topic that cannot be read": [
        made(TOPIC, topic("1")), made(STATE, state(1, 0)), changed(TOPIC, b'{"partitions":['),
        changed(STATE, state(1, 1)), changed(STATE, state(1, 2)), changed(TOPIC, topic("2,1", "2")),
        changed(STATE, state(1, 3)),
    ],
    "a topic by hand, with spaces": [
        made(TOPIC, b'{ "partitions" : { "0" : [1] } }'), made(STATE, state(1, 0)),
        changed(TOPIC, b'{ "partitions" : { "0" : [1, 2] } }'), changed(STATE, state(1, 1)),
    ],
    "states of an unknown topic": [
        made(STATE, state(1, 0)), changed(STATE, state(1, 1)), changed(TOPIC, topic("2,1", "2")),
        changed(STATE, state(1, 2)), changed(TOPIC, topic("2,1")), changed(STATE, state(2, 3)), gone(STATE),
        made(STATE, state(1, 0)),
    ],
    "moves by znode": [
        made("/admin/reassign_partitions", b'{"partitions":[{"topic":"t","partition":0,"replicas":[2]}]}'),
        made(TOPIC, topic("1")), made(STATE, state(1, 0)),
        changed("/admin/reassign_partitions", b'{"partitions":[{"topic":"t","partition":1,"replicas":[2]}]}'),
        changed(STATE, state(1, 1)), gone("/admin/reassign_partitions"), changed(STATE, state(1, 2)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("first", [1, 5])
@pytest.mark.parametrize("story", STORIES)
def test_a_history_does_not_depend_on_where_it_is_cut(tmp_path: Path, story: str, first: int) -> None:
    bodies = [zk.header(z, op, time_ms=1000 * z) + body for z, (op, body) in enumerate(STORIES[story], first)]
    log = tmp_path / f"log.{first}"
    for count in range(1, len(bodies) + 1):
        log.write_bytes(zk.log(*bodies[:count]))
        once = tables_of([log], 1 << 30)
        for size in (1, 250, 500):
            assert not differing(once, tables_of([log], size)), (count, size)


def main(count: int, first: int = 0) -> None:
    failed = tried = 0
    for done, seed in enumerate(range(first, first + count), 1):
        for check in CHECKS:
            if check is check_growth and seed % _GROWTH_EVERY:
                continue  # it replays a directory several times
            tried += 1
            try:
                check(seed)
            except Exception as wrong:  # try every seed
                failed += 1
                sys.stdout.write(f"{check.__name__}({seed}): {type(wrong).__name__}: {wrong}"[:3000] + "\n")
        if done % _TOLD_EVERY == 0 or done == count:
            sys.stdout.write(f"{done} seeds, {failed} failures in {tried} cuts, copies, damages and growths\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
