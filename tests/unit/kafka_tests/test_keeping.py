"""A result is kept until the class runs again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from tests.kafka.jars import VERSIONS
from tests.kafka.keeping import Ran, keep, read_kept, state_of_product
from tests.kafka.reports import Outcome, Result
from tests.kafka.running import WHOLE_CLASS, Controller

OURS = Ran(
    "kafka.X",
    Controller.OURS,
    "2026-01-02",
    17,
    (
        Outcome("testA", "", Result.PASSED),
        Outcome("testB", "[1] quorum=zk, x=[2]", Result.FAILED, "expected: 3, but was: 4"),
        Outcome("testC", "[1] quorum=zk", Result.SKIPPED, "flaky"),
        Outcome(WHOLE_CLASS, "", Result.FAILED, "not done after 600 s"),
    ),
    state="abc1234",
)
NATIVE = Ran("kafka.X", Controller.NATIVE, "2026-01-01", 17, (Outcome("testA", "", Result.FAILED),))


def test_what_is_kept_is_read_as_it_was(tmp_path: Path) -> None:
    keep("3.9.1", NATIVE, tmp_path)
    keep("3.9.1", OURS, tmp_path)

    assert read_kept("3.9.1", tmp_path) == [OURS, NATIVE]
    assert read_kept("2.8.2", tmp_path) == []


def test_a_class_that_is_run_again_replaces_its_own_entry_only(tmp_path: Path) -> None:
    other = msgspec.structs.replace(OURS, class_name="kafka.W")
    again = msgspec.structs.replace(OURS, day="2026-01-03", outcomes=OURS.outcomes[:1])
    for ran in (OURS, NATIVE, other, again):
        keep("3.9.1", ran, tmp_path)

    assert read_kept("3.9.1", tmp_path) == [other, again, NATIVE]


def test_a_diff_shows_the_test_whose_result_has_changed(tmp_path: Path) -> None:
    keep("3.9.1", OURS, tmp_path)
    before = (tmp_path / "3.9.1.json").read_text().splitlines()
    passed = msgspec.structs.replace(OURS.outcomes[1], result=Result.PASSED, problem="")
    keep("3.9.1", msgspec.structs.replace(OURS, outcomes=(OURS.outcomes[0], passed, *OURS.outcomes[2:])), tmp_path)
    after = (tmp_path / "3.9.1.json").read_text().splitlines()

    changed = [(old.strip(), new.strip()) for old, new in zip(before, after, strict=True) if old != new]
    name = '"testB [1] quorum=zk, x=[2]"'
    assert changed == [(f'{name}: "failed: expected: 3, but was: 4",', f'{name}: "passed",')]


def test_the_results_of_this_repository_can_be_read() -> None:
    assert all(read_kept(version) for version in VERSIONS)


def test_a_change_of_the_product_since_its_commit_shows_in_its_state(tmp_path: Path) -> None:
    assert state_of_product(tmp_path) == ""
    (tmp_path / "controller").mkdir()
    (tmp_path / "controller" / "app.py").write_text("one")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *arguments], check=True)
    commit = state_of_product(tmp_path)
    (tmp_path / "README.md").write_text("beside the product")

    assert commit
    assert state_of_product(tmp_path) == commit
    (tmp_path / "controller" / "app.py").write_text("two")
    assert state_of_product(tmp_path) == f"{commit}+"
