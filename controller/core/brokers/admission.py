"""Which registered brokers are let in? Each one's former life is dealt with before its new one.

A broker that is back may have lost records that were not flushed, so another in-sync replica must lead first; and as an
old leader it may have written an ISR that only the conflict of that election brings to light. So a broker that has
gone, or was seen with another epoch, stays out until each partition it hosted was dealt with, as far as possible.

Source: Kafka's onBrokerFailure, then onBrokerStartup.
"""

from __future__ import annotations

from enum import Enum

from controller.core.state.brokers import Broker
from controller.core.state.changes import Changes
from controller.core.state.cluster import ClusterState
from controller.core.state.memory import Memory
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId
from zk_layout.znodes.controller_ids import ControllerIds


class Passage(Enum):
    """What became of a broker."""

    APPEARED = "appeared"
    CHANGED = "changed"
    VANISHED = "vanished"


class Admission:
    """Follows registrations as they come and go."""

    def __init__(self, cluster: Cluster, memory: Memory, state: ClusterState) -> None:
        self._cluster = cluster
        self._memory = memory
        self._state = state
        self._registered = state.brokers
        self._departing: dict[BrokerId, None] = {}

    def follow(self, changes: Changes) -> dict[BrokerId, Passage]:
        """Who has come, changed or gone with these changes, by id; a bounce is a going, its coming follows later."""
        if changes.is_beginning:
            recorded = self._state.controller_ids.value
            for broker in recorded.ids if isinstance(recorded, ControllerIds) else ():
                self._memory.controllers.setdefault(broker, False)
        passages: dict[BrokerId, Passage] = {}
        for broker in sorted(changes.brokers):
            passage = self._follow_one(broker)
            if passage is not None:
                passages[broker] = passage
        return passages

    def _follow_one(self, broker: BrokerId) -> Passage | None:
        seen, held = self._registered.get(broker), self._memory.brokers.get(broker)
        if seen is not None and broker != self._cluster.own_id:
            self._tell_apart(broker, seen)
        if held is not None and (seen is None or (held.epoch != seen.epoch and broker != self._cluster.own_id)):
            self._lose(broker)
            return Passage.VANISHED
        if seen is None or broker in self._departing:
            return None
        if held is None:
            self._memory.brokers[broker] = seen
            return Passage.APPEARED
        if held == seen:
            return None
        self._memory.brokers[broker] = seen
        return Passage.CHANGED

    def _tell_apart(self, broker: BrokerId, seen: Broker) -> None:
        """Whether it is a replica of ours; it stays one when its registration is gone."""
        if seen.registration.is_ours:
            self._memory.controllers[broker] = True
        else:
            self._memory.controllers.pop(broker, None)

    def readmit(self, broker: BrokerId) -> bool:
        """A broker's former life has been dealt with; whether it is let in, because it has returned meanwhile."""
        self._departing.pop(broker, None)
        seen = self._registered.get(broker)
        if seen is None or broker in self._memory.brokers:
            return False
        self._memory.brokers[broker] = seen
        return True

    def _lose(self, broker: BrokerId) -> None:
        memory = self._memory
        del memory.brokers[broker]
        memory.shutting_down.pop(broker, None)
        self._departing[broker] = None
        for at in [at for at, brokers in memory.offline_replicas.items() if broker in brokers]:
            memory.heal_replica(at, broker)
