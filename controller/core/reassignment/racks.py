"""In which rack is each broker? One that is away stays where it was last seen in this term."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId


class Racks:
    """The racks of brokers that have one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.of: dict[BrokerId, str] = {}

    def look(self, brokers: Iterable[BrokerId]) -> list[BrokerId]:
        """Take in where these are by their registrations; returns those that were not known to be there."""
        found = []
        for broker in brokers:
            held = self._cluster.brokers.get(broker)
            rack = None if held is None else held.registration.rack or ""
            if rack is None or rack == self.of.get(broker, ""):
                continue
            found.append(broker)
            if rack:
                self.of[broker] = rack
            else:
                del self.of[broker]
        return found
