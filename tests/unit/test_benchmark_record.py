"""`make bench` keeps every run, goes on where it was interrupted, and compares only what belongs together."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from click.testing import CliRunner

from tests.benchmarks.__main__ import main
from tests.benchmarks.comparing import ratios, too_slow
from tests.benchmarks.contenders import KAFKA, OURS
from tests.benchmarks.filling import Shape
from tests.benchmarks.measured import Measured, Record, Run, read, unfit
from tests.benchmarks.plots import ratios_plot
from tests.benchmarks.suite import CASES, MILLION, QUICK, cold, missing_turns

SVG = "{http://www.w3.org/2000/svg}"
CASE = cold(Shape(10, 10), {"all_know_s": 0.5})


def run(contender: str, all_know_s: float, others_s: float = 0.0) -> Run:
    """One run of ten seconds."""
    return Run(contender, "2026-11-26 12:00", {"all_know_s": all_know_s}, others_s, 10.0)


def test_a_run_is_in_the_file_as_soon_as_it_is_over(tmp_path: Path) -> None:
    record = Record(tmp_path / "new" / "measured.json")
    record.begin("case", "machine", "commit")
    record.add("case", run(OURS, 1.0))

    assert read(tmp_path / "new" / "measured.json") == {"case": Measured("machine", "commit", (run(OURS, 1.0),))}


def test_an_interrupted_measurement_goes_on(tmp_path: Path) -> None:
    record = Record(tmp_path / "measured.json")
    record.begin("case", "machine", "commit")
    for done in (run(OURS, 1.0), run(KAFKA, 2.0), run(OURS, 1.0)):
        record.add("case", done)

    known = Record(tmp_path / "measured.json").begin("case", "machine", "commit")

    assert missing_turns(known, 3, [OURS, KAFKA]) == [(1, KAFKA), (2, OURS), (2, KAFKA)]
    assert missing_turns(known, 3, [OURS]) == [(2, OURS)]
    assert missing_turns(known, 1, [OURS, KAFKA]) == []


def test_runs_of_another_commit_or_machine_are_not_mixed_with_new_ones(tmp_path: Path) -> None:
    record = Record(tmp_path / "measured.json")
    for machine, commit in (("another", "commit"), ("machine", "another")):
        record.begin("case", machine, commit)
        record.add("case", run(OURS, 1.0))

        assert record.begin("case", "machine", "commit").runs == ()


def test_medians_of_both_are_compared() -> None:
    known = Measured("machine", "commit", (*(run(OURS, s) for s in (1.0, 9.0, 2.0)), run(KAFKA, 8.0)))

    assert known.ratio(OURS, KAFKA, "all_know_s") == 0.25
    assert "| 2.0 s (1.0-9.0) | 8.0 s | 0.250 | 3, 1 | 0.00 |" in ratios([CASE], {CASE.name: known})


def test_what_is_slower_than_its_share_is_named() -> None:
    at_most = Measured("machine", "commit", (run(OURS, 1.0), run(KAFKA, 2.0)))
    above = Measured("machine", "commit", (run(OURS, 1.1), run(KAFKA, 2.0)))

    assert too_slow(CASE, at_most) == []
    assert too_slow(CASE, above) == ["cold-100: until all know is 0.55 of Kafka's, more than 0.5"]
    assert too_slow(CASE, None) == ["cold-100: until all know was not measured of both controllers"]
    assert too_slow(CASE, Measured("machine", "commit", (run(OURS, 1.0),))) == too_slow(CASE, None)


def test_a_run_beside_other_work_is_disturbed() -> None:
    assert run(OURS, 1.0, others_s=3.1).is_disturbed
    assert not run(OURS, 1.0, others_s=2.9).is_disturbed


def test_only_whole_and_undisturbed_cases_are_published() -> None:
    quiet, busy = (run(OURS, 1.0), run(KAFKA, 2.0)), (run(OURS, 1.0, others_s=9.0), run(KAFKA, 2.0))

    assert unfit(Measured("machine", "commit", quiet), (OURS, KAFKA), 1, disturbed=False) == ""
    assert "has 1 of 2 runs" in unfit(Measured("machine", "commit", quiet), (OURS, KAFKA), 2, disturbed=True)
    assert "had other work" in unfit(Measured("machine", "commit", busy), (OURS, KAFKA), 1, disturbed=False)
    assert unfit(Measured("machine", "commit", busy), (OURS, KAFKA), 1, disturbed=True) == ""


def test_the_plot_shows_a_case_of_which_both_were_measured() -> None:
    both, alone = Measured("m", "c", (run(OURS, 1.0), run(KAFKA, 10.0))), Measured("m", "c", (run(OURS, 1.0),))

    drawn = ElementTree.fromstring(ratios_plot([CASE], {CASE.name: both}))

    (dot,) = drawn.iter(f"{SVG}circle")
    (tenth,) = (text for text in drawn.iter(f"{SVG}text") if text.text == "0.1")
    assert dot.get("cx") == tenth.get("x")
    assert not list(ElementTree.fromstring(ratios_plot([CASE], {CASE.name: alone})).iter(f"{SVG}circle"))


def test_unknown_cases_are_refused_with_the_known_ones() -> None:
    result = CliRunner().invoke(main, ["all", "--case", "cold"])

    assert result.exit_code == 2
    assert "cold-100000" in result.output


def test_every_case_has_a_name_of_its_own_and_every_quick_one_a_limit() -> None:
    names = [case.name for case in (*CASES, *MILLION, *QUICK)]

    assert len(set(names)) == len(names)
    assert all(case.at_most for case in QUICK)
