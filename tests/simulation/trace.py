"""What happened, readable for a person and comparable between two runs?"""

from __future__ import annotations

from controller.core.messages.commands import Command, LeaderAndIsr, PartitionView, StopReplica, UpdateMetadata
from controller.core.messages.effects import Create, Delete, Set, Write
from tests.simulation.clock import Clock


class Trace:
    """Lines with their time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lines: list[str] = []

    def say(self, who: str, what: str) -> None:
        """Note an event."""
        self.lines.append(self.line(who, what))

    def line(self, who: str, what: str) -> str:
        """A line for an event at this time."""
        return f"{self._clock.now:9.3f}  {who:<13} {what}"


def view_text(view: PartitionView) -> str:
    """One partition as announced to a broker."""
    moving = f" adding={list(view.adding)} removing={list(view.removing)}" if view.adding or view.removing else ""
    offline = f" offline={list(view.offline)}" if view.offline else ""
    return (
        f"{view.topic}-{view.partition} leader={view.leader} leader_epoch={view.leader_epoch} "
        f"isr={list(view.isr)} replicas={list(view.replicas)}{moving}{offline}"
    )


def command_lines(command: Command) -> list[str]:
    """A command, one line a partition."""
    match command:
        case LeaderAndIsr(partitions, new, _):
            return [
                *(f"LeaderAndIsr {view_text(v)}" for v in partitions),
                *(f"LeaderAndIsr {view_text(v)} new" for v in new),
            ]
        case UpdateMetadata(partitions, brokers):
            alive = f"UpdateMetadata brokers={sorted(b.broker for b in brokers)}"
            return [alive, *(f"UpdateMetadata {view_text(v)}" for v in partitions)]
        case StopReplica(stops):
            return [
                f"StopReplica {s.topic}-{s.partition} leader_epoch={s.leader_epoch}"
                + (" delete" if s.is_deletion else "")
                for s in stops
            ]


def write_text(write: Write, data: bytes) -> str:
    """One write of a transaction."""
    match write:
        case Create(address, _):
            return f"create {address.path} {data.decode()}".rstrip()
        case Set(address, _, expected):
            return f"set {address.path} v{expected} {data.decode()}"
        case Delete(address, expected):
            return f"delete {address.path} v{expected}"
