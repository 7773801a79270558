"""Which writes are explained, which are Kafka's own way, and which break a rule."""

from __future__ import annotations

import pytest

from metrics.replay.audit import Finding, findings
from metrics.replay.reigns import Reigns, Sighting
from tests.replay.histories import History, moved_as_kafka_does, moving

BROKERS = [Sighting(zxid, "broker", broker=zxid) for zxid in (1, 2, 3, 4, 5)]
REIGN = [Sighting(9, "controller_epoch", epoch=1, version=1), Sighting(9, "controller", broker=1, session=7)]


def audited(history: History, *more: Sighting) -> list[Finding]:
    return list(findings("orders", 0, history.events, Reigns([*BROKERS, *REIGN, *more])))


def verdicts(history: History, *more: Sighting) -> list[str]:
    return [finding.verdict for finding in audited(history, *more)]


def last(history: History, *more: Sighting) -> tuple[str, str, str]:
    found = audited(history, *more)[-1]
    return found.verdict, found.rule, found.why


def gone(broker: int, at: int) -> Sighting:
    return Sighting(at, "broker", is_there=False, broker=broker)


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
        (moving().deleted(), "explained", "deletion"),
    ],
)
def test_the_audit_names_what_it_sees(history: History, verdict: str, rule: str) -> None:
    assert last(history)[:2] == (verdict, rule)


def test_a_leader_about_to_shut_down_may_hand_over_while_live() -> None:
    history = History().created("2,1").state(2, "2,1").state(1, "1")

    assert last(history, gone(2, 150))[:2] == ("explained", "shutdown")


def test_what_the_log_does_not_show_is_listed_not_judged() -> None:
    history = History()
    history._version = 4
    history.state(1, "1,2")

    assert last(history) == ("listed", "unknown", "the log does not show what was there before")
