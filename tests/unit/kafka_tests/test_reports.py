"""JUnit's reports are read by name, invocation and result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.reports import Outcome, Result, read_reports

REPORT = """\
<testsuite name="JUnit Jupiter">
<testcase name="testMove(String)[1]" classname="kafka.X" time="2.5"><system-out><![CDATA[
unique-id: [engine:junit-jupiter]/[class:kafka.X]
display-name: [1] quorum=zk
]]></system-out></testcase>
<testcase name="testMove(String)[2]" classname="kafka.X" time="0">
<skipped><![CDATA[runs without ZooKeeper]]></skipped></testcase>
<testcase name="testOld()[1]" classname="kafka.X" time="1,002.5"><system-out><![CDATA[
display-name: testOld [1] Type=ZK, MetadataVersion=2.7-IV1
]]></system-out><failure message="expected: 3&#10;but was: 4" type="Failure">at line 1</failure></testcase>
<testcase name="testPlain()" classname="kafka.X" time="0.1"><error type="java.lang.OutOfMemoryError"/></testcase>
<testcase name="testIgnored()" classname="kafka.X" time="0"><skipped>flaky</skipped></testcase>
<testcase name="testBare(TestInfo)" classname="kafka.X" time="0"/>
</testsuite>
"""


@pytest.fixture
def outcomes(tmp_path: Path) -> dict[str, Outcome]:
    (tmp_path / "TEST-junit-jupiter.xml").write_text(REPORT)
    (tmp_path / "TEST-junit-vintage.xml").write_text("<testsuite/>")
    return {outcome.name: outcome for outcome in read_reports(tmp_path)}


def test_what_was_left_out_because_nobody_chose_it_is_not_reported(outcomes: dict[str, Outcome]) -> None:
    assert not any("[2]" in name for name in outcomes)


def test_an_invocation_is_named_by_its_number_and_parameters(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["testMove [1] quorum=zk"] == Outcome("testMove", "[1] quorum=zk", Result.PASSED)
    assert "testOld [1] Type=ZK, MetadataVersion=2.7-IV1" in outcomes


def test_a_test_without_parameters_is_named_by_its_method(outcomes: dict[str, Outcome]) -> None:
    assert {"testPlain", "testIgnored", "testBare"} <= set(outcomes)


def test_a_failure_is_told_by_the_first_line_of_its_message_or_else_by_its_type(outcomes: dict[str, Outcome]) -> None:
    failed = outcomes["testOld [1] Type=ZK, MetadataVersion=2.7-IV1"]

    assert (failed.result, failed.problem) == (Result.FAILED, "expected: 3")
    assert outcomes["testPlain"].problem == "java.lang.OutOfMemoryError"


def test_what_kafka_leaves_out_itself_is_skipped(outcomes: dict[str, Outcome]) -> None:
    assert (outcomes["testIgnored"].result, outcomes["testIgnored"].problem) == (Result.SKIPPED, "flaky")
