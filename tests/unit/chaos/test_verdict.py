"""The verdict sums up strikes, and says when a run has failed."""

from __future__ import annotations

import io

import msgspec
from rich.console import Console

from tests.chaos.compare import beside
from tests.chaos.ledger import Judgement
from tests.chaos.table import show
from tests.chaos.verdict import Result, Struck, failures, rows

SOUND = Judgement(acknowledged=100)


def struck(number: int, name: str, *silences: float, recovered_s: float | None = 2.0, missing: str = "") -> Struck:
    """One after the other, ten seconds each."""
    began = 10.0 * number
    by_partition = {f"t-{p}": seconds for p, seconds in enumerate(silences)}
    return Struck(number, name, ("x",), began, began + 3, began + 8, by_partition, recovered_s, 1, missing)


def result(*strikes: Struck, judgement: Judgement = SOUND, trouble: tuple[str, ...] = ()) -> Result:
    return Result(
        "ours", "3.9.1", 1, 60.0, 200, strikes, rows(strikes, judgement), judgement, {"asked": 3}, {}, trouble
    )


def test_strikes_of_a_name_are_one_row_over_all_their_partitions() -> None:
    row, other = rows([struck(1, "a", 0.0, 4.0), struck(2, "b", 1.0), struck(3, "a", 2.0, 9.0)], SOUND)
    assert (row.name, row.times, row.silence_median_s, row.silence_max_s, row.noticed) == ("a", 2, 3.0, 9.0, 0.75)
    assert (row.moves_finished, other.name, other.noticed) == (2, "b", 0.0)


def test_what_is_lost_counts_for_the_strike_up_to_whose_end_it_was_acknowledged() -> None:
    judgement = Judgement(acknowledged=9, lost=(11.0, 19.0), duplicates=(5.0,))
    one, other = rows([struck(1, "a", 1.0), struck(2, "b", 1.0)], judgement)
    assert (one.lost, one.duplicates, other.lost) == (1, 1, 1)


def test_what_could_not_be_struck_has_no_row() -> None:
    assert rows([Struck(1, "a", (), 1, 1, 1, skipped="no compiler")], SOUND) == ()


def test_a_run_in_which_nothing_is_lost_and_all_recovers_is_sound() -> None:
    assert result(struck(1, "a", 1.0)).is_sound


def test_a_lost_record_a_rewritten_one_and_a_cluster_that_stays_down_are_failures() -> None:
    assert failures(result(judgement=Judgement(acknowledged=1, lost=(1.0,)))) == ("1 acknowledged records are lost",)
    assert not result(judgement=Judgement(acknowledged=1, rewritten=1)).is_sound
    assert not result(judgement=Judgement(acknowledged=1, unlisted=1)).is_sound
    stays_down = result(struck(1, "a", 1.0, recovered_s=None, missing="no leader"))
    assert failures(stays_down) == ("strike 1 (a): no leader",)
    assert stays_down.rows[0].unrecovered == 1


def test_a_run_that_has_written_nothing_shows_nothing() -> None:
    assert not result(judgement=Judgement()).is_sound


def test_a_client_that_ends_is_a_failure() -> None:
    assert failures(result(trouble=("the consumer ended",))) == ("the consumer ended",)


def test_the_table_has_a_row_for_each_fault_and_ends_with_the_verdict() -> None:
    text = io.StringIO()
    console = Console(file=text, width=160)
    show(result(struck(1, "kill-leader", 1.5), struck(2, "b", 2.0, recovered_s=None, missing="no leader")), console)
    shown = text.getvalue()
    assert "kill-leader" in shown
    assert "1 × never" in shown
    assert "failed: strike 2 (b): no leader" in shown


def test_results_are_read_back_and_shown_side_by_side() -> None:
    ours = result(struck(1, "kill-leader", 1.5), struck(2, "only ours", 1.0))
    native = result(struck(1, "kill-leader", 3.5))
    read = [msgspec.json.decode(msgspec.json.encode(r), type=Result) for r in (ours, native)]
    assert read == [ours, native]
    text = io.StringIO()
    Console(file=text, width=160).print(beside(read))
    assert "1.5 / 1.5 s, 2.0 s, 0 lost (1 ×)" in text.getvalue()
    assert "only ours" not in text.getvalue()
