"""Which registered brokers are admitted? A broker's former registration is dealt with before its new one.

A restarted broker may have lost unflushed records, so another in-sync replica must lead first; and as a former leader
it may have written an ISR that only a conflict of that election reveals. So a broker that left, or registered with
another epoch, is not admitted until each partition it hosted has been dealt with, as far as possible.

Source: Kafka's onBrokerFailure, then onBrokerStartup.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from controller.core.brokers.memory import BrokersMemory
from controller.core.state.brokers import Broker
from controller.core.state.changes import Changes
from controller.core.state.cluster import ClusterState
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId
from zk_layout.znodes.controller_ids import ControllerIds


class Transition(Enum):
    """How a broker's registration changed."""

    APPEARED = "appeared"
    CHANGED = "changed"
    VANISHED = "vanished"


class Admission:
    """Follows registrations as they come and go."""

    def __init__(self, cluster: Cluster, memory: BrokersMemory, state: ClusterState) -> None:
        self._cluster = cluster
        self._memory = memory
        self._state = state
        self._registered = state.brokers
        self._departing: dict[BrokerId, None] = {}

    def follow(self, changes: Changes) -> dict[BrokerId, Transition]:
        """Return the changes of brokers by id; a bounce counts as vanishing, and the broker appears later."""
        if changes.is_beginning:
            recorded = self._state.controller_ids.value
            for broker in recorded.ids if isinstance(recorded, ControllerIds) else ():
                self._memory.controllers.setdefault(broker, False)
        transitions: dict[BrokerId, Transition] = {}
        for broker in sorted(changes.brokers):
            transition = self._follow_one(broker)
            if transition is not None:
                transitions[broker] = transition
        self._forget_failures([b for b, transition in transitions.items() if transition is Transition.VANISHED])
        return transitions

    def _follow_one(self, broker: BrokerId) -> Transition | None:
        seen, held = self._registered.get(broker), self._memory.brokers.get(broker)
        if held is not None and (seen is None or (held.epoch != seen.epoch and broker != self._cluster.own_id)):
            self._lose(broker)
            return Transition.VANISHED
        if seen is None or broker in self._departing:
            return None
        self._note_kind(broker, seen)
        if held is None:
            self._memory.brokers[broker] = seen
            return Transition.APPEARED
        if held == seen:
            return None
        self._memory.brokers[broker] = seen
        return Transition.CHANGED

    def _note_kind(self, broker: BrokerId, seen: Broker) -> None:
        """Note whether the broker is a replica of ours; it stays one after its registration is gone.

        Its former life, which may have been of the other kind, is dealt with as what it was.
        """
        if broker == self._cluster.own_id:
            return
        if seen.registration.is_ours:
            self._memory.controllers[broker] = True
        else:
            self._memory.controllers.pop(broker, None)

    def readmit(self, broker: BrokerId) -> bool:
        """End a broker's former life; return whether it is admitted, since it has registered again meanwhile."""
        self._departing.pop(broker, None)
        seen = self._registered.get(broker)
        if seen is None or broker in self._memory.brokers:
            return False
        self._note_kind(broker, seen)
        self._memory.brokers[broker] = seen
        return True

    def _lose(self, broker: BrokerId) -> None:
        memory = self._memory
        del memory.brokers[broker]
        memory.shutting_down.pop(broker, None)
        self._departing[broker] = None

    def _forget_failures(self, lost: Collection[BrokerId]) -> None:
        """Forget which log directories of lost brokers have failed: their next life begins without."""
        failures = self._memory.offline_replicas.items() if lost else ()
        for at in [at for at, failed in failures if not failed.isdisjoint(lost)]:
            for broker in lost:
                self._memory.heal_replica(at, broker)
