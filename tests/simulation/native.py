"""What if a broker's native controller leads for a while? It elects, moves, cancels and deletes, and stops.

It writes as Kafka's controller does: one znode after the other, the topic's before the state's, and no record of
unfinished work. So ours may find anything half-done, and brokers that know more than ZooKeeper.

Source: Kafka's KafkaController (onControllerFailover, onPartitionReassignment), PartitionStateMachine,
TopicDeletionManager.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from controller.core.messages.commands import Command, LeaderAndIsr, LiveBroker, PartitionView, ReplicaStop, StopReplica
from controller.core.messages.commands import UpdateMetadata as Metadata
from controller.core.messages.effects import Tell
from controller.lab.broker_model import DELETING_LEADER
from tests.simulation.zookeeper import MakeNode, Multi, Operation, RemoveNode, SetData
from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.ids import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    Replicas,
    TopicName,
    TopicPartition,
)
from zk_layout.znodes import replica_deletions
from zk_layout.znodes.admin import DELETE_TOPICS
from zk_layout.znodes.brokers import Endpoint
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions, ReplicaDeletionsAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

if TYPE_CHECKING:
    from tests.simulation.world import World

CLAIM, EPOCH = "/controller", "/controller_epoch"
ANY_EPOCH = LeaderEpoch(-2)


def rule_briefly(world: World, broker: BrokerId, for_s: float) -> None:
    """A broker takes `/controller` from any holder, and gives it up again."""
    NativeController(world, broker).rule(for_s)


class NativeController:
    """One term of a native controller."""

    def __init__(self, world: World, broker: BrokerId) -> None:
        self.world = world
        self.random = world.random
        self.broker = broker
        self.session = world.zookeeper.open_session()
        self.epoch = ControllerEpoch(int(world.zookeeper.nodes[EPOCH].data) + 1)
        self._arrives_at: dict[BrokerId, float] = {}
        self.aborted: dict[TopicPartition, ControllerEpoch] = {}

    def rule(self, for_s: float) -> None:
        """Claim, elect leaders where needed, act now and then, and resign."""
        zookeeper = self.world.zookeeper
        operations: list[Operation] = [SetData(EPOCH, str(self.epoch).encode())]
        if CLAIM in zookeeper.nodes:
            operations.append(RemoveNode(CLAIM))
        operations.append(MakeNode(CLAIM, catalog.encode(ControllerClaim(self.broker)), is_ephemeral=True))
        zookeeper.multi(self.session, operations)
        self._say(f"takes /controller with epoch {self.epoch} for {for_s:.2f}s")
        known = self._partitions(moving=False)
        self._tell([v for at in known if self.random.random() < 0.5 for v in self._raise(at)])
        self._elect_all()
        self._move_back()
        self._act_later()
        self.world.clock.after(for_s, lambda: self.world.expire(self.session))

    def _say(self, what: str) -> None:
        self.world.say("native", f"broker {self.broker} {what}")

    def _act_later(self) -> None:
        def act() -> None:
            if self._rules():
                acts = (self._begin_a_move, self._finish_a_move, self._cancel_a_move, self._prefer, self._delete_topics)
                self.random.choices((*acts, self._elect_all), (3, 4, 1, 1, 1, 2))[0]()
                self._act_later()

        self.world.clock.after(self.random.uniform(0.05, 0.6), act)

    def _rules(self) -> bool:
        claim = self.world.zookeeper.nodes.get(CLAIM)
        return claim is not None and claim.owner == self.session

    def _is_wanted(self, name: TopicName) -> bool:
        return f"{DELETE_TOPICS}/{name}" not in self.world.zookeeper.nodes and name in self.world.checker.topics

    # what is there

    def _live(self) -> list[BrokerId]:
        return [b for b in self.world.brokers if f"/brokers/ids/{b}" in self.world.zookeeper.nodes]

    def _able(self, at: TopicPartition) -> list[BrokerId]:
        """The live brokers whose replica is not in a log directory that failed."""
        return [b for b in self._live() if not self.world.brokers[b].is_offline(at)]

    def _partitions(self, *, moving: bool) -> list[TopicPartition]:
        found = [at for at in self.world.checker.states if self._is_wanted(at.topic) and self._is_readable(at)]
        return [at for at in found if self._assignment(at).is_moving == moving]

    def _is_readable(self, at: TopicPartition) -> bool:
        paths = TopicAddress(at.topic).path, StateAddress(at.topic, at.partition).path
        return not any(isinstance(catalog.decode(*self._held(path)), Malformed) for path in paths)

    def _assignment(self, at: TopicPartition) -> Assignment:
        return self._read_topic(at.topic).partitions[at.partition]

    def _read_topic(self, name: TopicName) -> Topic:
        topic = catalog.decode(*self._held(TopicAddress(name).path))
        assert isinstance(topic, Topic)
        return topic

    def _read_state(self, at: TopicPartition) -> PartitionState:
        state = catalog.decode(*self._held(StateAddress(at.topic, at.partition).path))
        assert isinstance(state, PartitionState)
        return state

    def _held(self, path: str) -> tuple[catalog.Address, bytes]:
        address = catalog.address_of(path)
        assert address is not None
        return address, self.world.zookeeper.nodes[path].data

    # what it writes

    def _write(self, *operations: Operation) -> bool:
        done: Multi = self.world.zookeeper.multi(self.session, operations)
        return not done.errors

    def _write_assignment(self, at: TopicPartition, assignment: Assignment) -> bool:
        topic = self._read_topic(at.topic)
        changed = replace(topic, partitions={**topic.partitions, at.partition: assignment})
        return self._write(SetData(TopicAddress(at.topic).path, catalog.encode(changed)))

    def _raise(
        self, at: TopicPartition, leader: BrokerId | None = None, isr: Replicas | None = None
    ) -> list[PartitionView]:
        """Raise the leader epoch, with another leader or ISR if given.

        As Kafka's: a state with a higher controller epoch was written by a later controller, and is left alone.
        """
        held = self._read_state(at)
        if held.controller_epoch > self.epoch:
            self._say(f"aborts: {at} was written with controller epoch {held.controller_epoch}")
            self.aborted[at] = held.controller_epoch
            return []
        state = PartitionState(
            held.leader if leader is None else leader,
            LeaderEpoch(held.leader_epoch + 1),
            self.epoch,
            held.isr if isr is None else isr,
            held.leader_recovery_state,
        )
        path = StateAddress(at.topic, at.partition).path
        version = self.world.zookeeper.nodes[path].version
        return [self._view(at, state)] if self._write(SetData(path, catalog.encode(state), version)) else []

    def _view(self, at: TopicPartition, state: PartitionState) -> PartitionView:
        node = self.world.zookeeper.nodes[StateAddress(at.topic, at.partition).path]
        assignment = self._assignment(at)
        return PartitionView(
            at.topic,
            self._read_topic(at.topic).topic_id,
            at.partition,
            self.epoch,
            state.leader,
            state.leader_epoch,
            state.isr,
            PartitionEpoch(node.version),
            state.leader_recovery_state,
            assignment.replicas,
            assignment.adding,
            assignment.removing,
        )

    # what it decides

    def _elect_all(self) -> None:
        """Partitions without a live leader get one of their live in-sync replicas, if there is any."""
        views = []
        for at in (*self._partitions(moving=False), *self._partitions(moving=True)):
            state, able = self._read_state(at), self._able(at)
            in_sync = tuple(r for r in state.isr if r in able)
            if state.leader in able:
                continue
            if in_sync:
                order = [r for r in self._assignment(at).replicas if r in in_sync]
                views += self._raise(at, order[0], in_sync) if order else []
            elif state.leader != NO_LEADER:
                views += self._raise(at, NO_LEADER)
        self._tell(views)

    def _prefer(self) -> None:
        for at in self._partitions(moving=False)[:1]:
            state, first = self._read_state(at), self._assignment(at).replicas[0]
            if first in state.isr and first in self._able(at) and state.leader != first:
                self._say(f"elects the preferred leader of {at}")
                self._tell(self._raise(at, first))

    def _begin_a_move(self) -> None:
        candidates = self._partitions(moving=False)
        if not candidates or not self._live():
            return
        owing = [at for at in candidates if self._owed(at)]
        self.begin_a_move_of(self.random.choice(owing if owing and self.random.random() < 0.5 else candidates))

    def begin_a_move_of(self, at: TopicPartition, silent: float = 0.2) -> None:
        """Move it to some brokers, unless it moves; the share `silent` dies before any broker hears of it."""
        live = self._live()
        if not live or at not in self._partitions(moving=False):
            return
        original = self._assignment(at).replicas
        some = self.random.sample(live, self.random.randint(1, min(3, len(live))))
        # A native controller knows nothing of pending deletions.
        back = [b for b in self._owed(at) if b in live and b not in original][:1]
        target = tuple(dict.fromkeys([*back, *some]))
        leaving = tuple(r for r in original if r not in target)
        joining = tuple(r for r in target if r not in original)
        if not self._is_wanted(at.topic) or target == original:
            return
        self._say(f"moves {at} from {list(original)} to {list(target)}")
        self.world.folder.wanted(at, target)
        if not self._write_assignment(at, Assignment((*target, *leaving), joining, leaving)):
            return
        if self.random.random() < silent:
            self.world.expire(self.session)
        else:
            self._tell(self._raise(at), new=joining)

    def _owed(self, at: TopicPartition) -> Replicas:
        node = self.world.zookeeper.nodes.get(ReplicaDeletionsAddress(at.topic).path)
        held = replica_deletions.decode(node.data) if node is not None else None
        return held.replicas.get(at.partition, ()) if held is not None else ()

    def _finish_a_move(self) -> None:
        moving = self._partitions(moving=True)
        if moving:
            at = self.random.choice(moving)
            self._settle(at, self._assignment(at).target)

    def _cancel_a_move(self) -> None:
        moving = self._partitions(moving=True)
        if moving:
            at = self.random.choice(moving)
            self._say(f"cancels the move of {at}")
            self.world.folder.wanted(at, self._assignment(at).original)
            self._settle(at, self._assignment(at).original)

    def _settle(self, at: TopicPartition, target: Replicas) -> None:
        """Hand over to the target, stop the others, and write the move's end, if all can be done at once."""
        state, able, assignment = self._read_state(at), self._able(at), self._assignment(at)
        isr = tuple(r for r in state.isr if r in target)
        leaving = [r for r in assignment.replicas if r not in target]
        in_sync = [r for r in target if r in isr and r in able]
        is_complete = target == assignment.original or all(r in isr for r in target)
        if not in_sync or not is_complete or not self._can_all_be_told(leaving):
            return
        self._say(f"ends the move of {at} at {list(target)}")
        views = self._raise(at, state.leader if state.leader in in_sync else in_sync[0], isr)
        if not views or not self._write_assignment(at, Assignment(target)):
            return
        self._tell([self._view(at, self._read_state(at))])
        stop = ReplicaStop(at.topic, at.partition, LeaderEpoch(views[0].leader_epoch), is_deletion=True)
        for broker in leaving:
            self._send(broker, StopReplica((stop,)))
            self.world.clock.after(1.0, partial(self._clean_up, broker, at))

    def _clean_up(self, broker: BrokerId, at: TopicPartition) -> None:
        """A native controller does not record pending deletions; an operator removes its leftovers."""
        topic, held = self.world.checker.topics.get(at.topic), self.world.brokers[broker]
        if at in held.disk and (topic is None or broker not in topic.partitions[at.partition].replicas):
            held.disk.pop(at)
            if held.model is not None:
                held.model.replicas.pop(at, None)

    def _can_all_be_told(self, brokers: list[BrokerId]) -> bool:
        return all(b in self.world.brokers and self.world.brokers[b].is_up for b in brokers)

    def _delete_topics(self) -> None:
        """Send all brokers the deletion; remove the znodes if every broker has carried it out."""
        for name in list(self.world.checker.unwanted):
            topic = self.world.checker.topics.get(name)
            if topic is None:
                continue
            self._say(f"deletes {name}")
            gone = [replace(v, leader=DELETING_LEADER) for at in self._states_of(name) for v in self._raise(at)]
            self._tell(gone)
            stops = [ReplicaStop(name, number, ANY_EPOCH, is_deletion=True) for number in topic.partitions]
            for broker in self._live():
                self._send(broker, StopReplica(tuple(stops)))
            return

    def _states_of(self, name: TopicName) -> list[TopicPartition]:
        return [at for at in self.world.checker.states if at.topic == name and self._is_readable(at)]

    def _move_back(self) -> None:
        """Move a partition back: replicas whose deletion our controllers have noted host it again."""
        for name, topic in self.world.checker.topics.items():
            path = ReplicaDeletionsAddress(name).path
            if path in self.world.zookeeper.nodes or not self._is_wanted(name) or not topic.partitions:
                continue
            if self.random.random() < 0.3:
                number = self.random.choice(sorted(topic.partitions))
                owed = ReplicaDeletions({number: topic.partitions[number].replicas}, topic.topic_id)
                self._write(MakeNode(path, catalog.encode(owed)))
                self._say(f"has moved {name}-{number} back to the brokers that owe its deletion")

    # what it announces

    def _tell(self, views: list[PartitionView], new: Replicas = ()) -> None:
        """All live brokers receive it, sooner or later, in order."""
        if not views:
            return
        live = tuple(LiveBroker(b, (Endpoint("PLAINTEXT", f"broker-{b}", 9092),)) for b in self._live())
        for broker in self._live():
            hosted = tuple(v for v in views if broker in v.replicas and v.leader != DELETING_LEADER)
            known, added = ((), hosted) if broker in new else (hosted, ())
            if hosted:
                self._send(broker, LeaderAndIsr(known, added, live))
            self._send(broker, Metadata(tuple(views), live))

    def _send(self, broker: BrokerId, command: Command) -> None:
        model = self.world.brokers[broker].model if broker in self.world.brokers else None
        if model is not None:
            now = self.world.clock.now
            at = self._arrives_at[broker] = max(self._arrives_at.get(broker, now), now + self.world.network.delay())
            tell = Tell(broker, model.broker_epoch, self.epoch, command)
            if isinstance(command, StopReplica):
                self.world.checker.announcements.deletion_sent(tell)
            self.world.clock.after(at - now, lambda: self._deliver(tell))

    def _deliver(self, tell: Tell) -> None:
        self.world.deliver(self.broker, tell)
