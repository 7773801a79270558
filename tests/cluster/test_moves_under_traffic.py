"""Fifty throttled moves on real brokers under 20 MB/s of traffic: at their rate, no throttle left, every record kept.

`pytest -s -m thorough tests/cluster/test_moves_under_traffic.py` prints a line of figures for each. It needs a machine
that writes 100 MB/s and has a core or two for itself; TRAFFIC_MB_S=5 asks for less, and the line says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.moves_under_traffic import TAKES_EFFECT_S, Moves, filled, shown_by
from tests.cluster.replica import command, holder, wait_until

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]

AT_FIRST, LOWERED, RAISED = 1.6, 1.3, 1.8  # times the traffic, which is copied too
MINUTE_S = 60.0
AWAY_S = 20.0


@pytest.fixture(params=["3.9.1", "2.8.2", "2.4.1"])
def moves(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Moves]:
    """Fifty partitions that have not begun to move."""
    with filled(request.param, tmp_path) as moves:
        yield moves


def test_the_rate_holds_when_it_is_lowered_and_raised_and_the_time_left_is_believable(moves: Moves) -> None:
    with moves.replica(901) as leader:
        leader.await_phase("active", 120.0)
        first, lowered, raised = map(moves.times_traffic, (AT_FIRST, LOWERED, RAISED))
        moves.begin(first)
        with moves.watched() as progress:
            settled(moves, first, "at first")
            moves.change(lowered)
            settled(moves, lowered, "lowered")
            moves.change(raised)
            changed_at = time.time()
            settled(moves, raised, "raised")
            wait_until(lambda: shown_by(progress)[-1].at > changed_at + MINUTE_S, "a minute had passed", 2 * MINUTE_S)
            shown = shown_by(progress)[-1]
            moves.await_arrival()
        true_s = time.time() - shown.at
        remaining_s = shown.remaining_s
        moves.note(f"time left a minute after that {remaining_s or 0:.0f} s, true {true_s:.0f} s")
        moves.await_no_throttle()
        moves.conclude("plain")
    assert leader.complaints() == []
    assert true_s > MINUTE_S / 2, "too short to tell"
    assert remaining_s is not None
    assert abs(remaining_s - true_s) <= 0.3 * true_s


def test_the_rate_holds_while_the_leader_is_killed(moves: Moves) -> None:
    with ExitStack() as replicas:
        leader = replicas.enter_context(moves.replica(901))
        leader.await_phase("active", 120.0)
        successor = replicas.enter_context(moves.replica(902))
        successor.await_phase("standby", 120.0)
        first, lowered, raised = map(moves.times_traffic, (AT_FIRST, LOWERED, RAISED))
        moves.begin(first)
        settled(moves, first, "at first")
        moves.change(lowered)
        time.sleep(TAKES_EFFECT_S)
        leader.process.kill()
        moves.keeps_to(lowered, "lowered, and the leader killed")
        successor.await_phase("active", 120.0)
        moves.change(raised)
        settled(moves, raised, "raised by the successor")
        moves.await_arrival()
        moves.await_no_throttle()
        moves.conclude("leader killed")


def test_the_rate_holds_after_a_hand_back_and_ends_when_the_replica_that_stands_by_leads_again(moves: Moves) -> None:
    where = ("--zookeeper", moves.cluster.zookeeper_connect)
    with moves.replica(901) as leader:
        goes_half_way(moves)

        code, _, complaints = command("release", *where)

        assert code == 0, complaints
        goes_on_under_a_native(moves)
        leader.await_phase("standby")
        command("release", *where, "--undo")
        leader.await_phase("active", 120.0)
        moves.await_no_throttle()
        moves.conclude("handed back, a replica standing by")


def test_the_rate_holds_after_a_hand_back_to_a_native_controller_alone_and_verify_ends_it(moves: Moves) -> None:
    with moves.replica(901) as leader:
        goes_half_way(moves)
        leader.process.stop()
        assert leader.process.exit_code == 0
    goes_on_under_a_native(moves)
    moves.verify()
    wait_until(lambda: moves.settings() == moves.settings_before, "verify removed the throttle")
    with moves.replica(902) as later:
        later.await_phase("active", 120.0)
        moves.await_no_throttle()
    moves.conclude("handed back, none standing by")


def test_a_broker_that_returns_is_in_sync_as_fast_as_without_the_moves(moves: Moves) -> None:
    with moves.replica(901) as leader:
        leader.await_phase("active", 120.0)
        without = moves.fail_and_return(AWAY_S)
        first = moves.times_traffic(AT_FIRST)
        moves.begin(first)
        settled(moves, first, "at first")
        returned = moves.fail_and_return(AWAY_S)
        moves.note(f"{returned}, without moves {without}")
        settled(moves, first, "after that")
        moves.change(moves.times_traffic(4 * RAISED))
        moves.await_arrival()
        moves.await_no_throttle()
        moves.conclude("a broker failed")
    assert 0.5 * without.slowness <= returned.slowness <= 1.5 * without.slowness


def settled(moves: Moves, throttle: int, what: str) -> None:
    """A change takes effect; from then on the rate holds."""
    time.sleep(TAKES_EFFECT_S)
    moves.keeps_to(throttle, what)


def goes_half_way(moves: Moves) -> None:
    """The moves begin under our controller; the throttle is lowered and raised."""
    wait_until(lambda: holder(moves.zk) == 901, "our controller led", 120.0)
    first, lowered, raised = map(moves.times_traffic, (AT_FIRST, LOWERED, RAISED))
    moves.begin(first)
    settled(moves, first, "at first")
    moves.change(lowered)
    settled(moves, lowered, "lowered")
    moves.change(raised)
    time.sleep(TAKES_EFFECT_S)


def goes_on_under_a_native(moves: Moves) -> None:
    """A native controller leads, and the rate holds, until all have moved."""
    wait_until(lambda: holder(moves.zk) in moves.cluster.brokers, "a broker led", 120.0)
    moves.await_resumed()
    settled(moves, moves.times_traffic(RAISED), "under a native controller")
    assert not moves.is_over()
    moves.await_arrival()
    assert moves.settings() != moves.settings_before, "nobody has removed the throttle yet"
