"""Which promises must hold after every step, and which once the faults have stopped?

Source: architecture section 6. A broken promise raises `Broken`, with the seed's trace to explain it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.core.commands import Command, LeaderAndIsr, PartitionView, StopReplica, UpdateMetadata
from controller.core.effects import Answer, Commit, Effect, StepDown, Tell
from controller.core.events import CallId
from controller.core.replies import PartitionsAltered, ProducerIdsAllocated, ReassignmentsAltered, ShutdownPermitted
from controller.core.requests import (
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    ElectLeaders,
    Mode,
    Request,
)
from controller.lab.broker_model import DELETING_LEADER, BrokerModel
from tests.simulation.broken import Broken
from tests.simulation.topic_answers import unfit
from tests.simulation.zookeeper import Operation
from zk_layout import catalog
from zk_layout.facts import Malformed
from zk_layout.ids import NO_LEADER, BrokerEpoch, BrokerId, ControllerEpoch, SessionId, TopicName, TopicPartition, Zxid
from zk_layout.znodes.admin import DELETE_TOPICS, TopicDeletionAddress
from zk_layout.znodes.controller import ControllerEpochAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller
    from tests.simulation.world import World


# A broker of 2.4 that does not know its own epoch yet refuses everything, with a growing pause between (KAFKA-9839).
OFTEN = 8


class Checker:
    """Remembers what ZooKeeper has held, and compares everything with it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.states: dict[TopicPartition, PartitionState] = {}
        self.unwanted: dict[TopicName, None] = {}
        self.topics: dict[TopicName, Topic] = {}
        self.accepted: dict[tuple[TopicPartition, int], list[PartitionState]] = {}
        self.assigned: dict[TopicPartition, dict[Assignment, None]] = {}
        self.together: dict[TopicPartition, dict[tuple[int, Assignment], None]] = {}
        self.was_in_sync: dict[TopicPartition, bool] = {}
        self.acked: dict[TopicPartition, int] = {}
        self.lost: dict[TopicPartition, None] = {}
        self.forced: dict[TopicPartition, None] = {}
        self.unheard: dict[TopicPartition, None] = {}  # written again by somebody who tells nobody
        self.edited: dict[TopicPartition, None] = {}  # its assignment was written back by hand
        self.asked_for: dict[TopicName, None] = {}
        self._acked_numbers: dict[TopicPartition, dict[int, None]] = {}
        self._seen_marks: dict[tuple[int, TopicPartition], tuple[int, int]] = {}
        self._touched: dict[str, SessionId] = {}
        self._open: dict[CallId, Request] = {}
        self._times_told: dict[tuple[ControllerEpoch, BrokerId, BrokerEpoch], dict[PartitionView, int]] = {}
        self._epoch = 0

    # what ZooKeeper holds

    def begin(self) -> None:
        """What was written so far is the beginning, and no step."""
        self._touched.clear()

    def wrote(self, session: SessionId, operation: Operation, zxid: Zxid) -> None:
        """One change of the tree; looked at when the whole transaction is through."""
        self._touched[operation.path] = session

    def after_step(self) -> None:
        """Everything that changed together must fit together."""
        touched, self._touched = self._touched, {}
        self._hold(self.world.folder.wrote(touched))
        asked_for = [a.topic for a in map(catalog.address_of, touched) if isinstance(a, TopicDeletionAddress)]
        former = {path: self.topics.get(address.topic) for path, address in self._topics_in(touched)}
        for path, address in self._topics_in(touched):
            self._topic_changed(address, path, is_by_hand=touched[path] == self.world.tools)
        for path, session in touched.items():
            match catalog.address_of(path):
                case StateAddress(topic, partition):
                    self._state_changed(TopicPartition(topic, partition), path, session)
                case ControllerEpochAddress():
                    self._epoch_changed(path)
        self._note_pairs(touched)
        self._hold(self.world.move_requests.wrote(touched))
        for name in asked_for:
            self._wish_changed(name)
        for path, before in former.items():
            if before is not None and path in self.world.zookeeper.nodes and touched[path] != self.world.tools:
                self._nobody_left_early(before, TopicName(path.rpartition("/")[2]))
        for broker in self.world.brokers.values():
            if broker.model is not None and broker.model.violations:
                raise Broken(broker.model.violations[0])

    def _note_pairs(self, touched: dict[str, SessionId]) -> None:
        """Which assignment and which state of a partition held at the same time."""
        for path in touched:
            address = catalog.address_of(path)
            if isinstance(address, TopicAddress | StateAddress) and address.topic not in self.topics:
                continue
            if isinstance(address, TopicAddress):
                names = [TopicPartition(address.topic, n) for n in self.topics[address.topic].partitions]
            elif isinstance(address, StateAddress):
                names = [TopicPartition(address.topic, address.partition)]
            else:
                continue
            for at in names:
                node = self.world.zookeeper.nodes.get(StateAddress(at.topic, at.partition).path)
                if node is not None:
                    assignment = self.topics[at.topic].partitions[at.partition]
                    pairs = self.together.setdefault(at, {})
                    pairs[node.version, assignment] = pairs[node.version, Assignment(assignment.target)] = None

    @staticmethod
    def _topics_in(touched: dict[str, SessionId]) -> list[tuple[str, TopicAddress]]:
        pairs = [(path, catalog.address_of(path)) for path in touched]
        return [(path, address) for path, address in pairs if isinstance(address, TopicAddress)]

    def _read(self, path: str) -> object:
        node = self.world.zookeeper.nodes.get(path)
        address = catalog.address_of(path)
        return None if node is None or address is None else catalog.decode(address, node.data)

    def _epoch_changed(self, path: str) -> None:
        epoch = self._read(path)
        if not isinstance(epoch, int) or epoch <= self._epoch:
            raise Broken(f"the controller epoch went from {self._epoch} to {epoch}")
        self._epoch = epoch

    def _topic_changed(self, address: TopicAddress, path: str, *, is_by_hand: bool) -> None:
        value, before = self._read(path), self.topics.get(address.topic)
        if value is None and before is not None:
            self._topic_gone(address.topic, before)
        if isinstance(value, Malformed) or value is None:
            return
        assert isinstance(value, Topic)
        if before is not None:
            if before.topic_id is not None and before.topic_id != value.topic_id:
                raise Broken(f"topic {address.topic} lost its id")
            for number in before.partitions:
                if number not in value.partitions:
                    raise Broken(f"{address.topic}-{number} was dropped from the topic znode")
        if is_by_hand and before is not None:
            edited = [n for n, assignment in before.partitions.items() if assignment != value.partitions.get(n)]
            self.edited.update(dict.fromkeys(TopicPartition(address.topic, n) for n in edited))
        for number, assignment in value.partitions.items():
            self._assignment_is_sane(TopicPartition(address.topic, number), assignment)
        self.topics[address.topic] = value

    def _topic_gone(self, name: TopicName, before: Topic) -> None:
        """A topic goes only if somebody wanted that, and not before every log of it has gone."""
        if name not in self.unwanted:
            raise Broken(f"topic {name} was deleted, and nobody had asked for it")
        for broker in self.world.brokers.values():
            left = [at for at in broker.disk if at.topic == name and at not in self.edited]
            if left:
                raise Broken(f"topic {name} was deleted while {broker.name} still has {left}")
        del self.topics[name]
        for at in [TopicPartition(name, number) for number in before.partitions]:
            for memory in (self.states, self.was_in_sync, self.lost, self._acked_numbers):
                memory.pop(at, None)
            for broker_id in self.world.brokers:
                self._seen_marks.pop((broker_id, at), None)

    def _wish_changed(self, name: TopicName) -> None:
        """A request counts for the topic that is there when it is written, not for one that is created later."""
        mark = self.world.zookeeper.nodes.get(f"{DELETE_TOPICS}/{name}")
        self.asked_for[name] = None
        topic = self.world.zookeeper.nodes.get(TopicAddress(name).path)
        if mark is None or topic is None or mark.czxid < topic.czxid:
            self.unwanted.pop(name, None)
        else:
            self.unwanted[name] = None

    def _assignment_is_sane(self, at: TopicPartition, assignment: Assignment) -> None:
        history = self.assigned.setdefault(at, {})
        if assignment not in history:
            moves = {**dict.fromkeys(assignment.adding), **dict.fromkeys(assignment.removing)}
            if len(moves) != len(assignment.adding) + len(assignment.removing):
                raise Broken(f"{at} adds and removes the same replica: {assignment}")
            if any(r not in assignment.replicas for r in moves) or not assignment.target:
                raise Broken(f"{at} has an impossible assignment: {assignment}")
            if len(dict.fromkeys(assignment.replicas)) != len(assignment.replicas):
                raise Broken(f"{at} has a duplicate replica: {assignment}")
        history[assignment] = None
        history[Assignment(assignment.target)] = None

    def _state_changed(self, at: TopicPartition, path: str, session: SessionId) -> None:
        value, before = self._read(path), self.states.get(at)
        if value is None and before is not None:
            if at.topic not in self.unwanted:
                raise Broken(f"the state of {at} was deleted, and nobody had asked for it")
            del self.states[at]
        if not isinstance(value, PartitionState):
            return
        replicas = self.topics[at.topic].partitions[at.partition].replicas
        if not value.isr or len(dict.fromkeys(value.isr)) != len(value.isr):
            raise Broken(f"{at} has the ISR {list(value.isr)}")
        if value.leader != NO_LEADER and value.leader not in value.isr:
            raise Broken(f"{at} is led by {value.leader}, which is not in the ISR {list(value.isr)}")
        if any(r not in replicas for r in value.isr) and at not in self.edited:
            raise Broken(f"{at} has the ISR {list(value.isr)} but the replicas {list(replicas)}")
        if before is not None:
            self._state_follows(at, before, value, session)
        if session != self.world.tools:
            self.unheard.pop(at, None)
        self.states[at] = value
        node = self.world.zookeeper.nodes[path]
        self.accepted.setdefault((at, node.version), []).append(value)
        self._note_sync(at)

    def _state_follows(
        self, at: TopicPartition, before: PartitionState, after: PartitionState, session: SessionId
    ) -> None:
        if after.leader_epoch < before.leader_epoch:
            raise Broken(f"the leader epoch of {at} fell from {before.leader_epoch} to {after.leader_epoch}")
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            raise Broken(f"{at} changed its leader within leader epoch {after.leader_epoch}")
        if after.controller_epoch < before.controller_epoch:
            raise Broken(f"the controller epoch in the state of {at} fell")
        if after.leader != NO_LEADER and after.leader not in before.isr and after.leader != before.leader:
            self._unclean(at, after)
        elif at in self.forced and not any(r in before.isr for r in after.isr):
            self._lose(at)
        if after.leader == NO_LEADER and before.leader != NO_LEADER:
            serving = [r for r in before.isr if r in self.world.brokers and self.world.brokers[r].serves(at)]
            if serving:
                raise Broken(f"{at} was left without a leader, though {serving} are in sync and live: {before}")
        is_by_controller = any(c.session == session for c in self.world.controllers.values())
        if is_by_controller and after.controller_epoch != self._epoch:
            raise Broken(f"{at} was written with controller epoch {after.controller_epoch}, not {self._epoch}")
        if is_by_controller and after.leader == NO_LEADER and at not in self.forced:
            self._forgets_nobody(at, before, after)

    def _forgets_nobody(self, at: TopicPartition, before: PartitionState, after: PartitionState) -> None:
        replicas = self.topics[at.topic].partitions[at.partition].replicas
        forgotten = [r for r in before.isr if r in replicas and r in self.world.brokers and r not in after.isr]
        if forgotten:
            raise Broken(f"{at} has no leader, and nobody can tell any more that {forgotten} are in sync: {before}")

    def _unclean(self, at: TopicPartition, after: PartitionState) -> None:
        if not self.world.plan.unclean_election and at not in self.forced:
            raise Broken(f"{at} elected {after.leader}, which was not in sync")
        self._is_no_worse_than_others(at, after)
        self._lose(at)

    def _is_no_worse_than_others(self, at: TopicPartition, after: PartitionState) -> None:
        """Who is elected without being in sync has a log at least, if anybody has one who could have been elected."""
        brokers, replicas = self.world.brokers, self.topics[at.topic].partitions[at.partition].replicas
        with_log = [r for r in replicas if r in brokers and brokers[r].serves(at) and brokers[r].has_records(at)]
        elected = brokers.get(after.leader)
        if elected is not None and at not in elected.disk and with_log:
            raise Broken(f"{at} elected {after.leader}, which has no log of it, though {with_log} have one")

    def lost_log(self, broker: BrokerId, at: TopicPartition) -> None:
        """A disk was lost; what only its broker had in sync is nobody's fault."""
        state = self.states.get(at)
        if state is not None and broker in state.isr:
            self._lose(at)

    def _lose(self, at: TopicPartition) -> None:
        self.world.say("checker", f"{at} gave up its in-sync replicas; acknowledged records may be gone")
        self.lost[at] = None
        self._acked_numbers.pop(at, None)

    # moves

    def _note_sync(self, at: TopicPartition) -> None:
        topic, state = self.topics.get(at.topic), self.states.get(at)
        if topic is None or state is None or at.partition not in topic.partitions:
            return
        assignment = topic.partitions[at.partition]
        if assignment.is_moving and all(r in state.isr for r in assignment.target):
            self.was_in_sync[at] = True

    def _nobody_left_early(self, before: Topic, name: TopicName) -> None:
        after = self.topics[name]
        for number, held in before.partitions.items():
            at, now = TopicPartition(name, number), after.partitions[number]
            state = self.states.get(at)
            gone = [r for r in held.replicas if r not in now.replicas]
            if state is not None and not any(r in now.replicas for r in state.isr):
                raise Broken(f"{at} has no in-sync replica among {list(now.replicas)}; ISR {list(state.isr)}")
            lets_go = bool(held.adding) and any(r in held.removing for r in gone)
            is_served = state is not None and all(r in state.isr for r in now.original)  # a later target was in sync
            if at in self.edited:
                continue
            if lets_go and state is not None and not is_served and not self.was_in_sync.get(at):
                raise Broken(f"{at} let {gone} go before {list(held.target)} were in sync")
            if now != held:
                self.was_in_sync.pop(at, None)
                self._note_sync(at)

    # what a controller does

    def term_began(self, controller: Controller) -> None:
        """One more controller believes to lead."""

    def term_ended(self, controller: Controller) -> None:
        """What was asked of it will not be answered any more."""
        for ask in controller.asks:
            self._open.pop(ask, None)

    def asked(self, ask: CallId, request: Request) -> None:
        """A request reached a leading controller."""
        self._open[ask] = request
        if isinstance(request, AlterReassignments) and request.mode == Mode.FORCED:
            self.forced.update(dict.fromkeys(wanted.topic_partition for wanted in request.reassignments))
        if isinstance(request, ElectLeaders) and request.is_unclean:
            everywhere = (TopicPartition(name, n) for name, topic in self.topics.items() for n in topic.partitions)
            self.forced.update(dict.fromkeys(everywhere if request.partitions is None else request.partitions))

    def committed(self, controller: Controller, commit: Commit) -> None:
        """ZooKeeper accepted a transaction of this controller."""
        held = self._read("/controller_epoch")
        if held != controller.epoch:
            raise Broken(f"{controller.name} wrote in epoch {controller.epoch}, while {held} rules")
        self.world.coverage.decided(commit.why, self.world.clock.now)

    def effect(self, controller: Controller, effect: Effect) -> None:
        """A controller has decided something."""
        match effect:
            case Answer(ask, reply):
                request = self._open.pop(ask, None)
                if request is None:
                    raise Broken(f"{controller.name} answered {ask} twice, or without having been asked")
                self._answer_fits(request, reply)
                if isinstance(request, ControlledShutdown) and reply == ShutdownPermitted():
                    self._leads_nothing(controller, request)
                if isinstance(reply, ReassignmentsAltered):
                    self._hold(self.world.move_requests.answered(reply))
                if isinstance(reply, ProducerIdsAllocated):
                    self.world.producer_ids.answered(reply, controller.name)
            case Tell():
                self._tell_is_true(controller, effect)
            case StepDown(reason):
                self.world.say(controller.name, f"wants to step down: {reason}")

    def _leads_nothing(self, controller: Controller, request: ControlledShutdown) -> None:
        """Who is allowed to leave has handed over whatever somebody else could host."""
        broker = self.world.brokers[request.broker]
        if controller.epoch != self._epoch or not broker.is_leaving:
            return
        for at, state in self.states.items():
            topic = self.topics.get(at.topic)
            is_alone = topic is None or len(topic.partitions[at.partition].replicas) == 1
            is_readable = isinstance(self._read(TopicAddress(at.topic).path), Topic)
            is_left_alone = at.topic in self.unwanted or at in self.edited or at in self.unheard
            is_known = is_readable and not is_left_alone
            if state.leader == request.broker and is_known and not is_alone:
                raise Broken(f"broker {request.broker} may leave, though it leads {at}: {state}")

    @staticmethod
    def _hold(wrong: str | None) -> None:
        if wrong is not None:
            raise Broken(wrong)

    def _answer_fits(self, request: Request, reply: object) -> None:
        wrong = unfit(self, request, reply)
        if wrong is not None:
            raise Broken(f"{reply} is no answer to {request}: {wrong}")
        if isinstance(request, AlterReassignments) and isinstance(reply, ReassignmentsAltered) and not reply.error:
            asked_for = [w.topic_partition for w in request.reassignments]
            if [r.topic_partition for r in reply.results] != asked_for:
                raise Broken(f"the answer to {request} does not cover it: {reply}")
        if isinstance(request, AlterPartition) and isinstance(reply, PartitionsAltered) and not reply.error:
            asked = [p.partition for p in request.proposals]
            if [r.partition for r in reply.results] != asked:
                raise Broken(f"the answer to {request} does not cover it: {reply}")

    def _tell_is_true(self, controller: Controller, tell: Tell) -> None:
        if tell.broker == controller.own_id:
            raise Broken(f"{controller.name} told itself something")
        if tell.broker not in controller.links:
            raise Broken(f"{controller.name} told broker {tell.broker} something without a channel to it")
        match tell.command:
            case LeaderAndIsr(partitions, new, _):
                for view in (*partitions, *new):
                    self._leadership_is_true(controller, tell.broker, view)
            case UpdateMetadata(partitions, brokers):
                self._is_no_repetition(tell, partitions)
                if controller.own_id not in [b.broker for b in brokers]:
                    raise Broken(f"{controller.name} does not list itself among the brokers")
                for view in partitions:
                    self._view_is_true(view)
            case StopReplica():
                pass

    def _is_no_repetition(self, tell: Tell, views: tuple[PartitionView, ...]) -> None:
        """A broker that refuses, or comes back, hears things again; nobody hears the same again and again."""
        told = self._times_told.setdefault((tell.controller_epoch, tell.broker, tell.broker_epoch), {})
        for view in views:
            told[view] = told.get(view, 0) + 1
            if told[view] > OFTEN:
                raise Broken(f"broker {tell.broker} was told for the {told[view]}th time of {view}")

    def _view_is_true(self, view: PartitionView) -> None:
        if view.leader == DELETING_LEADER:
            return
        at = TopicPartition(view.topic, view.partition)
        told = PartitionState(
            view.leader, view.leader_epoch, view.controller_epoch, view.isr, view.leader_recovery_state
        )
        if at in self.edited:
            return  # what somebody else wrote does not count, and is not told
        if told not in self.accepted.get((at, view.partition_epoch), ()):
            raise Broken(f"told but never accepted by ZooKeeper: {view}")
        if Assignment(view.replicas, view.adding, view.removing) not in self.assigned.get(at, {}):
            raise Broken(f"told replicas that ZooKeeper never accepted: {view}")

    def _leadership_is_true(self, controller: Controller, broker: BrokerId, view: PartitionView) -> None:
        if broker not in view.replicas:
            raise Broken(f"broker {broker} is told to host {view}")
        self._view_is_true(view)
        if controller.epoch == self._epoch:
            self._pair_is_true(view)

    def _pair_is_true(self, view: PartitionView) -> None:
        """What a deposed controller mixes up is fenced by the brokers; who rules must not mix anything up."""
        at = TopicPartition(view.topic, view.partition)
        told = view.partition_epoch, Assignment(view.replicas, view.adding, view.removing)
        if at not in self.edited and told not in self.together[at]:
            raise Broken(f"told a leader and replicas that never were together in ZooKeeper: {view}")

    # what brokers keep

    def deleted(self, model: BrokerModel, at: TopicPartition, command: Command) -> None:
        """A broker has just deleted a replica.

        One that was told to go and has been wanted again since may go first: it comes back empty.
        """
        state, topic = self.states.get(at), self.topics.get(at.topic)
        if at.topic in self.unwanted:
            return
        if state is not None and model.broker in state.isr:
            raise Broken(f"broker {model.broker} deleted {at}, being in its ISR {list(state.isr)}")
        stops = command.stops if isinstance(command, StopReplica) else ()
        epochs = [s.leader_epoch for s in stops if (s.topic, s.partition) == at]
        is_recent = state is None or any(e >= state.leader_epoch for e in epochs)
        assignment = None if topic is None else topic.partitions[at.partition]
        if is_recent and assignment is not None and at not in self.edited and model.broker in assignment.target:
            raise Broken(f"broker {model.broker} deleted {at}, which it must keep: {assignment}")

    def acknowledged(self, model: BrokerModel) -> None:
        """Note every record that has passed the high watermark of a leader: its producer was told so."""
        for at in model.led():
            log = model.disk[at]
            key = (model.broker, at)
            epoch = model.replicas[at].view.leader_epoch
            if at not in self.states:
                continue  # its topic is being deleted
            if at in self.lost and epoch != self.states[at].leader_epoch:
                continue  # what a deposed leader acknowledges is lost, as an unclean election means it to be
            mark, marked_in = self._seen_marks.get(key, (0, -1))
            start = mark if marked_in == epoch else 0
            numbers = self._acked_numbers.setdefault(at, {})
            for record in log.records[min(start, log.high_watermark) : log.high_watermark]:
                numbers[record.number] = None
            self._seen_marks[key] = (log.high_watermark, epoch)

    def leads_with_everything(self, model: BrokerModel, at: TopicPartition) -> None:
        """The leader that ZooKeeper names must have every acknowledged record."""
        state = self.states.get(at)
        replica = model.replicas.get(at)
        if state is None or replica is None or state.leader != model.broker:
            return
        if replica.view.leader_epoch != state.leader_epoch:
            return
        held = {record.number for record in model.disk[at].records}
        missing = [number for number in self._acked_numbers.get(at, {}) if number not in held]
        if missing:
            raise Broken(f"leader {model.broker} of {at} lacks the acknowledged records {missing[:5]}")

    @property
    def unanswered(self) -> dict[CallId, Request]:
        """Requests that a controller has and has not answered."""
        return self._open

    def current_epoch(self) -> ControllerEpoch:
        """The epoch of whoever claimed last."""
        return ControllerEpoch(self._epoch)
