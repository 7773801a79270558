"""Brokers: who is let in, who is told what, what their answers mean, and whether one may shut down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from controller.core.brokers import controlled_shutdown
from controller.core.brokers.admission import Admission, Passage
from controller.core.brokers.refusals import RaiseEpochs, Refusals, TellAllAgain
from controller.core.messages.commands import LeaderAndIsr
from controller.core.messages.effects import Connect, Disconnect
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, Again, Alarm, Asked, CallId
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import ShutdownPermitted
from controller.core.messages.requests import ControlledShutdown
from controller.core.stage import in_force
from controller.core.state.changes import Changes, OpenChanges, cut_off
from controller.core.state.topics import Partition, TopicView
from controller.core.telling.batch import Batch
from controller.core.telling.full_updates import Greetings
from controller.core.telling.sending import is_of_its_present_life, send
from controller.core.turn.duty import Duty, Report
from controller.core.turn.shared import Shared
from zk_layout.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.topics import Assignment

OWED_EVERY_S = 30.0
# A broker that is back is let in at the latest when no partition of it has come to rest for so long.
READMITTED_AFTER_S = 30.0
# Less than the controller.socket.timeout.ms of a broker, which waits that long.
SHUTDOWN_ANSWERED_WITHIN_S = 20.0


class AskForDeletions(Alarm, frozen=True):
    """Brokers that owe the deletion of a replica are asked for it again."""


class Brokers(Duty):
    """The brokers of one term, and what they know."""

    requests = (ControlledShutdown,)
    alarms = (TellAllAgain, RaiseEpochs, AskForDeletions)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._memory = shared.memory
        self._half_read = shared.transactions.half_read_topics
        self._admission = Admission(shared.cluster, shared.memory, shared.state)
        self._fresh: dict[BrokerId, None] = {}
        self._hidden: dict[BrokerId, None] = {}
        self._met: dict[BrokerId, None] = {}
        self._follows: dict[BrokerId, dict[TopicPartition, LeaderEpoch]] = {}  # what those that shut down still follow
        self._greetings = Greetings(shared.cluster)
        self._to_touch: dict[TopicName, dict[PartitionId, None]] = {}
        self._refusals = Refusals(shared)
        self._readmitted: dict[BrokerId, None] = {}
        self._new: dict[TopicPartition, frozenset[BrokerId]] = {}
        self._leaving: list[tuple[CallId, ControlledShutdown, bool]] = []
        self._connections: list[Connect | Disconnect] = []
        self._is_owed_due = self._is_alarm_set = self._have_brokers_changed = self._is_own_gone = False

    # ---- who is there ---------------------------------------------------------------------------------------

    def amend(self, changes: OpenChanges, out: Outbox) -> None:
        """What brokers said, and who came or went, makes partitions due as facts do."""
        passages = self._admission.follow(changes)
        controllers = self._cluster.controllers
        readmitted, self._readmitted = self._readmitted, {}
        for broker in readmitted:
            if self._admission.readmit(broker):
                passages[broker] = Passage.APPEARED
        self._have_brokers_changed = any(b not in controllers or b == self._cluster.own_id for b in passages)
        for broker, passage in sorted(passages.items()):
            self._pass(broker, passage, changes, out)
        self._look_after_hidden()
        self._touch(changes, out)

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Connections first; then remember what brokers have not heard, and forget what is gone."""
        own_id = self._cluster.own_id
        is_hidden = BrokerAddress(own_id).path in self._shared.state.unreadable
        if changes.is_beginning and own_id not in self._cluster.brokers and not is_hidden:
            out.step_down("this controller's own registration is missing")
        connections, self._connections = self._connections, []
        for connection in connections:
            out.add(connection)
        if self._is_own_gone:
            out.step_down("this controller's own registration was deleted")
        for _, event in changes.log_dir_events:
            if event is not None and self._cluster.is_registered(event.broker) and not changes.is_beginning:
                self._fresh[event.broker] = None
        for name, gone in changes.gone_topics.items():
            self._memory.forget_topic(name, gone.partitions)
        self._note_untold(changes)

    def _pass(self, broker: BrokerId, passage: Passage, changes: OpenChanges, out: Outbox) -> None:
        if broker == self._cluster.own_id:
            self._is_own_gone |= passage is Passage.VANISHED
            return
        if broker in self._cluster.controllers:
            if passage is Passage.VANISHED:
                self._shared.rest.put_off(partial(self._let_in_again, broker), {}, 0.0, out)
            return
        changes.brokers.setdefault(broker, None)
        if not changes.is_beginning and passage is not Passage.CHANGED:
            self._look_at_hosted(broker)
        is_new_to_us = passage is Passage.APPEARED and broker not in self._met and not changes.is_beginning
        if passage is Passage.VANISHED or is_new_to_us:
            self._outdate(broker)
        self._met[broker] = None
        if passage is Passage.VANISHED:
            self._fresh.pop(broker, None)
            self._refusals.forget(broker)
            self._greetings.leave(broker)
            hosted = self._cluster.hosted.get(broker, {})
            deed = partial(self._let_in_again, broker)
            self._shared.rest.put_off(deed, hosted, READMITTED_AFTER_S, out, is_prolonged=True)
            self._connections.append(Disconnect(broker))
            return
        held = self._cluster.brokers[broker]
        self._connections.append(Connect(broker, held.epoch, held.registration))
        if passage is Passage.APPEARED and not changes.is_beginning:
            self._fresh[broker] = None
            for controller in self._cluster.controllers:
                self._look_at_hosted(controller)  # a broker has come that may take its place

    def _outdate(self, broker: BrokerId) -> None:
        """What leaders know of a broker's replicas is of a life that is over: no ISR may come of it any more.

        What they have asked for may be on its way, and names no life. Where the broker is in the ISR, the leader epoch
        rises as it leaves that.
        """
        followed = self._follows.pop(broker, None)
        for at, epoch in self._lagging(broker).items():
            if followed is None or followed.get(at) == epoch:
                self._memory.untold[at] = None

    def _lagging(self, broker: BrokerId) -> dict[TopicPartition, LeaderEpoch]:
        """The partitions that a broker may catch up with, and the leader epoch of each."""
        found: dict[TopicPartition, LeaderEpoch] = {}
        for name, numbers in self._cluster.hosted.get(broker, {}).items():
            for at in (TopicPartition(name, number) for number in numbers):
                held = self._cluster.partition(at)
                if held is not None and held.state is not None and broker in _catching_up(held):
                    found[at] = held.state.leader_epoch
        return found

    def _look_after_hidden(self) -> None:
        """Whoever is registered unreadably leads on; that it has gone is no change of what was known of it."""
        if not self._hidden and not self._shared.state.unreadable:
            return
        former, self._hidden = self._hidden, {b: None for b in self._cluster.hosted if self._cluster.is_hidden(b)}
        for broker in former.keys() - self._hidden.keys():
            self._look_at_hosted(broker)

    def _let_in_again(self, broker: BrokerId, out: Outbox) -> None:
        self._readmitted[broker] = None
        out.wake(Again(), out.now)

    def _look_at_hosted(self, broker: BrokerId) -> None:
        """Look at every partition of a broker, and tell everybody of it."""
        for name, numbers in self._cluster.hosted.get(broker, {}).items():
            self._look_at(name, numbers)

    def _look_at(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """The rules look before anything that waits for these partitions can think that they are at rest."""
        self._shared.agenda.add(name, numbers)
        self._to_touch.setdefault(name, {}).update(dict.fromkeys(numbers))

    def _touch(self, changes: OpenChanges, out: Outbox) -> None:
        """As many of them as this turn has room for, and only beside others that have been seen before."""
        leaving, self._leaving = self._leaving, []
        for call, request, is_news in leaving:
            hosted = self._cluster.hosted.get(request.broker, {})
            look_at = self._look_at if is_news else self._shared.agenda.add  # who asks again is told of to nobody
            for name, numbers in hosted.items():
                look_at(name, numbers)
            self._shared.rest.put_off(partial(self._permit, call, request), hosted, SHUTDOWN_ANSWERED_WITHIN_S, out)
        memory_touched, self._memory.touched = self._memory.touched, {}
        for at in memory_touched:
            self._look_at(at.topic, (at.partition,))
        if changes.is_initial:
            return
        for name, numbers in cut_off(self._to_touch, changes.room).items():
            for number in numbers:
                held = self._cluster.partition(TopicPartition(name, number))
                if held is not None:
                    changes.touch(name, number, held)

    # ---- what they have not heard ---------------------------------------------------------------------------

    def _note_untold(self, changes: Changes) -> None:
        """A leader ignores other replicas in a LeaderAndIsr unless the leader epoch has risen.

        After a fail-over nobody knows what it has heard of a move, or of replicas that it is to delete.
        """
        for name, numbers in changes.partitions.items():
            topic = self._cluster.topics.get(name)
            if topic is None:
                continue
            former_topic = changes.topics.get(name)
            lives_on = former_topic is not None and former_topic.is_queued_for_deletion
            for number, former in numbers.items():
                at, held = TopicPartition(name, number), topic.partitions[number]
                self._memory.note_in_sync(at, held, former)
                self._note_one(at, topic, former, is_initial=changes.is_initial)
                if lives_on and not topic.is_queued_for_deletion:  # brokers have forgotten it
                    self._memory.untold[at] = None

    def _note_one(self, at: TopicPartition, topic: TopicView, former: Partition, *, is_initial: bool) -> None:
        """What is seen for the first time was told by others, unless this controller has just created it."""
        held, before, memory = topic.partitions[at.partition], former.state, self._memory
        state = held.state
        has_risen = state is not None and (before is None or state.leader_epoch != before.leader_epoch)
        if has_risen and not is_initial and (made := memory.take_made(at, held)):
            self._new[at] = made
        is_first_sight = is_initial or before is None or not former.assignment.replicas
        if is_first_sight and at not in self._new:
            if held.assignment.is_moving or at.partition in topic.deletions or self._lags(held):
                memory.untold[at] = None
        elif has_risen:
            memory.untold.pop(at, None)
        elif state is not None and former is not held and _in_force(former) != _in_force(held):
            memory.untold[at] = None
        if before is not None and state is not None and state.leader != before.leader in self._follows:
            self._follows[before.leader][at] = state.leader_epoch  # it hears who leads now; as a follower it would not

    def _lags(self, held: Partition) -> bool:
        """Whether some broker may have come back in a new life while no controller looked, and joins the ISR next."""
        return any(self._cluster.is_registered(r) for r in _catching_up(held))

    # ---- what they are told ---------------------------------------------------------------------------------

    def tell(self, changes: Changes, out: Outbox) -> None:
        """What has changed, and bit by bit everything to those who know nothing yet."""
        cluster = self._cluster
        owed, self._is_owed_due = self._is_owed_due, False
        fresh, self._fresh = sorted(b for b in self._fresh if cluster.is_registered(b)), {}
        self._memory.told_everything = dict.fromkeys(cluster.registered_brokers() if changes.is_beginning else fresh)
        self._greetings.join(fresh)
        have_changed = self._have_brokers_changed
        self._greetings.hold_back(changes, self._shared.state.changes, cluster.registered_brokers())
        is_anything_due = changes.partitions or have_changed or changes.gone_topics or fresh or owed
        if is_anything_due or (self._greetings.has_more(self._half_told()) and not changes.unseen):
            batch = self._batch(changes, is_owed_due=owed)
            is_greeting = bool(fresh) or changes.is_beginning
            for broker, command in batch.tells(brokers_changed=have_changed, is_greeting=is_greeting):
                send(broker, command, cluster, self._memory, out)
        if self._to_touch or (self._greetings.has_more(self._half_told()) and not changes.unseen):
            out.wake(Again(), out.now)
        if cluster.owing and not self._is_alarm_set:
            self._is_alarm_set = True
            out.wake(AskForDeletions(), out.now + OWED_EVERY_S)

    def _half_told(self) -> Mapping[TopicName, object]:
        """The topics of which a part is still to be read, or to be followed in a later turn."""
        left = self._shared.state.changes.partitions
        return {**self._half_read, **left} if left else self._half_read

    def _batch(self, changes: Changes, *, is_owed_due: bool) -> Batch:
        cluster = self._cluster
        batch = Batch(cluster, self._greetings)
        batch.add(changes, self._new)
        self._new = {}
        if not changes.unseen:  # of partitions not seen yet nobody knows what their leaders have heard
            for greeting in self._greetings.take(self._half_told(), self._shared.settings.budget.greeted):
                batch.greet(greeting)
        if is_owed_due:
            for topics in cluster.owing.values():
                for name, numbers in topics.items():
                    for number in numbers:
                        batch.add_stops(cluster.topics[name], number)
        return batch

    # ---- what they answer -----------------------------------------------------------------------------------

    def hear(self, report: Report, out: Outbox) -> None:
        """Bad log directories, and refusals."""
        if not isinstance(report, Acknowledged) or not is_of_its_present_life(report, self._cluster):
            return
        if report.error is not ErrorCode.NONE:
            self._refusals.of_all(report, out)
            return
        if isinstance(report.command, LeaderAndIsr):
            self._note_log_directories(report, report.command)
        self._refusals.of_partitions(report, out)

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
        """Tell again, ask again."""
        match alarm:
            case TellAllAgain(broker):
                self._fresh[broker] = None
            case RaiseEpochs(broker):
                self._refusals.raise_epochs(broker)
            case AskForDeletions():
                self._is_owed_due, self._is_alarm_set = True, False
            case _:
                raise TypeError(f"{alarm} is not set here")

    # ---- controlled shutdown --------------------------------------------------------------------------------

    def admit(self, asked: Asked, out: Outbox) -> None:
        """A broker wants to leave: from now on it does not count as live, but it can still be talked to."""
        request = asked.request
        if not isinstance(request, ControlledShutdown):
            raise TypeError(f"{type(request).__name__} is not served here")
        cluster, broker, redundancy = self._cluster, request.broker, self._shared.settings.shutdown_redundancy
        error = controlled_shutdown.refuse(request, cluster)
        if error is not ErrorCode.NONE:
            out.answer(asked.call, ShutdownPermitted((), error))
            return
        is_news = broker not in cluster.shutting_down
        if is_news:
            endangered = controlled_shutdown.endangered(broker, cluster, redundancy)
            if endangered:
                out.notice("refused shutdown", controlled_shutdown.too_few_in_sync(broker, endangered, redundancy))
                out.answer(asked.call, ShutdownPermitted(endangered))
                return
        if is_news:
            self._follows[broker] = self._lagging(broker)
        self._memory.shutting_down[broker] = None
        self._leaving.append((asked.call, request, is_news))
        out.wake(Again(), out.now)  # the others hear of it with the next turn, and it is answered after that
        for name, numbers in cluster.hosted.get(broker, {}).items():
            self._shared.agenda.add(name, numbers)

    def _permit(self, call: CallId, request: ControlledShutdown, out: Outbox) -> None:
        """Everybody has been told of what could be moved; who has acknowledged it is not waited for, as in Kafka."""
        out.answer(call, controlled_shutdown.permit(request, self._cluster))

    def figures(self) -> dict[str, float]:
        """Who is there, and what is still owed."""
        owing = self._cluster.owing
        return {
            "live_brokers": len(self._cluster.live_brokers()),
            "replicas_without_broker": sum(self._cluster.replica_counts.get(c, 0) for c in self._cluster.controllers),
            "unconfirmed_replica_deletions": sum(len(n) for topics in owing.values() for n in topics.values()),
        }


def _catching_up(held: Partition) -> Replicas:
    """The replicas that a leader may ask for next."""
    state, replicas = held.state, held.assignment.replicas
    if state is None or state.leader == NO_LEADER or state.isr == replicas:
        return ()
    return tuple(r for r in replicas if r not in state.isr and r != state.leader)


def _in_force(held: Partition) -> Assignment:
    return in_force(held.assignment, held.state)
