"""Which promises must hold after every step, and which once the faults have stopped?

Source: architecture section 6. A broken promise raises `Broken`, with the seed's trace to explain it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from controller.core.messages.effects import Answer, Commit, Create, Effect, StepDown, Tell
from controller.core.settings import WRITES_A_TRANSACTION
from controller.core.stage import in_force
from controller.core.steps.invariants import NOTHING, Held, outdated, violated
from tests.simulation.announcements import Announcements
from tests.simulation.answers import Answers
from tests.simulation.broken import Broken, hold
from tests.simulation.departures import Departures
from tests.simulation.elections import ill_begun, unfounded, unsound
from tests.simulation.records import Records
from tests.simulation.refusals import READ_AGAIN_WITHIN_S
from tests.simulation.zookeeper import Operation, RemoveNode
from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.ids import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Replicas,
    SessionId,
    TopicName,
    TopicPartition,
    Zxid,
)
from zk_layout.znodes.admin import DELETE_TOPICS, TopicDeletionAddress
from zk_layout.znodes.controller import ControllerAddress, ControllerEpochAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller
    from tests.simulation.world import World


SERVERS = SessionId(0)  # they delete the znodes of an expired session


class Checker:
    """Remembers ZooKeeper's history, and compares everything with it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.states: dict[TopicPartition, PartitionState] = {}
        self.written_at: dict[TopicPartition, float] = {}  # those in `states`, so before the write in checking
        self.state_written_at = 0.0
        self.unwanted: dict[TopicName, None] = {}
        self._withdrawn_at: dict[TopicName, Zxid] = {}  # the requests to delete a topic that is still there
        self.topics: dict[TopicName, Topic] = {}
        self.former: dict[TopicPartition, Assignment] = {}  # before the last change
        self.accepted: dict[tuple[TopicPartition, int], list[PartitionState]] = {}
        self.assigned: dict[TopicPartition, dict[Assignment, None]] = {}
        self.together: dict[TopicPartition, dict[tuple[int, Assignment], None]] = {}
        # Versions of states that a leader itself has replaced since a controller last wrote one.
        self._replaced: dict[TopicPartition, dict[int, None]] = {}
        self.known: dict[TopicPartition, tuple[LeaderEpoch, dict[BrokerId, None]]] = {}  # in force in this leader epoch
        self.announced: dict[TopicPartition, tuple[LeaderEpoch, Replicas]] = {}  # in force when this epoch began
        self.caught_up: dict[TopicPartition, dict[BrokerId, None]] = {}  # in sync at some time since it was added
        self.unheard: dict[TopicPartition, None] = {}  # rewritten by a client that sends no notification
        self.spoiled: dict[TopicPartition, None] = {}  # its state was unreadable for a while
        self._damaged_until: dict[str, float] = {}  # malformed znodes of topics
        self.quorums: dict[SessionId, None] = {}  # of KRaft controllers, which write epochs of their own into states
        self.edited: dict[TopicPartition, None] = {}  # its former assignment was written by hand
        self.asked_for: dict[TopicName, None] = {}
        self._touched: dict[str, SessionId] = {}
        self.decided_at: dict[str, float] = {}  # first states
        self.touched_at: dict[str, float] = {}  # also znodes that are gone or broken, and the write in checking
        self._epoch = 0
        self._raised_by: dict[ControllerEpoch, SessionId] = {}
        self._holder = SERVERS
        self._wrongly_ended: str | None = None
        self.answers = Answers(self)
        self.announcements = Announcements(self)
        self.records = Records(self)
        self.departures = Departures(self)

    # what ZooKeeper holds

    def begin(self) -> None:
        """Take everything written so far as the initial state, not as a step."""
        self._touched.clear()

    def wrote(self, session: SessionId, operation: Operation, zxid: Zxid) -> None:
        """Note one change of the tree, to be checked with its whole transaction."""
        self._touched[operation.path] = session
        self.touched_at[operation.path] = self.world.clock.now
        self.world.namesakes.wrote(operation, zxid)
        self.world.beginnings.wrote(session, operation, zxid)
        self.world.pauses.wrote(operation)
        self.announcements.wrote(operation.path)
        if operation.path == ControllerAddress().path:
            self._claim_changed(session, operation)
        if isinstance(operation, RemoveNode):
            for broker in self.world.brokers.values():
                broker.unregistered(operation.path)

    def _claim_changed(self, session: SessionId, operation: Operation) -> None:
        """A controller gives up only its own claim; it replaces another's in one transaction."""
        if isinstance(operation, RemoveNode):
            is_others = session not in (SERVERS, self._holder) and self.is_ours(session)
            self._wrongly_ended = f"session {session} ended the claim of session {self._holder}" if is_others else None
        else:
            self._holder, self._wrongly_ended = session, None

    def after_step(self) -> None:
        """Check that everything that changed together fits together."""
        touched, self._touched = self._touched, {}
        hold(self._wrongly_ended)
        if touched:
            self._wrote_together(touched)
        for broker in self.world.brokers.values():
            if broker.model is not None and broker.model.violations:
                raise Broken(broker.model.violations[0])

    def _wrote_together(self, touched: dict[str, SessionId]) -> None:
        for path in touched:
            self._note_damage(path)
        hold(self.world.folder.wrote(touched))
        asked_for = [a.topic for a in map(catalog.address_of, touched) if isinstance(a, TopicDeletionAddress)]
        former = {path: self.topics.get(address.topic) for path, address in self._topics_in(touched)}
        states = dict(self.states)
        for path, address in self._topics_in(touched):
            self._topic_changed(address, path, touched[path])
        for path, session in touched.items():
            match catalog.address_of(path):
                case StateAddress(topic, partition):
                    is_alone = TopicAddress(topic).path not in touched
                    self._state_changed(TopicPartition(topic, partition), path, session, is_alone=is_alone)
                case ControllerEpochAddress():
                    self._epoch_changed(path, session)
        self._note_pairs(touched)
        hold(self.world.move_requests.wrote(touched))
        self.world.throttles.wrote(touched)
        hold(self.world.wall_clocks.wrote(touched))
        self.world.limits.wrote(touched, {TopicName(path.rpartition("/")[2]): held for path, held in former.items()})
        for name in asked_for:
            self._wish_changed(name, is_ours=self.is_ours(touched[TopicDeletionAddress(name).path]))
        for path, before in former.items():
            if before is not None and path in self.world.zookeeper.nodes and touched[path] != self.world.tools:
                self.departures.nobody_left_early(before, states, TopicName(path.rpartition("/")[2]))
                if self.is_ours(touched[path]):
                    self.departures.nobody_left_apart(before, TopicName(path.rpartition("/")[2]), touched)
                    self.departures.target_lives(before, states, TopicName(path.rpartition("/")[2]), touched[path])

    def _note_pairs(self, touched: dict[str, SessionId]) -> None:
        """Note which assignment and state of a partition held at the same time, as far as a controller knows.

        It does not know of a state that the leader wrote by itself before it has read that.
        """
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
                    for version in (node.version, *self._replaced.get(at, ())):
                        pairs[version, assignment] = pairs[version, Assignment(assignment.target)] = None
                    self._note_known(at, assignment)

    def _note_known(self, at: TopicPartition, assignment: Assignment) -> None:
        state = self.states.get(at)
        if state is None:
            return
        epoch, known = self.known.get(at, (state.leader_epoch, {}))
        held = known if epoch == state.leader_epoch else {}
        replicas = in_force(assignment, state).replicas
        self.known[at] = state.leader_epoch, {**held, **dict.fromkeys(replicas)}
        if self.announced.get(at, (None, ()))[0] != state.leader_epoch:
            self.announced[at] = state.leader_epoch, replicas

    @staticmethod
    def _topics_in(touched: dict[str, SessionId]) -> list[tuple[str, TopicAddress]]:
        pairs = [(path, catalog.address_of(path)) for path in touched]
        return [(path, address) for path, address in pairs if isinstance(address, TopicAddress)]

    def read(self, path: str) -> object:
        node = self.world.zookeeper.nodes.get(path)
        address = catalog.address_of(path)
        return None if node is None or address is None else catalog.decode(address, node.data)

    def _note_damage(self, path: str) -> None:
        if isinstance(self.read(path), Malformed):
            self._damaged_until[path] = math.inf
        elif self._damaged_until.get(path) == math.inf:
            self._damaged_until[path] = self.world.clock.now

    def was_unreadable_lately(self, at: TopicPartition) -> bool:
        """Whether a controller may still not know a partition's replicas or state, though they are readable now."""
        paths = (TopicAddress(at.topic).path, StateAddress(at.topic, at.partition).path)
        return any(map(self.may_be_unread, paths))

    def may_be_unread(self, path: str) -> bool:
        """Whether a controller may not have read a znode since it could: it was hidden, or malformed."""
        damaged_until = self._damaged_until.get(path, -math.inf)
        return self.world.refusals.hid_lately(path) or self.world.clock.now - damaged_until < READ_AGAIN_WITHIN_S

    def _epoch_changed(self, path: str, session: SessionId) -> None:
        epoch = self.read(path)
        if not isinstance(epoch, int) or epoch <= self._epoch:
            raise Broken(f"the controller epoch went from {self._epoch} to {epoch}")
        self._epoch = epoch
        self._raised_by[ControllerEpoch(epoch)] = session

    def _topic_changed(self, address: TopicAddress, path: str, session: SessionId) -> None:
        value, before = self.read(path), self.topics.get(address.topic)
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
        if session == self.world.tools and before is not None:
            edited = [n for n, assignment in before.partitions.items() if assignment != value.partitions.get(n)]
            self.edited.update(dict.fromkeys(TopicPartition(address.topic, n) for n in edited))
        is_edited = session == self.world.tools and before is not None
        for number, assignment in value.partitions.items():
            former = None if before is None else before.partitions.get(number)
            at = TopicPartition(address.topic, number)
            self._assigned(at, former, assignment)
            if is_edited:  # in the same term the value written before that counts
                self.announcements.edited(at, assignment)
            else:
                self.announcements.assigned(at, assignment, self._term_of(session))
        self.topics[address.topic] = value

    def _assigned(self, at: TopicPartition, former: Assignment | None, assignment: Assignment) -> None:
        self._assignment_is_sane(at, assignment)
        if former is not None and former != assignment:
            self.former[at] = former
        if former != assignment:
            self.world.phases.moved(at, assignment)
        caught_up = self.caught_up.get(at, {})
        self.caught_up[at] = {r: None for r in caught_up if r in assignment.replicas}

    def _topic_gone(self, name: TopicName, before: Topic) -> None:
        """A topic disappears only on request, and not before all its logs are deleted."""
        if name not in self.unwanted:
            raise Broken(f"topic {name} was deleted without a request")
        for broker in self.world.brokers.values():
            left = [at for at in broker.disk if at.topic == name and at not in self.edited]
            if left:
                raise Broken(f"topic {name} was deleted while {broker.name} still has {left}")
        del self.topics[name]
        self._withdrawn_at.pop(name, None)
        self.world.phases.gone(name)
        for at in [TopicPartition(name, number) for number in before.partitions]:
            self.announcements.forget(at)
            for memory in (self.states, self.known, self.announced, self.caught_up):
                memory.pop(at, None)
            self.records.forget(at)
            self.departures.forget(at)
            self._replaced.pop(at, None)
            self.written_at.pop(at, None)
            for broker in self.world.brokers.values():
                broker.found.pop(at, None)
                broker.shelf.pop(at, None)

    def _wish_changed(self, name: TopicName, *, is_ours: bool) -> None:
        """A deletion request counts for the topic that exists when it is written, not for one created later.

        No controller withdraws one: the next controller would find a half-deleted topic without a request.
        """
        mark = self.world.zookeeper.nodes.get(f"{DELETE_TOPICS}/{name}")
        self.asked_for[name] = None
        topic = self.world.zookeeper.nodes.get(TopicAddress(name).path)
        if mark is None and topic is not None and is_ours and name in self.unwanted:
            raise Broken(f"the request to delete {name} is gone, and the topic is still there")
        if mark is None and topic is not None and name in self.unwanted:
            self._withdrawn_at[name] = Zxid(self.world.zookeeper.nodes[DELETE_TOPICS].pzxid)
        if mark is None or topic is None or mark.czxid < topic.czxid:
            self.unwanted.pop(name, None)
        else:
            self.unwanted[name] = None

    def is_to_be_deleted(self, name: TopicName, seen: Zxid | None) -> bool:
        """Whether a request to delete this topic exists, or was withdrawn after what a controller has seen."""
        return name in self.unwanted or (seen is not None and seen < self._withdrawn_at.get(name, Zxid(0)))

    def born(self, name: TopicName) -> Zxid | None:
        """The transaction that created a topic: another topic of that name has another one."""
        node = self.world.zookeeper.nodes.get(TopicAddress(name).path)
        return None if node is None else Zxid(node.czxid)

    def _assignment_is_sane(self, at: TopicPartition, assignment: Assignment) -> None:
        history = self.assigned.setdefault(at, {})
        if assignment not in history:
            self._hold(at, violated(NOTHING, Held(assignment)))
        history[assignment] = None
        history[Assignment(assignment.target)] = None

    def _state_changed(self, at: TopicPartition, path: str, session: SessionId, *, is_alone: bool) -> None:
        value, before = self.read(path), self.states.get(at)
        self.state_written_at = self.world.clock.now
        if value is None and before is not None:
            if at.topic not in self.unwanted:
                raise Broken(f"the state of {at} was deleted without a request")
            del self.states[at]
        if not isinstance(value, PartitionState):
            self.spoiled[at] = None
            return
        replicas = self.topics[at.topic].partitions[at.partition].replicas
        self._hold(at, violated(Held(state=before), Held(state=value)))
        if session not in self.quorums:
            self._hold(at, outdated(Held(state=before), Held(state=value), self._epoch))
        strays = [r for r in value.isr if r not in replicas]
        is_cut = is_alone or not self.is_ours(session)
        may_be_left = is_cut and self._may_be_left(at, value, strays, session)
        if strays and at not in self.edited and not may_be_left and not self._may_not_know(at, strays, session):
            raise Broken(f"{at} has the ISR {list(value.isr)} but the replicas {list(replicas)}")
        if before is not None:
            self._state_follows(at, before, value, session)
        else:
            self.announcements.begun(at, self._term_of(session))
        if before is None and self.is_ours(session):
            hold(ill_begun(self, at, value, self.world.ensemble.shown_in_time_since(session)))
        if session != self.world.tools:
            self.unheard.pop(at, None)
        node = self.world.zookeeper.nodes[path]
        if self._is_leaders_own(before, value, session):
            self._replaced.setdefault(at, {})[node.version - 1] = None
        else:
            self._replaced.pop(at, None)
        self.states[at], self.written_at[at] = value, self.world.clock.now
        self.caught_up.setdefault(at, {}).update(dict.fromkeys(value.isr))
        self.accepted.setdefault((at, node.version), []).append(value)
        self.departures.note_sync(at)

    @staticmethod
    def _hold(at: TopicPartition, wrong: str) -> None:
        """Invariants of every write."""
        hold(f"{at}: {wrong}" if wrong else None)

    def _may_be_left(
        self, at: TopicPartition, value: PartitionState, strays: list[BrokerId], session: SessionId
    ) -> bool:
        """Whether an ISR may name a replica that left with the first part of a split decision, until the second is in.

        Members of the ISR stay until then. A leader that writes the ISR itself may also add replicas it knew in its
        leader epoch: then the second part, which raises that, is refused and decided again.
        """
        before = self.states.get(at)
        if before is None:
            return False
        known = self.known[at][1] if self._is_leaders_own(before, value, session) else {}
        return all(r in before.isr or r in known for r in strays)

    def _is_leaders_own(self, before: PartitionState | None, value: PartitionState, session: SessionId) -> bool:
        """Whether the leader itself changed the ISR."""
        leader = self.world.brokers.get(value.leader)
        is_by_leader = leader is not None and leader.session == session
        return before is not None and is_by_leader and replace(before, isr=value.isr) == value

    def _may_not_know(self, at: TopicPartition, strays: list[BrokerId], session: SessionId) -> bool:
        """Whether a controller may take these for replicas: they were, and it may not have read that they left."""
        is_unread = self.is_ours(session) and self.may_be_unread(TopicAddress(at.topic).path)
        former = {r for assignment in self.assigned.get(at, ()) for r in assignment.replicas}
        return is_unread and former.issuperset(strays)

    def is_ours(self, session: SessionId) -> bool:
        return any(c.session == session for c in self.world.controllers.values())

    def _term_of(self, session: SessionId) -> ControllerEpoch | None:
        return self.current_epoch() if self.is_ours(session) else None

    def _state_follows(
        self, at: TopicPartition, before: PartitionState, after: PartitionState, session: SessionId
    ) -> None:
        is_by_controller, since = self.is_ours(session), self.world.ensemble.shown_in_time_since(session)
        joined = [r for r in after.isr if r not in before.isr]
        if is_by_controller and after.leader != before.leader and joined and self._has_whole_target(at, after):
            self.records.joins_with_everything(at, joined, since)
            before = replace(before, isr=(*before.isr, *joined))
        # A forced request removed all in-sync replicas, even though the others are offline.
        is_given_up = at in self.answers.forced and not any(r in before.isr for r in after.isr)
        if is_by_controller and after.leader == before.leader and not is_given_up:
            self.records.joins_with_everything(at, joined, since)
        if is_by_controller and after.controller_epoch != self._epoch:
            raise Broken(f"{at} was written with controller epoch {after.controller_epoch}, not {self._epoch}")
        if after.leader != before.leader:
            hold(unsound(self, at, before, after, since))
        if is_by_controller:
            hold(unfounded(self, at, before, after, since))
        if after.leader not in (NO_LEADER, before.leader, *before.isr):
            self._unclean(at, after)
        elif is_given_up or (not is_by_controller and self._was_no_replica(at, after.leader)):
            self.records.lose(at, after.leader_epoch)

    def _has_whole_target(self, at: TopicPartition, after: PartitionState) -> bool:
        """Whether a move is handed over by this write: the ISR by which its target is in sync may come with it."""
        assignment = self.topics[at.topic].partitions[at.partition]
        return assignment.is_moving and {*after.isr} == {*assignment.target} and len(after.isr) > 1

    def _was_no_replica(self, at: TopicPartition, leader: BrokerId) -> bool:
        """Whether a hand may have taken the elected out of the replicas: its leader went on without it.

        A native controller does not look at an ISR that names more than the replicas; ours shrinks it at once.
        """
        return at in self.edited and leader in self.topics[at.topic].partitions[at.partition].adding

    def _unclean(self, at: TopicPartition, after: PartitionState) -> None:
        if not self.world.plan.unclean_election and at not in self.answers.forced:
            raise Broken(f"{at} elected {after.leader}, which was not in sync")
        self.records.lose(at, after.leader_epoch)

    @property
    def may_be_cut(self) -> bool:
        """Whether one transaction may not hold all of a decision."""
        return self.world.plan.writes_a_transaction < WRITES_A_TRANSACTION or self.world.sizes.is_tight

    # what a controller does

    def began(self, controller: Controller, epoch: ControllerEpoch) -> None:
        """A term begins: no other term may have the same epoch."""
        if self._raised_by.get(epoch) != controller.session:
            raise Broken(f"{controller.name} leads with controller epoch {epoch}, which another controller has raised")

    def decided(self, commit: Commit) -> None:
        """Note when a controller decides on first states: what it learns later cannot change them."""
        for operation in commit.operations:
            if isinstance(operation.write, Create) and isinstance(operation.write.address, StateAddress):
                self.decided_at[operation.write.address.path] = self.world.clock.now

    def committed(self, controller: Controller, commit: Commit) -> None:
        """ZooKeeper accepted a transaction of this controller."""
        held = self.read("/controller_epoch")
        if held != controller.epoch:
            raise Broken(f"{controller.name} wrote in epoch {controller.epoch}, while {held} rules")
        hold(self.world.namesakes.committed(controller, commit))
        self.announcements.doubts.accepted(controller.epoch, commit)
        self.world.coverage.decided(commit.why, self.world.clock.now)

    def effect(self, controller: Controller, effect: Effect) -> None:
        """A controller has decided something."""
        match effect:
            case Answer():
                self.answers.answered(controller, effect)
            case Tell():
                self.announcements.sent(controller, effect)
            case StepDown(reason):
                self.world.say(controller.name, f"wants to step down: {reason}")

    def current_epoch(self) -> ControllerEpoch:
        """The epoch of the last claim."""
        return ControllerEpoch(self._epoch)
