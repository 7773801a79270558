"""What do all duties of a term remember? One struct a duty, in its folder; this module assigns them."""

from __future__ import annotations

from controller.core.brokers.memory import BrokersMemory
from controller.core.counts import CountsMemory
from controller.core.elections.memory import ElectionsMemory
from controller.core.reassignment.memory import (
    FolderMemory,
    ForeignWritesMemory,
    LegacyMemory,
    MovesMemory,
    QueueMemory,
)
from controller.core.state.remembered import Remembered
from controller.core.topics.memory import TopicsMemory
from zk_layout.ids import BrokerId


class Memory:
    """The memory of one term. Each duty gets its own part; all others read it through the `Cluster` view."""

    def __init__(self, own_id: BrokerId) -> None:
        """Begin with empty memory."""
        self.brokers = BrokersMemory(controllers={own_id: True})
        self.moves = MovesMemory()
        self.legacy = LegacyMemory()
        self.queue = QueueMemory()
        self.folder = FolderMemory()
        self.foreign_writes = ForeignWritesMemory()
        self.elections = ElectionsMemory()
        self.topics = TopicsMemory()
        self.counts = CountsMemory()

    def view(self) -> Remembered:
        """A live, read-only view of all parts."""
        return Remembered(
            controllers=self.brokers.controllers,
            brokers=self.brokers.brokers,
            updated_in_full=self.brokers.updated_in_full,
            shutting_down=self.brokers.shutting_down,
            offline_replicas=self.brokers.offline_replicas,
            unannounced=self.brokers.unannounced,
            returning=self.brokers.returning,
            logs_deleted=self.brokers.logs_deleted,
            caught_up=self.brokers.caught_up,
            confirmed=self.moves.confirmed,
            out_of_patience=self.moves.out_of_patience,
            gathering=self.moves.gathering,
            legacy=self.legacy.entries,
            waiting=self.queue.waiting,
            gave_up=self.queue.gave_up,
            asked_by_child=self.folder.asked_by_child,
            overwritten=self.foreign_writes.overwritten,
            preferring=self.elections.preferring,
            fresh_configs=self.elections.fresh_configs,
            withdrawn=self.topics.withdrawn,
            offline=self.counts.offline,
            under_replicated=self.counts.under_replicated,
            not_preferred=self.counts.not_preferred,
        )
