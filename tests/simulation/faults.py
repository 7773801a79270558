"""What goes wrong?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.chance import some_of
from tests.simulation.controllers import RELEASED, SWITCHOVER, Controller, Role
from tests.simulation.native import rule_briefly
from tests.simulation.phases import Phase
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData
from zk_layout import catalog
from zk_layout.ids import PartitionId, TopicPartition
from zk_layout.znodes.notifications import ISR_CHANGES, LOG_DIR_EVENTS
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.switchover import Switchover
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

if TYPE_CHECKING:
    from tests.simulation.brokers import Broker
    from tests.simulation.world import World

UNREADABLE = (b"", b"{", b"[" * 3000, b'{"version":1}', b"\xff\xfe", b"null", b"[]")
JUNK = (*UNREADABLE, b'{"version":1,"partitions":{}}')
JUNK_AT = (
    (ISR_CHANGES, "isr_change_junk"),
    (ISR_CHANGES, "junk"),
    (LOG_DIR_EVENTS, "log_dir_event_junk"),
    ("/admin/delete_topics", "never-there"),
    ("/admin/reassignments", "junk"),
    ("/config/changes", "config_change_junk"),
    ("/brokers/topics", "no topic, this"),
    ("/brokers/ids", "junk"),
)

SWITCHOVERS_A_FAULT = 0.03


def name_of(fault: Callable[[], None]) -> str:
    """The name of a kind of fault in the table, with a prefix for those of ZooKeeper's servers."""
    name = fault.__name__
    return f"server{name}" if name.startswith("_") else name


class Faults:
    """Each fault is drawn from the world's seed; `heal` ends them all.

    Most worlds have only a part of the kinds: if everything happens, few consequences have time to develop.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        kinds: list[tuple[int, Callable[[], None]]] = [
            (3, self.crash_controller),
            (6, self.crash_controller_at_a_commit),
            (4, self.crash_controller_in_a_turn),
            (3, self.pause_controller),
            (2, self.expire_controller),
            (4, self.drop_controller_connection),
            (2, self.silence_zookeeper),
            (2, self.stop_controller),
            (2, self.renew_term),
            (1, self.release_cluster),
            (3, self.usurp),
            (3, self.let_a_broker_rule),
            (4, self.crash_broker),
            (3, self.bounce_broker),
            (2, self.expire_broker),
            (2, self.cut_broker_off),
            (3, self.slow_broker),
            (3, self.let_broker_lag),
            (3, self.shut_broker_down),
            (1, self.lossy_network),
            (2, self.fail_log_directory),
            (1, self.replace_disk),
            (2, self.write_junk),
            (1, self.spoil_a_topic),
            (1, self.write_an_old_assignment),
            (3, self.take_rights_away),
            (2, self.put_a_clock_wrong),
        ]
        self.all_kinds = tuple(kind for _, kind in kinds)
        self._kinds = some_of(kinds, Random(f"{world.seed}/kinds of faults"))
        self._switchovers = Random(f"{world.seed}/switchovers")
        self._aimed_at: Controller | None = None

    def strike(self) -> str:
        """One fault, and its name."""
        weights = [weight for weight, _ in self._kinds]
        fault = self.random.choices([kind for _, kind in self._kinds], weights)[0]
        self._count(fault, self.world.phases.present())
        fault()
        if self._switchovers.random() < SWITCHOVERS_A_FAULT:
            self.ask_for_a_switchover()
        self.world.pauses.maybe_strike()
        return fault.__name__

    def carry_out(self, fault: Callable[[], None], present: Iterable[Phase]) -> None:
        """Inject this fault in this phase: it hits the controller that is in it."""
        self._aimed_at = self.world.phases.claimant() or self.world.leading()
        self._count(fault, present)
        self.world.say("faults", f"{name_of(fault)} while: {', '.join(present)}")
        fault()
        self._aimed_at = None

    def _count(self, fault: Callable[[], None], present: Iterable[Phase]) -> None:
        self.world.coverage.struck(name_of(fault), self.world.clock.now, present)

    # controllers

    def _leader(self) -> Controller | None:
        return self._aimed_at or self.world.leading()

    def _restart_later(self, controller: Controller) -> None:
        def restart() -> None:
            if controller.role is Role.DOWN:
                controller.start()

        self.world.clock.after(self.random.uniform(0.5, 10.0), restart)

    def crash_controller(self) -> None:
        """Kill a controller process."""
        controller = self._aimed_at or self.random.choice(list(self.world.controllers.values()))
        controller.crash()
        self._restart_later(controller)

    def crash_controller_at_a_commit(self) -> None:
        """Kill the leading one right after ZooKeeper accepted one of its next transactions."""
        leader = self._leader()
        if leader is not None:
            leader.crash_at_commit = self.random.randint(1, 4)

    def crash_controller_in_a_turn(self) -> None:
        """Kill the leading one when part of a turn's effects have been carried out."""
        leader = self._leader()
        if leader is not None:
            leader.crash_in_turn = True

    def pause_controller(self) -> None:
        """Pause the leading process for a while; it resumes with its old beliefs."""
        leader = self._leader()
        if leader is not None:
            pause_s = self.random.uniform(0.2, 2 * self.world.plan.session_timeout_s)
            self.world.say(leader.name, f"is paused for {pause_s:.1f}s")
            leader.paused_until = self.world.clock.now + pause_s
            session, until = leader.session, leader.paused_until
            if pause_s > self.world.plan.session_timeout_s:
                delay = self.world.plan.session_timeout_s
                self.world.clock.after(delay, lambda: self._expire_if_paused(leader, session, until))

    def _expire_if_paused(self, leader: Controller, session: int, until: float) -> None:
        if leader.session == session and leader.paused_until == until:
            self.world.expire(leader.session)

    def expire_controller(self) -> None:
        """The leading one's session expires."""
        leader = self._leader()
        if leader is not None:
            self.world.say(leader.name, "loses its session")
            self.world.expire(leader.session)

    def drop_controller_connection(self) -> None:
        """The leading one loses its connection to ZooKeeper: outcomes of what is in flight are unknown."""
        leader = self._leader()
        if leader is not None:
            self.world.say(leader.name, "loses its connection to ZooKeeper")
            leader.connection.drop(self.random.uniform(0.01, 0.8 * self.world.plan.session_timeout_s))

    def renew_term(self) -> None:
        """Brokers have another protocol: the leading one begins another term over its own claim."""
        leader = self._leader()
        if leader is not None:
            self.world.say(leader.name, "is to lead in another manner")
            leader.renew()

    def silence_zookeeper(self) -> None:
        """The leading one hears nothing from ZooKeeper for longer than its session time-out; it may expire or not."""
        leader = self._leader()
        if leader is not None and not leader.connection.is_down:
            session, session_s = leader.session, self.world.plan.session_timeout_s
            self.world.say(leader.name, "hears nothing of ZooKeeper")
            leader.connection.drop(self.random.uniform(1.1, 2.5) * session_s)
            if self.random.random() < 0.5:
                self.world.clock.after(self.random.uniform(0.7, 1.0) * session_s, lambda: self.world.expire(session))

    def stop_controller(self) -> None:
        """An operator stops the leading one; it is started again once it has ended."""
        leader = self._leader()
        if leader is None:
            return
        life = leader.life

        def restart() -> None:
            if leader.role is Role.DOWN:
                leader.start()
            elif leader.life == life:
                self.world.clock.after(1.0, restart)

        leader.stop()
        self.world.clock.after(self.random.uniform(0.5, 10.0), restart)

    def release_cluster(self) -> None:
        """An operator releases the cluster for a while: none of our controllers may lead."""
        if RELEASED not in self.world.zookeeper.nodes:
            self.world.say("client", "releases the cluster")
            self.world.write(MakeNode(RELEASED))
            for_s = self.random.uniform(1.0, 20.0)
            self.world.clock.after(for_s, self._take_back)
            self.world.clock.after(self.random.uniform(0.0, 1.0), lambda: self._let_a_broker_rule(for_s))

    def ask_for_a_switchover(self) -> None:
        """An operator requests a switchover to one of our replicas, running or not, and waits a while."""
        if SWITCHOVER not in self.world.zookeeper.nodes:
            to = self._switchovers.choice(list(self.world.controllers))
            self.world.say("client", f"waits for controller {to} to lead")
            self.world.write(MakeNode(SWITCHOVER, catalog.encode(Switchover(to, "an operator", 0))))
            self.world.clock.after(self._switchovers.uniform(0.1, 20.0), self._wait_no_longer)

    def _wait_no_longer(self) -> None:
        self.world.write(RemoveNode(SWITCHOVER))

    def _take_back(self) -> None:
        self.world.say("client", "takes the cluster back")
        self.world.write(RemoveNode(RELEASED))

    def usurp(self) -> None:
        """An operator deletes `/controller` although its holder is alive: the first to notice claims it."""
        leader = self._leader()
        if leader is not None:
            self.world.say("client", "deletes /controller")
            leader.usurp()

    def let_a_broker_rule(self) -> None:
        """A broker's own controller takes over for a moment."""
        self._let_a_broker_rule(self.random.choice((0.01, 0.5, 3.0, 10.0)) * self.random.random())

    def _let_a_broker_rule(self, for_s: float) -> None:
        broker = self._up_broker()
        if broker is not None:
            rule_briefly(self.world, broker.broker, for_s)

    # brokers

    def _up_broker(self) -> Broker | None:
        up = [b for b in self.world.brokers.values() if b.is_up]
        return self.random.choice(up) if up else None

    def crash_broker(self) -> None:
        """Kill a broker; it comes back later."""
        broker = self._up_broker()
        if broker is not None:
            broker.crash(self.random.uniform(1.0, 4 * self.world.plan.session_timeout_s))

    def bounce_broker(self) -> None:
        """Kill a broker; it is back before its absence could be noticed."""
        broker = self._up_broker()
        if broker is not None:
            broker.crash(self.random.uniform(0.01, 0.5))

    def expire_broker(self) -> None:
        """A broker's session expires, at once or after a time without ZooKeeper, in which it may get replicas."""
        broker, timeout_s = self._up_broker(), self.world.plan.session_timeout_s
        if broker is None:
            return
        cut_off_s = self.random.choice((0.0, timeout_s))
        broker.lose_session(cut_off_s)
        if cut_off_s:
            for _ in range(3):
                self.world.clock.after(self.random.uniform(0.0, timeout_s), self._move_something)

    def _move_something(self) -> None:
        if self.world.has_partitions:
            self.world.clients.reassign()

    def shut_broker_down(self) -> None:
        """An operator stops a broker."""
        broker = self._up_broker()
        if broker is not None:
            broker.shut_down(self.random.uniform(0.5, 10.0))

    def cut_broker_off(self) -> None:
        """A broker and the controllers cannot reach each other for a while."""
        broker = self._up_broker()
        if broker is not None:
            self.world.say(broker.name, "is cut off from the controllers")
            broker.is_cut_off = True

            def mend() -> None:
                broker.is_cut_off = False

            self.world.clock.after(self.random.uniform(1.0, 15.0), mend)

    def slow_broker(self) -> None:
        """Commands reach a broker late for a while."""
        broker = self._up_broker()
        if broker is not None:
            slow_s = self.random.uniform(0.2, 3.0)
            self.world.say(broker.name, f"is slow by {slow_s:.1f}s")
            self.world.network.slow[broker.broker] = slow_s

            def hurry_again() -> None:
                self.world.network.slow.pop(broker.broker, None)

            self.world.clock.after(self.random.uniform(2.0, 15.0), hurry_again)

    def let_broker_lag(self) -> None:
        """A broker does not fetch for a while."""
        broker = self._up_broker()
        if broker is not None:
            self.world.say(broker.name, "lags")
            broker.is_lagging = True

            def go_on() -> None:
                broker.is_lagging = False

            self.world.clock.after(self.random.uniform(1.0, 20.0), go_on)

    def fail_log_directory(self) -> None:
        """A log directory of a broker fails, until the broker is restarted."""
        broker = self._up_broker()
        if broker is not None:
            broker.fail_directory()

    def replace_disk(self) -> None:
        """A broker is down until its registration has expired, and returns without its data."""
        broker = self._up_broker()
        if broker is None:
            return
        broker.crash(None)
        life, states = broker.life, self.world.checker.states

        def return_empty() -> None:
            if broker.life == life and not broker.is_retired:
                # An in-sync replica that returns empty may be elected, empty: Kafka has no answer (KIP-966).
                gone = [at for at in broker.disk if at in states and states[at].isr == (broker.broker,)]
                away = [at for at in broker.disk if at not in states or broker.broker not in states[at].isr]
                broker.lose_disk([*gone, *away])
                self.world.say(broker.name, f"has lost {', '.join(map(str, [*gone, *away]))}")
                broker.start()

        self.world.clock.after(self.world.plan.session_timeout_s + self.random.uniform(1.0, 10.0), return_empty)

    # znodes

    def write_junk(self) -> None:
        """A client writes malformed data where the controller watches."""
        parent, name = self.random.choice(JUNK_AT)
        path = f"{parent}/{name}"
        data = self.random.choice(JUNK)
        nodes = self.world.zookeeper.nodes
        if parent in nodes and path not in nodes:
            self.world.say("client", f"writes junk to {path}")
            self.world.write(MakeNode(path, data))

    def spoil_a_topic(self) -> None:
        """A client overwrites a znode of a topic by mistake, and repairs it a little later."""
        checker = self.world.checker
        if not checker.states:
            return
        at = self.random.choice(list(checker.states))
        state_path, topic_path = StateAddress(at.topic, at.partition).path, TopicAddress(at.topic).path
        self.spoil(at, self.random.choice((state_path, topic_path)), self.random.uniform(0.6, 6.0))

    def spoil(self, at: TopicPartition, path: str, for_s: float) -> None:
        """A partition's znode is overwritten for so long."""
        checker, state_path = self.world.checker, StateAddress(at.topic, at.partition).path
        node = self.world.zookeeper.nodes.get(path)
        if node is None or node.data in UNREADABLE:
            return
        before, spoiled = node.data, (node.czxid, node.version + 1)
        self.world.say("client", f"spoils {path}")
        # Later writes are left alone: restoring the data read here would lower the leader epoch.
        self.world.write(SetData(path, self.random.choice(UNREADABLE), node.version))

        def mend() -> None:
            held = self.world.zookeeper.nodes.get(path)
            if held is not None and (held.czxid, held.version) == spoiled and held.data in UNREADABLE:
                self.world.say("client", f"puts {path} right")
                checker.unheard.update({at: None} if path == state_path else {})
                self.world.write(SetData(path, before, held.version))

        self.world.clock.after(for_s, mend)

    def write_an_old_assignment(self) -> None:
        """An old tool adds a partition: it reads the topic, waits, and writes all of it back, over changes since.

        Source: kafka-topics --zookeeper --alter, before 3.0; its write expects no version.
        """
        topics = [name for name, topic in self.world.checker.topics.items() if topic.partitions]
        if not topics:
            return
        name = self.random.choice(topics)
        path, read = TopicAddress(name).path, self.world.checker.topics[name]
        czxid = self.world.zookeeper.nodes[path].czxid
        number = PartitionId(max(read.partitions) + 1)
        added = Assignment(tuple(self.random.sample(list(self.world.brokers), 1)))
        grown = Topic({**read.partitions, number: added}, read.topic_id)

        def write() -> None:
            node, now = self.world.zookeeper.nodes.get(path), self.world.checker.topics.get(name)
            if node is None or now is None or node.czxid != czxid or now.partitions.keys() != read.partitions.keys():
                return
            if now != read:
                self.world.say(
                    "client", f"writes back what {name} was: {[list(a.replicas) for a in read.partitions.values()]}"
                )
            self.world.write(SetData(path, catalog.encode(grown)))

        self.world.clock.after(self.random.uniform(0.1, 8.0), write)

    def take_rights_away(self) -> None:
        """Controllers lose a right to read or write, mostly for a while."""
        self.world.refusals.strike()

    def put_a_clock_wrong(self) -> None:
        """A controller's wall clock jumps; its monotonic clock does not."""
        self.world.wall_clocks.jump()

    def lossy_network(self) -> None:
        """Every third command or answer gets lost for a while."""
        self.world.say("network", "gets lossy")
        self.world.network.loss = 0.3

        def mend() -> None:
            self.world.network.loss = 0.0

        self.world.clock.after(self.random.uniform(2.0, 10.0), mend)

    def heal(self) -> None:
        """End all faults; now and then a broker stays away for good."""
        self.world.say("faults", "stop")
        self.world.network.loss = 0.0
        self.world.network.slow.clear()
        self.world.refusals.heal()
        self.world.plots.heal()
        self.world.wall_clocks.heal()
        self.world.pauses.resume()
        gone = self.random.choice(list(self.world.brokers)) if self.random.random() < 0.3 else None
        for broker in self.world.brokers.values():
            broker.is_cut_off = broker.is_lagging = False
            if broker.broker == gone:
                broker.is_retired = True
                broker.crash(None)
            elif broker.model is not None and broker.model.offline and self.random.random() < 0.5:
                broker.crash(0.5)
            else:
                broker.start()
        for controller in self.world.controllers.values():
            controller.paused_until = 0.0
            controller.crash_at_commit, controller.crash_in_turn = 0, False
            if controller.role is Role.DOWN:
                controller.start()
