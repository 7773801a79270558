"""How soon do all brokers know the new leaders when a broker fails that led a share of the partitions?"""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec import Struct

from tests.benchmarks.contenders import Contender
from tests.benchmarks.fail_over import since_s
from tests.benchmarks.machine import peak_resident_mib, usage, wait_until_quiet
from tests.benchmarks.stage import Stage
from zk_layout.ids import BrokerId, PartitionId
from zk_layout.znodes import partition_state
from zk_layout.znodes.partition_state import PartitionState, StateAddress

FAILING = BrokerId(0)
_SILENCE_S = 5.0
_READS_AT_ONCE = 1_000


class BrokerFailed(Struct, frozen=True):
    """One failure of a broker.

    Units:
        Seconds since its registration began to vanish; processor seconds for `used_s`.

    Shape:
        `leaders`: how many partitions it led. `all_know_s`: each of the other brokers has got all of them by
        UpdateMetadata; `last_update_metadata_s`: the last of these commands, also about partitions that it followed.
        The rest is as for a fail-over.
    """

    contender: str
    leaders: int
    first_leader_and_isr_s: float | None
    all_know_s: float
    last_update_metadata_s: float | None
    commands: dict[str, int]
    peak_mib: float
    used_s: dict[str, float]
    others_s: float
    measured_s: float
    quiet_before: float


def measure(stage: Stage, contender: Contender, *, timeout_s: float, patience_s: float) -> BrokerFailed:
    """Let a contender become the controller, then end a broker. The stage is not as before afterwards.

    Raises:
        TimeoutError: a broker was not told of every new leader.
    """
    try:
        stage.enthrone(contender)
        quiet = wait_until_quiet(patience_s)
        stage.fleet.reset()
        processes = stage.processes(contender)
        before = usage(processes)
        failed_at = stage.fleet.fail(FAILING)
        deadline = time.monotonic() + timeout_s
        stage.wait_until_silent(contender, _SILENCE_S, timeout_s)
        spent = usage(processes).since(before)
        while (known_at := stage.fleet.learned(FAILING)) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{contender.name} has not told every broker:\n{contender.process.tail(40)}")
            stage.wait_until_silent(contender, 2 * _SILENCE_S, timeout_s)
        states = list(_states_that_it_led(stage))
        assert all(state.leader in state.isr and FAILING not in state.isr for state in states)
        heard = stage.fleet.heard()
        return BrokerFailed(
            contender=contender.name,
            leaders=len(states),
            first_leader_and_isr_s=since_s(failed_at, heard.first_leader_and_isr),
            all_know_s=round(known_at - failed_at, 3),
            last_update_metadata_s=since_s(failed_at, heard.last_update_metadata),
            commands=heard.commands,
            peak_mib=round(peak_resident_mib(processes["contender"]), 1),
            used_s={name: round(seconds, 2) for name, seconds in spent.by_process.items()},
            others_s=round(spent.others_s, 2),
            measured_s=round(spent.at, 2),
            quiet_before=round(quiet, 2),
        )
    finally:
        stage.dismiss(contender)


def _states_that_it_led(stage: Stage) -> Iterator[PartitionState]:
    shape = stage.shape
    paths = [
        StateAddress(name, PartitionId(number)).path
        for name in shape.names
        for number in range(shape.partitions_per_topic)
        if shape.replicas(number)[0] == FAILING
    ]
    for start in range(0, len(paths), _READS_AT_ONCE):
        pending = [stage.zookeeper.get_async(path) for path in paths[start : start + _READS_AT_ONCE]]
        for answer in pending:
            yield partition_state.decode(answer.get(timeout=60)[0])
