"""What may others know of this process, and of the moves it leads?"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class Status(Struct, frozen=True):
    """The state of this process, as `/leader` shows it.

    Shape:
        `set_aside` has a sentence for each subject that failed and is to be tried again, `failing` one for each part
        of this process that fails, `warnings` one for each finding about the cluster that does not forbid to lead it.
        `is_released`: an operator has given the cluster to Kafka's own controllers. `migration` is the phase of one to
        KRaft. `is_paused`: this process begins no move, now or if it leads; `paused_by` says who wants that, and why.
        `held_up` has a sentence for what in the cluster keeps moves from beginning, where the settings say so.
        `settings_pending` has a sentence for each setting that was changed and counts after a restart.
        `is_observing`: this process never leads. `obstacles` says why a replica with its settings would not.
        `differences` are the latest decisions of the controller that leads that differ from those of this process.

    Units:
        `since` and `paused_since` are in Unix seconds: when the present phase and the pause began. 0 without a pause.
    """

    phase: str
    broker: int
    controller: int | None
    controller_epoch: int | None
    is_leader: bool
    is_ready: bool
    since: float
    reason: str
    set_aside: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    is_released: bool = False
    migration: str = "none"
    is_paused: bool = False
    paused_by: str = ""
    paused_since: float = 0.0
    held_up: tuple[str, ...] = ()
    settings_pending: tuple[str, ...] = ()
    is_observing: bool = False
    obstacles: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def pause(self) -> str | None:
        """One sentence about the pause; None without one."""
        if not self.is_paused:
            return None
        return f"moves are paused by {self.paused_by}; `kafka-zk-controller resume` ends that"

    @property
    def knows_moves(self) -> bool:
        """Whether this process follows every partition."""
        return self.is_leader or self.is_observing


class StatusSource(Protocol):
    """Source of the process status."""

    def status(self) -> Status:
        """The status now. Called from another thread than the event loop's; must neither block nor change anything."""


class MoveSource(Protocol):
    """Source of the moves in progress as JSON; None if this process neither leads nor observes, or knows no such
    request."""

    async def moves(self) -> bytes | None:
        """The moves in progress. Called on the event loop on which `Exporter.start` was called."""

    async def request(self, number: int) -> bytes | None:
        """The state of a request. Called like `moves`."""
