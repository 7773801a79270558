"""How long does a cluster wait for its next controller when the leading one is killed, or is restarted?"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence

from kazoo.exceptions import NoNodeError
from msgspec import Struct

from tests.benchmarks.contenders import Contender
from tests.benchmarks.fail_over import finished, pid_of, since_s
from tests.benchmarks.machine import peak_resident_mib, usage, wait_until_quiet
from tests.benchmarks.stage import SETTLE_S, Stage

_CLAIMED_WITHIN_S = 60.0
_POLL_S = 0.002


class Succession(Struct, frozen=True):
    """One succession.

    Units:
        Seconds since the signal to the leading process, but `vacant_s`; processor seconds of the successor for
        `used_s["contender"]`.

    Shape:
        `decides_s`: a broker has got the first LeaderAndIsr of the next controller. `vacant_s`: how long `/controller`
        was absent, as far as looks every 2 ms saw it. `peak_mib` is the successor's. The rest is as for a fail-over.
    """

    contender: str
    claimed_s: float
    vacant_s: float
    decides_s: float | None
    all_led_s: float | None
    all_know_s: float | None
    peak_mib: float
    used_s: dict[str, float]
    others_s: float
    measured_s: float
    quiet_before: float


def measure(
    stage: Stage, pair: Sequence[Contender], how: signal.Signals, *, timeout_s: float, patience_s: float
) -> Succession:
    """Let the first of two lead and the second stand by; then end the first.

    Raises:
        TimeoutError: the second did not take over, or did not finish.
    """
    leader, successor = pair
    try:
        stage.enthrone(leader)
        successor.start()
        time.sleep(SETTLE_S)
        quiet = wait_until_quiet(patience_s)
        stage.fleet.reset()
        # Linux keeps the account of a process that has ended until its parent waits for it, which is at the very end.
        processes = {**stage.processes(successor), "leader": pid_of(leader)}
        before = usage(processes)
        signalled_at = time.time()
        leader.process.signal(how)
        claimed_at, vacant_s = _claimed(stage, successor)
        heard, after = finished(stage, successor, timeout_s, lambda: usage(processes))
        spent = after.since(before)
        return Succession(
            contender=leader.name,
            claimed_s=round(claimed_at - signalled_at, 3),
            vacant_s=round(vacant_s, 3),
            decides_s=since_s(signalled_at, heard.first_leader_and_isr),
            all_led_s=since_s(signalled_at, heard.led_at),
            all_know_s=since_s(signalled_at, heard.complete_at),
            peak_mib=round(peak_resident_mib(pid_of(successor)), 1),
            used_s={name: round(seconds, 2) for name, seconds in spent.by_process.items()},
            others_s=round(spent.others_s, 2),
            measured_s=round(spent.at, 2),
            quiet_before=round(quiet, 2),
        )
    finally:
        leader.process.kill()
        stage.dismiss(successor)
        stage.dismiss(leader)


def _claimed(stage: Stage, successor: Contender) -> tuple[float, float]:
    """When the successor's claim was created, as ZooKeeper dates it, and for how long there was none."""
    absent_since: float | None = None
    deadline = time.monotonic() + _CLAIMED_WITHIN_S
    while time.monotonic() < deadline:
        try:
            data, stat = stage.zookeeper.get("/controller")
        except NoNodeError:
            absent_since = absent_since or time.time()
        else:
            if json.loads(data)["brokerid"] == successor.broker_id:
                claimed_at = stat.ctime / 1000
                return claimed_at, 0.0 if absent_since is None else max(0.0, claimed_at - absent_since)
        time.sleep(_POLL_S)
    raise TimeoutError(f"{successor.name} did not claim /controller:\n{successor.process.tail()}")
