"""Which brokers are admitted, what is each sent, what do their answers mean, and may one shut down?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from controller.core.announcing.batch import Batch
from controller.core.announcing.full_updates import FullUpdates
from controller.core.announcing.sending import is_current, send
from controller.core.brokers import controlled_shutdown
from controller.core.brokers.admission import Admission, Transition
from controller.core.brokers.former_lives import FormerLives, catching_up
from controller.core.brokers.memory import BrokersMemory
from controller.core.brokers.passes import HostedPasses
from controller.core.brokers.refusals import RaiseEpochs, Refusals, TellAllAgain
from controller.core.brokers.touching import Touching, TouchUnwritten
from controller.core.messages.commands import LeaderAndIsr, StopReplica
from controller.core.messages.effects import Connect, Disconnect
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, Again, Alarm, Asked, CallId
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import ShutdownPermitted
from controller.core.messages.requests import ControlledShutdown
from controller.core.scheduling.waits import Wait
from controller.core.stage import in_force
from controller.core.state.changes import Changes, OpenChanges
from controller.core.state.topics import Partition, TopicView
from controller.core.turn.duty import Duty, Report
from controller.core.turn.shared import Shared
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

OWED_EVERY_S = 30.0
# A returning broker is admitted at the latest when none of its partitions has settled for this long.
READMITTED_AFTER_S = 30.0
# Less than the controller.socket.timeout.ms of a broker, which waits that long.
SHUTDOWN_ANSWERED_WITHIN_S = 20.0


class AskForDeletions(Alarm, frozen=True):
    """Ask brokers again for the replica deletions that they owe."""


class Brokers(Duty):
    """The brokers of one term, and what they know."""

    requests = (ControlledShutdown,)
    alarms = (TellAllAgain, RaiseEpochs, AskForDeletions, TouchUnwritten)

    def __init__(self, shared: Shared, memory: BrokersMemory) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._memory = memory
        self._half_read = shared.transactions.half_read_topics
        self._admission = Admission(shared.cluster, memory, shared.state)
        self._fresh: dict[BrokerId, None] = {}
        self._hidden: dict[BrokerId, None] = {}
        self._met: dict[BrokerId, None] = {}
        self._passes = HostedPasses(shared.cluster.hosted, shared.settings.budget.hosted)
        self._former_lives = FormerLives(shared.cluster, memory, self._passes)
        self._full_updates = FullUpdates(shared.cluster)
        self._touching = Touching(shared.cluster)
        self._refusals = Refusals(shared, memory)
        self._readmitted: dict[BrokerId, None] = {}
        self._new: dict[TopicPartition, frozenset[BrokerId]] = {}
        self._leaving: list[Wait] = []
        self._connections: list[Connect | Disconnect] = []
        self._is_owed_due = self._is_alarm_set = self._have_brokers_changed = self._is_own_gone = False

    # ---- which brokers are there ----------------------------------------------------------------------------

    def amend(self, changes: OpenChanges, out: Outbox) -> None:
        """Mark the partitions that brokers' answers, arrivals and departures affect."""
        transitions = self._admission.follow(changes)
        controllers = self._cluster.controllers
        readmitted, self._readmitted = self._readmitted, {}
        for broker in readmitted:
            if self._admission.readmit(broker):
                transitions[broker] = Transition.APPEARED
        self._have_brokers_changed = any(b not in controllers or b == self._cluster.own_id for b in transitions)
        for broker, transition in sorted(transitions.items()):
            self._follow_transition(broker, transition, changes, out)
        self._look_after_hidden()
        leaving, self._leaving = self._leaving, []
        for wait in leaving:
            self._shared.waits.close(wait, out)
        self._passes.renew()
        self._passes.go_on(out)
        for at in self._memory.touched:
            self._look_at(at.topic, (at.partition,))
        self._memory.touched.clear()
        self._touching.touch(changes)

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Connect to brokers; then note what they must still be sent, and forget what is gone."""
        if not self._shared.settings.is_observing:
            self._insist_on_own_registration(changes, out)
        connections, self._connections = self._connections, []
        for connection in connections:
            out.add(connection)
        for _, event in changes.log_dir_events:
            if event is not None and self._cluster.is_registered(event.broker) and not changes.is_beginning:
                self._fresh[event.broker] = None
        for name, gone in changes.gone_topics.items():
            self._memory.forget_topic(name, gone.partitions)
        self._touching.follow(changes)
        self._note_unannounced(changes)

    def _insist_on_own_registration(self, changes: Changes, out: Outbox) -> None:
        own_id = self._cluster.own_id
        is_hidden = BrokerAddress(own_id).path in self._shared.state.unreadable
        if changes.is_beginning and own_id not in self._cluster.brokers and not is_hidden:
            out.step_down("this controller's own registration is missing")
        if self._is_own_gone:
            out.step_down("this controller's own registration was deleted")

    def _follow_transition(self, broker: BrokerId, transition: Transition, changes: OpenChanges, out: Outbox) -> None:
        if broker == self._cluster.own_id:
            self._is_own_gone |= transition is Transition.VANISHED
            return
        if broker in self._cluster.controllers:
            if transition is Transition.VANISHED:
                waits = self._shared.waits
                waits.close(waits.start(partial(self._let_in_again, broker), 0.0, out), out)
            elif transition is Transition.APPEARED and not changes.is_beginning:
                self._passes.begin_once(broker, self._shared.agenda.add)  # placed there before it was a controller's id
            return
        changes.brokers.setdefault(broker, None)
        is_new_to_us = transition is Transition.APPEARED and broker not in self._met and not changes.is_beginning
        self._met[broker] = None
        if transition is Transition.VANISHED:
            self._fresh.pop(broker, None)
            self._refusals.forget(broker)
            self._full_updates.leave(broker)
            self._look_after_lost(broker, out)
            self._connections.append(Disconnect(broker))
            return
        held = self._cluster.brokers[broker]
        self._connections.append(Connect(broker, held.epoch, held.registration))
        if transition is Transition.APPEARED and not changes.is_beginning:
            self._fresh[broker] = None
            self._look_after_new(broker, is_new_to_us=is_new_to_us)

    def _look_after_lost(self, broker: BrokerId, out: Outbox) -> None:
        """Look at each partition that a lost broker hosted. It may return once all of them have settled.

        Partitions that the broker led come first: clients cannot use them until they have another leader. The second
        pass visits them again, since the broker may have been elected while the first was under way.
        """
        callback = partial(self._let_in_again, broker)
        wait = self._shared.waits.start(callback, READMITTED_AFTER_S, out, is_prolonged=True)
        followed, since = self._former_lives.take_followed(broker), self._former_lives.watch()

        def elect(name: TopicName, numbers: Sequence[PartitionId]) -> None:
            led = (n for n, state in self._cluster.states_of(name, numbers) if state.leader == broker)
            self._shared.agenda.add_leaderless(name, led)

        def visit(name: TopicName, numbers: Sequence[PartitionId]) -> None:
            self._shared.agenda.add(name, numbers)
            is_new = partial(self._former_lives.has_risen, since=since)
            written = {n for n, state in self._cluster.states_of(name, numbers) if _loses_its_place(broker, state)}
            self._touching.add_unless_written(name, written)
            others = (n for n in numbers if n not in written and not is_new(TopicPartition(name, n)))
            self._touching.add(name, others)
            self._former_lives.outdate(broker, name, numbers, since, followed)
            wait.expect(name, numbers)

        def end(out: Outbox) -> None:
            self._touching.expect_writes(out)
            self._shared.waits.close(wait, out)

        self._passes.begin_ahead(broker, elect)
        self._passes.begin(broker, visit, end)

    def _look_after_new(self, broker: BrokerId, *, is_new_to_us: bool) -> None:
        """Look at each partition that a broker hosts; if it may have lived before this term, outdate that life."""
        since = self._former_lives.watch()

        def visit(name: TopicName, numbers: Sequence[PartitionId]) -> None:
            self._look_at(name, numbers)
            if is_new_to_us:
                self._former_lives.outdate(broker, name, numbers, since)

        if is_new_to_us:
            self._memory.returning[broker] = None
        self._passes.begin(broker, visit, lambda _: self._memory.note_returned(broker))
        for controller in self._cluster.controllers:
            self._look_at_hosted(controller)  # a new broker may take the place of this id; several need one pass

    def _look_after_hidden(self) -> None:
        """Keep the leaderships of brokers whose registration cannot be decoded; only a real change makes partitions
        due.
        """
        if not self._hidden and not self._shared.state.unreadable:
            return
        former, self._hidden = self._hidden, {b: None for b in self._cluster.hosted if self._cluster.is_hidden(b)}
        for broker in former.keys() - self._hidden.keys():
            self._look_at_hosted(broker)

    def _let_in_again(self, broker: BrokerId, out: Outbox) -> None:
        self._readmitted[broker] = None
        out.wake(Again(), out.now)

    def _look_at_hosted(self, broker: BrokerId) -> None:
        """Make every partition of a broker due, and announce it to all brokers."""
        self._passes.begin_once(broker, self._look_at)

    def _look_at(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Make partitions due before any wait can consider them settled."""
        self._shared.agenda.add(name, numbers)
        self._touching.add(name, numbers)

    # ---- what they have not been sent -----------------------------------------------------------------------

    def _note_unannounced(self, changes: Changes) -> None:
        """Note partitions whose leaders may not know them: they ignore replica changes without a new leader epoch.

        After a fail-over it is unknown what a leader knows of a move, or of replicas to delete.
        """
        for name, numbers in changes.partitions.items():
            topic = self._cluster.topics.get(name)
            if topic is None:
                continue
            former_topic = changes.topics.get(name)
            lives_on = former_topic is not None and former_topic.is_queued_for_deletion
            is_first = changes.is_initial and not (lives_on or topic.deletions) and self._memory.is_all_in_sync
            for number, former in (changes.not_at_rest(name) if is_first else numbers).items():
                at, held = TopicPartition(name, number), topic.partitions[number]
                self._memory.note_in_sync(at, held, former)
                self._note_one(at, topic, former, is_initial=changes.is_initial)
                if lives_on and not topic.is_queued_for_deletion:  # brokers have forgotten it
                    self._memory.note_unannounced(at)

    def _note_one(self, at: TopicPartition, topic: TopicView, former: Partition, *, is_initial: bool) -> None:
        """Another controller announced a partition seen for the first time, unless this one has just created it."""
        held, before, memory = topic.partitions[at.partition], former.state, self._memory
        state = held.state
        has_risen = state is not None and (before is None or state.leader_epoch != before.leader_epoch)
        if has_risen and not is_initial and (made := memory.take_made(at, held)):
            self._new[at] = made
        is_first_sight = is_initial or before is None or not former.assignment.replicas
        if is_first_sight and at not in self._new:
            if held.assignment.is_moving or at.partition in topic.deletions or self._lags(held):
                memory.note_unannounced(at)
        elif has_risen:
            self._former_lives.note_risen(at)
        elif state is not None and former is not held and _in_force(former) != _in_force(held):
            memory.note_unannounced(at)
        if before is not None and state is not None and state.leader != before.leader:
            self._former_lives.note_led(at, before.leader, state.leader_epoch)

    def _lags(self, held: Partition) -> bool:
        """Whether a broker may have restarted while no controller watched, and is about to join the ISR."""
        return any(self._cluster.is_registered(r) for r in catching_up(held))

    # ---- what they are sent ---------------------------------------------------------------------------------

    def announce(self, changes: Changes, out: Outbox) -> None:
        """Send all brokers what changed, and part of a full update to brokers that need one."""
        cluster = self._cluster
        owed, self._is_owed_due = self._is_owed_due, False
        fresh, self._fresh = sorted(b for b in self._fresh if cluster.is_registered(b)), {}
        self._memory.updated_in_full.clear()
        in_full = cluster.registered_brokers() if changes.is_beginning else fresh
        self._memory.updated_in_full.update(dict.fromkeys(in_full))
        self._full_updates.join(fresh)
        have_changed = self._have_brokers_changed
        self._full_updates.hold_back(changes, self._shared.state.changes, cluster.registered_brokers())
        is_anything_due = changes.partitions or have_changed or changes.gone_topics or fresh or owed
        if is_anything_due or (self._full_updates.has_more(self._incomplete()) and not changes.unseen):
            batch = self._batch(changes, is_owed_due=owed)
            is_full_update = bool(fresh) or changes.is_beginning
            for broker, command in batch.commands(brokers_changed=have_changed, is_full_update=is_full_update):
                send(broker, command, cluster, self._memory, out)
        if self._touching.has_more or (self._full_updates.has_more(self._incomplete()) and not changes.unseen):
            out.wake(Again(), out.now)
        if cluster.owing and not self._is_alarm_set:
            self._is_alarm_set = True
            out.wake(AskForDeletions(), out.now + OWED_EVERY_S)

    def _incomplete(self) -> Mapping[TopicName, object]:
        """The topics that are not completely read, or not completely followed yet."""
        left = self._shared.state.changes.partitions
        return {**self._half_read, **left} if left else self._half_read

    def _batch(self, changes: Changes, *, is_owed_due: bool) -> Batch:
        cluster = self._cluster
        batch = Batch(cluster, self._full_updates)
        batch.add(changes, self._new)
        self._new = {}
        if not changes.unseen:  # what leaders of unread partitions know is unknown
            for part in self._full_updates.take(self._incomplete(), self._shared.budget.greeted):
                batch.add_part(part)
        if is_owed_due:
            for topics in cluster.owing.values():
                for name, numbers in topics.items():
                    for number in numbers:
                        batch.add_stops(cluster.topics[name], number)
        return batch

    # ---- what they answer -----------------------------------------------------------------------------------

    def hear(self, report: Report, out: Outbox) -> None:
        """Note failed log directories and refusals."""
        if not isinstance(report, Acknowledged) or not is_current(report, self._cluster):
            return
        if report.error is not ErrorCode.NONE:
            self._refusals.of_all(report, out)
            return
        if isinstance(report.command, LeaderAndIsr):
            self._note_log_directories(report, report.command)
        if isinstance(report.command, StopReplica):
            self._note_logs_kept(report)
        self._refusals.of_partitions(report, out)

    def _note_logs_kept(self, report: Acknowledged) -> None:
        for at, error in report.errors.items():
            if error is ErrorCode.KAFKA_STORAGE_ERROR:
                self._memory.note_log_kept(at, report.broker)

    def _note_log_directories(self, report: Acknowledged, command: LeaderAndIsr) -> None:
        for at, error in report.errors.items():
            if error is ErrorCode.KAFKA_STORAGE_ERROR:
                self._memory.fail_replica(at, report.broker)
        if self._memory.offline_replicas:
            for seen in (*command.partitions, *command.new):
                at = TopicPartition(seen.topic, seen.partition)
                if at not in report.errors:
                    self._memory.heal_replica(at, report.broker)

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Send full updates, raise leader epochs, or ask for deletions again."""
        match alarm:
            case TellAllAgain(broker):
                self._fresh[broker] = None
            case RaiseEpochs(broker):
                self._refusals.raise_epochs(broker)
            case TouchUnwritten():
                self._touching.woke()
            case AskForDeletions():
                self._is_owed_due, self._is_alarm_set = True, False
            case _:
                raise TypeError(f"{alarm} is not set here")

    # ---- controlled shutdown --------------------------------------------------------------------------------

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Begin a controlled shutdown, unless too few other replicas are in sync."""
        request = asked.request
        if not isinstance(request, ControlledShutdown):
            raise TypeError(f"{type(request).__name__} is not served here")
        if self._shared.settings.shutdown_redundancy and request.broker not in self._cluster.shutting_down:
            self._look_for_endangered(asked.call, request)
        else:
            self._begin_shutdown(asked.call, request, out)
        self._passes.go_on(out)

    def _look_for_endangered(self, call: CallId, request: ControlledShutdown) -> None:
        cluster, broker, redundancy = self._cluster, request.broker, self._shared.settings.shutdown_redundancy
        found: list[TopicPartition] = []

        def visit(name: TopicName, numbers: Sequence[PartitionId]) -> None:
            found.extend(controlled_shutdown.endangered(broker, name, numbers, cluster, redundancy))

        def end(out: Outbox) -> None:
            endangered = sorted(found)
            if not endangered or broker in cluster.shutting_down or controlled_shutdown.refuse(request, cluster):
                self._begin_shutdown(call, request, out)
                return
            out.notice("refused shutdown", controlled_shutdown.too_few_in_sync(broker, endangered, redundancy))
            out.answer(call, ShutdownPermitted(tuple(endangered)))

        self._passes.begin(broker, visit, end)

    def _begin_shutdown(self, call: CallId, request: ControlledShutdown, out: Outbox) -> None:
        """From now on the broker no longer counts as live, but still gets commands."""
        error = controlled_shutdown.refuse(request, self._cluster)
        if error is not ErrorCode.NONE:
            out.answer(call, ShutdownPermitted((), error))
            return
        broker, is_news = request.broker, request.broker not in self._cluster.shutting_down
        self._memory.shutting_down[broker] = None
        wait = self._shared.waits.start(partial(self._permit, call, request), SHUTDOWN_ANSWERED_WITHIN_S, out)
        since = self._former_lives.watch_shutdown(broker) if is_news else 0

        def visit(name: TopicName, numbers: Sequence[PartitionId]) -> None:
            wait.expect(name, numbers)
            if is_news:
                self._look_at(name, numbers)
                self._former_lives.follow(broker, name, numbers, since)
            else:
                self._shared.agenda.add(name, numbers)  # a repeated request is not announced again

        self._passes.begin(broker, visit, partial(self._inform_first, wait))

    def _inform_first(self, wait: Wait, out: Outbox) -> None:
        """Answer the request at the earliest in the next turn, which informs the other brokers."""
        self._leaving.append(wait)
        out.wake(Again(), out.now)

    def _permit(self, call: CallId, request: ControlledShutdown, out: Outbox) -> None:
        """Answer once the brokers have been sent the new leaders; like Kafka, without waiting for acknowledgements."""
        remaining: list[TopicPartition] = []

        def visit(name: TopicName, numbers: Sequence[PartitionId]) -> None:
            remaining.extend(controlled_shutdown.still_led(request.broker, name, numbers, self._cluster))

        def end(out: Outbox) -> None:
            out.answer(call, ShutdownPermitted(tuple(sorted(remaining))))

        self._passes.begin(request.broker, visit, end)
        self._passes.go_on(out)

    def figures(self) -> dict[str, float]:
        """The gauges of brokers and of unconfirmed replica deletions."""
        owing = self._cluster.owing
        return {
            "live_brokers": len(self._cluster.live_brokers()),
            "replicas_without_broker": sum(self._cluster.replica_counts.get(c, 0) for c in self._cluster.controllers),
            "unconfirmed_replica_deletions": sum(len(n) for topics in owing.values() for n in topics.values()),
        }


def _loses_its_place(broker: BrokerId, state: PartitionState) -> bool:
    """Whether the loss of a broker changes this state: others elect a leader, or the leader's ISR becomes smaller."""
    return broker == state.leader or (broker in state.isr and state.leader in state.isr)


def _in_force(held: Partition) -> Assignment:
    return in_force(held.assignment, held.state)
