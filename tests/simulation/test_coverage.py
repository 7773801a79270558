"""Does the table of decisions and faults say which have met?"""

from __future__ import annotations

from tests.simulation.coverage import SOON_S, Coverage

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
