"""What do the answers of brokers mean: confirmed deletions, bad log directories, or that all must be told again?"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.agenda import Agenda
from controller.core.cluster import Cluster
from controller.core.commands import LeaderAndIsr, StopReplica
from controller.core.effects import Effect, Notice, StepDown, Wake
from controller.core.errors import ErrorCode
from controller.core.events import Acknowledged
from controller.core.leavers import Leavers
from controller.core.topic_deletions import TopicDeletions
from zk_layout.ids import BrokerId, TopicPartition

# A broker answers a leader epoch that it has already with STALE_CONTROLLER_EPOCH for the partition.
EXPECTED = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.STALE_CONTROLLER_EPOCH)
RESEND = "resend to "
RESEND_AFTER_S = 0.5
RESEND_AT_MOST_S = 10.0


class BrokerAnswers:
    """Hears what the brokers answer in one reign."""

    def __init__(self, cluster: Cluster, leavers: Leavers, agenda: Agenda, deletions: TopicDeletions) -> None:
        """Share the reign's memory."""
        self._cluster = cluster
        self._leavers = leavers
        self._agenda = agenda
        self._deletions = deletions
        self._wait_s: dict[BrokerId, float] = {}

    def hear(self, event: Acknowledged, now: float) -> Iterator[Effect]:
        """Take an answer in; one that belongs to a broker's earlier life says nothing."""
        held = self._cluster.brokers.get(event.broker)
        if held is None or held.epoch != event.broker_epoch:
            return
        if isinstance(event.command, StopReplica):
            self._cluster.survive(event.broker, event.command.stops)
        if event.error is not ErrorCode.NONE:
            yield from self._refused(event, now)
            return
        self._wait_s.pop(event.broker, None)
        for at in self._leavers.confirm(event, self._cluster):
            self._agenda.add(at.topic, (at.partition,))
        for topic in self._deletions.hear(event):
            self._agenda.add(topic)
        if isinstance(event.command, LeaderAndIsr):
            self._note_log_directories(event, event.command)
        kind = type(event.command).__name__
        for at, error in event.errors.items():
            if error not in EXPECTED:
                yield Notice("refused by broker", f"broker {event.broker} refused {kind} for {at}: {error.name}")

    def _note_log_directories(self, event: Acknowledged, command: LeaderAndIsr) -> None:
        for at, error in event.errors.items():
            if error is ErrorCode.KAFKA_STORAGE_ERROR:
                self._cluster.fail_replica(at, event.broker)
        if self._cluster.offline_replicas:
            for seen in (*command.partitions, *command.new):
                at = TopicPartition(seen.topic, seen.partition)
                if at not in event.errors:
                    self._cluster.heal_replica(at, event.broker)

    def _refused(self, event: Acknowledged, now: float) -> Iterator[Effect]:
        """A broker that did not know its own epoch yet refuses everything: it is told all again (KAFKA-9839)."""
        kind = type(event.command).__name__
        yield Notice("refused by broker", f"broker {event.broker} refused {kind} as a whole: {event.error.name}")
        if event.error is ErrorCode.STALE_CONTROLLER_EPOCH:
            # Another controller rules, or ZooKeeper was restored from a backup; a further election raises the epoch.
            yield StepDown(f"broker {event.broker} knows a higher controller epoch")
            return
        wait = self._wait_s.get(event.broker, RESEND_AFTER_S)
        self._wait_s[event.broker] = min(2 * wait, RESEND_AT_MOST_S)
        yield Wake(f"{RESEND}{event.broker}", now + wait)
