"""Do controllers announce the truth to brokers, and do brokers keep what they must?"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from controller.core.candidacy.phases import Phase
from controller.core.messages.commands import LeaderAndIsr, PartitionView, StopReplica, UpdateMetadata
from controller.core.messages.effects import Tell
from controller.lab.broker_model import DELETING_LEADER, BrokerModel
from tests.simulation.broken import Broken
from tests.simulation.doubts import Doubts, is_of
from tests.simulation.refusals import Concern
from zk_layout import catalog
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, Replicas, TopicPartition, Zxid
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

if TYPE_CHECKING:
    from tests.simulation.brokers import Broker
    from tests.simulation.checker import Checker
    from tests.simulation.controllers import Controller

Happened = dict[BrokerId, int]
"""How much has happened to each of some brokers."""

# A broker of 2.4 that does not know its own epoch yet refuses everything, with a growing pause between (KAFKA-9839).
OFTEN = 8
# What others do may alternate: a replica is offline, and then again not, each time its broker loses its session.
OFTEN_IN_TURN = 40


class Announcements:
    """Compares the commands to brokers with ZooKeeper's history."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.doubts = Doubts(checker)
        self._let_go: dict[tuple[ControllerEpoch, BrokerId, TopicPartition], LeaderEpoch] = {}
        self._doomed: dict[tuple[ControllerEpoch, BrokerId, TopicPartition], tuple[LeaderEpoch, Zxid]] = {}
        self._begun_in: dict[TopicPartition, ControllerEpoch | None] = {}
        self._added_in: dict[TopicPartition, dict[BrokerId, ControllerEpoch | None]] = {}
        self._taken_out_in: dict[TopicPartition, dict[BrokerId, ControllerEpoch]] = {}
        self._taken_out_by_others: dict[TopicPartition, dict[tuple[BrokerId, ControllerEpoch], None]] = {}
        self._led: dict[TopicPartition, dict[tuple[ControllerEpoch, BrokerId], None]] = {}
        self._aims: dict[TopicPartition, deque[tuple[Replicas, ControllerEpoch | None]]] = {}  # the last two, and whose
        self._deleted_in: dict[TopicPartition, dict[BrokerId, ControllerEpoch]] = {}
        self._times_sent: dict[tuple[ControllerEpoch, BrokerId, BrokerEpoch], dict[PartitionView, int]] = {}
        self._last_sent: dict[tuple[BrokerId, TopicPartition], tuple[PartitionView, Happened, int]] = {}
        self._happened: Happened = {}

    def sent(self, controller: Controller, tell: Tell) -> None:
        """A controller sends a broker a command."""
        if tell.broker == controller.own_id:
            raise Broken(f"{controller.name} sent itself a command")
        if tell.broker not in controller.links:
            raise Broken(f"{controller.name} sent broker {tell.broker} a command without a channel to it")
        match tell.command:
            case LeaderAndIsr(partitions, new, _):
                for view in new:
                    self._is_just_made(tell, view)
                for view in (*partitions, *new):
                    self._leadership_is_true(controller, tell.broker, view)
                    self._led.setdefault(TopicPartition(view.topic, view.partition), {})[_term(tell)] = None
            case UpdateMetadata(partitions, brokers):
                self._is_no_repetition(tell, partitions)
                if controller.own_id not in [b.broker for b in brokers]:
                    raise Broken(f"{controller.name} does not list itself among the brokers")
                for view in partitions:
                    self._view_is_true(view)
                    self.doubts.announced(controller.epoch, view)
            case StopReplica():
                self.deletion_sent(tell, controller.seen_zxid)

    def wrote(self, path: str) -> None:
        """A znode was written, or deleted: a broker may have come, changed or left."""
        address = catalog.address_of(path)
        if isinstance(address, BrokerAddress):
            self.happened(address.broker)

    def happened(self, broker: BrokerId) -> None:
        """A broker came, left, wants to shut down, or tells of a log directory: what it hosts is announced again."""
        self._happened[broker] = self._happened.get(broker, 0) + 1

    def begun(self, at: TopicPartition, term: ControllerEpoch | None) -> None:
        """A partition got its first state, in a term of ours or from another writer."""
        self._begun_in[at] = term

    def assigned(self, at: TopicPartition, assignment: Assignment, term: ControllerEpoch | None) -> None:
        """A topic's znode was written: its new replicas were added in this term."""
        aims = self._aims.setdefault(at, deque(maxlen=2))
        if not aims or aims[-1][0] != assignment.target:
            aims.append((assignment.target, term))
        held, taken_out = self._added_in.get(at, {}), self._taken_out_in.pop(at, {})
        added = {r: m for r, m in held.items() if term is None or r not in taken_out or term <= taken_out[r]}
        self._added_in[at] = {r: added.get(r, term) for r in assignment.adding}
        gone = {(r, made): None for r, made in held.items() if made not in (None, term) and r not in assignment.adding}
        self._taken_out_by_others.setdefault(at, {}).update(gone)

    def edited(self, at: TopicPartition, assignment: Assignment) -> None:
        """A topic's znode was written by hand: only a term that loads it later may not know which were added before."""
        epoch, taken_out = self._loaded_epoch(), self._taken_out_in.get(at, {})
        gone = (r for r in self._added_in.get(at, {}) if r not in assignment.replicas)
        self._taken_out_in[at] = {r: taken_out.get(r, epoch) for r in gone}

    def _loaded_epoch(self) -> ControllerEpoch:
        """The epoch of the last claim, or the one before until its term has loaded."""
        epoch, controllers = self._checker.current_epoch(), self._checker.world.controllers.values()
        before = (Phase.STANDBY, Phase.CONTENDING, Phase.LOADING)
        is_loaded = any(c.epoch == epoch and c.phase not in before for c in controllers)
        return epoch if is_loaded else ControllerEpoch(epoch - 1)

    def forget(self, at: TopicPartition) -> None:
        """Its topic is gone."""
        for memory in (
            self._begun_in,
            self._added_in,
            self._taken_out_in,
            self._taken_out_by_others,
            self._led,
            self._aims,
        ):
            memory.pop(at, None)
        self._deleted_in.pop(at, None)

    def _is_just_made(self, tell: Tell, view: PartitionView) -> None:
        """Whether a replica may be announced as new: its broker makes an empty log, even beside an offline one."""
        at = TopicPartition(view.topic, view.partition)
        makers = (self._begun_in.get(at), self._added_in.get(at, {}).get(tell.broker))
        made_and_unmade = (tell.broker, tell.controller_epoch) in self._taken_out_by_others.get(at, ())  # unknowable
        if at.topic in self._checker.topics and tell.controller_epoch not in makers and not made_and_unmade:
            raise Broken(f"broker {tell.broker} gets {at} as new, and the controller did not make it")
        if _term(tell) in self._led.get(at, ()):
            raise Broken(f"broker {tell.broker} gets {at} as new, and has heard of it before")

    def deletion_sent(self, tell: Tell, seen: Zxid | None = None) -> None:
        """Note the replicas that are unwanted when the controller orders their deletion.

        `seen` is how far ZooKeeper's history has reached the controller; None: to its end.
        """
        assert isinstance(tell.command, StopReplica)
        for stop in tell.command.stops:
            written = self._checker.read(TopicAddress(stop.topic).path)  # the checker hears of it only after this
            topic = written if isinstance(written, Topic) else self._checker.topics.get(stop.topic)
            assignment = None if topic is None else topic.partitions.get(stop.partition)
            at = TopicPartition(stop.topic, stop.partition)
            if stop.is_deletion:
                self._led.get(at, {}).pop(_term(tell), None)
            is_unwanted = assignment is None or tell.broker not in assignment.target
            if stop.is_deletion and (is_unwanted or self._is_wanted_unseen(tell, at, seen)):
                self._let_go[tell.controller_epoch, tell.broker, at] = stop.leader_epoch
            if stop.is_deletion:
                self._note_doomed(tell, at, stop.leader_epoch, seen)

    def _is_wanted_unseen(self, tell: Tell, at: TopicPartition, seen: Zxid | None) -> bool:
        """Whether another controller wants this replica again, and this one cannot know it yet."""
        node, aims = self._checker.world.zookeeper.nodes.get(TopicAddress(at.topic).path), self._aims.get(at)
        if seen is None or node is None or node.mzxid <= seen or aims is None:
            return False
        return aims[-1][1] != tell.controller_epoch and tell.broker not in aims[0][0]

    def _note_doomed(self, tell: Tell, at: TopicPartition, epoch: LeaderEpoch, seen: Zxid | None) -> None:
        """Note whether the command was sent for a request to delete this very topic."""
        key, born = (tell.controller_epoch, tell.broker, at), self._checker.born(at.topic)
        if born is not None and self._checker.is_to_be_deleted(at.topic, seen):
            self._doomed[key] = epoch, born
        else:
            self._doomed.pop(key, None)

    def _is_doomed(self, broker: BrokerId, at: TopicPartition, tell: Tell, epochs: list[LeaderEpoch]) -> bool:
        """Whether a request that was withdrawn only afterwards made a controller send this command."""
        epoch, born = self._doomed.get((tell.controller_epoch, broker, at), (None, None))
        return epoch in epochs and born == self._checker.born(at.topic)

    def _refuses_for_good(self, broker: BrokerId) -> bool:
        """Whether a broker wants a higher leader epoch of a partition whose state may not be written, or whose leader
        could not be told: its registration may not be read.
        """
        model = self._checker.world.brokers[broker].model
        return model is not None and any(map(self._may_not_be_raised, model.without_log))

    def _may_not_be_raised(self, at: TopicPartition) -> bool:
        refusals, state = self._checker.world.refusals, self._checker.states.get(at)
        is_led_unseen = state is not None and refusals.hid_lately(BrokerAddress(state.leader).path)
        return is_led_unseen or refusals.excuses(at, Concern.LEADING)

    def _is_no_repetition(self, tell: Tell, views: tuple[PartitionView, ...]) -> None:
        """Only a broker that refused, or returned, gets a command again; none gets the same again and again.

        The count begins again with what happens to the broker, or to one that hosts the partition: it is announced
        then, even if nothing changes for brokers, as when a broker leaves that was offline before. If turns are small
        it is announced twice: what is forgotten of log directories counts before the broker's partitions are visited.
        """
        sent = self._times_sent.setdefault((tell.controller_epoch, tell.broker, tell.broker_epoch), {})
        if self._refuses_for_good(tell.broker):  # what cannot be helped does not count afterwards, either
            sent.clear()
            return
        for view in views:
            sent[view] = sent.get(view, 0) + 1
            replica = tell.broker, TopicPartition(view.topic, view.partition)
            last, before, times = self._last_sent.get(replica, (None, {}, 0))
            happened = self._happened_to(tell.broker, view)
            times = times + 1 if last == view and happened == before and sent[view] > 1 else 1
            self._last_sent[replica] = view, happened, times
            is_often = times > OFTEN or sent[view] > OFTEN_IN_TURN
            if is_often:
                raise Broken(f"broker {tell.broker} got for the {sent[view]}th time {view}")

    def _happened_to(self, broker: BrokerId, view: PartitionView) -> Happened:
        topic = self._checker.topics.get(view.topic)
        assignment = None if topic is None else topic.partitions.get(view.partition)
        hosts = {broker, *view.replicas, *(() if assignment is None else assignment.replicas)}
        return {b: self._happened[b] for b in hosts if b in self._happened}

    def _view_is_true(self, view: PartitionView) -> None:
        if view.leader == DELETING_LEADER:
            return
        at = TopicPartition(view.topic, view.partition)
        announced = PartitionState(
            view.leader, view.leader_epoch, view.controller_epoch, view.isr, view.leader_recovery_state
        )
        if at in self._checker.edited:
            return  # other clients' writes do not count, and are not announced
        if announced not in self._checker.accepted.get((at, view.partition_epoch), ()):
            raise Broken(f"announced but never accepted by ZooKeeper: {view}")
        if not any(is_of(view, accepted) for accepted in self._checker.assigned.get(at, {})):
            raise Broken(f"announced replicas that ZooKeeper never accepted: {view}")

    def _leadership_is_true(self, controller: Controller, broker: BrokerId, view: PartitionView) -> None:
        if broker not in view.replicas:
            raise Broken(f"broker {broker} must host {view}")
        self._view_is_true(view)
        self.doubts.announced(controller.epoch, view)
        if controller.epoch == self._checker.current_epoch():
            self._pair_is_true(controller.epoch, view)

    def _pair_is_true(self, epoch: ControllerEpoch, view: PartitionView) -> None:
        """Brokers fence a deposed controller's inconsistent commands; the leader must send only consistent ones.

        It does not know of a transaction whose answer was lost while nothing that proves it can be read (decision 82).
        """
        at = TopicPartition(view.topic, view.partition)
        if at in self._checker.edited or self.doubts.excuses(epoch, view):
            return
        if not any(e == view.partition_epoch and is_of(view, a) for e, a in self._checker.together[at]):
            raise Broken(f"announced a leader and replicas that never were together in ZooKeeper: {view}")

    def learned(self, broker: Broker, tell: Tell) -> None:
        """A broker registered in this term never lists a part of a topic: clients choose partitions by their number."""
        model, states, unwanted = broker.model, self._checker.states, self._checker.unwanted
        if model is None or not isinstance(tell.command, UpdateMetadata):
            return
        for name in dict.fromkeys(view.topic for view in tell.command.partitions if view.leader != DELETING_LEADER):
            missing = [
                at
                for at, epoch in broker.found.items()
                if at.topic == name and epoch == tell.controller_epoch and at in states and at not in model.cache
            ]
            if missing and name not in unwanted and not any(map(self._is_excused, missing)):
                raise Broken(f"{broker.name} lists {name} without {', '.join(map(str, missing))}")

    def _is_excused(self, at: TopicPartition) -> bool:
        checker, refusals = self._checker, self._checker.world.refusals
        is_topic_sound = isinstance(checker.read(TopicAddress(at.topic).path), Topic)
        is_spoiled = not is_topic_sound or any(
            at in held for held in (checker.spoiled, checker.edited, checker.unheard)
        )
        was_hidden = refusals.hid_lately(StateAddress(at.topic, at.partition).path)
        return is_spoiled or was_hidden or refusals.hides(at) or refusals.excuses(at, Concern.ALL)

    def made(self, broker: BrokerId, at: TopicPartition) -> None:
        """A broker has just made a log."""
        self._deleted_in.get(at, {}).pop(broker, None)

    def has_had_deleted(self, term: ControllerEpoch, broker: BrokerId, at: TopicPartition) -> bool:
        """Whether a broker deleted its log on this term's command, and has made none since."""
        return self._deleted_in.get(at, {}).get(broker) == term

    def deleted(self, model: BrokerModel, at: TopicPartition, tell: Tell) -> None:
        """A broker has just deleted a replica.

        A replica that was to be deleted and is wanted again may be deleted first: it returns empty. Mostly the leader
        epoch shows that; but the controller may have died before it raised that. And an unclean election may choose
        one that has not deleted its log yet: it does so before it leads. A topic deletion that brokers have heard of
        goes on when its request is withdrawn (decision 26).
        """
        checker = self._checker
        state, topic = checker.states.get(at), checker.topics.get(at.topic)
        self._deleted_in.setdefault(at, {})[model.broker] = tell.controller_epoch
        if at.topic in checker.unwanted:
            return
        stops = tell.command.stops if isinstance(tell.command, StopReplica) else ()
        epochs = [s.leader_epoch for s in stops if (s.topic, s.partition) == at]
        given_up = checker.records.lost.get(at, LeaderEpoch(0))
        if self._is_doomed(model.broker, at, tell, epochs):
            return
        is_older = 0 <= max(epochs, default=given_up) < given_up
        is_at_any_price = is_older and not checker.records.has_led_since(model.broker, at, given_up)
        if state is not None and model.broker in state.isr and not is_at_any_price:
            raise Broken(f"broker {model.broker} deleted {at}, being in its ISR {list(state.isr)}")
        was_unwanted = self._let_go.get((tell.controller_epoch, model.broker, at)) in epochs
        is_recent = not was_unwanted and (state is None or any(e >= state.leader_epoch for e in epochs))
        assignment = None if topic is None else topic.partitions[at.partition]
        if is_recent and assignment is not None and at not in checker.edited and model.broker in assignment.target:
            raise Broken(f"broker {model.broker} deleted {at}, which it must keep: {assignment}")


def _term(tell: Tell) -> tuple[ControllerEpoch, BrokerId]:
    return tell.controller_epoch, tell.broker
