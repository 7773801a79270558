"""Does the table show which decisions and faults have met?"""

from __future__ import annotations

import pytest

from tests.simulation import cells
from tests.simulation.coverage import SOON_S, Coverage
from tests.simulation.phases import Phase

ELECTED = "leader 1 of orders0-0 is offline; 2 is the first online in-sync replica"
MOVED = "orders0-1 has moved to [2, 3]"


def counted() -> Coverage:
    coverage = Coverage()
    coverage.struck("crash_broker", now=5.0)
    coverage.decided((ELECTED, ELECTED), now=5.0 + SOON_S)
    coverage.struck("drop_controller_connection", now=16.0)
    coverage.decided((MOVED,), now=16.1)
    return coverage


def test_a_decision_meets_the_faults_of_the_last_seconds_only() -> None:
    coverage = counted()

    assert sorted((kind.partition(" ")[0], fault, n) for (kind, fault), n in coverage.met.items()) == [
        ("#", "drop_controller_connection", 1),
        ("leader", "crash_broker", 2),
    ]


def test_worlds_are_counted_together_and_what_has_never_met_is_a_dot() -> None:
    coverage = Coverage()
    coverage.add(counted())
    coverage.add(counted())

    *_, header, moved, elected, pairs = coverage.pairs()

    assert header.split() == ["1", "2", "all"]
    assert moved.split()[:3] == [".", "2", "2"]
    assert elected.split()[:3] == ["4", ".", "4"]
    assert pairs.startswith("2 of 4 pairs")


def test_a_fault_counts_in_every_phase_in_which_it_strikes() -> None:
    coverage = Coverage()
    coverage.struck("crash_broker", now=5.0, phases=(Phase.LOAD, Phase.DELETION))

    assert len(coverage.empty(["crash_broker"])) == len(Phase) - 2
    assert (("crash_broker", Phase.CLAIM)) in coverage.empty(["crash_broker"])


def test_a_cell_that_cannot_have_anything_in_it_is_a_dash_and_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cells.CANNOT, ("crash_broker", Phase.CLAIM), "a reason")
    coverage = Coverage()
    coverage.struck("crash_broker", now=5.0, phases=(Phase.LOAD,))

    _, line, count = coverage.phases()

    assert line.split()[:3] == ["-", "1", "."]
    assert count == f"1 of {len(Phase)} cells have something in them, {len(Phase) - 2} could"
    assert ("crash_broker", Phase.CLAIM) not in coverage.empty(["crash_broker"])
