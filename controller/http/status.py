"""What is to be known of this process from outside, and of the moves that it leads?"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class Status(Struct, frozen=True):
    """How this process stands, as `/leader` shows it.

    Shape:
        `set_aside` has a sentence for each thing that went wrong and is to be tried again, `failing` one for each part
        of this process of which that is so, `warnings` one for each thing about the cluster that does not forbid to
        lead it.

    Units:
        `since` is in Unix seconds: when the present phase began.
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


class StatusSource(Protocol):
    """Who can be asked how this process stands."""

    def status(self) -> Status:
        """Now. It is called from another thread than the event loop's, and must neither wait nor change anything."""


class MoveSource(Protocol):
    """Who can be asked about moves; in JSON, None where this process does not lead, or knows no such request."""

    async def moves(self) -> bytes | None:
        """What moves now. It is called on the event loop that `Exporter.start` was called on."""

    async def request(self, number: int) -> bytes | None:
        """What has become of a request. Likewise."""
