"""Which writes are explained, which are Kafka's own way, and which break a rule."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from metrics.replay.audit.audit import findings
from metrics.replay.audit.claims import judged_claims
from metrics.replay.audit.verdicts import Finding
from metrics.replay.commands.jobs import Job, run
from metrics.replay.engine.engines import Local
from metrics.replay.partitions.terms import Sighting, Terms
from tests.replay.any_files import rows_of
from tests.replay.histories import History, moved_as_kafka_does, moving
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

BROKERS = [Sighting(zxid, "broker", broker=zxid) for zxid in (1, 2, 3, 4, 5)]
LATER = 1_100_000
TERM = [Sighting(9, "controller_epoch", epoch=1, version=1), Sighting(9, "controller", broker=1, session=7)]


def audited(history: History, *more: Sighting) -> list[Finding]:
    return list(findings("orders", 0, history.events, Terms([*BROKERS, *TERM, *more])))


def verdicts(history: History, *more: Sighting) -> list[str]:
    return [finding.verdict for finding in audited(history, *more)]


def last(history: History, *more: Sighting) -> tuple[str, str, str]:
    found = audited(history, *more)[-1]
    return found.verdict, found.rule, found.why


def gone(broker: int, at: int, op: str = "expire", time_ms: int = 0) -> Sighting:
    return Sighting(at, "broker", is_there=False, broker=broker, op=op, time_ms=time_ms)


def test_every_write_of_a_move_by_kafkas_controller_is_explained() -> None:
    found = audited(moved_as_kafka_does())

    assert [(f.what, f.verdict) for f in found] == [
        ("assignment", "explained"), ("state", "explained"), ("assignment", "explained"), ("state", "explained"),
        ("state", "explained"), ("state", "explained"), ("state", "kafka's own way"), ("state", "kafka's own way"),
        ("state", "explained"), ("assignment", "explained"),
    ]  # fmt: skip
    assert found[6].ours == "target [3, 4] of orders-0 in sync; leader 1 leaves, 3 is the first live target"


def test_our_own_hand_over_is_what_our_rule_says() -> None:
    history = moving().state(1, "1,2").isr(1, "1,2,3,4").state(3, "3,4").assigned("3,4")

    assert set(verdicts(history)) == {"explained"}
    assert audited(history)[-2].why == "target [3, 4] of orders-0 in sync; leader 1 leaves, 3 is the first live target"


def test_a_hand_over_in_the_write_of_the_isr_that_the_leader_requested_is_explained() -> None:
    history = moving().state(1, "1,2").isr(1, "1,2,3").state(3, "3,4").assigned("3,4")

    assert set(verdicts(history)) == {"explained"}
    handed_over = "target [3, 4] of orders-0 in sync; leader 1 leaves, 3 is the first live target"
    assert audited(history)[-2].why == f"leader 1 reports: [4] caught up; {handed_over}"


def test_a_hand_over_to_replicas_whose_brokers_were_just_gone_is_listed() -> None:
    history = moving().state(1, "1,2").isr(1, "1,2,3").state(3, "3,4")

    assert last(history, gone(4, 101))[0] == "listed"
    assert last(history, gone(3, 101))[0] == "listed"


def test_an_unclean_election_of_a_whole_target_is_no_hand_over() -> None:
    history = moving().state(1, "1,2").state(3, "3,4")

    assert last(history, gone(1, 101), gone(2, 102))[:2] == ("listed", "unclean election")


@pytest.mark.parametrize(("leader", "isr"), [(3, "3"), (4, "3,4"), (3, "3,4,2")])
def test_another_leader_or_isr_beside_a_target_that_was_not_in_sync_is_not(leader: int, isr: str) -> None:
    assert last(moving().state(1, "1,2").state(leader, isr))[0] != "explained"


def test_letting_go_before_the_target_is_in_sync_is_a_violation() -> None:
    verdict, rule, why = last(moving().isr(1, "1,2,3").assigned("3,4"))

    assert (verdict, rule) == ("violation", "reassignment")
    assert why == "replicas were let go while catching up: ISR [1, 2, 3], target [3, 4]"


def test_a_leader_that_died_is_replaced_by_an_in_sync_replica() -> None:
    history = History().created("1,2").state(1, "1,2").state(2, "2")

    assert last(history, gone(1, 101))[:2] == ("explained", "election")


@pytest.mark.parametrize(
    ("history", "verdict", "rule"),
    [
        (History().created("1,2").state(1, "1,2").state(1, "1,2", raised=-1), "violation", "invariant"),
        (History().created("1,2").state(1, "1,2").state(2, "1,2", raised=0), "violation", "invariant"),
        (History().created("1,2").state(1, "1,2").state(1, "2"), "violation", "invariant"),
        (History().created("1,2").state(1, "1,2").isr(1, "1,2,5"), "violation", "invariant"),
        (History().created("1,2").state(1, "1,2").state(1, "1,2", epoch=2), "violation", "invariant"),
        (History().created("1,2").state(1, "1,2").state(1, "1,2", skipped_versions=1), "violation", "invariant"),
        (History().created("1,2").state(1, "1,2").state(1, "1,2", fence=0), "violation", "fencing"),
        (History().created("1,2").state(1, "1,2").assigned("3,4,1,2", "3", "1,2"), "violation", "reassignment"),
        (History().created("1,2").state(1, "1,2").state(1, "1,2", raised=2), "listed", "epoch"),
        (History().created("1,2").state(1, "1").state(2, "2"), "listed", "unclean election"),
        (History().created("2,1").state(2, "2,1").state(1, "1,2"), "listed", "election"),
        (History().created("1,2").state(1, "1,2").assigned("3,4"), "listed", "reassignment"),
        (History().created("1,2").state(1, "1,2").isr(1, "1"), "explained", "isr"),
        (History().created("1,2").state(1, "1,2").state(2, "1,2").state(1, "1,2"), "explained", "preferred"),
        (moving().assigned("1,2"), "explained", "reassignment"),
        (moving().deleted(), "listed", "deletion"),
        (moving().state(1, "1"), "violation", "reassignment"),
        (moving().state(2, "2"), "violation", "reassignment"),
        (History().created("1,2").state(1, "1,2").assigned("2,1", session=99), "listed", "by hand"),
        (History().created("1,2").state(1, "1,2").isr(1, "1", session=99), "listed", "by hand"),
        (
            History().created("1,2").state(1, "1,2").assigned("2,1", version=4).assigned("1,2", version=4),
            "violation",
            "invariant",
        ),
    ],
)
def test_the_audit_names_what_it_sees(history: History, verdict: str, rule: str) -> None:
    assert last(history)[:2] == (verdict, rule)


def test_a_leader_that_is_stopped_in_good_order_may_hand_over_while_live() -> None:
    history = History().created("2,1").state(2, "2,1").state(1, "1")

    assert last(history, gone(2, 150, "close", time_ms=LATER))[:2] == ("explained", "shutdown")
    assert last(history, gone(2, 150, "close", time_ms=2**50))[:2] == ("listed", "election")
    assert last(history, gone(2, 150, "expire", time_ms=LATER))[:2] == ("listed", "election")
    assert last(history)[:2] == ("listed", "election")


def test_a_leader_that_was_given_its_partition_again_before_it_stopped_was_not_stopping_yet() -> None:
    history = History().created("2,1").state(2, "2,1").state(1, "1").isr(1, "1,2").state(2, "2,1").state(1, "1")

    found = audited(history, gone(2, 150, "close"))

    assert [(f.verdict, f.rule) for f in found[2::3]] == [("listed", "election"), ("explained", "shutdown")]


def test_what_the_log_does_not_show_is_listed_not_judged() -> None:
    history = History()
    history._version = 4
    history.state(1, "1,2")

    assert last(history) == ("listed", "unknown", "the log does not show what was there before")


def claimed(at: int, epoch: int) -> list[Sighting]:
    return [
        Sighting(at, "controller", broker=2, session=7, op="create"),
        Sighting(at, "controller_epoch", epoch=epoch, version=epoch, op="set"),
    ]


def deletion_requested(at: int) -> Sighting:
    return Sighting(at, "deletion", topic="orders", op="create")


def test_a_partition_deleted_with_its_topic_is_explained_and_so_are_kafkas_writes_before() -> None:
    history = History().created("1,2").state(1, "1,2").state(1, "1").state(-1, "1").deleted()

    found = audited(history, deletion_requested(101))

    assert [(f.verdict, f.rule) for f in found[2:]] == [
        ("kafka's own way", "deletion"), ("kafka's own way", "deletion"), ("explained", "deletion"),
    ]  # fmt: skip
    assert all(f.ours for f in found if f.verdict == "kafka's own way")


def test_kafka_takes_an_offline_leader_out_of_the_isr_before_it_chooses_another() -> None:
    found = audited(History().created("1,2").state(1, "1,2").state(-1, "2").state(2, "2"), gone(1, 101))

    assert [(f.verdict, f.rule) for f in found[2:]] == [("kafka's own way", "election"), ("explained", "election")]
    assert found[2].ours == "leader 1 of orders-0 is offline; 2 is the first online in-sync replica"


def test_a_leader_that_loses_its_partition_while_it_serves_is_listed() -> None:
    assert last(History().created("1,2").state(1, "1,2").state(-1, "2"))[:2] == ("listed", "election")


def failed_over_with_legacy() -> History:
    """A fail-over between the writes, at 103, before the ISR is written."""
    return History().created("1,2").state(1, "1,2").legacy("3,1").isr(1, "1,2").assigned("4,1,2", "4", "2", fence=2)


def test_after_a_fail_over_the_legacy_znode_takes_precedence() -> None:
    verdict, rule, why = last(failed_over_with_legacy(), *claimed(103, 2))

    assert (verdict, rule) == ("violation", "legacy")
    assert why == "/admin/reassign_partitions names [3, 1] since before the fail-over, and that takes precedence"


def test_a_legacy_znode_that_came_later_or_went_is_no_precedence() -> None:
    history = failed_over_with_legacy()

    ended = Sighting(103, "legacy", is_there=False, op="delete")
    assert last(history, ended, *claimed(103, 2))[0] == "explained"
    assert last(history, *claimed(99, 2))[0] == "explained"
    emptied = History().created("1,2").state(1, "1,2").legacy("3,1").legacy("").assigned("4,1,2", "4", "2", fence=2)
    assert last(emptied, *claimed(103, 2))[0] == "explained"


def test_partitions_that_are_added_to_a_topic_are_a_creation() -> None:
    seen = History().assigned("1,2", fence=None, is_first=True)

    assert last(History().assigned("1,2", fence=None, is_first=False))[:2] == ("explained", "creation")
    assert last(seen)[:2] == ("listed", "unknown")


def test_kafka_never_takes_a_partition_from_a_topic() -> None:
    assert last(History().created("1,2").state(1, "1,2").assigned(""))[:2] == ("listed", "deletion")


def owned(zxid: int, kind: str, session: int, op: str) -> Sighting:
    return Sighting(zxid, kind, op not in ("delete", "expire"), 1, session, op=op)


def epoch(zxid: int, value: int, op: str = "set") -> Sighting:
    return Sighting(zxid, "controller_epoch", epoch=value, op=op)


@pytest.mark.parametrize(
    ("sightings", "verdicts"),
    [
        ([owned(1, "broker", 5, "create"), owned(2, "broker", 5, "expire")], ["explained", "explained"]),
        ([owned(1, "controller", 5, "create"), owned(2, "controller", 5, "delete")], ["explained", "explained"]),
        ([owned(1, "controller", 5, "create"), owned(2, "controller", 6, "delete")], ["explained", "listed"]),
        ([owned(1, "broker", 5, "create"), owned(2, "broker", 6, "set")], ["explained", "listed"]),
        ([epoch(1, 4, "known"), epoch(2, 5)], ["explained"]),
        ([epoch(1, 4), epoch(2, 6)], ["explained", "listed"]),
        ([epoch(1, 4), epoch(2, 4)], ["explained", "violation"]),
    ],
)
def test_claims_registrations_and_epochs_are_judged(sightings: list[Sighting], verdicts: list[str]) -> None:
    assert [found.verdict for found in judged_claims(sightings)] == verdicts


def test_tasks_that_one_process_does_one_after_another_judge_each_by_its_own_sightings() -> None:
    for session in range(50):
        sent = pickle.dumps(Terms([Sighting(1, "broker", broker=1), Sighting(2, "controller", session=session)]))
        assert pickle.loads(sent).at(3).session == session


def step(before: History, replicas: str, leader: int, isr: str, **of_state: int) -> History:
    """One transaction of this project's controller that writes a topic and a partition's state."""
    return before.assigned(replicas).state(leader, isr, **of_state)


@pytest.mark.parametrize(
    ("history", "why"),
    [
        (step(History().created("1,3,2").state(1, "1,3,2"), "3,1", 1, "1,3"), "asked to move to [3, 1] (done in one"),
        (step(History().created("1,3,2").state(1, "1,3,2"), "3,2", 3, "3,2"), "asked to move to [3, 2] (done in one"),
        (
            step(moving().state(1, "1,2").isr(1, "1,2,3"), "1,3", 1, "1,3"),
            "was redirected to [1, 3] (done in one step)",
        ),
        (step(moving().state(1, "1,2").isr(1, "1,2,3"), "3,1,2", 1, "1,2,3"), "was stopped gently: it keeps what had"),
    ],
)
def test_a_move_of_this_project_that_only_lets_go_is_explained_with_its_isr(history: History, why: str) -> None:
    found = audited(history)

    assert {f.verdict for f in found[-2:]} == {"explained"}
    assert why in found[-2].why


@pytest.mark.parametrize(
    "history",
    [
        step(History().created("1,2").state(1, "1,2"), "3,1", 1, "1"),
        step(History().created("1,3,2").state(1, "1,3,2"), "3,1", 1, "1"),
        History().created("1,3,2").state(1, "1,3,2").state(1, "1,3,2").state(1, "1,3"),
    ],
    ids=["a replica that was not in sync", "more than left", "no replica left"],
)
def test_what_only_looks_like_such_a_move_is_listed(history: History) -> None:
    assert "listed" in verdicts(history)


def test_a_claim_that_takes_over_in_one_transaction_is_explained() -> None:
    native = [Sighting(9, "controller", broker=1, session=7, op="create"), Sighting(9, "controller_epoch", epoch=1)]
    deleted = Sighting(20, "controller", is_there=False, session=8, op="delete")
    claimed = Sighting(20, "controller", broker=901, session=8, op="create")
    raised = Sighting(20, "controller_epoch", epoch=2, version=2, session=8, op="set")

    assert [f.verdict for f in judged_claims([*native, deleted, claimed, raised])] == ["explained"] * 5
    assert [f.verdict for f in judged_claims([*native, deleted, raised])] == [
        "explained",
        "explained",
        "listed",
        "explained",
    ]
    assert [f.verdict for f in judged_claims([*native, deleted])][-1] == "listed"


def test_what_this_project_keeps_for_itself_is_explained_and_what_lies_outside_the_chroot_is_left_out(
    tmp_path: Path,
) -> None:
    ours = "/kafka/kafka_zk_controller"
    paths = (
        "/kafka", "/kafka/brokers", "/kafka/brokers/topics", ours, f"{ours}/replicas", f"{ours}/replicas/901",
        f"{ours}/controller_ids", f"{ours}/paused", f"{ours}/released", f"{ours}/switchover",
        "/hbase", "/kafka/strange",
    )  # fmt: skip
    life = "/kafka/brokers/topics/:life:0000000001"
    steps = [(ops.CREATE, zk.create(path)) for path in paths]
    steps.append((ops.MULTI, zk.multi((ops.CREATE, zk.create(life)), (ops.DELETE, zk.delete(life)))))
    bodies = [zk.header(n, op, time_ms=n) + body for n, (op, body) in enumerate(steps, 1)]
    (tmp_path / "log.1").write_bytes(zk.log(*bodies))

    run(Local(), Job((str(tmp_path),), str(tmp_path / "out"), "/kafka"))

    rows = rows_of(str(tmp_path / "out"), "audit")
    listed = [row["why"] for row in rows if row["verdict"] != "explained"]
    assert listed == ["create /kafka/strange"]
    assert len(rows) == len(paths) - 1 + 2
    shown = rows_of(str(tmp_path / "out"), "events")
    assert {row["kind"] for row in shown if "/kafka_zk_controller/" in row["path"] or ":life:" in row["path"]} == {
        "ours", "root",
    }  # fmt: skip
    assert [row["kind"] for row in shown if row["path"] == "/hbase"] == ["other"]
