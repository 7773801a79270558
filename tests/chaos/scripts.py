"""Which fixed sequences of faults have a name?"""

from __future__ import annotations

from collections.abc import Mapping

from tests.chaos.faults import ALL, RESOURCES
from tests.chaos.schedule import Strike, scripted

NOTHING = Strike(0, (), 10.0, 15.0)
"""No fault at all: what moves, elections and the machine cost by themselves."""

_Names = tuple[str | tuple[str, ...], ...]

_SHORT: _Names = ("kill-leader", "pause-broker", ("cut-leader-to-zookeeper", "kill-zookeeper-leader"))

# kafkatest: reassign_partitions_test bounces brokers while replicas move; the moves go on all the while here.
_BOUNCE: _Names = (
    "roll-brokers",
    "kill-leader",
    ("roll-brokers", "kill-leader"),
    "restart-brokers",
    ("terminate-broker", "kill-leader"),
)

# Redpanda's FailureInjector, for partition movements: kill, suspend, terminate, isolate, and a slow network.
_INTERRUPTIONS: _Names = (
    "kill-broker", "pause-broker", "terminate-broker", "isolate-broker", "slow-broker",
    "kill-leader", "pause-leader", "terminate-leader", "isolate-leader", "slow-leader",
)  # fmt: skip

# Patroni: what if the coordination service is down, for all or for one?
_COORDINATION_DOWN: _Names = (
    "cut-leader-to-zookeeper", "half-open-leader-to-zookeeper", "cut-broker-to-zookeeper", "kill-zookeeper-leader",
    "pause-zookeeper-leader", "ensemble-paused", "ensemble-down", ("ensemble-down", "kill-leader"), "restart-ensemble",
)  # fmt: skip

_RESOURCES: _Names = (
    *(fault.name for fault in ALL if fault.kind in RESOURCES), "full-disk-leader",
)  # fmt: skip

SCRIPTS: Mapping[str, _Names] = {
    "short": _SHORT,
    "bounce": _BOUNCE,
    "interruptions": _INTERRUPTIONS,
    "coordination-down": _COORDINATION_DOWN,
    "resources": _RESOURCES,
}


def script(name: str, seed: int) -> tuple[Strike, ...]:
    """The strikes of a script; the seed draws victims and durations."""
    return scripted(SCRIPTS[name], seed=seed)
