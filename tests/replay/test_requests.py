"""The tables of requests say what the ledger says and what the log shows; the audit finds a ledger that lies."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from metrics.replay.audit.ledger import Book, Run
from metrics.replay.commands.jobs import Job, run
from metrics.replay.engine.engines import Local, OnSpark
from metrics.replay.engine.tasks import Engine
from metrics.replay.partitions.requested import Opened
from tests.replay.any_files import Tables, differing, in_order, rows_of, tables_of
from tests.replay.ledgers import LEADER, Leader, assigned, on
from tests.replay.simulated import lies, logged
from zk_layout.znodes.reassignment_status import RequestStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TO, FORMER = on(3, 2), on(1, 2)
QUEUED, BEFORE = on(3, 1), on(2, 1)
MOVING = assigned(3, 2, 1, adding=on(3), removing=on(1))
BEGUN = assigned(3, 1, 2, adding=on(3), removing=on(2))


def accepted(leader: Leader, **recorded: int) -> Leader:
    """Request 1 moves partition 0 at once, and partition 1 waits."""
    leader.write(leader.orders(0, MOVING), leader.waiting({1: (QUEUED, BEFORE)}))
    return leader.write(
        leader.records(1, {0: (TO, FORMER), 1: (QUEUED, BEFORE)}, reason="disks", **recorded), leader.counted(1),
        leader.status(1, {0: (TO, "in progress"), 1: (QUEUED, "waiting")}),
    )  # fmt: skip


def moved(leader: Leader) -> Leader:
    """All of it is done."""
    accepted(leader)
    leader.write(leader.orders(0, assigned(3, 2)))
    leader.write(leader.orders(1, BEGUN), leader.waiting({}))
    leader.write(leader.status(1, {0: (TO, "completed"), 1: (QUEUED, "in progress")}))
    leader.write(leader.orders(1, assigned(3, 1)))
    return leader.write(leader.status(1, {0: (TO, "completed"), 1: (QUEUED, "completed")}, finished=True))


def replayed(leader: Leader, home: Path, first: int = 1) -> Tables:
    return tables_of([leader.log(home, first)], 1 << 40)


def moves_of(tables: Tables, request: int = 1) -> dict[int, dict[str, object]]:
    return {row["partition"]: row for row in tables["requested_moves"] if row["request"] == request}


def test_a_request_is_shown_with_who_when_why_and_its_moves(tmp_path: Path) -> None:
    leader = moved(Leader())
    leader.write(leader.orders(0, MOVING), leader.orders(0, assigned(1, 2)))
    leader.write(leader.records(2, {0: (FORMER, TO)}), leader.counted(2), leader.status(2, {0: (FORMER, "completed")}))
    leader.write((leader.status(1, {})[0], None))

    first, second = sorted(replayed(leader, tmp_path)["requests"], key=lambda row: int(row["request"]))

    assert (first["origin"], first["principal"], first["client_id"], first["address"], first["reason"]) == (
        "AlterPartitionReassignments", "User:ann", "cli", "10.0.0.9", "disks",
    )  # fmt: skip
    assert (first["moves"], first["recorded_moves"], first["outcome"]) == (2, 2, "2 completed")
    assert (first["accepted_zxid"], first["session"], first["broker"]) == (5, LEADER, 901)
    assert (first["deleted_zxid"], second["deleted_zxid"]) == (leader.next - 1, None)
    assert (first["takes_back"], second["takes_back"]) == (None, 1)
    assert second["outcome"] is None  # it is not finished


def test_a_move_is_shown_as_it_was_requested_and_as_it_went(tmp_path: Path) -> None:
    at_once, queued = moves_of(replayed(moved(Leader()), tmp_path)).values()

    assert (at_once["former_replicas"], at_once["to_replicas"]) == ([*FORMER], [*TO])
    assert (at_once["outcome"], at_once["log_outcome"], at_once["has_waited"]) == ("completed", "finished", False)
    assert [at_once[f"{when}_zxid"] for when in ("accepted", "queued", "begun", "ended")] == [5, None, 4, 6]
    assert (at_once["waited_ms"], at_once["duration_ms"]) == (None, 2000)
    assert (queued["has_waited"], queued["waited_ms"], queued["duration_ms"]) == (True, 3000, 2000)
    assert [queued[f"{when}_zxid"] for when in ("accepted", "queued", "begun", "ended")] == [5, 4, 7, 9]
    stages = ("catching_up_ms", "handing_over_ms", "letting_go_ms")
    assert sum(int(str(queued[stage])) for stage in stages) == queued["duration_ms"]


def test_a_move_that_has_not_begun_waits_and_one_that_left_the_queue_never_began(tmp_path: Path) -> None:
    leader = accepted(Leader())
    assert moves_of(replayed(leader, tmp_path))[1]["log_outcome"] == "waiting"

    leader.write(leader.waiting({}))
    move = moves_of(replayed(leader, tmp_path))[1]

    assert (move["log_outcome"], move["ended_zxid"], move["begun_zxid"]) == ("never began", 6, None)
    assert move["waited_ms"] == 2000


def test_what_the_log_does_not_show_is_not_known(tmp_path: Path) -> None:
    move = moves_of(replayed(moved(Leader()), tmp_path, first=6))[1]

    assert (move["accepted_zxid"], move["has_waited"], move["former_replicas"]) == (None, None, None)
    assert (move["outcome"], move["log_outcome"]) == ("completed", "finished")


def test_a_status_that_only_counts_says_what_became_of_all(tmp_path: Path) -> None:
    moves = moves_of(replayed(only_counted(Leader(), is_there=True), tmp_path))

    assert [move["outcome"] for move in moves.values()] == ["completed", "completed"]


def cancelled(leader: Leader) -> Leader:
    """Partition 0 goes back to where it was."""
    return accepted(leader).write(leader.orders(0, assigned(1, 2)))


def says(leader: Leader, outcome: str, to: tuple[int, ...] = (3, 2)) -> Leader:
    return leader.write(leader.status(1, {0: (on(*to), outcome), 1: (QUEUED, "waiting")}))


def recorded(leader: Leader, to: tuple[int, ...], former: tuple[int, ...], czxid: int | None = None) -> Leader:
    leader.write(leader.orders(0, MOVING))
    return leader.write(
        leader.records(1, {0: (on(*to), on(*former))}, czxid=czxid), leader.counted(1),
        leader.status(1, {0: (TO, "in progress")}),
    )  # fmt: skip


def begun_while_waiting(leader: Leader, session: int = LEADER) -> Leader:
    return accepted(leader).write(leader.orders(1, BEGUN), session=session)


def unnamed(leader: Leader, lasted_s: int = 70) -> Leader:
    """A move that no request names lasts while a later one is recorded."""
    moved(leader)
    leader.write(leader.orders(1, assigned(4, 3, 1, adding=on(4), removing=on(1))))
    leader.write(leader.orders(0, assigned(1, 3, 2, adding=on(1), removing=on(3))), after_s=lasted_s)
    return leader.write(
        leader.records(2, {0: (on(1, 2), TO)}), leader.counted(2), leader.status(2, {0: (on(1, 2), "in progress")})
    )


def only_counted(leader: Leader, *, is_there: bool) -> Leader:
    """A long status ends with what it counts: all is done."""
    accepted(leader).write(leader.orders(1, BEGUN), leader.waiting({}))
    leader.write(leader.orders(1, assigned(3, 1)))
    leader.write(leader.orders(0, assigned(3, 2) if is_there else MOVING))
    path, ended = leader.status(1, {0: (TO, "completed"), 1: (QUEUED, "completed")}, finished=True)
    assert isinstance(ended, RequestStatus)
    return leader.write((path, replace(ended, topics=())))


LIES: dict[str, tuple[Callable[[Leader], Leader], str, str]] = {
    "done that never was": (
        lambda leader: says(cancelled(leader), "completed"), "request_status",
        "request 1 says of orders-0 that its move was completed; the topic's znode never had it at [3, 2]",
    ),
    "done while it goes on": (
        lambda leader: says(accepted(leader), "completed"), "request_status",
        "request 1 says of orders-0 that its move was completed; the topic's znode never had it at [3, 2]",
    ),
    "cancelled though it is there": (
        lambda leader: says(accepted(leader).write(leader.orders(0, assigned(3, 2))), "cancelled"), "request_status",
        "request 1 says of orders-0 that its move was cancelled; the topic's znode shows it on its way to [3, 2], "
        "or there, and nowhere else since",
    ),
    "all done, and one that never was": (
        lambda leader: only_counted(leader, is_there=False), "request_status",
        "request 1 says of orders-0 that its move was completed; the topic's znode never had it at [3, 2]",
    ),
    "deleted though it is there": (
        lambda leader: says(accepted(leader), "deleted"), "request_status",
        "request 1 says of orders-0 that its move was deleted; it was there all the time",
    ),
    "a target that never was": (
        lambda leader: recorded(leader, (4, 2), (1, 2)), "move_records",
        "request 1 is recorded to have moved orders-0 from [1, 2] to [4, 2], where it never was to go",
    ),
    "a before that never was": (
        lambda leader: recorded(leader, (3, 2), (5, 6)), "move_records",
        "request 1 is recorded to have moved orders-0 from [5, 6] to [3, 2]; it was not at [5, 6] before",
    ),
    "a topic that never was": (
        lambda leader: recorded(leader, (3, 2), (1, 2), czxid=2), "move_records",
        "request 1 is recorded to have moved orders-0 of a topic created at 0x2, where the log shows none created",
    ),
    "begun while it waits": (
        begun_while_waiting, "waiting_moves",
        "orders-1 began to move to [3, 1] at 0x6; the queue says that it waits",
    ),
    "moved for no request": (
        unnamed, "assignment",
        "orders-1 was moved to [4, 3]; no request and no record names that, though others are recorded",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_the_audit_finds_a_ledger_that_lies(lie: str, tmp_path: Path) -> None:
    tell, what, why = LIES[lie]

    found = lies(replayed(tell(Leader()), tmp_path))

    assert [(row["what"], row["why"]) for row in found] == [(what, why)]
    assert {row["verdict"] for row in found} == {"listed" if lie == "moved for no request" else "violation"}
    assert {row["session"] for row in found} == {LEADER}


def edited(leader: Leader) -> Leader:
    """A person writes over the topic's znode before it is recorded."""
    leader.write(leader.orders(0, MOVING))
    leader.write(leader.orders(0, assigned(5, 6)), fenced=False, session=99)
    return leader.write(
        leader.records(1, {0: (TO, FORMER)}), leader.counted(1), leader.status(1, {0: (TO, "cancelled")})
    )


def emptied(leader: Leader) -> Leader:
    """A person empties the partition's state while it moves."""
    state = "/brokers/topics/orders/partitions/0/state"
    leader.write((state, b'{"version":1,"leader":1,"isr":[1,2],"leader_epoch":0,"controller_epoch":1}'))
    leader.write(leader.orders(0, MOVING))
    leader.write((state, b""), fenced=False, session=99)
    return leader.write(
        leader.records(1, {0: (TO, FORMER)}), leader.counted(1), leader.status(1, {0: (TO, "in progress")})
    )


def created_again(leader: Leader) -> Leader:
    """The topic is deleted and created again while it moves."""
    accepted(leader)
    path = leader.orders()[0]
    leader.write((path, None), leader.waiting({}))
    leader.write(leader.orders(0, assigned(7, 8)), fenced=False)
    return leader.write(leader.status(1, {0: (TO, "deleted"), 1: (QUEUED, "deleted")}, finished=True))


TRUTHS: dict[str, Callable[[Leader], Leader]] = {
    "done": moved,
    "all done, and only counted": lambda leader: only_counted(leader, is_there=True),
    "cancelled": lambda leader: says(cancelled(leader), "cancelled"),
    "superseded": lambda leader: says(accepted(leader).write(leader.orders(0, assigned(4, 2))), "superseded"),
    "written over": edited,
    "created again": created_again,
    "emptied by hand": emptied,
    "begun by a native controller": lambda leader: begun_while_waiting(leader, session=99),
    "not recorded yet": lambda leader: unnamed(leader, lasted_s=10),
}


@pytest.mark.parametrize("truth", TRUTHS)
def test_the_audit_believes_a_ledger_that_is_right(truth: str, tmp_path: Path) -> None:
    assert lies(replayed(TRUTHS[truth](Leader()), tmp_path)) == []


@pytest.mark.parametrize("lie", [lie for lie in LIES if lie != "begun while it waits"])  # the log shows all of that
def test_nothing_is_found_where_the_log_begins_too_late(lie: str, tmp_path: Path) -> None:
    assert lies(replayed(LIES[lie][0](Leader()), tmp_path, first=4)) == []


def died_before_the_status(leader: Leader) -> Leader:
    """A leader dies between records and status; the next one deletes them, and gives that id to another request."""
    leader.write(leader.records(1, {1: (on(5, 6), on(6, 7))}))
    leader.write((leader.records(1, {})[0], None))
    leader.write(leader.orders(0, MOVING))
    return leader.write(
        leader.records(1, {0: (TO, FORMER)}), leader.counted(1), leader.status(1, {0: (TO, "in progress")})
    )


def test_records_of_a_request_that_never_got_its_id_are_none_of_the_next_one(tmp_path: Path) -> None:
    tables = replayed(died_before_the_status(Leader()), tmp_path)

    assert list(moves_of(tables)) == [0]
    assert [row["recorded_moves"] for row in tables["requests"]] == [1]
    assert lies(tables) == []


def test_a_request_may_have_begun_since_its_leader_claimed_or_since_an_hour_before() -> None:
    hour_ms = 60 * 60_000
    book = Book((Run(1, 20, 0, True), Run(30, 60, hour_ms, False)), claims={7: 40, 8: 5})

    assert book.since(Opened(50, hour_ms + 1, 7)) == 40
    assert book.since(Opened(50, hour_ms + 1, 8)) == 0  # claimed before the hole
    assert book.since(Opened(50, 2 * hour_ms, 8)) == 30
    assert book.since(Opened(10, 1, 9)) == 1
    assert book.since(Opened(25, hour_ms, 7)) == 0  # in the hole


@pytest.mark.parametrize("story", ["done", "created again", "begun while it waits"])
def test_the_tables_do_not_depend_on_where_the_log_is_cut(story: str, tmp_path: Path) -> None:
    told = TRUTHS[story] if story in TRUTHS else LIES[story][0]
    log = told(Leader()).log(tmp_path)
    once = tables_of([log], 1 << 40)

    for size in (1, 300, 900):
        assert not differing(once, tables_of([log], size)), size
    assert once["requested_moves"]


def written_by(engine: Engine, leader: Leader, home: Path) -> Tables:
    """The tables that a whole replay writes."""
    job = Job((str(leader.log(home)),), str(home / "out"), split_bytes=900)
    run(engine, job)
    return written({name: in_order(rows_of(job.out, name)) for name in ("requests", "requested_moves", "audit")})


def written(tables: Tables) -> Tables:
    """What of these tables is about requests."""
    return {"requests": tables["requests"], "requested_moves": tables["requested_moves"], "lies": lies(tables)}


def test_one_process_and_several_write_the_same(tmp_path: Path) -> None:
    leader = begun_while_waiting(Leader())
    expected = written(replayed(leader, tmp_path))

    for cores in (1, 2):
        with closing(Local(cores)) as engine:
            assert written_by(engine, leader, tmp_path) == expected


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.timeout(600, func_only=False)
def test_spark_writes_the_same(tmp_path: Path, spark: SparkSession) -> None:
    leader = begun_while_waiting(Leader())
    expected = written(replayed(leader, tmp_path))

    assert written_by(OnSpark(spark), leader, tmp_path) == expected


@pytest.mark.parametrize("seed", [3, 11])
def test_the_ledger_of_a_simulated_world_is_believed_wherever_its_log_is_cut(seed: int, tmp_path: Path) -> None:
    log = logged(seed, tmp_path)
    tables = tables_of([log], 1 << 40)

    assert lies(tables) == []
    assert any(row["log_outcome"] == "finished" for row in tables["requested_moves"])
    assert not differing(tables, tables_of([log], Random(seed).choice((3000, 20_000))))
