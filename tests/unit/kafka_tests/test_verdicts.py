"""A failure needs a reason, and a reason needs a failure."""

from __future__ import annotations

import msgspec
import pytest

from tests.kafka.choosing import Classes, read_classes
from tests.kafka.jars import VERSIONS
from tests.kafka.keeping import Ran
from tests.kafka.page import as_markdown
from tests.kafka.reports import Outcome, Result
from tests.kafka.running import Chosen, Controller
from tests.kafka.verdicts import Reason, Reasons, Verdict, read_reasons

X = "kafka.X"
REASONS = Reasons(
    [
        Reason("counts nodes", frozenset({f"{X}.testCount", f"{X}.testMove [2]", "kafka.Ssl"})),
        Reason("old", frozenset({f"{X}.testOld"}), versions=frozenset({"2.8.2"})),
        Reason("races", frozenset({f"{X}.testRace"}), sometimes=True),
    ],
    "3.9.1",
)


def outcome(method: str, result: Result, invocation: str = "") -> Outcome:
    return Outcome(method, invocation, result)


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (outcome("testMove", Result.PASSED, "[1] quorum=zk"), Verdict.PASSED),
        (outcome("testMove", Result.FAILED, "[1] quorum=zk"), Verdict.UNEXPECTED),
        (outcome("testMove", Result.FAILED, "[2] quorum=zk"), Verdict.EXPECTED),
        (outcome("testCount", Result.FAILED, "[1] quorum=zk"), Verdict.EXPECTED),
        (outcome("testCount", Result.PASSED), Verdict.STALE),
        (outcome("testCount", Result.SKIPPED), Verdict.SKIPPED),
        (outcome("testOld", Result.FAILED), Verdict.UNEXPECTED),
        (outcome("testRace", Result.FAILED), Verdict.EXPECTED),
        (outcome("testRace", Result.PASSED), Verdict.PASSED),
    ],
)
def test_a_verdict_comes_from_the_result_and_the_reason(seen: Outcome, verdict: Verdict) -> None:
    assert REASONS.verdict(X, seen) is verdict


def test_only_failures_without_reason_and_reasons_without_failure_are_bad() -> None:
    assert [verdict for verdict in Verdict if verdict.is_bad] == [Verdict.UNEXPECTED, Verdict.STALE]


def test_a_reason_for_a_test_that_does_not_exist_is_noticed() -> None:
    seen = [outcome("testCount", Result.FAILED), outcome("testMove", Result.PASSED, "[1] quorum=zk")]

    assert REASONS.never_met(X, seen) == [f"{X}.testMove [2]", f"{X}.testRace"]
    assert REASONS.never_met("kafka.Ssl", []) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_files_of_classes_and_reasons_can_be_read(version: str) -> None:
    classes = read_classes(version)

    assert set(classes.quick) <= set(classes.all)
    assert all(name in classes.all or name.rpartition(".")[0] in classes.all for name in classes.settings)
    assert len(set(classes.all)) == len(classes.all)
    assert read_reasons(version).for_class("kafka.NoSuchTest") is None


def test_a_method_may_have_settings_of_its_own() -> None:
    (chosen,) = Classes(("kafka.MoveTest",), (), {"kafka.MoveTest.testIt": {"broker.rack": "r"}}).choose("MoveTest")

    assert (chosen.settings, chosen.settings_of_methods) == ({}, {"testIt": {"broker.rack": "r"}})


def test_classes_are_chosen_by_name_with_or_without_package_and_method() -> None:
    classes = Classes(("kafka.admin.MoveTest", "kafka.RemoveTest"), (), {"kafka.admin.MoveTest": {"broker.rack": "r"}})

    assert classes.choose("all") == [classes.choose("MoveTest")[0], Chosen("kafka.RemoveTest")]
    assert classes.choose("MoveTest.testIt, kafka.RemoveTest") == [
        Chosen("kafka.admin.MoveTest", "testIt", {"broker.rack": "r"}),
        Chosen("kafka.RemoveTest"),
    ]
    assert classes.choose("kafka.other.NewTest,kafka.other.NewTest.testIt") == [
        Chosen("kafka.other.NewTest"),
        Chosen("kafka.other.NewTest", "testIt"),
    ]
    assert classes.choose("none") == []
    with pytest.raises(ValueError, match="no class is called Mover"):
        classes.choose("Mover")


def test_the_page_has_a_row_for_each_test_and_says_why_it_failed() -> None:
    ours = Ran(
        X,
        Controller.OURS,
        "2026-01-02",
        17,
        (outcome("testA", Result.PASSED), outcome("testCount", Result.FAILED)),
        state="abc1234",
    )
    native = Ran(X, Controller.NATIVE, "2026-01-01", 17, (outcome("testA", Result.PASSED),))

    page = as_markdown({"3.9.1": [ours, native]}, {"3.9.1": REASONS}, {"3.9.1": Classes((X,), ())})

    assert "Run 2026-01-01 to 2026-01-02 with Java 17." in page
    assert "| **kafka.X** | 1 of 2 | 1 of 1 | |\n| testA | ✓ | ✓ |  |\n| testCount | ✗ |  | counts nodes |" in page
    assert "- counts nodes:\n  - X: testCount\n" in page
    assert "| 3.9.1 | 1 of 1 | 2 | 1 | 1 | 0 | 1 of 1 |" in page
    assert f"| {X} | 1 of 2 | 1 of 1 | 2026-01-02 abc1234 |" in page


def test_the_page_hides_no_class_that_was_not_run() -> None:
    page = as_markdown({"3.9.1": []}, {"3.9.1": REASONS}, {"3.9.1": Classes((X, "kafka.Ssl"), ())})

    assert f"| {X} | not yet run | not yet run |  |" in page
    assert "| kafka.Ssl | cannot be run: counts nodes | not yet run |" in page
    assert "| 3.9.1 | 0 of 2 | 0 | 0 | 0 | 0 | 0 of 0 |" in page


def test_the_page_shows_failures_without_reason_and_reasons_without_failure() -> None:
    failed = msgspec.structs.replace(outcome("testA", Result.FAILED), problem="1 < 2")
    ours = Ran(X, Controller.OURS, "2026-01-02", 17, (failed, outcome("testCount", Result.PASSED)))

    page = as_markdown({"3.9.1": [ours]}, {"3.9.1": REASONS}, {"3.9.1": Classes((X,), ())})

    assert "- not known: 1 &lt; 2:\n  - X: testA\n" in page
    assert "- passes, in spite of a reason why it could not:\n  - X: testCount\n" in page
