"""One seed, one world: controllers, brokers, ZooKeeper and clients in one thread and one order."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import count
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from msgspec import Struct
from msgspec.structs import replace

from controller.core.candidacy.phases import TakeOver
from controller.core.machine import Machine
from controller.core.messages.effects import Tell
from controller.core.messages.events import CallId
from controller.core.messages.replies import Reply
from controller.core.messages.requests import Request
from controller.core.seeded_random import SeededRandom
from controller.core.settings import WRITES_A_TRANSACTION, MachineSettings, TurnBudget
from controller.core.state.cluster import ClusterState
from controller.lab.broker_model import KAFKA_3_9, Acknowledgement, Traits
from tests.equipment.broker_versions import KAFKA_2_4, KAFKA_2_6, KAFKA_2_8, KAFKA_3_3
from tests.simulation.aimed import Aimed
from tests.simulation.beginnings import Beginnings
from tests.simulation.brokers import Broker
from tests.simulation.chance import Chance, some_of
from tests.simulation.checker import Checker
from tests.simulation.clients import LEGACY
from tests.simulation.clock import Clock
from tests.simulation.controllers import Controller, Role
from tests.simulation.coverage import Coverage
from tests.simulation.ensemble import Ensemble
from tests.simulation.faults import Faults
from tests.simulation.gates import MIN_ISR
from tests.simulation.limits import Limits
from tests.simulation.move_requests import RETENTION_S, MoveRequests
from tests.simulation.namesakes import Namesakes
from tests.simulation.network import Network, ZkConnection
from tests.simulation.outcome import check_outcome
from tests.simulation.pauses import Pauses
from tests.simulation.phases import Phases
from tests.simulation.plots import Plots
from tests.simulation.process_log import told_in_traces
from tests.simulation.producer_ids import ProducerIds
from tests.simulation.reassignment_folder import ReassignmentFolder
from tests.simulation.refusals import Refusals
from tests.simulation.sizes import Sizes
from tests.simulation.throttles import Throttles
from tests.simulation.topic_clients import TopicClients
from tests.simulation.trace import Trace
from tests.simulation.wall_clocks import TOKENS_READ_EVERY_S, WallClocks
from tests.simulation.zookeeper import Multi, Operation, ZooKeeper
from zk_layout.ids import BrokerId, ControllerEpoch, SessionId
from zk_layout.watched import PERSISTENT
from zk_layout.znodes import reassignments

PATHS = (*PERSISTENT, reassignments.ROOT, "/controller_epoch")
VERSIONS = (KAFKA_3_9, KAFKA_3_9, KAFKA_3_3, KAFKA_2_8, KAFKA_2_6, KAFKA_2_4)
LAST_PLOT_S = 6.0
QUIET_S = 150.0
REST_S = 10.0
MOST_RESTS = 6
# In a third of the worlds one decision takes several transactions although topics are small.
MOST_WRITES = (*[WRITES_A_TRANSACTION] * 4, 3, 6)
STEPS, STEPS_A_SECOND = 400_000, 200

# A few worlds last for more than an hour: with few requests and faults, whose consequences have time to develop.
LIVE_LONG = 0.1
WARM = 0.5
RECURSIVE = 0.7
LONG_LIFE: dict[str, Any] = {
    "busy_s": 4_500.0,
    "fault_every_s": 120.0,
    "ask_every_s": 60.0,
    "aimed_every_s": 150.0,
    "plot_every_s": 400.0,
    "rebalance_every_s": 300.0,
    "tick_s": 1.0,
    "produce_every_s": 10.0,
}

# Every second world cuts its work into far smaller turns than its size needs.
SMALL_BUDGET = TurnBudget(folded=7, followed=3, greeted=2, measured=2, decided=3, hosted=2)


class GivenUp(Exception):
    """The rest of this world is not needed."""


class Occurrence(NamedTuple):
    """One event of a world: its name, and a line that describes it."""

    name: str
    line: str


class Plan(Struct, frozen=True):
    """The kind of world that a seed stands for."""

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
    challenge_timeout_s: float = 0.0
    writes_a_transaction: int = WRITES_A_TRANSACTION
    observers: int = 0
    warm_standby: bool = False
    recursive_watch: bool = False
    aimed_every_s: float = 6.0
    plot_every_s: float = 20.0
    tick_s: float = 0.25
    produce_every_s: float = 0.5

    @property
    def is_long(self) -> bool:
        """Whether it lasts for more than an hour."""
        return bool(self.busy_s == LONG_LIFE["busy_s"])


def plan_of(random: Random, later: Random) -> Plan:
    """Draw a plan; later additions have their own random source."""
    traits = random.choice(VERSIONS)
    plan = Plan(
        brokers=random.randint(2, 5),
        controllers=random.randint(2, 3),
        traits=Traits(**{**{f: getattr(traits, f) for f in traits.__struct_fields__}, "replica_lag_s": 5.0}),
        topic_ids=traits.knows_topic_ids,
        unclean_election=random.random() < 0.4,
        topics=random.randint(1, 3),
        busy_s=random.choice((20.0, 60.0, 120.0)),
        fault_every_s=random.choice((1.5, 4.0, 10.0)),
        ask_every_s=random.choice((0.5, 2.0, 6.0)),
        rebalance_every_s=random.choice((None, 5.0, 30.0)),
        take_over=random.choice((TakeOver.ALWAYS, TakeOver.WHEN_VACANT)),
        writes_a_transaction=later.choice(MOST_WRITES),
    )
    plan = replace(plan, **LONG_LIFE) if later.random() < LIVE_LONG else plan
    return replace(plan, warm_standby=later.random() < WARM, recursive_watch=later.random() < RECURSIVE)


class World:
    """A whole world, whose random choices follow from the seed."""

    def __init__(self, seed: int, *, only: Collection[str] | None = None, plan: Plan | None = None) -> None:
        """`only` names the events that may happen, if not all; `plan` replaces the seed's own."""
        self.seed = seed
        self.clock = Clock()
        self.clock.source = Random(seed)
        self.random = Chance(self.clock)
        self.plan = plan_of(self.random, Random(f"{seed}/plan")) if plan is None else plan
        self.trace = Trace(self.clock)
        self.coverage = Coverage()
        self.network = Network(self.clock, self.random)
        self.checker = Checker(self)
        self.namesakes = Namesakes(self)
        self.beginnings = Beginnings()
        self.pauses, self.limits, self.throttles = Pauses(self), Limits(self), Throttles(self)
        self.zookeeper = ZooKeeper(lambda *_: None, self.checker.wrote)
        self._asks = count(1)
        self._is_healed = False
        self.events: list[Occurrence] = []
        self.gives_up_at = float("inf")
        self._only = only
        for path in PATHS:
            self.zookeeper.make_path(path)
        self.zookeeper.nodes["/controller_epoch"].data = b"0"
        self.checker.begin()
        self.ensemble = Ensemble(self)
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
        self.refusals = Refusals(self)
        self.sizes = Sizes(self)
        self.wall_clocks = WallClocks(self)
        self.phases = Phases(self)
        self.plots = Plots(self)
        self.faults = Faults(self)
        self.aimed = Aimed(self)
        self._acts = self._some_acts()

    def _some_acts(self) -> list[tuple[float, Callable[[], None]]]:
        """The actions of this world's clients: they move partitions, and do some other things."""
        clients = self.clients
        others: list[tuple[float, Callable[[], None]]] = [
            (5, clients.supersede),
            (2, clients.legacy),
            (1, clients.list_moves),
            (1, clients.add_partition),
            (0.5, clients.create_topic),
            (1, clients.prefer),
            (1, clients.delete_topic),
            (1.5, clients.ask_to_create),
            (1, clients.ask_to_delete),
            (1, clients.ask_to_grow),
            (1, clients.ask_to_elect),
        ]
        return [(10, clients.reassign), *some_of(others, Random(f"{self.seed}/acts"))]

    # running

    def run(self) -> None:
        """Run the seed: a busy phase with faults, then a quiet one, then the checks of the outcome."""
        # Whether a process gives its memory back at once makes no difference here, and takes a sixth of the time.
        try:
            with (
                told_in_traces(),
                patch("controller.process.terms.collect"),
                patch("controller.runtime.reclaiming.spare"),
            ):
                self._run()
        finally:
            for controller in self.controllers.values():
                controller.dismantle()

    def _run(self) -> None:
        self.say("world", f"seed {self.seed}: {self.plan}")
        processes: list[Broker | Controller] = [*self.brokers.values(), *self.controllers.values()]
        for process in processes:
            self._draw_from(process.name)
            self.clock.after(self.random.uniform(0, 1), process.start)
        for index in range(self.plan.topics):
            self._occurs_at(0.5 + index, f"first topic {index + 1}", self.clients.create_topic)
        self._draw_from("wall clocks")
        self.wall_clocks.begin()
        self._draw_from("producers")
        self.clock.after(2.5, self._produce)
        self._again_and_again("client", self.plan.ask_every_s, self._client_acts)
        self._again_and_again("producer ids", self.plan.ask_every_s, self.producer_ids.act)
        if self.folder.keepers:
            self._again_and_again("folder", self.plan.ask_every_s, self.folder.act)
        if self.throttles.are_used:
            self._again_and_again("throttle", 4 * self.plan.ask_every_s, self.throttles.act)
        if self.ensemble.has_followers:
            self._again_and_again("ensemble", self.plan.fault_every_s, self.ensemble.act)
        self._again_and_again("fault", self.plan.fault_every_s, self.faults.strike)
        if self.aimed.is_in_use:
            self._again_and_again("aimed fault", self.plan.aimed_every_s, self.aimed.act)
            self._again_and_again("plot", self.plan.plot_every_s, self.plots.strike)
            self._draw_from("last plot")
            self._occurs_at(self.plan.busy_s - LAST_PLOT_S * self.random.random(), "last plot", self.plots.strike_last)
        self.run_until(self.plan.busy_s)
        self._is_healed = True
        self._draw_from("peace")
        self.faults.heal()
        self.ensemble.heal()
        self._remove_malformed_legacy()
        self.run_until(self.clock.now + QUIET_S)
        for _ in range(MOST_RESTS):  # not every broker knows of a replica that has just caught up
            if self.clock.now - self.checker.state_written_at > REST_S:
                break
            self.run_until(self.clock.now + REST_S)
        check_outcome(self)

    def run_until(self, time: float) -> None:
        """Run everything that is due before this time."""
        for _ in range(STEPS + round(STEPS_A_SECOND * (time - self.clock.now))):
            at = self.clock.next_at()
            if at is None or at > time:
                return
            if at > self.gives_up_at:
                raise GivenUp
            self.clock.step()
            self.checker.after_step()
            self.aimed.look()
        raise RuntimeError(f"seed {self.seed} does not come to rest")

    def _draw_from(self, name: str) -> None:
        """Draw from a separate source from now on, also in the consequences."""
        self.clock.source = Random(f"{self.seed}/{name}")

    def _produce(self) -> None:
        self.clients.produce()
        self.clock.after(self.plan.produce_every_s, self._produce)

    def _again_and_again(self, kind: str, mean_s: float, act: Callable[[], str | None]) -> None:
        """Schedule events of a kind, at times drawn beforehand."""
        self._draw_from(kind)
        at_s, number = 2.0 + self.random.expovariate(1 / mean_s), 1
        while at_s < self.plan.busy_s:
            self._occurs_at(at_s, f"{kind} {number}", act)
            at_s += self.random.expovariate(1 / mean_s)
            number += 1

    def _occurs_at(self, at_s: float, name: str, act: Callable[[], str | None]) -> None:
        def occur() -> None:
            self._draw_from(name)
            said = len(self.trace.lines)
            what = act()
            lines = self.trace.lines[said:]
            self.events.append(Occurrence(name, lines[0] if lines else self.trace.line(name, what or "happens")))

        if self._only is None or name in self._only:
            self.clock.after(at_s - self.clock.now, occur)

    def _client_acts(self) -> str | None:
        if not self.has_partitions:
            return None
        weights, acts = zip(*self._acts, strict=True)
        act: Callable[[], None] = self.random.choices(acts, weights)[0]
        act()
        return act.__name__

    def _remove_malformed_legacy(self) -> None:
        node = self.zookeeper.nodes.get(LEGACY)
        if node is not None and node.data.endswith(b":"):
            self.say("client", "removes the malformed legacy znode")
            self.zookeeper.close_session(self.tools)
            self.tools = self.zookeeper.open_session()
            from tests.simulation.zookeeper import RemoveNode

            self.zookeeper.multi(self.tools, [RemoveNode(LEGACY)])

    # used by its parts

    @property
    def has_partitions(self) -> bool:
        """Whether there are partitions."""
        return any(topic.partitions for topic in self.checker.topics.values())

    @property
    def has_small_turns(self) -> bool:
        """Whether a controller's turn does little, so that what is bounded in it takes several."""
        return self.seed % 2 == 1

    @property
    def is_peaceful(self) -> bool:
        """Whether the faults have stopped."""
        return self._is_healed

    def say(self, who: str, what: str) -> None:
        """Note an event in the trace."""
        self.trace.say(who, what)

    def new_machine(self, own_id: BrokerId, epoch: ControllerEpoch, state: ClusterState) -> Machine:
        """The machine of a new term."""
        return Machine(self.settings_of(own_id), epoch, SeededRandom(self.seed_of(epoch)), state=state)

    def seed_of(self, epoch: ControllerEpoch) -> bytes:
        """The seed of a machine's random choices."""
        return f"{self.seed}/{epoch}".encode()

    def settings_of(self, own_id: BrokerId) -> MachineSettings:
        """The settings of a controller of this world."""
        return MachineSettings(
            own_id=own_id,
            cluster_id="simulated",
            unclean_election=self.plan.unclean_election,
            leaders_write_isr=not self.plan.traits.uses_alter_partition,
            has_leader_recovery=self.plan.traits.uses_alter_partition,
            assigns_topic_ids=self.plan.traits.knows_topic_ids,
            rebalance_every_s=self.plan.rebalance_every_s,
            status_retention_ms=round(RETENTION_S * 1000),
            znode_size_limit=self.sizes.believed_bytes,
            clock_zero_ms=self.wall_clocks.zero_ms(own_id),
            token_expiry_check_s=TOKENS_READ_EVERY_S,
            keeps_reassignment_znodes=own_id in self.folder.keepers,
            budget=SMALL_BUDGET if self.has_small_turns else TurnBudget(),
            writes_a_transaction=self.plan.writes_a_transaction,
            moves_at_once=self.limits.at_once,
            moves_into_broker=self.limits.into,
            moves_out_of_broker=self.limits.out,
            moves_into_rack=self.limits.paces.into_rack,
            changes_a_second=self.limits.paces.changes_a_second,
            moves_give_up_s=self.limits.paces.give_up_s,
            moves_wait_for_znodes=self.limits.paces.wait_for_znodes,
            moves_throttle=self.throttles.default,
            moves_throttle_min=self.throttles.least,
            moves_order=self.limits.order,
            moves_windows=self.limits.gates.windows,
            moves_need_min_isr=self.limits.gates.need_min_isr,
            moves_need_brokers=self.limits.gates.need_brokers,
            moves_need_brokers_after_s=self.limits.gates.after_s,
            moves_need_receivers_s=self.limits.gates.receivers_s,
            moves_need_disks_percent=self.limits.disks.percent,
            moves_ignore_unknown_disks=self.limits.disks.begins_unknown,
            min_insync_replicas=MIN_ISR,
            keeps_move_records=self.move_requests.records.are_kept_by(own_id),
        )

    def leading(self) -> Controller | None:
        """A controller that believes it leads."""
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

    def write_at_once(self, operation: Operation) -> None:
        """A tool's write arrives now."""
        self.zookeeper.multi(self.tools, [operation])

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
                self.checker.announcements.deleted(model, at, tell)
        for at in broker.disk:
            if at not in before:
                self.checker.announcements.made(tell.broker, at)
        if answer is not None and (answer.error or answer.errors):
            refused = ", ".join(f"{at} {error.name}" for at, error in answer.errors.items())
            self.say(broker.name, f"refuses: {answer.error.name} {refused}".rstrip())
        for at in model.led():
            self.checker.records.leads_with_everything(model, at)
        if answer is not None and not answer.error:
            self.checker.announcements.learned(broker, tell)
        return answer

    def ask(
        self,
        controller: BrokerId | None,
        request: Request,
        answer: Callable[[Reply | None], None],
        number: CallId | None = None,
    ) -> None:
        """Send a request to a controller, and its answer back; None if the connection is lost."""
        number = self.next_ask() if number is None else number

        def back(reply: Reply | None) -> None:
            self.clock.after(self.network.delay(), lambda: answer(reply))

        def arrive() -> None:
            process = self.controllers.get(controller) if controller is not None else None
            if process is None or not process.is_serving:
                back(None)
                return
            self.checker.answers.asked(number, request, process)
            self.folder.asked(request)
            self.limits.asked(request)
            process.ask(number, request, back)

        self.clock.after(self.network.delay(), arrive)
