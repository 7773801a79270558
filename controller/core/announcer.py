"""Which brokers can be told, which must be told everything, and what is told this turn?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.core.announce.batch import Batch
from controller.core.barriers import Barriers, Readmit
from controller.core.cluster import BrokerChange, Changes, Cluster
from controller.core.commands import Command, StopReplica
from controller.core.effects import Connect, Disconnect, Effect, StepDown, Tell, Wake
from controller.core.flights import Flights
from controller.core.leavers import Leavers
from controller.core.topic_deletions import TopicDeletions
from zk_layout.ids import BrokerId

OWED = "owed deletions"
OWED_EVERY_S = 30.0


class Announcer:
    """Follows brokers as they come and go, and makes each turn's changes into commands."""

    def __init__(
        self, cluster: Cluster, leavers: Leavers, barriers: Barriers, flights: Flights, deletions: TopicDeletions
    ) -> None:
        """Share the reign's memory; no broker is known yet."""
        self._cluster = cluster
        self._leavers = leavers
        self._barriers = barriers
        self._flights = flights
        self._deletions = deletions
        self._fresh: set[BrokerId] = set()
        self._is_owed_due = self._is_alarm_set = False

    def tell_all_again(self, broker: BrokerId) -> None:
        """A broker does not know what it was told: it gets everything with the next announcement."""
        self._fresh.add(broker)

    def ask_again(self) -> None:
        """Brokers that owe a deletion are asked for it with the next announcement."""
        self._is_owed_due, self._is_alarm_set = True, False
        self._deletions.ask_again()

    def announce(self, changes: Changes, now: float) -> Iterator[Effect]:
        """Connections first, then the commands, then the time at which unconfirmed deletions are asked for again."""
        yield from self._follow_brokers(changes)
        yield from self._tell(changes)
        if (self._cluster.owing or self._deletions.is_refused) and not self._is_alarm_set:
            self._is_alarm_set = True
            yield Wake(OWED, now + OWED_EVERY_S)

    def _follow_brokers(self, changes: Changes) -> Iterator[Effect]:
        cluster = self._cluster
        for broker, change in sorted(changes.brokers.items()):
            if broker == cluster.own_id:
                if change is BrokerChange.VANISHED:
                    yield StepDown("this controller's own registration was deleted")
            elif change is BrokerChange.VANISHED:
                self._fresh.discard(broker)
                self._barriers.put_off(Readmit(broker), set(cluster.hosted.get(broker, {})))
                yield Disconnect(broker)
            else:
                held = cluster.brokers[broker]
                yield Connect(broker, held.epoch, held.registration)
                if change is BrokerChange.APPEARED:
                    self._fresh.add(broker)

    def _tell(self, changes: Changes) -> Iterator[Tell]:
        cluster = self._cluster
        owed, self._is_owed_due = self._is_owed_due, False
        fresh, self._fresh = sorted(b for b in self._fresh if cluster.is_registered(b)), set()
        if changes.partitions or changes.brokers or changes.gone_topics or fresh or owed:
            for broker, command in self._batch(changes, fresh, is_owed_due=owed).tells(
                brokers_changed=bool(changes.brokers)
            ):
                yield self._told(broker, command)
        for broker, command in self._deletions.tells(fresh):
            yield self._told(broker, command)

    def _batch(self, changes: Changes, fresh: Iterable[BrokerId], *, is_owed_due: bool) -> Batch:
        cluster = self._cluster
        held = self._flights.half_read() if fresh else frozenset()
        if held:
            self._fresh.update(fresh)  # they hear of these topics when all of them has been read
        batch = Batch(cluster, self._leavers.waits.confirmed, fresh, held)
        batch.add(changes)
        if is_owed_due:
            for topics in cluster.owing.values():
                for name, numbers in topics.items():
                    for number in numbers:
                        batch.add_stops(cluster.topics[name], number)
        return batch

    def _told(self, broker: BrokerId, command: Command) -> Tell:
        if isinstance(command, StopReplica):
            self._cluster.doom(broker, command.stops)
        return Tell(broker, self._cluster.brokers[broker].epoch, self._cluster.controller_epoch, command)
