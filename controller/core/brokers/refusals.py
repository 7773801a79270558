"""A broker refuses a command: when is it sent again, with which leader epoch, and does this end the term?"""

from __future__ import annotations

from collections.abc import Collection

from controller.core.brokers.memory import BrokersMemory
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
# A broker answers STALE_CONTROLLER_EPOCH for a partition whose leader epoch it already has.
EXPECTED = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.STALE_CONTROLLER_EPOCH)


class TellAllAgain(Alarm, frozen=True):
    """Send a full update to a broker that refused a command."""

    broker: BrokerId


class RaiseEpochs(Alarm, frozen=True):
    """Raise the leader epoch of replicas that a broker refused."""

    broker: BrokerId


class Refusals:
    """What the brokers of one term have recently refused."""

    def __init__(self, shared: Shared, memory: BrokersMemory) -> None:
        self._cluster = shared.cluster
        self._memory = memory
        self._agenda = shared.agenda
        self._recent: dict[BrokerId, tuple[int, float]] = {}  # how often, and when last
        self._ignoring: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._times_raised: dict[BrokerId, int] = {}
        self._outranking: dict[BrokerId, None] = {}
        self._refusing_all: dict[BrokerId, None] = {}

    def forget(self, broker: BrokerId) -> None:
        """Forget a broker that left: its next process may know another controller epoch, and accept what this one could
        not.
        """
        self._outranking.pop(broker, None)
        self._times_raised.pop(broker, None)
        self._refusing_all.pop(broker, None)

    def of_partitions(self, report: Acknowledged, out: Outbox) -> None:
        """Process a command that the broker accepted, perhaps not for every partition."""
        self._outranking.pop(report.broker, None)
        if isinstance(report.command, LeaderAndIsr):
            self._refusing_all.pop(report.broker, None)
            stale = (at for at, error in report.errors.items() if error is ErrorCode.STALE_CONTROLLER_EPOCH)
            self._note_ignoring([at for at in stale if self._is_to_be_added(at, report.broker)], report.broker, out)
        kind = type(report.command).__name__
        for at, error in report.errors.items():
            if error not in EXPECTED:
                out.notice("refused command", f"broker {report.broker} refused {kind} for {at}: {error.name}")

    def of_all(self, report: Acknowledged, out: Outbox) -> None:
        """Schedule a full update: a broker that does not know its own epoch yet refuses every command (KAFKA-9839)."""
        kind, broker = type(report.command).__name__, report.broker
        if broker not in self._outranking:
            out.notice("refused command", f"broker {broker} refused {kind} as a whole: {report.error.name}")
        if report.error is ErrorCode.STALE_CONTROLLER_EPOCH and self._outranked_by(broker, out):
            return
        out.wake(TellAllAgain(broker), out.now + self._patience_s(broker, out.now))
        if isinstance(report.command, LeaderAndIsr) and report.error is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._refusing_all[broker] = None
            views = (*report.command.partitions, *report.command.new)
            named = (TopicPartition(seen.topic, seen.partition) for seen in views)
            self._note_ignoring([at for at in named if self._stays_refused(at, broker)], broker, out)

    def raise_epochs(self, broker: BrokerId) -> None:
        """Give the broker's replicas that it would refuse again another leader epoch."""
        ignoring = [at for at in self._ignoring.pop(broker) if self._stays_refused(at, broker)]
        self._times_raised[broker] = self._times_raised.get(broker, 0) + 1 if ignoring else 0
        for at in ignoring:
            self._memory.note_unannounced(at)
            self._agenda.add(at.topic, (at.partition,))

    def _note_ignoring(self, ignoring: Collection[TopicPartition], broker: BrokerId, out: Outbox) -> None:
        """Note replicas that may ignore this leader epoch, because their broker does not accept it.

        Without ZooKeeper a broker has no configuration to create a log with. It notes the epoch all the same, and
        ignores it when ZooKeeper is back: it reacts only to another one. The process keeps running, so its next
        registration tells us nothing. With topic ids it then refuses the whole request; without, it answers that it
        knows the epoch, as it does for every replica that it has: so only replicas to be added count here.

        Source: Kafka's Partition.makeFollower (from 3.3 on), ReplicaManager.becomeLeaderOrFollower. Kafka's own
        controller restarts every move to a broker that registers (onBrokerStartup).
        """
        if not ignoring:
            return
        if broker not in self._ignoring:
            times = self._times_raised.get(broker, 0) + 1
            out.wake(RaiseEpochs(broker), out.now + doubled_s(times, RESEND_AFTER_S, RAISE_AT_MOST_S))
        self._ignoring.setdefault(broker, {}).update(dict.fromkeys(ignoring))

    def _is_to_be_added(self, at: TopicPartition, broker: BrokerId) -> bool:
        held = self._cluster.partition(at)
        if held is None or held.state is None:
            return False
        return broker in held.assignment.adding and broker not in held.state.isr

    def _stays_refused(self, at: TopicPartition, broker: BrokerId) -> bool:
        """Whether the replica is out of sync, or its leader refuses everything and cannot take it out of the ISR."""
        held = self._cluster.partition(at)
        if held is None or held.state is None or broker not in held.assignment.replicas:
            return False
        leader = held.state.leader
        return broker not in held.state.isr or (leader != broker and leader in self._refusing_all)

    def _patience_s(self, broker: BrokerId, now: float) -> float:
        """Backoff before the broker is sent a full update again; grows with its recent refusals."""
        times, refused_at = self._recent.get(broker, (0, now))
        times = times + 1 if now - refused_at < 2 * RESEND_AT_MOST_S else 1
        self._recent[broker] = times, now
        return doubled_s(times, RESEND_AFTER_S, RESEND_AT_MOST_S)

    def _outranked_by(self, broker: BrokerId, out: Outbox) -> bool:
        """Note a broker with a higher controller epoch; end the term, and return True, if most brokers have one.

        If another controller leads, ZooKeeper fences us, and the brokers' word does not matter. If none does, ZooKeeper
        has lost an epoch, for example when restored from a backup: only an election that raises the epoch far helps.
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
