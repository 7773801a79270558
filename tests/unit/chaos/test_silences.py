"""Silences measure how long writes were blocked."""

from __future__ import annotations

from tests.chaos.silences import Silences


def heard(*times: float) -> Silences:
    silences = Silences(0.0)
    for at in times:
        silences.acknowledge(at)
    return silences


def test_the_pace_of_the_producers_is_no_silence() -> None:
    assert heard(0.1, 0.2, 0.3, 0.4).longest_s(0, 0.5) == 0


def test_the_longest_counts() -> None:
    assert heard(1, 1.1, 4, 4.1).longest_s(0, 4.2) == 4 - 1.1


def test_a_silence_counts_where_it_reaches_into_the_interval_and_at_its_full_length() -> None:
    silences = heard(1, 5, 5.1, 6)
    assert silences.longest_s(4, 5.05) == 4
    assert silences.longest_s(5.05, 6) == 6 - 5.1


def test_what_has_not_ended_counts_up_to_the_end_of_the_interval() -> None:
    assert heard(1).longest_s(2, 9) == 8


def test_a_late_acknowledgement_of_an_earlier_record_says_nothing_new() -> None:
    silences = heard(1, 0.9, 1.1)
    assert silences.last == 1.1
    assert silences.longest_s(1.05, 1.2) == 0
