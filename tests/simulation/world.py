"""One seed, one world: controllers, brokers, ZooKeeper and clients in one thread and one order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from msgspec import Struct

from controller.core.candidacy.phases import TakeOver
from controller.core.effects import Tell
from controller.core.events import CallId
from controller.core.machine import Machine
from controller.core.replies import Reply
from controller.core.requests import Request
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings, TurnBudget
from controller.lab.broker_model import (
    KAFKA_2_4,
    KAFKA_2_6,
    KAFKA_2_8,
    KAFKA_3_3,
    KAFKA_3_9,
    Acknowledgement,
    Traits,
)
from tests.simulation.brokers import Broker
from tests.simulation.checker import Checker
from tests.simulation.clients import LEGACY
from tests.simulation.clock import Clock
from tests.simulation.controllers import Controller, Role
from tests.simulation.coverage import Coverage
from tests.simulation.faults import Faults
from tests.simulation.move_requests import RETENTION_S, MoveRequests
from tests.simulation.network import Network, ZkConnection
from tests.simulation.outcome import check_outcome
from tests.simulation.process_log import told_in_traces
from tests.simulation.producer_ids import ProducerIds
from tests.simulation.reassignment_folder import ReassignmentFolder
from tests.simulation.topic_clients import TopicClients
from tests.simulation.trace import Trace
from tests.simulation.zookeeper import Multi, Operation, ZooKeeper
from zk_layout.ids import BrokerId, ControllerEpoch, SessionId
from zk_layout.watched import PERSISTENT
from zk_layout.znodes import reassignments

PATHS = (*PERSISTENT, reassignments.ROOT, "/controller_epoch")
VERSIONS = (KAFKA_3_9, KAFKA_3_9, KAFKA_3_3, KAFKA_2_8, KAFKA_2_6, KAFKA_2_4)
QUIET_S = 150.0
STEPS = 400_000

# Every second world cuts its work into far smaller turns than its size needs.
SMALL_BUDGET = TurnBudget(folded=7, followed=3, greeted=2, measured=2, decided=3)


class Plan(Struct, frozen=True):
    """What kind of world a seed stands for."""

    brokers: int
    controllers: int
    traits: Traits
    topic_ids: bool
    unclean_election: bool
    topics: int
    busy_s: float
    fault_every_s: float
    ask_every_s: float
    rebalance_every_s: float | None
    take_over: TakeOver
    session_timeout_s: float = 6.0


def plan_of(random: Random) -> Plan:
    """Draw a plan."""
    traits = random.choice(VERSIONS)
    return Plan(
        brokers=random.randint(2, 5),
        controllers=random.randint(2, 3),
        traits=Traits(**{**{f: getattr(traits, f) for f in traits.__struct_fields__}, "replica_lag_s": 5.0}),
        topic_ids=traits.knows_topic_ids,
        unclean_election=random.random() < 0.25,
        topics=random.randint(1, 3),
        busy_s=random.choice((20.0, 60.0, 120.0)),
        fault_every_s=random.choice((1.5, 4.0, 10.0)),
        ask_every_s=random.choice((0.5, 2.0, 6.0)),
        rebalance_every_s=random.choice((None, 5.0, 30.0)),
        take_over=random.choice(tuple(TakeOver)),
    )


class World:
    """Everything there is; whatever is arbitrary is drawn from the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.plan = plan_of(self.random)
        self.clock = Clock()
        self.trace = Trace(self.clock)
        self.coverage = Coverage()
        self.network = Network(self.clock, self.random)
        self.checker = Checker(self)
        self.zookeeper = ZooKeeper(lambda *_: None, self.checker.wrote)
        self._asks = count(1)
        self._is_healed = False
        for path in PATHS:
            self.zookeeper.make_path(path)
        self.zookeeper.nodes["/controller_epoch"].data = b"0"
        self.checker.begin()
        self.tools = self.zookeeper.open_session()
        self._tools_connection = ZkConnection(self.network)
        self.brokers = {
            BrokerId(b): Broker(self, BrokerId(b), self.plan.traits) for b in range(1, self.plan.brokers + 1)
        }
        own_ids = [BrokerId(100 + c) for c in range(self.plan.controllers)]
        self.controllers = {c: Controller(self, c) for c in own_ids}
        self.clients = TopicClients(self)
        self.producer_ids = ProducerIds(self)
        self.move_requests = MoveRequests(self)
        self.folder = ReassignmentFolder(self)
        self.faults = Faults(self)

    # running

    def run(self) -> None:
        """Live through the seed: a busy time with faults, then peace, then the outcome."""
        try:
            with told_in_traces():
                self._run()
        finally:
            for controller in self.controllers.values():
                controller.dismantle()

    def _run(self) -> None:
        self.say("world", f"seed {self.seed}: {self.plan}")
        for broker in self.brokers.values():
            self.clock.after(self.random.uniform(0, 1), broker.start)
        for controller in self.controllers.values():
            self.clock.after(self.random.uniform(0, 1), controller.start)
        for index in range(self.plan.topics):
            self.clock.after(0.5 + index, self.clients.create_topic)
        self._every(lambda: 0.5, self.clients.produce, for_ever=True)
        self._every(lambda: self.random.expovariate(1 / self.plan.ask_every_s), self._client_acts)
        self._every(lambda: self.producer_ids.random.expovariate(1 / self.plan.ask_every_s), self.producer_ids.act)
        if self.folder.keepers:
            self._every(lambda: self.folder.random.expovariate(1 / self.plan.ask_every_s), self.folder.act)
        self._every(lambda: self.random.expovariate(1 / self.plan.fault_every_s), self.faults.strike)
        self.run_until(self.plan.busy_s)
        self._is_healed = True
        self.faults.heal()
        self._remove_malformed_legacy()
        self.run_until(self.clock.now + QUIET_S)
        check_outcome(self)

    def run_until(self, time: float) -> None:
        """Let everything happen that is due before this time."""
        for _ in range(STEPS):
            at = self.clock.next_at()
            if at is None or at > time:
                return
            self.clock.step()
            self.checker.after_step()
        raise RuntimeError(f"seed {self.seed} does not come to rest")

    def _every(self, interval: Callable[[], float], act: Callable[[], None], *, for_ever: bool = False) -> None:
        def again() -> None:
            if for_ever or not self._is_healed:
                act()
                self.clock.after(interval(), again)

        self.clock.after(2.0 + interval(), again)

    def _client_acts(self) -> None:
        if not any(topic.partitions for topic in self.checker.topics.values()):
            return
        clients = self.clients
        acts = (
            clients.reassign,
            clients.supersede,
            clients.legacy,
            clients.list_moves,
            clients.add_partition,
            clients.create_topic,
            clients.prefer,
            clients.delete_topic,
            clients.ask_to_create,
            clients.ask_to_delete,
            clients.ask_to_grow,
            clients.ask_to_elect,
        )
        self.random.choices(acts, (10, 5, 2, 1, 1, 0.5, 1, 1, 1.5, 1, 1, 1))[0]()

    def _remove_malformed_legacy(self) -> None:
        node = self.zookeeper.nodes.get(LEGACY)
        if node is not None and node.data.endswith(b":"):
            self.say("client", "removes the malformed legacy znode")
            self.zookeeper.close_session(self.tools)
            self.tools = self.zookeeper.open_session()
            from tests.simulation.zookeeper import RemoveNode

            self.zookeeper.multi(self.tools, [RemoveNode(LEGACY)])

    # what its parts use

    @property
    def is_peaceful(self) -> bool:
        """Whether the faults have stopped."""
        return self._is_healed

    def say(self, who: str, what: str) -> None:
        """Note what happened."""
        self.trace.say(who, what)

    def new_machine(self, own_id: BrokerId, epoch: ControllerEpoch) -> Machine:
        """The machine of a new term."""
        return Machine(self.settings_of(own_id), epoch, SeededRandom(self.seed_of(epoch)))

    def seed_of(self, epoch: ControllerEpoch) -> bytes:
        """From what a machine draws its arbitrary choices."""
        return f"{self.seed}/{epoch}".encode()

    def settings_of(self, own_id: BrokerId) -> MachineSettings:
        """How a controller of this world is configured."""
        return MachineSettings(
            own_id=own_id,
            cluster_id="simulated",
            unclean_election=self.plan.unclean_election,
            leaders_write_isr=not self.plan.traits.uses_alter_partition,
            has_leader_recovery=self.plan.traits.uses_alter_partition,
            assigns_topic_ids=self.plan.traits.knows_topic_ids,
            rebalance_every_s=self.plan.rebalance_every_s,
            status_retention_ms=round(RETENTION_S * 1000),
            keeps_reassignment_znodes=own_id in self.folder.keepers,
            budget=SMALL_BUDGET if self.seed % 2 else TurnBudget(),
        )

    def leading(self) -> Controller | None:
        """A controller that believes to lead."""
        return next((c for c in self.controllers.values() if c.role is Role.LEADING), None)

    def next_ask(self) -> CallId:
        """A number for a request."""
        return CallId(next(self._asks))

    def write(self, operation: Operation) -> None:
        """A tool writes to ZooKeeper."""

        def written(done: Any) -> None:
            if isinstance(done, Multi) and done.errors:
                self.say("client", f"cannot write {operation.path}: {done.errors[0]}")

        self._tools_connection.call(lambda: self.zookeeper.multi(self.tools, [operation]), written)

    def expire(self, session: SessionId) -> None:
        """The server ends a session."""
        self.zookeeper.close_session(session)

    def deliver(self, controller: BrokerId, tell: Tell) -> Acknowledgement | None:
        """A command arrives at a broker."""
        broker = self.brokers.get(tell.broker)
        if broker is None or broker.model is None:
            return None
        model, before = broker.model, dict(broker.disk)
        answer = broker.receive(controller, tell)
        for at in before:
            if at not in broker.disk:
                self.say(broker.name, f"deletes {at}")
                self.checker.deleted(model, at, tell.command)
        if answer is not None and (answer.error or answer.errors):
            refused = ", ".join(f"{at} {error.name}" for at, error in answer.errors.items())
            self.say(broker.name, f"refuses: {answer.error.name} {refused}".rstrip())
        for at in model.led():
            self.checker.leads_with_everything(model, at)
        return answer

    def ask(
        self,
        controller: BrokerId | None,
        request: Request,
        answer: Callable[[Reply | None], None],
        number: CallId | None = None,
    ) -> None:
        """A request travels to a controller, and its answer back; None where the connection is lost."""
        number = self.next_ask() if number is None else number

        def back(reply: Reply | None) -> None:
            self.clock.after(self.network.delay(), lambda: answer(reply))

        def arrive() -> None:
            process = self.controllers.get(controller) if controller is not None else None
            if process is None or not process.is_serving:
                back(None)
                return
            self.checker.asked(number, request)
            self.folder.asked(request)
            process.ask(number, request, back)

        self.clock.after(self.network.delay(), arrive)
