"""A leader is killed, frozen, cut off or restarted while it moves what is written: who leads when, and is all kept?

`pytest -s -m thorough tests/cluster/test_lost_leaders.py` prints rows of the table in docs/operations.md.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.lab.cluster import LocalCluster
from tests.cluster.lost_leaders import SESSION_MS, Fault, Outcome, Pair, Probe, led_by_a_pair, successor_of
from tests.cluster.replica import holder, wait_until

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]  # they measure time

STAYS_FOR_S, COMES_BACK_WITHIN_S = 4.0, 90.0
CASES = [
    pytest.param(version, fault, id=f"{version}-{fault.name}") for version in ("3_9", "2_8", "2_4") for fault in Fault
]


def row_of(outcome: Outcome) -> str:
    """A row of the table."""
    claimed = "stays" if outcome.claimed_s is None else f"{outcome.claimed_s:.1f}"
    found = outcome.judged.acknowledged - len(outcome.judged.lost)
    return (
        f"| {outcome.fault.value} | {outcome.version} | {claimed} | {outcome.undecided_s:.1f} | {outcome.silent_s:.1f} "
        f"| {outcome.judged.acknowledged:,} / {found:,} |"
    )


@pytest.mark.parametrize(("cluster", "fault"), CASES, indirect=["cluster"])
def test_a_lost_leader_is_replaced_before_its_session_ends_and_no_acknowledged_record_is_lost(
    cluster: LocalCluster, zk: KazooClient, fault: Fault, tmp_path: Path
) -> None:
    with led_by_a_pair(cluster, zk, tmp_path) as pair:
        epoch = pair.epoch
        pair.load.start()
        wait_until(lambda: pair.load.acknowledged > 100, "records were acknowledged")
        pair.move()
        began, struck_at = time.monotonic(), time.time()
        with Probe(zk, f"probe-{time.monotonic_ns()}") as probe:
            pair.strike(fault)
            claimed_at = None if fault.is_survived else claim_of_the_standby(pair)
            if fault.is_survived:
                time.sleep(STAYS_FOR_S)
                pair.mend(fault)  # brokers from 2.7 on tell the leader, and nobody else, who is in sync
        pair.await_arrival()
        undecided_s = probe.longest_s()
        if not fault.is_survived:
            pair.mend(fault)
        await_its_return(pair, fault)
        pair.load.stop()
        silent_s = max(s.longest_s(began, time.monotonic()) for s in pair.load.silences.values())
        claimed_s = None if claimed_at is None else claimed_at - struck_at
        outcome = Outcome(cluster.version, fault, claimed_s, undecided_s, silent_s, pair.load.judge())
        sys.stderr.write(f"\n{row_of(outcome)}\n")

        assert pair.load.trouble == []
        judged = outcome.judged
        assert (judged.lost, judged.rewritten, judged.duplicates, judged.disordered) == ((), 0, (), 0), judged
        assert holder(zk) == (901 if fault.is_survived else 902)
        assert pair.epoch == epoch + (not fault.is_survived)
    if fault is Fault.KILLED:
        wait_until(lambda: not zk.exists("/brokers/ids/901"), "the id was free", 2 * SESSION_MS / 1000)


def claim_of_the_standby(pair: Pair) -> float:
    """Wait until the standby leads; when it claimed."""
    wait_until(lambda: successor_of(pair.zk, 901), "another one held /controller", 2 * SESSION_MS / 1000)
    claimed_at = successor_of(pair.zk, 901)
    assert claimed_at is not None
    pair.standby.await_phase("active", COMES_BACK_WITHIN_S)
    return claimed_at


def await_its_return(pair: Pair, fault: Fault) -> None:
    """Wait until the former leader knows its role."""
    if fault is not Fault.KILLED:
        pair.leader.await_phase("active" if fault.is_survived else "standby", COMES_BACK_WITHIN_S)
