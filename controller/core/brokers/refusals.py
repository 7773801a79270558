"""A broker refuses what it is told: when is it told again, with which leader epoch, and does this end the term?"""

from __future__ import annotations

from collections.abc import Collection

from controller.core.messages.commands import LeaderAndIsr
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, Alarm
from controller.core.messages.outbox import Outbox
from controller.core.transactions.back_off import doubled_s
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerId, TopicPartition

RESEND_AFTER_S = 0.5
RESEND_AT_MOST_S = 10.0
RAISE_AT_MOST_S = 60.0  # each time costs as many writes as there are such replicas
OUTRANKED = "higher controller epoch"
# A broker answers a leader epoch that it has already with STALE_CONTROLLER_EPOCH for the partition.
EXPECTED = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.STALE_CONTROLLER_EPOCH)


class TellAllAgain(Alarm, frozen=True):
    """A broker refused what it was told: it is told everything again."""

    broker: BrokerId


class RaiseEpochs(Alarm, frozen=True):
    """Replicas that are not in sync, and that a broker refused, are told to it with another leader epoch."""

    broker: BrokerId


class Refusals:
    """What the brokers of one term have refused of late."""

    def __init__(self, shared: Shared) -> None:
        self._cluster = shared.cluster
        self._memory = shared.memory
        self._agenda = shared.agenda
        self._of_late: dict[BrokerId, tuple[int, float]] = {}  # how often, and when last
        self._deaf: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._times_raised: dict[BrokerId, int] = {}
        self._outranking: dict[BrokerId, None] = {}

    def forget(self, broker: BrokerId) -> None:
        """It has gone: whoever comes back may know another controller epoch, and hear what it could not."""
        self._outranking.pop(broker, None)
        self._times_raised.pop(broker, None)

    def of_partitions(self, report: Acknowledged, out: Outbox) -> None:
        """It took the command, but perhaps not for every partition."""
        self._outranking.pop(report.broker, None)
        if isinstance(report.command, LeaderAndIsr):
            stale = (at for at, error in report.errors.items() if error is ErrorCode.STALE_CONTROLLER_EPOCH)
            self._note_deaf([at for at in stale if self._is_to_be_added(at, report.broker)], report.broker, out)
        kind = type(report.command).__name__
        for at, error in report.errors.items():
            if error not in EXPECTED:
                out.notice("refused command", f"broker {report.broker} refused {kind} for {at}: {error.name}")

    def of_all(self, report: Acknowledged, out: Outbox) -> None:
        """A broker that did not know its own epoch yet refuses everything: it is told all again (KAFKA-9839)."""
        kind, broker = type(report.command).__name__, report.broker
        if broker not in self._outranking:
            out.notice("refused command", f"broker {broker} refused {kind} as a whole: {report.error.name}")
        if report.error is ErrorCode.STALE_CONTROLLER_EPOCH and self._outranked_by(broker, out):
            return
        out.wake(TellAllAgain(broker), out.now + self._patience_s(broker, out.now))
        if isinstance(report.command, LeaderAndIsr) and report.error is ErrorCode.UNKNOWN_SERVER_ERROR:
            views = (*report.command.partitions, *report.command.new)
            told = (TopicPartition(seen.topic, seen.partition) for seen in views)
            self._note_deaf([at for at in told if self._is_out_of_sync(at, broker)], broker, out)

    def raise_epochs(self, broker: BrokerId) -> None:
        """It hears of its replicas that are still not in sync with another leader epoch."""
        deaf = [at for at in self._deaf.pop(broker) if self._is_out_of_sync(at, broker)]
        self._times_raised[broker] = self._times_raised.get(broker, 0) + 1 if deaf else 0
        for at in deaf:
            self._memory.untold[at] = None
            self._agenda.add(at.topic, (at.partition,))

    def _note_deaf(self, deaf: Collection[TopicPartition], broker: BrokerId, out: Outbox) -> None:
        """Replicas that are not in sync, and that their broker says nothing good of, may be lost to this leader epoch.

        Without ZooKeeper a broker has no settings to make a log with, but has noted the epoch, and is deaf to it when
        it is back: only another one is heard. Its process goes on, so its next registration tells nothing. With topic
        ids it then refuses the whole request, whatever else is in it; without, it says that it knows the epoch, as it
        does for every replica that it has: so only those are taken for deaf that are to be added.

        Source: Kafka's Partition.makeFollower (from 3.3 on), ReplicaManager.becomeLeaderOrFollower. Its own controller
        begins every move to a broker anew that registers (onBrokerStartup).
        """
        if not deaf:
            return
        if broker not in self._deaf:
            times = self._times_raised.get(broker, 0) + 1
            out.wake(RaiseEpochs(broker), out.now + doubled_s(times, RESEND_AFTER_S, RAISE_AT_MOST_S))
        self._deaf.setdefault(broker, {}).update(dict.fromkeys(deaf))

    def _is_to_be_added(self, at: TopicPartition, broker: BrokerId) -> bool:
        held = self._cluster.partition(at)
        return held is not None and broker in held.assignment.adding and self._is_out_of_sync(at, broker)

    def _is_out_of_sync(self, at: TopicPartition, broker: BrokerId) -> bool:
        held = self._cluster.partition(at)
        state = None if held is None else held.state
        return held is not None and state is not None and broker in held.assignment.replicas and broker not in state.isr

    def _patience_s(self, broker: BrokerId, now: float) -> float:
        """How long to wait before it is told again: the longer, the more often it has refused something of late."""
        times, refused_at = self._of_late.get(broker, (0, now))
        times = times + 1 if now - refused_at < 2 * RESEND_AT_MOST_S else 1
        self._of_late[broker] = times, now
        return doubled_s(times, RESEND_AFTER_S, RESEND_AT_MOST_S)

    def _outranked_by(self, broker: BrokerId, out: Outbox) -> bool:
        """A broker knows a higher controller epoch; whether this ends the term, because most brokers do.

        If another controller leads, ZooKeeper says so and fences us: no broker has to be believed. If none does,
        ZooKeeper has lost an epoch, as one restored from a backup has: only an election that raises it far helps.
        For a few brokers that is not worth a term.
        """
        if broker not in self._outranking:
            self._outranking[broker] = None
            text = f"broker {broker} knows a higher controller epoch than {self._cluster.controller_epoch}"
            out.notice(
                OUTRANKED, f"{text}, and obeys this controller only after a restart, or once the epoch is higher"
            )
        is_majority = 2 * len(self._outranking) > len(self._cluster.registered_brokers())
        if is_majority:
            brokers = ", ".join(map(str, sorted(self._outranking)))
            out.step_down(f"most brokers know a higher controller epoch: {brokers}", is_outranked=True)
        return is_majority
