"""What does a broker's process do around the model? Registration, replication, ISR changes, shutting down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.core.messages.effects import Tell
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import PartitionsAltered, Reply, ShutdownPermitted
from controller.core.messages.requests import AllocateProducerIds, AlterPartition, ControlledShutdown, IsrProposal
from controller.lab.broker_model import Acknowledgement, BrokerModel, Disk, Traits
from tests.simulation.network import LOST, ZkConnection
from tests.simulation.zookeeper import MakeNode, Multi, Operation, RemoveNode, SetData
from zk_layout import catalog
from zk_layout.facts import Stat
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, PartitionEpoch, SessionId, TopicPartition
from zk_layout.znodes.admin import DELETE_TOPICS
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.notifications import ISR_CHANGES, LOG_DIR_EVENTS, IsrChange, LogDirEvent
from zk_layout.znodes.partition_state import PartitionState, StateAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.simulation.world import World

NOTIFY_S = 1.0
SHUTDOWN_TRIES = 3
SHUTDOWN_RETRY_S = 2.0
LONG_S = 15.0
SOON_S = 3.0
PASSED_WITHIN_S = 0.2
LONG_S_AMONG_HANG_UPS = 90.0
NEVER = float("-inf")
HELD_UP = 0.05  # of the requests, on their way
HELD_UP_S = (1.0, 40.0)


class Broker:
    """One broker: its disk outlives its processes."""

    def __init__(self, world: World, broker: BrokerId, traits: Traits) -> None:
        self.world = world
        self.broker = broker
        self.name = f"broker {broker}"
        self.traits = traits
        self.disk: Disk = {}
        self.shelf: Disk = {}  # replicas in a missing log directory
        self.lacks_directory = False
        self.model: BrokerModel | None = None
        self.session = SessionId(0)
        self.life = 0
        self.is_cut_off = False  # cut off from controllers
        self.is_lagging = False  # it does not fetch
        self.is_asking = False
        self.is_leaving = False
        self.is_retired = False  # it never starts again
        self._to_notify: dict[TopicPartition, None] = {}
        self._gone_at = 0.0
        self.found: dict[TopicPartition, ControllerEpoch] = {}  # when it registered; in which term
        self._registered_at = 0.0

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return self.model is not None

    # process and session

    def start(self) -> None:
        """Start a process, which registers itself."""
        if self.is_up or self.is_retired:
            return
        self.life += 1
        self.is_asking = self.is_leaving = False
        self._to_notify.clear()
        self.model = BrokerModel(self.broker, self.traits, self.disk)
        self.model.lacks_directory = self.lacks_directory
        self.world.say(self.name, "starts")
        self.register()
        life = self.life
        self.world.clock.after(self.world.plan.tick_s, lambda: self._tick(life))
        self.world.clock.after(NOTIFY_S, lambda: self._notify(life))

    def register(self) -> None:
        """Register in a new session, replacing the registration of an earlier one."""
        assert self.model is not None
        zookeeper = self.world.zookeeper
        self.session = zookeeper.open_session()
        self.connection = ZkConnection(self.world.network)
        path = f"/brokers/ids/{self.broker}"
        endpoints = (Endpoint("PLAINTEXT", self.name.replace(" ", "-"), 9092),)
        data = catalog.encode(Registration(endpoints, self.world.limits.paces.rack_of(self.broker)))
        if path in zookeeper.nodes:
            zookeeper.multi(self.session, [RemoveNode(path)])
        create: list[Operation] = [MakeNode(path, b"", is_ephemeral=True), SetData(path, data, 0)]
        zookeeper.multi(self.session, create)
        self._registered_at = self.world.clock.now
        self.model.broker_epoch = BrokerEpoch(zookeeper.nodes[path].czxid)
        leader = self.world.leading()
        is_led = leader is not None and leader.is_serving
        self.found = dict.fromkeys(self.world.checker.states, leader.epoch) if leader is not None and is_led else {}
        self.world.say(self.name, f"registers with epoch {self.model.broker_epoch}")

    def crash(self, restart_s: float | None) -> None:
        """The process is killed; its registration lives on until the session expires."""
        if not self.is_up:
            return
        self.world.say(self.name, "is killed" + (f", back in {restart_s:.1f}s" if restart_s is not None else ""))
        self._stop()
        session = self.session
        self.world.clock.after(self.world.plan.session_timeout_s, lambda: self.world.expire(session))
        if restart_s is not None:
            self.world.clock.after(restart_s, self.start)

    def lose_disk(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Logs disappear while the process is down; if they were the only ones in sync, records are lost for good."""
        for at in topic_partitions:
            if self.disk.pop(at, None) is not None:
                self.world.checker.records.lost_log(self.broker, at)

    def fail_directory(self) -> None:
        """One of its two log directories fails; the broker notifies ZooKeeper, and goes on with the other."""
        if self.model is None:
            return
        failed = [at for at in self.disk if at not in self.model.offline and _directory_of(at) == 0]
        if not failed:
            return
        self.world.say(self.name, f"loses the log directory with {', '.join(map(str, failed))}")
        self.model.fail_directory(failed)
        self._tell_of_failure(self.life)

    def lose_directory(self) -> None:
        """While it is down, one of its two log directories disappears: it starts without it, unnoticed."""
        self.lacks_directory = True
        gone = [at for at in self.disk if _directory_of(at) == 0]
        self.shelf.update({at: self.disk.pop(at) for at in gone})
        self.world.say(self.name, f"has no log directory with {', '.join(map(str, gone)) or 'anything'}")

    def get_directory_back(self) -> None:
        """While it is down, the directory returns, without logs that were deleted or are being deleted."""
        if not self.lacks_directory:
            return
        self.lacks_directory = False
        shelf, self.shelf = self.shelf, {}
        self.world.say(self.name, f"has the log directory with {', '.join(map(str, shelf)) or 'nothing'} again")
        for at, log in shelf.items():
            topic = self.world.checker.topics.get(at.topic)
            held = topic.partitions.get(at.partition) if topic is not None else None
            is_going = f"{DELETE_TOPICS}/{at.topic}" in self.world.zookeeper.nodes
            if held is not None and self.broker in held.replicas and not is_going:
                self.disk.setdefault(at, log)

    def _tell_of_failure(self, life: int) -> None:
        path = f"{LOG_DIR_EVENTS}/log_dir_event_"
        operation = MakeNode(path, catalog.encode(LogDirEvent(self.broker)), is_sequential=True)

        def again(done: Multi | object) -> None:
            if done is LOST and life == self.life:
                self.world.clock.after(NOTIFY_S, lambda: self._tell_of_failure(life))

        if life == self.life and self.connection.is_closed:
            again(LOST)
        elif life == self.life:
            self.world.checker.announcements.happened(self.broker)
            self.connection.call(lambda: self.world.zookeeper.multi(self.session, [operation]), again)

    def serves(self, at: TopicPartition, shown_since: float) -> bool:
        """Whether it has been up with a usable log long enough for an up-to-date controller to know."""
        return not self.is_leaving and self.leads_on(at, shown_since)

    def leads_on(self, at: TopicPartition, shown_since: float) -> bool:
        """Whether it serves, even if it wants to leave: it leads until another broker can."""
        has_log = at in self.disk and not self.is_offline(at)
        return self.is_up and has_log and self.is_known(shown_since)

    def unregistered(self, path: str) -> None:
        """A znode was deleted, perhaps its registration."""
        if path == BrokerAddress(self.broker).path:
            self._gone_at = self.world.clock.now

    def is_gone(self, shown_since: float, ago_s: float = 0.0) -> bool:
        """Whether its registration disappeared long enough ago for an up-to-date controller to have acted on it."""
        return not self.is_registered and self._is_long(self._gone_at + ago_s, shown_since + ago_s, SOON_S)

    def may_pass_for_alive(self, shown_since: float) -> bool:
        """Whether its last process ended so recently that an up-to-date controller may not know."""
        is_registered_in_vain = self.is_registered and not self.is_up
        return is_registered_in_vain or not self._is_long(self._gone_at, shown_since, SOON_S)

    def is_known(self, shown_since: float) -> bool:
        """Whether it registered long enough ago for an up-to-date controller to know."""
        return self.is_registered and self._is_long(self._registered_at, shown_since)

    @property
    def can_be_read(self) -> bool:
        """Whether controllers know its address: its registration is readable, and has been for a while."""
        address = BrokerAddress(self.broker)
        node = self.world.zookeeper.nodes.get(address.path)
        if node is None or not isinstance(catalog.decode(address, node.data), Registration):
            return False
        is_news = self.world.clock.now - self.world.plots.mended_at.get(address.path, NEVER) < SOON_S
        return not is_news and not self.world.refusals.hid_lately(address.path)

    @property
    def is_registered(self) -> bool:
        """Whether ZooKeeper has a registration of it."""
        return f"/brokers/ids/{self.broker}" in self.world.zookeeper.nodes

    def _is_long(self, since: float, shown_since: float, usually_s: float = LONG_S) -> bool:
        long_s = usually_s if not self.world.sizes.is_misconfigured else LONG_S_AMONG_HANG_UPS
        if usually_s == LONG_S and self.world.has_small_turns:
            # Its former life is dealt with first (decision 5): a few partitions of a topic in each transaction.
            largest = max((len(topic.partitions) for topic in self.world.checker.topics.values()), default=0)
            long_s += largest * PASSED_WITHIN_S
        return self.world.clock.now - max(since, shown_since) > long_s

    def has_records(self, at: TopicPartition) -> bool:
        """Whether its process runs and could lead with the records on its disk."""
        log = self.disk.get(at)
        return self.is_up and not self.is_leaving and not self.is_offline(at) and log is not None and bool(log.records)

    def is_offline(self, at: TopicPartition) -> bool:
        """Whether this replica is in a log directory that failed."""
        return self.model is not None and self.model.is_offline(at)

    def _stop(self) -> None:
        self.model = None
        self.life += 1
        self.connection.close()

    def lose_session(self, cut_off_s: float = 0.0) -> None:
        """Its session expires while it is cut off from ZooKeeper; the process lives on and registers again."""
        if self.model is None:
            return
        self.world.say(self.name, f"is cut off from ZooKeeper for {cut_off_s:.1f}s and loses its session")
        self.connection.close()
        self.model.has_zookeeper = False
        life, session = self.life, self.session

        def expire() -> None:
            self.world.expire(session)
            self.world.clock.after(self.world.random.uniform(0.01, 2.0), again)

        def again() -> None:
            if life == self.life and self.model is not None:
                self.model.has_zookeeper = True
                self.register()
                self._write_again()

        self.world.clock.after(cut_off_s, expire)

    def _write_again(self) -> None:
        """Repeat writes that the lost session left without an answer, as brokers do until they are connected."""
        if self.model is None or self.traits.uses_alter_partition:
            return
        for wanted in [r.pending for r in self.model.replicas.values() if r.pending is not None]:
            self._write(self.life, wanted)

    def receive(self, controller: BrokerId, tell: Tell) -> Acknowledgement | None:
        """Answer a command; None if the process is down."""
        if self.model is None or self.is_cut_off:
            return None
        return self.model.receive(
            tell.command, controller, tell.controller_epoch, tell.broker_epoch, self.world.clock.now
        )

    # replication

    def _tick(self, life: int) -> None:
        if life != self.life or self.model is None:
            return
        if not self.is_lagging:
            self._fetch()
        reassignments = [] if self.is_asking else self.model.proposals(self.world.clock.now)
        if reassignments and self.traits.uses_alter_partition:
            self._send(life, reassignments)
        for wanted in reassignments if not self.traits.uses_alter_partition else ():
            self._write(life, wanted)
        self.world.checker.records.acknowledged(self.model)
        self.world.clock.after(self.world.plan.tick_s, lambda: self._tick(life))

    def _fetch(self) -> None:
        assert self.model is not None
        for topic_partition, replica in self.model.replicas.items():
            leader = self.world.brokers.get(replica.view.leader)
            if leader is not None and leader is not self and leader.model is not None:
                self.model.fetch(topic_partition, leader.model, self.world.clock.now)

    # ISR changes by request

    def _partition_of(self, proposal: IsrProposal) -> TopicPartition | None:
        assert self.model is not None
        for topic_partition, replica in self.model.replicas.items():
            if replica.pending is proposal:
                return topic_partition
        return None

    def _send(self, life: int, reassignments: list[IsrProposal]) -> None:
        """Send one request at a time, with the changes refused before and all others wanted by now."""
        if life != self.life or self.model is None:
            return
        if self.is_asking:
            reassignments = [*reassignments, *self.model.proposals(self.world.clock.now)]
        self.is_asking = True
        reassignments = [w for w in reassignments if self._partition_of(w) is not None]
        if not reassignments:
            self.is_asking = False
            return
        by_id = all(w.topic.topic_id is not None for w in reassignments)
        request = AlterPartition(self.broker, self.model.broker_epoch, tuple(reassignments), by_id)
        names = ", ".join(f"{self._partition_of(w)} isr={list(w.isr)}" for w in reassignments)
        self.world.say(self.name, f"asks for {names}")
        self._ask(life, request, lambda reply: self._altered(life, reassignments, reply))
        if self.world.random.random() < HELD_UP:
            held_up_s = self.world.random.uniform(*HELD_UP_S)
            self.world.clock.after(held_up_s, lambda: self._arrive_late(request))

    def _arrive_late(self, request: AlterPartition) -> None:
        """Deliver a delayed copy of a request, perhaps answered long ago; all processes may have restarted since."""
        if self.model is not None and not self.is_cut_off:
            self.world.ask(self.model.controller, request, lambda _: None)

    def _ask(self, life: int, request: Any, use: Any) -> None:
        assert self.model is not None
        controller = None if self.is_cut_off else self.model.controller

        def answered(reply: Reply | None) -> None:
            if life == self.life and self.model is not None:
                use(None if self.is_cut_off else reply)

        self.world.ask(controller, request, answered)

    def _altered(self, life: int, reassignments: list[IsrProposal], reply: Reply | None) -> None:
        assert self.model is not None
        again = reassignments
        if isinstance(reply, PartitionsAltered) and reply.error is ErrorCode.NONE:
            again, results = [], {(r.topic_id or r.topic, r.partition): r for r in reply.results}
            for wanted in reassignments:
                topic_partition = self._partition_of(wanted)
                if topic_partition is None:
                    continue
                result = results.get((wanted.topic.topic_id or wanted.topic.name, wanted.partition))
                if result is None or self.model.settle(
                    topic_partition, wanted, result.error, result.leader_epoch, result.isr, result.partition_epoch
                ):
                    again.append(wanted)
        if again:
            self.world.clock.after(0.5, lambda: self._send(life, again))
        else:
            self.is_asking = False

    # producer ids

    def ask_for_producer_ids(self, use: Callable[[Reply | None], None]) -> None:
        """Ask the controller it knows for the next block."""
        assert self.model is not None
        self._ask(self.life, AllocateProducerIds(self.broker, self.model.broker_epoch), use)

    # ISR changes by writing

    def _write(self, life: int, wanted: IsrProposal) -> None:
        assert self.model is not None
        topic_partition = self._partition_of(wanted)
        assert topic_partition is not None
        view = self.model.replicas[topic_partition].view
        epoch = ControllerEpoch(view.controller_epoch)
        state = PartitionState(self.broker, view.leader_epoch, epoch, wanted.isr)
        path = StateAddress(topic_partition.topic, topic_partition.partition).path
        operation = SetData(path, catalog.encode(state), wanted.partition_epoch)

        def written(done: Multi | object) -> None:
            if life != self.life or self.model is None:
                return
            held = self.world.zookeeper.nodes.get(path)
            if held is not None and (held.data, held.version) == (operation.data, wanted.partition_epoch + 1):
                self._to_notify[topic_partition] = None  # an earlier attempt at this very write got through
                self._note_written(topic_partition, wanted, held.version)
                return
            if done is LOST or not isinstance(done, Multi) or done.errors:
                self.world.say(self.name, f"cannot write {topic_partition} isr={list(wanted.isr)}")
                self.model.forget_wish(topic_partition, wanted)
                return
            stat = done.results[0]
            assert isinstance(stat, Stat)
            self._to_notify[topic_partition] = None
            self._note_written(topic_partition, wanted, stat.version)

        self.connection.call(lambda: self.world.zookeeper.multi(self.session, [operation]), written)

    def _note_written(self, topic_partition: TopicPartition, wanted: IsrProposal, version: int) -> None:
        assert self.model is not None
        self.model.settle(
            topic_partition, wanted, ErrorCode.NONE, wanted.leader_epoch, wanted.isr, PartitionEpoch(version)
        )

    def _notify(self, life: int) -> None:
        if life != self.life:
            return
        if self._to_notify and not self.connection.is_closed:
            change, self._to_notify = IsrChange(tuple(self._to_notify)), {}
            operation = MakeNode(f"{ISR_CHANGES}/isr_change_", catalog.encode(change), is_sequential=True)
            self.world.say(self.name, f"notifies of {', '.join(map(str, change.partitions))}")
            self.connection.call(lambda: self.world.zookeeper.multi(self.session, [operation]), lambda _: None)
        self.world.clock.after(NOTIFY_S, lambda: self._notify(life))

    # controlled shutdown

    def shut_down(self, restart_s: float) -> None:
        """Request a controlled shutdown; leave when allowed, or after some attempts anyway; return later."""
        if self.is_up and not self.is_leaving:
            self.is_leaving = True
            self.world.say(self.name, "wants to shut down")
            self.world.checker.announcements.happened(self.broker)
            self._try_to_leave(self.life, SHUTDOWN_TRIES, restart_s)

    def _try_to_leave(self, life: int, tries: int, restart_s: float) -> None:
        if life != self.life or self.model is None:
            return
        if not tries:
            self._leave(restart_s)
            return

        def answered(reply: Reply | None) -> None:
            if isinstance(reply, ShutdownPermitted) and reply == ShutdownPermitted():
                self._leave(restart_s)
            else:
                again = SHUTDOWN_RETRY_S
                self.world.clock.after(again, lambda: self._try_to_leave(life, tries - 1, restart_s))

        self._ask(life, ControlledShutdown(self.broker, self.model.broker_epoch), answered)

    def _leave(self, restart_s: float) -> None:
        self.world.say(self.name, f"shuts down, back in {restart_s:.1f}s")
        self._stop()
        self.world.expire(self.session)
        self.world.clock.after(restart_s, self.start)


def _directory_of(at: TopicPartition) -> int:
    return (sum(at.topic.encode()) + at.partition) % 2
