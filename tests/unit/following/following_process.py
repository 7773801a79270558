"""How does a test let a process follow what stands in a simulated ZooKeeper?"""

from __future__ import annotations

from controller.core.messages.effects import Notice
from controller.zk.bridge import Bridge
from tests.unit.zk.simulated import Ensemble, Process


class FollowingProcess:
    """A process, what it follows, and the notices that come of it."""

    def __init__(self, *folders: str) -> None:
        self.ensemble = Ensemble()
        for folder in folders:
            self.ensemble.zookeeper.make_path(folder)
        self.process = Process(self.ensemble)
        self.notices: list[Notice] = []

    def bridge(self) -> Bridge:
        return self.process.bridge

    def wait(self, seconds: float) -> None:
        end = self.ensemble.clock.now + seconds
        self.ensemble.clock.after(seconds, lambda: None)
        self.ensemble.until(lambda: self.ensemble.clock.now >= end)
