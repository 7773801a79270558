"""What can be measured of the connections to brokers?"""

from __future__ import annotations

from typing import Protocol

from zk_layout.ids import BrokerId


class LinkObserver(Protocol):
    """Receives what happens on links, on the event loop; must return at once."""

    def depth_changed(self, broker: BrokerId, depth: int) -> None:
        """The number of commands queued or in flight; 0 also when the link was closed."""

    def delivered(self, broker: BrokerId, size_bytes: int) -> None:
        """One request of this size was sent and answered."""

    def acknowledged(self, broker: BrokerId, command: str, took_s: float) -> None:
        """A command ("LeaderAndIsr", ...) was answered; `took_s` counts from its first attempt."""

    def failed(self, broker: BrokerId, reason: str) -> None:
        """An attempt to deliver failed; the same command will be sent again."""


class Unobserved:
    """An observer that ignores everything."""

    def depth_changed(self, broker: BrokerId, depth: int) -> None:
        """Do nothing."""

    def delivered(self, broker: BrokerId, size_bytes: int) -> None:
        """Do nothing."""

    def acknowledged(self, broker: BrokerId, command: str, took_s: float) -> None:
        """Do nothing."""

    def failed(self, broker: BrokerId, reason: str) -> None:
        """Nothing."""
