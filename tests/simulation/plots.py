"""Which sequences of faults lose data if a controller is wrong? Those that chance alone rarely produces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from tests.simulation.clients import LEGACY
from tests.simulation.native import CLAIM, NativeController, rule_briefly
from tests.simulation.refusals import CHILDREN, READ, WRITE, Right
from tests.simulation.zookeeper import MakeNode, Operation, RemoveNode, SetData
from zk_layout import catalog
from zk_layout.ids import NO_LEADER, BrokerId, Replicas, SessionId, TopicPartition
from zk_layout.znodes.admin import DELETE_TOPICS, LegacyMove, LegacyReassignment
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import PartitionAddress, StateAddress
from zk_layout.znodes.reassignments import ROOT as CHILDREN_OF_MOVES
from zk_layout.znodes.replica_deletions import ReplicaDeletionsAddress
from zk_layout.znodes.topics import ROOT as TOPICS
from zk_layout.znodes.topics import TopicAddress

if TYPE_CHECKING:
    from tests.simulation.brokers import Broker
    from tests.simulation.controllers import Controller
    from tests.simulation.world import World

EPOCH = "/controller_epoch"
UNREADABLE = (b"", b"{", b"null")


class Plots:
    """Each takes a few seconds, and undoes its faults, at the latest before the quiet phase."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.kinds: tuple[Callable[[], None], ...] = (
            self.hide_what_a_term_loads,
            self.move_what_is_hidden,
            self.restart_without_a_directory,
            self.hide_an_in_sync_replica,
            self.lose_an_answer,
            self.lose_the_answer_to_a_claim,
            self.raise_the_epoch_by_hand,
            self.overtake_a_release,
            self.crash_between_pieces,
            self.create_again_what_is_deleted,
            self.replace_what_is_decided,
            self.move_to_what_goes_offline,
        )
        self._last_kinds = (self.move_what_is_hidden, self.move_what_is_hidden, self.replace_what_is_decided)
        self.mended_at: dict[str, float] = {}
        self._to_put_right: list[Callable[[], None]] = []

    def strike(self) -> str:
        """Run one of them; return its name."""
        return self._carry_out(self.random.choice(self.kinds))

    def strike_last(self) -> str:
        """Run one before peace: no later fail-over hides that something hangs."""
        return self._carry_out(self.random.choice(self._last_kinds))

    def _carry_out(self, kind: Callable[[], None]) -> str:
        self.world.faults.carry_out(kind, self.world.phases.present())
        return kind.__name__

    def heal(self) -> None:
        """Undo all faults that are left."""
        self.world.namesakes.at_next_decision = None
        for controller in self.world.controllers.values():
            controller.at_next_claim = None  # it would kill the leader after peace has begun
        self._at_arrival()
        pending, self._to_put_right = self._to_put_right, []
        for put_right in pending:
            put_right()

    def _put_right_after(self, delay_s: float, put_right: Callable[[], None]) -> None:
        def due() -> None:
            if put_right in self._to_put_right:
                self._to_put_right.remove(put_right)
                put_right()

        self._to_put_right.append(put_right)
        self.world.clock.after(delay_s, due)

    # what is there

    def _any_led(self, *, width: int = 1) -> TopicPartition | None:
        """A partition with a leader and so many in-sync replicas, if any; preferably one that moves."""
        checker = self.world.checker
        led = [
            at
            for at, state in checker.states.items()
            if state.leader != NO_LEADER and len(state.isr) >= width and at.topic not in checker.unwanted
        ]
        moving = [at for at in led if checker.topics[at.topic].partitions[at.partition].is_moving]
        some = moving if moving and self.random.random() < 0.6 else led
        return self.random.choice(some) if some else None

    def _fail_over(self) -> None:
        """Start another term, of the leading controller or of another process."""
        leader = self.world.leading()
        if leader is None:
            return
        chance = self.random.random()
        if chance < 0.3:
            leader.renew()
        elif chance < 0.6:
            self.world.say("client", "deletes /controller")
            leader.usurp()
        elif chance < 0.8:
            self.world.say(leader.name, "loses its session")
            self.world.expire(leader.session)
        else:
            leader.crash()
            self.world.clock.after(self.random.uniform(0.5, 5.0), partial(self._start, leader))

    @staticmethod
    def _start(controller: Controller) -> None:
        if not controller.is_up:
            controller.start()

    # what cannot be read when a term begins

    def hide_what_a_term_loads(self) -> None:
        """A topic or a state cannot be read while a term loads; brokers restart meanwhile, some without a directory."""
        at = self._any_led()
        if at is None:
            return
        self._hide(at, self.random.uniform(4.0, 14.0), is_state=self.random.random() < 0.5)
        self.world.clock.after(self.random.uniform(0.0, 0.5), self._fail_over)
        for broker in self._hosts(at):
            if self.random.random() < 0.5:
                lacks_directory = self.random.random() < 0.6
                self.world.clock.after(
                    self.random.uniform(0.2, 4.0), partial(self._restart, broker, lacks_directory=lacks_directory)
                )

    def move_what_is_hidden(self) -> None:
        """A native controller begins a move of a topic that ours cannot read when they take over again."""
        up = [broker for broker in self.world.brokers.values() if broker.is_up]
        led = [at for broker in up if broker.model is not None for at in broker.model.led()]
        checker = self.world.checker
        still = [
            at
            for at in led
            if at.topic in checker.topics
            and at.topic not in checker.unwanted
            and not checker.topics[at.topic].partitions[at.partition].is_moving
            and ReplicaDeletionsAddress(at.topic).path not in self.world.zookeeper.nodes
        ]
        if not still:
            return
        at = self.random.choice(still)
        self._hide(at, self.random.uniform(4.0, 14.0), is_state=self.random.random() < 0.75)
        native = NativeController(self.world, self.random.choice(up).broker)
        for_s = self.random.uniform(0.05, 1.0)
        native.rule(for_s)
        native.begin_a_move_of(at, silent=0.8)

    def _hosts(self, at: TopicPartition) -> list[Broker]:
        replicas = self.world.checker.topics[at.topic].partitions[at.partition].replicas
        return [self.world.brokers[r] for r in replicas if r in self.world.brokers]

    def _hide(self, at: TopicPartition, for_s: float, *, is_state: bool) -> None:
        """Hide a znode by taking the right to read it, or by overwriting it."""
        path = StateAddress(at.topic, at.partition).path if is_state else TopicAddress(at.topic).path
        if self.random.random() < 0.7:
            self.world.refusals.take_for(Right(path, READ, at.topic, at.partition), for_s)
        else:
            self.world.faults.spoil(at, path, for_s)

    def _restart(self, broker: Broker, *, lacks_directory: bool) -> None:
        if not broker.is_up or broker.is_retired:
            return
        away_s = self.random.choice((0.2, 1.0, 1.5 * self.world.plan.session_timeout_s)) * self.random.uniform(0.5, 1.0)
        broker.crash(away_s)
        if lacks_directory:
            broker.lose_directory()
            self._put_right_after(self.random.uniform(15.0, 40.0), partial(self._repair, broker))

    def _repair(self, broker: Broker) -> None:
        if broker.is_up:
            broker.crash(0.5)
        if self.random.random() < 0.7 or not self.world.is_peaceful:
            broker.get_directory_back()

    def restart_without_a_directory(self) -> None:
        """A broker returns without one of its log directories."""
        up = [broker for broker in self.world.brokers.values() if broker.is_up and not broker.lacks_directory]
        if up:
            self._restart(self.random.choice(up), lacks_directory=True)

    # elections

    def hide_an_in_sync_replica(self) -> None:
        """One replica lags; the registrations of those in sync cannot be read, and the leader dies."""
        three = [at for at, r in self._replicas().items() if len(r) > 2 and len(self.world.checker.states[at].isr) > 1]
        at = self.random.choice(three) if three else self._any_led()
        if at is None:
            return
        if not three:
            self._ask_to_move(at, *list(self.world.brokers)[:3])
        self.world.clock.after(0.0 if three else 3.0, partial(self._let_one_lag, at))

    def _replicas(self) -> dict[TopicPartition, Replicas]:
        checker = self.world.checker
        return {
            at: checker.topics[at.topic].partitions[at.partition].replicas
            for at, state in checker.states.items()
            if at.topic not in checker.unwanted and state.leader != NO_LEADER
        }

    def _let_one_lag(self, at: TopicPartition) -> None:
        state, replicas = self.world.checker.states.get(at), self._replicas().get(at, ())
        followers = [r for r in replicas if r in self.world.brokers and state is not None and r != state.leader]
        if state is None or not followers:
            return
        if all(r in state.isr for r in replicas) and len(followers) > 1:
            laggard = self.world.brokers[self.random.choice(followers)]
            self.world.say(laggard.name, "lags")
            laggard.is_lagging = True
            self._put_right_after(20.0, partial(self._catch_up, laggard))
        self.world.clock.after(self.random.uniform(6.0, 8.0), partial(self._hide_those_in_sync, at))

    @staticmethod
    def _catch_up(broker: Broker) -> None:
        broker.is_lagging = False

    def _hide_those_in_sync(self, at: TopicPartition) -> None:
        state = self.world.checker.states.get(at)
        leader = self.world.brokers.get(state.leader) if state is not None else None
        if state is None or leader is None:
            return
        for_s = self.random.uniform(12.0, 25.0)
        for other in state.isr:
            path = BrokerAddress(other).path
            if other == state.leader or path not in self.world.zookeeper.nodes:
                continue
            if self.random.random() < 0.6:
                self.world.refusals.take_for(Right(path, READ), for_s)
            else:
                self._spoil_registration(path, for_s)
        # A controller does not read a known registration again: only a new one, or a new term, finds it hidden.
        self.world.clock.after(self.random.uniform(0.0, 0.3), self._fail_over)
        away_s = 3 * self.world.plan.session_timeout_s
        self.world.clock.after(self.random.uniform(0.3, 3.0), partial(leader.crash, away_s))

    def _spoil_registration(self, path: str, for_s: float) -> None:
        node = self.world.zookeeper.nodes[path]
        before, czxid = node.data, node.czxid
        if before in UNREADABLE:
            return
        self.world.say("client", f"spoils {path}")
        self.world.write(SetData(path, self.random.choice(UNREADABLE), node.version))

        def mend() -> None:
            held = self.world.zookeeper.nodes.get(path)
            if held is not None and held.czxid == czxid:
                self.world.say("client", f"puts {path} right")
                self.world.write(SetData(path, before))
                self.mended_at[path] = self.world.clock.now

        self._put_right_after(for_s, mend)

    def move_to_what_goes_offline(self) -> None:
        """Request moves to one in-sync replica, which take a single step, while its broker is or goes down."""
        at = self._any_led()
        if at is None:
            return
        state, followers = self.world.checker.states[at], [b for b in self._hosts(at) if b.is_up]
        broker = self.world.brokers.get(self.random.choice(state.isr))
        if broker is None or not broker.is_up:
            return
        delay_s = 0.0
        if state.leader == broker.broker:  # the only in-sync replica has no successor
            delay_s = self.random.uniform(6.0, 8.0)
            for follower in followers:
                if follower is not broker:
                    follower.is_lagging = True
                    self._put_right_after(20.0, partial(self._catch_up, follower))
        self.world.clock.after(delay_s, partial(self._take_offline, at, broker))

    def _take_offline(self, at: TopicPartition, broker: Broker) -> None:
        timeout_s = self.world.plan.session_timeout_s
        if broker.is_up:
            self.random.choice((broker.fail_directory, partial(broker.crash, 4 * timeout_s), broker.lose_session))()
        for _ in range(6):
            delay_s = self.random.uniform(0.0, 2 * timeout_s + 2.0)
            self.world.clock.after(delay_s, partial(self._ask_to_move, at, broker.broker))

    def _ask_to_move(self, at: TopicPartition, *to: BrokerId) -> None:
        self.world.clients.ask(AlterReassignments((PartitionReassignment(at, to),)), f"reassign {at}→{list(to)}")

    # transactions

    def lose_an_answer(self) -> None:
        """The next transaction is carried out, and its answer is lost."""
        leader = self.world.leading()
        if leader is not None:
            leader.at_next_commit = partial(self._hang_up, leader)

    def _hang_up(self, leader: Controller) -> None:
        if leader.is_up and not leader.connection.is_down:
            self.world.say(leader.name, "does not hear what became of that")
            leader.connection.drop(self.random.choice((0.0, 0.5, 3.0)) * self.random.random())

    def lose_the_answer_to_a_claim(self) -> None:
        """The next claim is accepted, and its answer is lost, or its process is killed."""
        for controller in self.world.controllers.values():
            if controller.is_up:
                is_lethal = self.random.random() < 0.3
                controller.at_next_claim = controller.crash if is_lethal else partial(self._hang_up, controller)
        self._fail_over()

    def raise_the_epoch_by_hand(self) -> None:
        """A client raises the controller epoch just as a claim over our own arrives, which then fails unanswered."""
        leader = self.world.leading()
        if leader is None:
            return

        def arrived(session: SessionId, operations: Sequence[Operation]) -> None:
            claim = self.world.zookeeper.nodes.get(CLAIM)
            raised = [o.data for o in operations if isinstance(o, SetData) and o.path == EPOCH]
            held = self.world.zookeeper.nodes.get(EPOCH)
            # A claim sent again after a lost answer gives the epoch that it has already written.
            is_raised = held is not None and bool(raised) and int(raised[0]) > int(held.data)
            if is_raised and claim is not None and claim.owner == session == leader.session:
                self._at_arrival()
                self.world.say("client", "raises the controller epoch")
                self.world.write_at_once(SetData(EPOCH, raised[0]))
                self.world.clock.after(0.0, partial(self._hang_up, leader))

        self._at_arrival(arrived)
        leader.renew()

    def overtake_a_release(self) -> None:
        """A native controller takes over just as the leading one gives up its claim."""
        leader, up = self.world.leading(), [broker for broker in self.world.brokers.values() if broker.is_up]
        if leader is None or not up:
            return
        broker, for_s = self.random.choice(up).broker, self.random.uniform(0.5, 3.0)

        def arrived(_: SessionId, operations: Sequence[Operation]) -> None:
            of_the_claim = [type(operation) for operation in operations if operation.path == CLAIM]
            if of_the_claim == [RemoveNode]:
                self._at_arrival()
                rule_briefly(self.world, broker, for_s)

        self._at_arrival(arrived)
        self.random.choice((self.world.faults.stop_controller, self.world.faults.release_cluster))()

    def _at_arrival(self, act: Callable[[SessionId, Sequence[Operation]], None] = lambda *_: None) -> None:
        """Run `act` just before each transaction is ordered, until another replaces it."""
        self.world.zookeeper.on_arrival = act

    def crash_between_pieces(self) -> None:
        """One part of a topic's writes is refused, and the controller that wrote the others dies."""
        topics = [name for name, topic in self.world.checker.topics.items() if topic.partitions]
        if not topics:
            return
        name = self.random.choice(topics)
        numbers = list(self.world.checker.topics[name].partitions)
        number = self.random.choice((numbers[0], numbers[-1]))
        at = TopicPartition(name, number)
        right = self.random.choice(
            (
                Right(PartitionAddress(name, number).path, CHILDREN, name, number),
                Right(StateAddress(name, number).path, WRITE, name, number),
                Right(TopicAddress(name).path, CHILDREN, name),
                Right(TOPICS, CHILDREN),
                Right(DELETE_TOPICS, CHILDREN),
            )
        )
        self.world.refusals.take_for(right, self.random.uniform(0.5, 3.0))
        if self.random.random() < 0.7 and name not in self.world.checker.unwanted:
            self.world.say("client", f"wants {name} to be deleted")
            self.world.write(MakeNode(f"{DELETE_TOPICS}/{name}"))
        else:
            self.world.folder.ask_for(at)
        self.world.clock.after(self.random.uniform(0.0, 0.5), self._crash_soon)

    def _crash_soon(self) -> None:
        leader = self.world.leading()
        if leader is not None:
            leader.crash_at_commit = self.random.randint(1, 3)
            self.world.clock.after(8.0, partial(self._start_again, leader))

    def _start_again(self, controller: Controller) -> None:
        controller.crash_at_commit = 0
        self._start(controller)

    def create_again_what_is_deleted(self) -> None:
        """A request is withdrawn and another one made, before a controller may have seen either."""
        self.random.choice((self._ask_again, self._ask_again, self._delete_again, self._begin_again))()

    def replace_what_is_decided(self) -> None:
        """A request is withdrawn and another made in its place while a decision about it is on its way."""
        self.world.namesakes.at_next_decision = self.world.namesakes.replace
        at = self._any_led()
        if at is not None and self.random.random() < 0.7:
            self.world.folder.ask_for(at)
        elif self.world.has_partitions:
            self.world.clients.legacy()

    def _again(self, path: str, first: bytes, second: bytes) -> None:
        """Both have version 0; chance decides the time between them, and how much the controller sees."""
        if path not in self.world.zookeeper.nodes:
            self.world.folder.write(MakeNode(path, first))
        between_s = self.random.choice((0.0, 0.01, 0.1, 1.0)) * self.random.random()

        def replace() -> None:
            self.world.folder.write(RemoveNode(path))
            self.world.folder.write(MakeNode(path, second))

        self.world.clock.after(between_s, replace)

    def _ask_again(self) -> None:
        at = self._any_led()
        if at is not None and self.world.folder.keepers:
            some, more = self.world.folder.two_wishes(at)
            self._again(f"{CHILDREN_OF_MOVES}/{at.topic}-{at.partition}", some, more)

    def _delete_again(self) -> None:
        at = self._any_led()
        if at is not None:
            self._again(f"{DELETE_TOPICS}/{at.topic}", b"", b"")

    def _begin_again(self) -> None:
        at = self._any_led()
        if at is None or LEGACY in self.world.zookeeper.nodes:
            return
        first, second = (
            catalog.encode(LegacyReassignment((LegacyMove(at.topic, at.partition, self.world.clients.any_replicas()),)))
            for _ in range(2)
        )
        self._again(LEGACY, first, second)
