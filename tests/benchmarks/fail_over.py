"""How long does a cluster wait for its next controller, from the claim of `/controller` until all brokers know all?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from msgspec import Struct

from tests.benchmarks.contenders import Contender
from tests.benchmarks.fleet import Heard
from tests.benchmarks.machine import Usage, peak_resident_mib, usage, wait_until_quiet
from tests.benchmarks.stage import SETTLE_S, Claim, Stage

# While loading a million partitions, a controller is silent for long after its first commands.
SILENCE_S = 5.0
_PARTITION_BYTES = 30  # fewer than any version needs for a partition in LeaderAndIsr or UpdateMetadata


class FailOver(Struct, frozen=True):
    """One fail-over.

    Units:
        Seconds since the claim was created in ZooKeeper, but `vacant_to_claim_s`; processor seconds for `used_s`.

    Shape:
        `all_know_s`: every broker has got all partitions by UpdateMetadata. None: this never happened.
        `quiet_before`: how many processors others kept busy just before; `others_s`: their time meanwhile.
    """

    contender: str
    vacant_to_claim_s: float
    first_leader_and_isr_s: float | None
    last_leader_and_isr_s: float | None
    all_led_s: float | None
    all_know_s: float | None
    last_update_metadata_s: float | None
    peak_mib: float
    commands: dict[str, int]
    received_bytes: dict[str, int]
    used_s: dict[str, float]
    others_s: float
    measured_s: float
    quiet_before: float


def measure(stage: Stage, contender: Contender, *, timeout_s: float, patience_s: float) -> FailOver:
    """Let a contender stand by, then let it win.

    Raises:
        TimeoutError: it did not finish.
    """
    stage.occupy()
    contender.start()
    try:
        time.sleep(SETTLE_S)
        quiet = wait_until_quiet(patience_s)
        stage.fleet.reset()
        processes = stage.processes(contender)
        before = usage(processes)
        claim = stage.vacate_for(contender)
        heard = finished(stage, contender, timeout_s, lambda: usage(processes))
        return _result(contender, claim, heard, before, quiet)
    finally:
        stage.dismiss(contender)


def finished(stage: Stage, contender: Contender, timeout_s: float, used: Callable[[], Usage]) -> tuple[Heard, Usage]:
    """Wait until a contender that has claimed `/controller` has announced everything.

    Raises:
        TimeoutError: it did not.
    """
    deadline = time.monotonic() + timeout_s
    # A look at what the brokers have got keeps them from reading, so it must not come while a controller still loads.
    copies = len(stage.shape.replicas(0)) + stage.shape.brokers
    least = stage.shape.partitions * copies * _PARTITION_BYTES
    for silence_s in _growing(SILENCE_S):
        stage.wait_until_silent(contender, silence_s, deadline - time.monotonic(), after_bytes=least)
        after = used()
        heard = stage.fleet.heard()
        if heard.complete_at is not None and heard.led_at is not None:
            return heard, after
        if time.monotonic() > deadline:
            raise TimeoutError(f"{contender.name} has not announced everything after {timeout_s:g} s: {heard}")
    raise AssertionError("the silence only grows")


def _growing(first: float) -> Iterator[float]:
    while True:
        yield first
        first *= 2


def _result(contender: Contender, claim: Claim, end: tuple[Heard, Usage], before: Usage, quiet: float) -> FailOver:
    heard, after = end
    used, claimed_at = after.since(before), claim.claimed_at
    return FailOver(
        contender=contender.name,
        vacant_to_claim_s=round(claim.claimed_at - claim.vacant_at, 3),
        first_leader_and_isr_s=since_s(claimed_at, heard.first_leader_and_isr),
        last_leader_and_isr_s=since_s(claimed_at, heard.last_leader_and_isr),
        all_led_s=since_s(claimed_at, heard.led_at),
        all_know_s=since_s(claimed_at, heard.complete_at),
        last_update_metadata_s=since_s(claimed_at, heard.last_update_metadata),
        peak_mib=round(peak_resident_mib(pid_of(contender)), 1),
        commands=heard.commands,
        received_bytes=heard.size_bytes,
        used_s={name: round(seconds, 2) for name, seconds in used.by_process.items()},
        others_s=round(used.others_s, 2),
        measured_s=round(used.at, 2),
        quiet_before=round(quiet, 2),
    )


def since_s(zero: float, at: float | None) -> float | None:
    """The seconds from one time to another; None if that never came."""
    return None if at is None else round(at - zero, 3)


def pid_of(contender: Contender) -> int:
    """The process that is measured."""
    assert contender.process.pid is not None
    return contender.process.pid
