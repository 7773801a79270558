"""Which faults are there, which process does each strike, and for how long?"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """The action on the victim."""

    KILL = "kill"
    PAUSE = "pause"
    CUT = "cut"
    SLOW = "slow"
    HALF_OPEN = "half-open"
    FULL_DISK = "full disk"
    CLOCK = "clock"
    ROLL = "roll"
    TERMINATE = "terminate"
    IDLE_CLIENTS = "idle clients"
    LITTLE_MEMORY = "little memory"
    BLOCKED_LOG = "blocked log"
    SLOW_SCRAPERS = "slow scrapers"
    SILENT_CLIENTS = "silent clients"


class Role(StrEnum):
    """The victim's role, which is resolved to a process at the strike."""

    LEADER = "leader"
    STANDBY = "standby"
    BROKER = "broker"
    BROKERS = "brokers"
    ZOOKEEPER_LEADER = "zookeeper leader"
    ZOOKEEPER_FOLLOWER = "zookeeper follower"
    ENSEMBLE = "ensemble"


class Side(StrEnum):
    """Which of the victim's connections are disturbed: those that others open to it, or its own to ZooKeeper."""

    INBOUND = "inbound"
    ZOOKEEPER = "zookeeper"


NETWORK = frozenset({Kind.CUT, Kind.SLOW, Kind.HALF_OPEN})
RESOURCES = frozenset(
    {Kind.IDLE_CLIENTS, Kind.LITTLE_MEMORY, Kind.BLOCKED_LOG, Kind.SLOW_SCRAPERS, Kind.SILENT_CLIENTS}
)


class Fault(Struct, frozen=True):
    """One kind of fault for one role.

    Units:
        It lasts from `shortest_s` to `longest_s` seconds.

    Shape:
        `sides` for the network only.
    """

    name: str
    kind: Kind
    role: Role
    shortest_s: float
    longest_s: float
    sides: tuple[Side, ...] = ()

    @property
    def is_of_the_daemon(self) -> bool:
        """Whether it concerns something that only a replica of ours has, and a native controller lacks."""
        return self.kind in RESOURCES


def _named(role: Role) -> str:
    return role.value.replace(" ", "-")


def _processes() -> Iterator[Fault]:
    for role in (Role.LEADER, Role.STANDBY, Role.BROKER, Role.ZOOKEEPER_LEADER, Role.ZOOKEEPER_FOLLOWER):
        yield Fault(f"kill-{_named(role)}", Kind.KILL, role, 1, 15)
        yield Fault(f"pause-{_named(role)}", Kind.PAUSE, role, 2, 20)
    yield Fault("terminate-leader", Kind.TERMINATE, Role.LEADER, 1, 5)
    yield Fault("terminate-broker", Kind.TERMINATE, Role.BROKER, 1, 5)


def _links() -> Iterator[Fault]:
    for role in (Role.LEADER, Role.BROKER):
        for kind in (Kind.CUT, Kind.SLOW, Kind.HALF_OPEN):
            name = f"{kind}-{_named(role)}"
            yield Fault(name, kind, role, 3, 20, (Side.INBOUND,))
            yield Fault(f"{name}-to-zookeeper", kind, role, 3, 20, (Side.ZOOKEEPER,))
        yield Fault(f"isolate-{_named(role)}", Kind.CUT, role, 3, 20, (Side.INBOUND, Side.ZOOKEEPER))


def _machines() -> Iterator[Fault]:
    for role in (Role.LEADER, Role.BROKER, Role.ZOOKEEPER_FOLLOWER):
        yield Fault(f"full-disk-{_named(role)}", Kind.FULL_DISK, role, 5, 15)
        yield Fault(f"clock-{_named(role)}", Kind.CLOCK, role, 3, 10)


def _whole_clusters() -> tuple[Fault, ...]:
    return (
        Fault("roll-brokers", Kind.ROLL, Role.BROKERS, 1, 2),
        Fault("restart-brokers", Kind.KILL, Role.BROKERS, 1, 10),
        Fault("roll-ensemble", Kind.ROLL, Role.ENSEMBLE, 1, 2),
        Fault("restart-ensemble", Kind.KILL, Role.ENSEMBLE, 1, 2),
        # Longer than every session: all expire at once when it is back, or survive, depending on ZooKeeper's clock.
        Fault("ensemble-down", Kind.KILL, Role.ENSEMBLE, 15, 30),
        Fault("ensemble-paused", Kind.PAUSE, Role.ENSEMBLE, 10, 20),
    )


def _resources() -> Iterator[Fault]:
    return (Fault(kind.value.replace(" ", "-"), kind, Role.LEADER, 8, 12) for kind in Kind if kind in RESOURCES)


ALL: tuple[Fault, ...] = (*_processes(), *_links(), *_machines(), *_whole_clusters(), *_resources())
BY_NAME = {fault.name: fault for fault in ALL}


def may_be_paired(one: Fault, other: Fault) -> bool:
    """Whether two faults may be paired: they strike different processes.

    Restarting servers in turn needs the rest of the cluster to be up.

    >>> may_be_paired(BY_NAME["kill-leader"], BY_NAME["pause-broker"])
    True
    >>> may_be_paired(BY_NAME["kill-leader"], BY_NAME["cut-leader"])
    False
    """
    whole = {Role.BROKERS, Role.ENSEMBLE}
    if Kind.ROLL in (one.kind, other.kind) and {one.role, other.role} <= whole:
        return False
    return not (_processes_of(one.role) & _processes_of(other.role)) or one.role is other.role is Role.BROKER


def _processes_of(role: Role) -> frozenset[Role]:
    if role is Role.BROKERS:
        return frozenset({Role.BROKER, Role.BROKERS})
    if role is Role.ENSEMBLE:
        return frozenset({Role.ENSEMBLE, Role.ZOOKEEPER_LEADER, Role.ZOOKEEPER_FOLLOWER})
    return frozenset({role})
