"""Does a request's status say when it is done, and does it know whose throttle its moves have?"""

from __future__ import annotations

import json

import pytest

from controller.core.progress.closing import WINDOW_S
from tests.unit.traps.play import Play

STATUS = "/admin/reassign_partitions_status/1"
MB = 1_000_000
RATE, INFLOW = 4 * MB, MB
SMALL, LARGE = 20 * MB, 200 * MB


def written_while_one_is_done(*throttle: str) -> tuple[float, float]:
    """What the first status says after a small move has ended, and the truth, if that takes no more of the rate.

    Broker 3 copies two partitions at a rate for both, while their leader gets new data.
    """
    play = Play("set status_retention_ms=86400000", "brokers 1,2,3", "topic orders 0=1,2 1=1,2", "elect")
    play.do(f"sizes orders-0 1={LARGE}", f"sizes orders-1 1={SMALL}")
    play.do(" ".join(["ask reassign", *throttle, "orders-0 to=3,2 orders-1 to=3,2"]), "time +2s")
    small, large, second, ended_at = float(SMALL), float(LARGE), 0, None
    before = play.data(STATUS)
    while ended_at is None or second < ended_at + WINDOW_S or play.data(STATUS) == before:
        before = play.data(STATUS)
        whole = INFLOW * second
        play.do(
            f"sizes orders-0 1={LARGE + whole} 3={round(LARGE + whole - large)}",
            f"sizes orders-1 1={SMALL + whole} 3={round(SMALL + whole - small)}",
            "time +1s",
        )
        second += 1
        if ended_at is None:
            small, large = small + INFLOW - RATE / 2, large + INFLOW - RATE / 2
            if small <= 0:
                play.do("isr orders-1 1,2,3")
                ended_at = second
        else:
            large += INFLOW - RATE
    said = json.loads(str(play.data(STATUS)))
    return said["remaining_seconds"], large / (RATE - INFLOW)


def test_under_a_throttle_of_ours_what_is_in_sync_takes_nothing_from_the_rest() -> None:
    said, true_s = written_while_one_is_done("throttle=4000000")

    assert said == pytest.approx(true_s, rel=0.1)


def test_without_a_throttle_of_ours_it_is_taken_to_go_on_taking_its_part() -> None:
    said, true_s = written_while_one_is_done()

    assert said > 1.15 * true_s
