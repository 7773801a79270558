"""Logs written by Kafka's own controllers, 2.4 and 2.8, on real brokers: every write is explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller.core.state.cluster import ClusterState
from metrics.replay.commands.jobs import Job, Result, run
from metrics.replay.commands.report import write_report
from metrics.replay.engine.engines import Local
from metrics.replay.files.sources import stored_files
from metrics.replay.files.state import state_at, survey
from tests.replay.any_files import Rows, happenings, rows_of
from zk_layout.storage.cluster_facts import facts_of
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

FIXTURES = Path(__file__).parents[1] / "fixtures" / "native"
CHROOTS = {"2.4.1": "", "2.8.2": "/kafka"}
PARTITIONS = 4
MIN_ISR = "min.insync.replicas"
TABLES = (
    "reassignments",
    "controllers",
    "brokers",
    "topic_health",
    "broker_health",
    "min_isr",
    "audit",
    "znodes",
    "znode_sizes",
    "znode_growth",
)


class Replayed(NamedTuple):
    version: str
    job: Job
    result: Result

    def table(self, name: str) -> Rows:
        return rows_of(self.job.out, name)


@pytest.fixture(scope="module", params=["2.4.1", "2.8.2"])
def replayed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    version = request.param
    out: Path = tmp_path_factory.mktemp("native")
    job = Job((str(FIXTURES / f"kafka-{version}"),), str(out), CHROOTS[version], tables=TABLES)
    return Replayed(version, job, run(Local(), job))


def test_every_write_is_explained(replayed: Replayed) -> None:
    audit = replayed.table("audit")
    counts = Counter((r["verdict"], r["rule"]) for r in audit)
    events = happenings(replayed.job.out)
    writes = sum(e["kind"] in ("state", "assignment") and e["op"] != "known" for e in events)

    assert [r for r in audit if r["verdict"] in ("listed", "violation")] == []
    assert sum(r["what"] in ("state", "assignment") for r in audit) == writes > 100
    assert [r for r in audit if r["verdict"] == "kafka's own way" and r["ours"] is None] == []
    # The work, by the audit's rules.
    for rule in ("creation", "election", "isr", "preferred", "shutdown", "reassignment", "claim", "deletion", "legacy"):
        assert counts.get(("explained", rule), 0) > 0 or rule == "legacy"
    # Kafka's controller stops the replicas of a deleted topic, and of its dead predecessor, one write at a time.
    assert counts["kafka's own way", "deletion"] >= 2
    assert counts["kafka's own way", "election"] >= 1


def test_every_move_is_found_with_its_origin_and_end(replayed: Replayed) -> None:
    moves = replayed.table("reassignments")
    found = {(m["topic"], m["origin"], m["outcome"]) for m in moves}

    assert ("orders", "api", "finished") in found
    assert ("gone", "api", "cancelled") in found
    assert sum(m["origin"] == "legacy" for m in moves) == 2
    assert {m["origin"] for m in moves} == {"api", "legacy"}
    assert all(m["outcome"] in ("finished", "cancelled") for m in moves)
    assert sum(m["topic"] == "orders" for m in moves) >= 2 * PARTITIONS


def test_a_broker_that_was_stopped_ends_otherwise_than_those_that_were_killed(replayed: Replayed) -> None:
    ended = sorted((row for row in replayed.table("brokers") if row["ended_by"]), key=itemgetter("ended_at"))

    assert [row["ended_by"] for row in ended] == ["expire", "expire", "close", "expire", "expire"]


def test_a_fail_over_shows_its_vacancy(replayed: Replayed) -> None:
    terms = sorted(replayed.table("controllers"), key=itemgetter("started_at"))

    assert [t["controller_epoch"] for t in terms] == [1, 2]
    assert terms[0]["ended_by"] == "expire"
    assert terms[1]["vacancy_ms"] is not None


def test_min_isr_is_taken_from_each_topics_settings_as_they_changed(replayed: Replayed) -> None:
    rows = sorted((r for r in replayed.table("min_isr") if r["topic"]), key=itemgetter("started_at"))
    orders = [r["min_isr"] for r in rows if r["topic"] == "orders"]
    payments = [(r["min_isr"], r["ended_at"] is None) for r in rows if r["topic"] == "payments"]

    assert orders[-1] == 1
    assert payments == [(2, False), (3, True)]
    health = {r["topic"]: r for r in replayed.table("topic_health")}
    # Each death of a broker brought payments, with three replicas and a minimum of two, to that minimum.
    assert health["payments"]["at_min_isr_ms"] > 0
    assert health["payments"]["min_isr"] == 3


def test_what_the_brokers_suffered_adds_up(replayed: Replayed) -> None:
    rows = replayed.table("broker_health")

    assert {r["broker"] for r in rows} == {1, 2, 3}
    assert sum(r["under_replicated_ms"] for r in rows) > 0
    assert all(r["at_min_isr_ms"] >= 0 and r["leaderless_ms"] >= 0 for r in rows)


def test_a_topics_znode_is_written_whole_for_each_partition_that_changes(replayed: Replayed) -> None:
    (topic,) = (row for row in replayed.table("znodes") if row["path"].endswith("/brokers/topics/orders"))

    assert topic["writes"] >= topic["changes"] / PARTITIONS > 0
    assert topic["amplification"] == round(topic["bytes"] / topic["changed_bytes"], 1) > 2


def test_sizes_grow_towards_the_limit_as_seen(replayed: Replayed) -> None:
    growth = {row["path"]: row for row in replayed.table("znode_growth")}
    root = CHROOTS[replayed.version]
    orders, listed = growth[f"{root}/brokers/topics/orders"], growth[f"{root}/brokers/topics (list of children)"]
    sizes = [row["size_bytes"] for row in replayed.table("znode_sizes") if row["path"] == orders["path"]]

    assert orders["largest_bytes"] == max(sizes)
    assert orders["share"] == round(orders["largest_bytes"] / 1_048_575, 6)
    # orders, payments and, until it was deleted, gone; each name with the four bytes of its length.
    assert (listed["last_bytes"], listed["largest_bytes"]) == (4 + 10 + 12, 4 + 10 + 12 + 8)
    assert all(row["full_at"] is None or row["bytes_a_day"] > 0 for row in growth.values())


def test_the_tables_end_with_the_state_that_a_controller_folds(replayed: Replayed) -> None:
    tree = state_at(survey(stored_files(replayed.job.paths)), [])
    cluster = ClusterState()
    cluster.apply_all(facts_of(tree, replayed.job.chroot))
    views = cluster.topics.views.values()
    settings = {view.name: cluster.topics.config(view.name) for view in views}

    events = sorted(happenings(replayed.job.out), key=itemgetter("zxid", "part"))
    standing = [row for row in replayed.table("min_isr") if row["source"] == "topic" and row["ended_at"] is None]

    assert last_of_partitions(events) == {
        (view.name, number): (held.assignment, held.state) for view in views for number, held in view.partitions.items()
    }
    assert {r["broker"] for r in replayed.table("brokers") if r["ended_at"] is None} == set(cluster.brokers)
    assert {r["topic"]: str(r["min_isr"]) for r in standing} == {
        name: held.config.config[MIN_ISR]
        for name, held in settings.items()
        if held is not None and MIN_ISR in held.config.config
    }


def last_of_partitions(
    events: Iterable[dict[str, Any]],
) -> dict[tuple[str, int], tuple[Assignment | None, PartitionState | None]]:
    """The last event of each partition whose topic exists."""
    found: dict[tuple[str, int], tuple[Assignment | None, PartitionState | None]] = {}
    for event in events:
        at, kind, is_gone = (event["topic"], event["partition"]), event["kind"], event["op"] == "delete"
        assignment, state = found.get(at, (None, None))
        if kind == "topic" and is_gone:
            found = {other: held for other, held in found.items() if other[0] != event["topic"]}
        elif kind == "assignment":
            found[at] = (Assignment(*(tuple(event[name]) for name in ("replicas", "adding", "removing"))), state)
        elif kind == "state" and not is_gone:
            leader, leader_epoch = event["leader"], event["leader_epoch"]
            written = PartitionState(leader, leader_epoch, event["controller_epoch"], tuple(event["isr"]))
            found[at] = (assignment, written)
        elif kind == "state" and assignment is not None:
            found[at] = (assignment, None)
    return found


def test_the_report_says_it_first(replayed: Replayed) -> None:
    sentence = write_report(Local(), replayed.job, replayed.result).sentence

    assert sentence.startswith("16 moves, 1 cancelled, the slowest, gone-1, took 1")
    assert sentence.endswith("; 1 fail-over; 0 violations, 0 writes not explained.")
